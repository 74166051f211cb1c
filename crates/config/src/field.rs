//! Parses the value of a key.
//!
//! Parsing never stops at the first error. An unparsable value is reported and replaced by a placeholder of the right
//! type, so that the rest is checked as well. Settings with a placeholder are never returned, and no problem about a
//! placeholder is reported.

use crate::kind::{ValueKind, quoted};
use crate::problem::{Problem, ProblemCode, Problems};
use crate::redact::{redact_values, suggests_secret};
use crate::render::printable;
use crate::shape::{ScalarShape, SectionShape, ValueShape};
use crate::source::{Located, SettingOrigin};
use crate::suggest;
use crate::tree::{TomlEntry, TomlNode, TomlTable, TomlValue, parse_value};
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// Maximum length of a user-defined name.
const MAX_NAME_BYTES: usize = 200;

/// The state of parsing.
pub(crate) struct SectionReader<'a> {
    pub(crate) problems: &'a mut Problems,
    /// Origins of placeholders for values that could not be parsed.
    pub(crate) placeholders: Vec<SettingOrigin>,
    /// Whether problems are not reported, because everything parsed now is a placeholder.
    is_suppressed: bool,
}

impl<'a> SectionReader<'a> {
    pub(crate) fn new(problems: &'a mut Problems) -> Self {
        Self { problems, placeholders: Vec::new(), is_suppressed: false }
    }

    fn report(&mut self, problem: Problem) {
        if !self.is_suppressed {
            self.problems.add(problem);
        }
    }
}

/// The position of an expected value.
pub(crate) struct KeyLocation<'a> {
    /// The dotted path of the key.
    pub(crate) path: &'a str,
    /// The enclosing section.
    pub(crate) section: SettingOrigin,
    /// The default as TOML.
    pub(crate) default: Option<&'static str>,
}

/// A type of value that a key can have.
pub(crate) trait SettingField {
    /// The parsed type.
    type Raw;

    /// Its shape, and whether it is optional.
    fn shape() -> (ValueShape, bool);

    /// Parses the value.
    fn read(
        found: Option<&TomlEntry>,
        location: &KeyLocation<'_>,
        reader: &mut SectionReader<'_>,
    ) -> Self::Raw;
}

/// A parsed value with its origin.
pub(crate) trait HasOrigin {
    /// The origin, if the value was written anywhere.
    fn value_origin(&self) -> Option<SettingOrigin>;
}

impl<T> HasOrigin for Located<T> {
    fn value_origin(&self) -> Option<SettingOrigin> {
        Some(self.origin)
    }
}

impl<T: HasOrigin> HasOrigin for Option<T> {
    fn value_origin(&self) -> Option<SettingOrigin> {
        self.as_ref().and_then(HasOrigin::value_origin)
    }
}

impl<T> HasOrigin for BTreeMap<String, T> {
    fn value_origin(&self) -> Option<SettingOrigin> {
        None
    }
}

fn canonical<K: ValueKind>(value: &TomlValue) -> Option<String> {
    K::parse(value).ok().map(|value| K::to_toml(&value))
}

fn scalar_shape<K: ValueKind>() -> ScalarShape {
    ScalarShape { format: K::format(), canonical: canonical::<K> }
}

/// The default of a key, with the origin of its section.
fn default_node(location: &KeyLocation<'_>) -> Option<TomlNode> {
    let mut node = parse_value(location.default?, location.section.source, 0)?;
    node.origin = location.section;
    if let TomlValue::List(items) = &mut node.value {
        items.iter_mut().for_each(|item| item.origin = location.section);
    }
    Some(node)
}

/// The written value, or the default. Reports a problem if there is neither.
fn value_or_default(
    found: Option<&TomlEntry>,
    location: &KeyLocation<'_>,
    advice: impl FnOnce() -> String,
    reader: &mut SectionReader<'_>,
) -> Option<TomlNode> {
    if let Some(entry) = found {
        return Some(entry.node.clone());
    }
    let node = default_node(location);
    if node.is_none() {
        let message = format!("{} is missing", location.path);
        reader.report(Problem::error(ProblemCode::MissingKey, message, location.section).help(advice()));
        reader.placeholders.push(location.section);
    }
    node
}

fn read_value<K: ValueKind>(
    node: &TomlNode,
    path: &str,
    reader: &mut SectionReader<'_>,
) -> Located<K::Value> {
    match K::parse(&node.value) {
        Ok(value) => Located { value, origin: node.origin },
        Err(error) => {
            if K::is_redacted(&node.value) {
                redact_values(node, reader.problems);
            }
            let message = format!("{path}: {}", printable(&error.message));
            reader.report(Problem::error(error.code, message, node.origin).help(printable(&error.help)));
            placeholder::<K>(node.origin, reader)
        }
    }
}

#[expect(clippy::expect_used, reason = "a test parses every example of every kind")]
fn placeholder<K: ValueKind>(origin: SettingOrigin, reader: &mut SectionReader<'_>) -> Located<K::Value> {
    reader.placeholders.push(origin);
    let example = K::format().examples.into_iter().find_map(|example| {
        let node = parse_value(&example, origin.source, 0)?;
        K::parse(&node.value).ok()
    });
    Located { value: example.expect("every kind has an example that it can parse"), origin }
}

impl<K: ValueKind> SettingField for K {
    type Raw = Located<K::Value>;

    fn shape() -> (ValueShape, bool) {
        (ValueShape::Scalar(scalar_shape::<K>()), false)
    }

    fn read(
        found: Option<&TomlEntry>,
        location: &KeyLocation<'_>,
        reader: &mut SectionReader<'_>,
    ) -> Self::Raw {
        match value_or_default(found, location, || K::format().advice(), reader) {
            Some(node) => read_value::<K>(&node, location.path, reader),
            None => placeholder::<K>(location.section, reader),
        }
    }
}

/// A list of values of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListField<K>(PhantomData<K>);

impl<K: ValueKind> SettingField for ListField<K> {
    type Raw = Located<Vec<Located<K::Value>>>;

    fn shape() -> (ValueShape, bool) {
        (ValueShape::List(scalar_shape::<K>()), false)
    }

    fn read(
        found: Option<&TomlEntry>,
        location: &KeyLocation<'_>,
        reader: &mut SectionReader<'_>,
    ) -> Self::Raw {
        let advice = || {
            let example = K::format().examples.into_iter().next().unwrap_or_default();
            format!("write an array such as [{example}]")
        };
        let Some(node) = value_or_default(found, location, advice, reader) else {
            return Located { value: Vec::new(), origin: location.section };
        };
        match &node.value {
            TomlValue::List(items) => {
                let items = items.iter().map(|item| read_value::<K>(item, location.path, reader));
                Located { value: items.collect(), origin: node.origin }
            }
            other => {
                let message = format!("{}: expected an array, found {}", location.path, other.type_name());
                let help = match canonical::<K>(other) {
                    Some(item) => format!("write [{item}]"),
                    None => advice(),
                };
                reader.report(Problem::error(ProblemCode::WrongType, message, node.origin).help(help));
                reader.placeholders.push(node.origin);
                Located { value: Vec::new(), origin: node.origin }
            }
        }
    }
}

impl<F: SettingField> SettingField for Option<F> {
    type Raw = Option<F::Raw>;

    fn shape() -> (ValueShape, bool) {
        (F::shape().0, true)
    }

    /// The word `none` removes the value of a lower layer.
    fn read(
        found: Option<&TomlEntry>,
        location: &KeyLocation<'_>,
        reader: &mut SectionReader<'_>,
    ) -> Self::Raw {
        let found = found.filter(|entry| !entry.node.value.is_none_word())?;
        Some(F::read(Some(found), location, reader))
    }
}

/// Sections under user-defined names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedSections<S>(PhantomData<S>);

impl<S: SettingSection> SettingField for NamedSections<S> {
    type Raw = BTreeMap<String, S>;

    fn shape() -> (ValueShape, bool) {
        (ValueShape::Named(S::section_shape()), true)
    }

    fn read(
        found: Option<&TomlEntry>,
        location: &KeyLocation<'_>,
        reader: &mut SectionReader<'_>,
    ) -> Self::Raw {
        let mut named = BTreeMap::new();
        let Some(entry) = found else { return named };
        let TomlValue::Table(table) = &entry.node.value else {
            not_a_table(entry, location.path, &format!("{}.NAME", location.path), reader);
            return named;
        };
        for (name, entry) in table.iter().filter(|(_, entry)| !entry.node.value.is_none_word()) {
            if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
                let message = format!("{}: invalid name", location.path);
                let help = format!("use 1 to {MAX_NAME_BYTES} bytes without control characters");
                reader.report(Problem::error(ProblemCode::InvalidValue, message, entry.key).help(help));
            }
            let path = join(location.path, name);
            let location = KeyLocation { path: &path, section: entry.key, default: None };
            named.insert(name.clone(), read_section(Some(entry), &location, reader));
        }
        named
    }
}

/// A table with known keys; implemented by the macro of the same name.
pub(crate) trait SettingSection: Sized {
    /// The names of its keys.
    const KEYS: &'static [&'static str];

    fn section_shape() -> SectionShape;

    /// Parses its keys.
    fn read_keys(
        table: &TomlTable,
        path: &str,
        origin: SettingOrigin,
        reader: &mut SectionReader<'_>,
    ) -> Self;
}

/// A section with the origin of each key.
pub(crate) trait KeyOrigins {
    /// The origin of one of its keys.
    fn origin_of(&self, key: &str) -> Option<SettingOrigin>;

    /// The origin of the section.
    fn origin(&self) -> SettingOrigin;

    /// The dotted path of the section.
    fn path(&self) -> &str;
}

/// Appends a key to a path, in quotes where TOML needs them.
pub(crate) fn join(path: &str, key: &str) -> String {
    let is_bare = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    let key = if !key.is_empty() && key.chars().all(is_bare) { key.to_owned() } else { quoted(key) };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

fn not_a_table(entry: &TomlEntry, path: &str, header: &str, reader: &mut SectionReader<'_>) {
    let message = format!("{path}: expected a table, found {}", entry.node.value.type_name());
    let problem = Problem::error(ProblemCode::WrongType, message, entry.node.origin);
    // The intended type is unknown, and a caller's key is often written like this.
    if matches!(entry.node.value, TomlValue::Text(_) | TomlValue::List(_)) {
        redact_values(&entry.node, reader.problems);
    }
    reader.report(problem.help(format!("write the table header [{header}] with its keys below it")));
    reader.placeholders.push(entry.node.origin);
}

/// Parses a required section.
pub(crate) fn read_section<S: SettingSection>(
    found: Option<&TomlEntry>,
    location: &KeyLocation<'_>,
    reader: &mut SectionReader<'_>,
) -> S {
    match found {
        Some(TomlEntry { node: TomlNode { value: TomlValue::Table(table), origin }, .. }) => {
            if table.keys().any(|key| !S::KEYS.contains(&key.as_str())) {
                report_unknown(table, location.path, &S::section_shape(), reader);
            }
            S::read_keys(table, location.path, *origin, reader)
        }
        other => {
            let origin = match other {
                Some(entry) => {
                    not_a_table(entry, location.path, location.path, reader);
                    entry.node.origin
                }
                None => {
                    missing_section(location, &S::section_shape(), reader);
                    location.section
                }
            };
            // One problem is enough for a whole section.
            let was_suppressed = std::mem::replace(&mut reader.is_suppressed, true);
            let section = S::read_keys(&TomlTable::new(), location.path, origin, reader);
            reader.is_suppressed = was_suppressed;
            section
        }
    }
}

/// Reports a missing section, unless all its keys have defaults or are optional.
fn missing_section(location: &KeyLocation<'_>, shape: &SectionShape, reader: &mut SectionReader<'_>) {
    let required = shape.keys.iter().filter(|key| !key.is_optional && key.default.is_none());
    let required: Vec<&str> = required.map(|key| key.name).collect();
    if !required.is_empty() {
        let message = format!("the section [{}] is missing", location.path);
        let help = format!("required keys: {}", required.join(", "));
        reader.report(Problem::error(ProblemCode::MissingKey, message, location.section).help(help));
        reader.placeholders.push(location.section);
    }
}

/// Reports keys that a section does not have.
pub(crate) fn report_unknown(
    table: &TomlTable,
    path: &str,
    shape: &SectionShape,
    reader: &mut SectionReader<'_>,
) {
    for (key, entry) in table.iter().filter(|(key, _)| shape.key(key).is_none()) {
        if !may_be_shown(key, &entry.node.value, shape) {
            redact_values(&entry.node, reader.problems);
        }
        let section = if path.is_empty() { String::new() } else { format!(" in [{path}]") };
        let (noun, code) = shape.noun;
        let message = format!("unknown {noun} {}{section}", quoted(&printable(key)));
        reader.report(Problem::error(code, message, entry.key).help(suggest_key(key, path, shape)));
    }
}

/// Whether the value under an unknown key can be shown: the key is a typo of one without secrets, or the value is no
/// text.
fn may_be_shown(key: &str, value: &TomlValue, shape: &SectionShape) -> bool {
    let is_text = matches!(value, TomlValue::Text(_) | TomlValue::List(_) | TomlValue::Table(_));
    let nearest = suggest::nearest(key, shape.keys.iter().map(|key| key.name));
    !suggests_secret(key) && (!is_text || nearest.is_some_and(|nearest| !suggests_secret(nearest)))
}

/// Suggestions for a key that does not exist.
pub(crate) fn suggest_key(key: &str, path: &str, shape: &SectionShape) -> String {
    let names = || shape.keys.iter().map(|key| key.name);
    if let Some(near) = suggest::nearest(key, names()) {
        return format!("did you mean {}?", quoted(near));
    }
    let other_sections = crate::raw::sections_with(key);
    if let [only] = other_sections.as_slice() {
        return format!("this key belongs to [{only}]");
    }
    let list = names().collect::<Vec<_>>().join(", ");
    if path.is_empty() {
        format!("valid sections: {list}")
    } else {
        format!("valid keys of [{path}]: {list}")
    }
}
