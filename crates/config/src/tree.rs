//! Parsed TOML values with their origins, and the merging of layers.
//!
//! Tables are merged key by key; any other value is replaced by the later one. **What it does not do.** It does not
//! know the meaning of keys.

use crate::problem::{Problem, ProblemCode, Problems};
use crate::redact::redact_line;
use crate::source::SettingOrigin;
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum size of a text with settings.
pub(crate) const MAX_TEXT_BYTES: usize = 16 << 20;

/// Maximum number of syntax errors reported; more would be guesswork.
const MAX_SYNTAX_ERRORS: usize = 20;

/// A parsed TOML value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TomlValue {
    /// A table.
    Table(TomlTable),
    /// An array.
    List(Vec<TomlNode>),
    /// A string.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// A date or a time in TOML notation.
    Date(String),
}

impl TomlValue {
    /// The name of its type for messages.
    pub(crate) const fn type_name(&self) -> &'static str {
        match self {
            Self::Table(_) => "a table",
            Self::List(_) => "an array",
            Self::Text(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Boolean(_) => "a boolean",
            Self::Date(_) => "a date or time",
        }
    }

    /// Whether it is the word `none`, which removes a value.
    pub(crate) fn is_none_word(&self) -> bool {
        matches!(self, Self::Text(text) if text == "none")
    }
}

/// A value and its origin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TomlNode {
    pub(crate) value: TomlValue,
    pub(crate) origin: SettingOrigin,
}

/// A value under a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TomlEntry {
    /// The origin of the key.
    pub(crate) key: SettingOrigin,
    pub(crate) node: TomlNode,
}

/// Values by key.
pub(crate) type TomlTable = BTreeMap<String, TomlEntry>;

/// Parses a TOML document. What can be parsed is returned even after an error.
pub(crate) fn parse(text: &str, source: usize, problems: &mut Problems) -> TomlTable {
    if text.len() > MAX_TEXT_BYTES {
        let message = format!("the settings have {} bytes; the maximum is {MAX_TEXT_BYTES}", text.len());
        problems.add(Problem::error(ProblemCode::TooLarge, message, SettingOrigin::beginning(source)));
        return TomlTable::new();
    }
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(MAX_SYNTAX_ERRORS) {
        let origin = SettingOrigin::new(source, error.span().unwrap_or(0..0));
        redact_line(text, origin, problems);
        let message = error.message().trim_end_matches('.').replace('\n', ", ");
        problems.add(Problem::error(ProblemCode::Syntax, format!("invalid TOML: {message}"), origin));
    }
    // Keys skipped after a syntax error would be reported as missing, and those reports would hide the real error.
    table(document.into_inner(), source, problems)
}

/// Parses one TOML value that begins at `start` of its source; `None` if it is not valid.
pub(crate) fn parse_value(text: &str, source: usize, start: usize) -> Option<TomlNode> {
    let parsed = DeValue::parse(text).ok()?;
    let mut ignored = Problems::default();
    let mut node = node(parsed, source, &mut ignored);
    shift(&mut node, start);
    ignored.is_empty().then_some(node)
}

fn shift(node: &mut TomlNode, by: usize) {
    node.origin.start += by;
    node.origin.end += by;
    match &mut node.value {
        TomlValue::List(items) => items.iter_mut().for_each(|item| shift(item, by)),
        TomlValue::Table(table) => table.values_mut().for_each(|entry| {
            entry.key.start += by;
            entry.key.end += by;
            shift(&mut entry.node, by);
        }),
        _ => {}
    }
}

fn table(parsed: DeTable<'_>, source: usize, problems: &mut Problems) -> TomlTable {
    let mut table = TomlTable::new();
    for (key, value) in parsed {
        let origin = SettingOrigin::new(source, key.span());
        let mut node = node(value, source, problems);
        if matches!(node.value, TomlValue::Table(_)) {
            // The name of a table is a better position for messages than its braces.
            node.origin = origin;
        }
        table.insert(key.into_inner().into_owned(), TomlEntry { key: origin, node });
    }
    table
}

fn node(parsed: Spanned<DeValue<'_>>, source: usize, problems: &mut Problems) -> TomlNode {
    let origin = SettingOrigin::new(source, parsed.span());
    let value = match parsed.into_inner() {
        DeValue::Table(parsed) => TomlValue::Table(table(parsed, source, problems)),
        DeValue::Array(parsed) => {
            TomlValue::List(parsed.into_iter().map(|item| node(item, source, problems)).collect())
        }
        DeValue::String(text) => TomlValue::Text(text.into_owned()),
        DeValue::Boolean(flag) => TomlValue::Boolean(flag),
        DeValue::Datetime(date) => TomlValue::Date(date.to_string()),
        DeValue::Integer(number) => {
            let digits = i64::from_str_radix(number.as_str(), number.radix());
            TomlValue::Integer(digits.unwrap_or_else(|_| {
                let message = format!("{number} is out of range for an integer");
                problems.add(Problem::error(ProblemCode::ParseError, message, origin));
                0
            }))
        }
        DeValue::Float(number) => TomlValue::Float(number.as_str().parse().unwrap_or(f64::NAN)),
    };
    TomlNode { value, origin }
}

/// Merges `overlay` into `base`.
pub(crate) fn merge(base: &mut TomlTable, overlay: TomlTable) {
    for (key, entry) in overlay {
        match base.get_mut(&key) {
            Some(TomlEntry {
                key: key_origin,
                node: TomlNode { value: TomlValue::Table(base_table), origin },
            }) => {
                if let TomlValue::Table(overlay_table) = entry.node.value {
                    merge(base_table, overlay_table);
                    // Of two headers the later one is the better position for messages.
                    (*key_origin, *origin) = (entry.key, entry.node.origin);
                } else {
                    base.insert(key, entry);
                }
            }
            _ => {
                base.insert(key, entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{TomlTable, TomlValue, merge, parse, parse_value};
    use crate::problem::Problems;

    fn parse_table(text: &str) -> TomlTable {
        let mut problems = Problems::default();
        let table = parse(text, 0, &mut problems);
        assert!(problems.is_empty(), "{problems}");
        table
    }

    fn text(table: &TomlTable) -> String {
        let parts = table.iter().map(|(key, entry)| match &entry.node.value {
            TomlValue::Table(inner) => format!("{key}{{{}}}", text(inner)),
            TomlValue::Integer(number) => format!("{key}={number}"),
            other => format!("{key}={}", other.type_name()),
        });
        parts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tables_are_merged_and_everything_else_is_replaced() {
        let mut merged = parse_table("a = 1\nb = [1, 2]\n[t]\nx = 1\ny = 2\n[u]\nz = 1");
        merge(&mut merged, parse_table("b = 3\nt.y = 5\nt.w = 6\nu = 7\n[v]\nk = 1"));
        assert_eq!(text(&merged), "a=1 b=3 t{w=6 x=1 y=5} u=7 v{k=1}");
        merge(&mut merged, parse_table("[u]\nq = 1"));
        assert_eq!(text(&merged), "a=1 b=3 t{w=6 x=1 y=5} u{q=1} v{k=1}");
    }

    #[test]
    fn a_single_value_knows_its_position_in_a_longer_text() {
        let node = parse_value("[1, 2]", 0, 10).unwrap();
        let TomlValue::List(items) = &node.value else { panic!() };
        assert_eq!((node.origin.start, node.origin.end), (10, 16));
        assert_eq!((items[1].origin.start, items[1].origin.end), (14, 15));
        assert!(parse_value("127.0.0.1:80", 0, 0).is_none() && parse_value("", 0, 0).is_none());
    }

    #[test]
    fn integers_out_of_range_are_problems() {
        let mut problems = Problems::default();
        let _ = parse("a = 99999999999999999999", 0, &mut problems);
        assert_eq!(problems.list().len(), 1);
    }
}
