//! Parses the value of a key.
//!
//! Parsing never stops at the first error. An unparsable value is reported and replaced by a placeholder of the right
//! type, so that the rest is checked as well. Settings with a placeholder are never returned, and no problem about a
//! placeholder is reported.

use crate::cover::{cover_values, sounds_secret};
use crate::kind::{Kind, quoted};
use crate::problem::{Code, Problem, Problems};
use crate::render::printable;
use crate::shape::{Leaf, SectionShape, Shape};
use crate::source::{Located, Origin};
use crate::suggest;
use crate::tree::{Entry, Node, Table, Value, parse_value};
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// Maximum length of a user-defined name.
const LONGEST_NAME: usize = 200;

/// The state of parsing.
pub(crate) struct Reader<'a> {
    pub(crate) problems: &'a mut Problems,
    /// Origins of placeholders for values that could not be parsed.
    pub(crate) stand_ins: Vec<Origin>,
    /// Whether everything parsed now is a placeholder.
    is_silent: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(problems: &'a mut Problems) -> Self {
        Self { problems, stand_ins: Vec::new(), is_silent: false }
    }

    fn report(&mut self, problem: Problem) {
        if !self.is_silent {
            self.problems.add(problem);
        }
    }
}

/// The position of an expected value.
pub(crate) struct Spot<'a> {
    /// The dotted path of the key.
    pub(crate) path: &'a str,
    /// The enclosing section.
    pub(crate) section: Origin,
    /// The default as TOML.
    pub(crate) default: Option<&'static str>,
}

/// A type of value that a key can have.
pub(crate) trait Field {
    /// The parsed type.
    type Raw;

    /// Its shape, and whether it is optional.
    fn shape() -> (Shape, bool);

    /// Parses the value.
    fn read(found: Option<&Entry>, spot: &Spot<'_>, reader: &mut Reader<'_>) -> Self::Raw;
}

/// A parsed value that knows its origin.
pub(crate) trait Written {
    /// The origin, if the value was written anywhere.
    fn written_at(&self) -> Option<Origin>;
}

impl<T> Written for Located<T> {
    fn written_at(&self) -> Option<Origin> {
        Some(self.origin)
    }
}

impl<T: Written> Written for Option<T> {
    fn written_at(&self) -> Option<Origin> {
        self.as_ref().and_then(Written::written_at)
    }
}

impl<T> Written for BTreeMap<String, T> {
    fn written_at(&self) -> Option<Origin> {
        None
    }
}

fn canonical<K: Kind>(value: &Value) -> Option<String> {
    K::read(value).ok().map(|value| K::show(&value))
}

fn leaf<K: Kind>() -> Leaf {
    Leaf { form: K::form(), canonical: canonical::<K> }
}

/// The default of a key, with the origin of its section.
fn default_node(spot: &Spot<'_>) -> Option<Node> {
    let mut node = parse_value(spot.default?, spot.section.source, 0)?;
    node.origin = spot.section;
    if let Value::List(items) = &mut node.value {
        items.iter_mut().for_each(|item| item.origin = spot.section);
    }
    Some(node)
}

/// The written value, or the default; a complaint if there is neither.
fn present(
    found: Option<&Entry>,
    spot: &Spot<'_>,
    advice: impl FnOnce() -> String,
    reader: &mut Reader<'_>,
) -> Option<Node> {
    if let Some(entry) = found {
        return Some(entry.node.clone());
    }
    let node = default_node(spot);
    if node.is_none() {
        let message = format!("{} is missing", spot.path);
        reader.report(Problem::error(Code::MissingKey, message, spot.section).help(advice()));
        reader.stand_ins.push(spot.section);
    }
    node
}

fn read_value<K: Kind>(node: &Node, path: &str, reader: &mut Reader<'_>) -> Located<K::Value> {
    match K::read(&node.value) {
        Ok(value) => Located { value, origin: node.origin },
        Err(misread) => {
            if K::is_covered(&node.value) {
                cover_values(node, reader.problems);
            }
            let message = format!("{path}: {}", printable(&misread.message));
            reader.report(Problem::error(misread.code, message, node.origin).help(printable(&misread.help)));
            stand_in::<K>(node.origin, reader)
        }
    }
}

#[expect(clippy::expect_used, reason = "a test reads every example of every kind")]
fn stand_in<K: Kind>(origin: Origin, reader: &mut Reader<'_>) -> Located<K::Value> {
    reader.stand_ins.push(origin);
    let example = K::form().examples.into_iter().find_map(|example| {
        let node = parse_value(&example, origin.source, 0)?;
        K::read(&node.value).ok()
    });
    Located { value: example.expect("every kind has an example that it can read"), origin }
}

impl<K: Kind> Field for K {
    type Raw = Located<K::Value>;

    fn shape() -> (Shape, bool) {
        (Shape::Leaf(leaf::<K>()), false)
    }

    fn read(found: Option<&Entry>, spot: &Spot<'_>, reader: &mut Reader<'_>) -> Self::Raw {
        match present(found, spot, || K::form().advice(), reader) {
            Some(node) => read_value::<K>(&node, spot.path, reader),
            None => stand_in::<K>(spot.section, reader),
        }
    }
}

/// A list of values of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<K>(PhantomData<K>);

impl<K: Kind> Field for List<K> {
    type Raw = Located<Vec<Located<K::Value>>>;

    fn shape() -> (Shape, bool) {
        (Shape::List(leaf::<K>()), false)
    }

    fn read(found: Option<&Entry>, spot: &Spot<'_>, reader: &mut Reader<'_>) -> Self::Raw {
        let advice = || {
            let example = K::form().examples.into_iter().next().unwrap_or_default();
            format!("write a list such as [{example}]")
        };
        let Some(node) = present(found, spot, advice, reader) else {
            return Located { value: Vec::new(), origin: spot.section };
        };
        match &node.value {
            Value::List(items) => {
                let items = items.iter().map(|item| read_value::<K>(item, spot.path, reader));
                Located { value: items.collect(), origin: node.origin }
            }
            other => {
                let message = format!("{}: expected a list, found {}", spot.path, other.noun());
                let help = match canonical::<K>(other) {
                    Some(one) => format!("write [{one}]"),
                    None => advice(),
                };
                reader.report(Problem::error(Code::WrongType, message, node.origin).help(help));
                reader.stand_ins.push(node.origin);
                Located { value: Vec::new(), origin: node.origin }
            }
        }
    }
}

impl<F: Field> Field for Option<F> {
    type Raw = Option<F::Raw>;

    fn shape() -> (Shape, bool) {
        (F::shape().0, true)
    }

    /// The word `none` removes the value of a lower layer.
    fn read(found: Option<&Entry>, spot: &Spot<'_>, reader: &mut Reader<'_>) -> Self::Raw {
        let found = found.filter(|entry| !entry.node.value.is_none_word())?;
        Some(F::read(Some(found), spot, reader))
    }
}

/// Sections under user-defined names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<S>(PhantomData<S>);

impl<S: Section> Field for Named<S> {
    type Raw = BTreeMap<String, S>;

    fn shape() -> (Shape, bool) {
        (Shape::Named(S::section_shape()), true)
    }

    fn read(found: Option<&Entry>, spot: &Spot<'_>, reader: &mut Reader<'_>) -> Self::Raw {
        let mut named = BTreeMap::new();
        let Some(entry) = found else { return named };
        let Value::Table(table) = &entry.node.value else {
            not_a_table(entry, spot.path, &format!("{}.NAME", spot.path), reader);
            return named;
        };
        for (name, entry) in table.iter().filter(|(_, entry)| !entry.node.value.is_none_word()) {
            if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
                let message = format!("{}: this is not a name", spot.path);
                let help = format!("write 1 to {LONGEST_NAME} bytes without control characters");
                reader.report(Problem::error(Code::Impossible, message, entry.key).help(help));
            }
            let path = join(spot.path, name);
            let spot = Spot { path: &path, section: entry.key, default: None };
            named.insert(name.clone(), read_section(Some(entry), &spot, reader));
        }
        named
    }
}

/// A table with known keys; implemented by the macro of the same name.
pub(crate) trait Section: Sized {
    /// The names of its keys.
    const KEYS: &'static [&'static str];

    /// Its shape.
    fn section_shape() -> SectionShape;

    /// Parses its keys.
    fn read_keys(table: &Table, path: &str, origin: Origin, reader: &mut Reader<'_>) -> Self;
}

/// A section that knows the origin of each key.
pub(crate) trait Keyed {
    /// The origin of one of its keys.
    fn origin_of(&self, key: &str) -> Option<Origin>;

    /// The origin of the section.
    fn origin(&self) -> Origin;

    /// The dotted path of the section.
    fn path(&self) -> &str;
}

/// Appends a key to a path, in quotes where TOML needs them.
pub(crate) fn join(path: &str, key: &str) -> String {
    let is_bare = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    let key = if !key.is_empty() && key.chars().all(is_bare) { key.to_owned() } else { quoted(key) };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

fn not_a_table(entry: &Entry, path: &str, header: &str, reader: &mut Reader<'_>) {
    let message = format!("{path}: expected a table, found {}", entry.node.value.noun());
    let problem = Problem::error(Code::WrongType, message, entry.node.origin);
    // The intended type is unknown, and a caller's key is often written like this.
    if matches!(entry.node.value, Value::Text(_) | Value::List(_)) {
        cover_values(&entry.node, reader.problems);
    }
    reader.report(problem.help(format!("write [{header}] and its keys below it")));
    reader.stand_ins.push(entry.node.origin);
}

/// Parses a required section.
pub(crate) fn read_section<S: Section>(found: Option<&Entry>, spot: &Spot<'_>, reader: &mut Reader<'_>) -> S {
    match found {
        Some(Entry { node: Node { value: Value::Table(table), origin }, .. }) => {
            if table.keys().any(|key| !S::KEYS.contains(&key.as_str())) {
                report_unknown(table, spot.path, &S::section_shape(), reader);
            }
            S::read_keys(table, spot.path, *origin, reader)
        }
        other => {
            let origin = match other {
                Some(entry) => {
                    not_a_table(entry, spot.path, spot.path, reader);
                    entry.node.origin
                }
                None => {
                    missing_section(spot, &S::section_shape(), reader);
                    spot.section
                }
            };
            // One problem is enough for a whole section.
            let was_silent = std::mem::replace(&mut reader.is_silent, true);
            let section = S::read_keys(&Table::new(), spot.path, origin, reader);
            reader.is_silent = was_silent;
            section
        }
    }
}

/// Reports a missing section, unless all its keys have defaults or are optional.
fn missing_section(spot: &Spot<'_>, shape: &SectionShape, reader: &mut Reader<'_>) {
    let must = shape.keys.iter().filter(|key| !key.is_optional && key.default.is_none());
    let must: Vec<&str> = must.map(|key| key.name).collect();
    if !must.is_empty() {
        let message = format!("the section [{}] is missing", spot.path);
        let help = format!("it needs {}", must.join(", "));
        reader.report(Problem::error(Code::MissingKey, message, spot.section).help(help));
        reader.stand_ins.push(spot.section);
    }
}

/// Reports keys that a section does not have.
pub(crate) fn report_unknown(table: &Table, path: &str, shape: &SectionShape, reader: &mut Reader<'_>) {
    for (key, entry) in table.iter().filter(|(key, _)| shape.key(key).is_none()) {
        if !is_harmless(key, &entry.node.value, shape) {
            cover_values(&entry.node, reader.problems);
        }
        let place = if path.is_empty() { String::new() } else { format!(" in [{path}]") };
        let (noun, code) = shape.noun;
        let message = format!("unknown {noun} {}{place}", quoted(&printable(key)));
        reader.report(Problem::error(code, message, entry.key).help(what_exists(key, path, shape)));
    }
}

/// Whether the value under an unknown key can be shown: the key is a typo of one without secrets, or the value is no
/// text.
fn is_harmless(key: &str, value: &Value, shape: &SectionShape) -> bool {
    let is_text = matches!(value, Value::Text(_) | Value::List(_) | Value::Table(_));
    let meant = suggest::nearest(key, shape.keys.iter().map(|key| key.name));
    !sounds_secret(key) && (!is_text || meant.is_some_and(|meant| !sounds_secret(meant)))
}

/// Suggestions for a key that does not exist.
pub(crate) fn what_exists(key: &str, path: &str, shape: &SectionShape) -> String {
    let names = || shape.keys.iter().map(|key| key.name);
    if let Some(near) = suggest::nearest(key, names()) {
        return format!("did you mean {}?", quoted(near));
    }
    let elsewhere = crate::raw::sections_with(key);
    if let [only] = elsewhere.as_slice() {
        return format!("there is such a key in [{only}]");
    }
    let list = names().collect::<Vec<_>>().join(", ");
    if path.is_empty() { format!("there are {list}") } else { format!("[{path}] has {list}") }
}
