//! Parsed TOML values with their origins, and the merging of layers.
//!
//! Tables are merged key by key; any other value is replaced by the later one. **What it does not do.** It does not
//! know the meaning of keys.

use crate::cover::cover_line;
use crate::problem::{Code, Problem, Problems};
use crate::source::Origin;
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum size of a text with settings.
pub(crate) const LONGEST_TEXT: usize = 16 << 20;

/// Maximum number of syntax errors reported; more would be guesswork.
const MOST_SYNTAX_ERRORS: usize = 20;

/// A parsed TOML value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A table.
    Table(Table),
    /// An array.
    List(Vec<Node>),
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

impl Value {
    /// The name of its type for messages.
    pub(crate) const fn noun(&self) -> &'static str {
        match self {
            Self::Table(_) => "a table",
            Self::List(_) => "a list",
            Self::Text(_) => "a text",
            Self::Integer(_) => "a number",
            Self::Float(_) => "a number with decimals",
            Self::Boolean(_) => "true or false",
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
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// A value under a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The origin of the key.
    pub(crate) key: Origin,
    pub(crate) node: Node,
}

/// Values by key.
pub(crate) type Table = BTreeMap<String, Entry>;

/// Parses a TOML document. What can be parsed is returned even after an error.
pub(crate) fn parse(text: &str, source: usize, problems: &mut Problems) -> Table {
    if text.len() > LONGEST_TEXT {
        let message = format!("{} bytes are more than settings may have ({LONGEST_TEXT})", text.len());
        problems.add(Problem::error(Code::TooLarge, message, Origin::beginning(source)));
        return Table::new();
    }
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(MOST_SYNTAX_ERRORS) {
        let place = Origin::new(source, error.span().unwrap_or(0..0));
        cover_line(text, place, problems);
        let message = error.message().trim_end_matches('.').replace('\n', ", ");
        problems.add(Problem::error(Code::Syntax, format!("this is not TOML: {message}"), place));
    }
    // Keys skipped after a syntax error would be reported as missing, and those reports would hide the real error.
    table(document.into_inner(), source, problems)
}

/// Parses one TOML value that begins at `start` of its source; `None` if it is not valid.
pub(crate) fn parse_value(text: &str, source: usize, start: usize) -> Option<Node> {
    let parsed = DeValue::parse(text).ok()?;
    let mut ignored = Problems::default();
    let mut node = node(parsed, source, &mut ignored);
    shift(&mut node, start);
    ignored.is_empty().then_some(node)
}

fn shift(node: &mut Node, by: usize) {
    node.origin.start += by;
    node.origin.end += by;
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| shift(item, by)),
        Value::Table(table) => table.values_mut().for_each(|entry| {
            entry.key.start += by;
            entry.key.end += by;
            shift(&mut entry.node, by);
        }),
        _ => {}
    }
}

fn table(read: DeTable<'_>, source: usize, problems: &mut Problems) -> Table {
    let mut table = Table::new();
    for (key, value) in read {
        let place = Origin::new(source, key.span());
        let mut node = node(value, source, problems);
        if matches!(node.value, Value::Table(_)) {
            // The name of a table is a better position for messages than its braces.
            node.origin = place;
        }
        table.insert(key.into_inner().into_owned(), Entry { key: place, node });
    }
    table
}

fn node(read: Spanned<DeValue<'_>>, source: usize, problems: &mut Problems) -> Node {
    let origin = Origin::new(source, read.span());
    let value = match read.into_inner() {
        DeValue::Table(read) => Value::Table(table(read, source, problems)),
        DeValue::Array(read) => {
            Value::List(read.into_iter().map(|item| node(item, source, problems)).collect())
        }
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Boolean(flag) => Value::Boolean(flag),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Integer(number) => {
            let digits = i64::from_str_radix(number.as_str(), number.radix());
            Value::Integer(digits.unwrap_or_else(|_| {
                let message = format!("{number} is too large a number");
                problems.add(Problem::error(Code::Unreadable, message, origin));
                0
            }))
        }
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
    };
    Node { value, origin }
}

/// Merges `over` into `under`.
pub(crate) fn merge(under: &mut Table, over: Table) {
    for (key, entry) in over {
        match under.get_mut(&key) {
            Some(Entry { key: place, node: Node { value: Value::Table(below), origin } }) => {
                if let Value::Table(above) = entry.node.value {
                    merge(below, above);
                    // Of two headers the later one is the better position for messages.
                    (*place, *origin) = (entry.key, entry.node.origin);
                } else {
                    under.insert(key, entry);
                }
            }
            _ => {
                under.insert(key, entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Table, Value, merge, parse, parse_value};
    use crate::problem::Problems;

    fn read(text: &str) -> Table {
        let mut problems = Problems::default();
        let table = parse(text, 0, &mut problems);
        assert!(problems.is_empty(), "{problems}");
        table
    }

    fn text(table: &Table) -> String {
        let parts = table.iter().map(|(key, entry)| match &entry.node.value {
            Value::Table(inner) => format!("{key}{{{}}}", text(inner)),
            Value::Integer(number) => format!("{key}={number}"),
            other => format!("{key}={}", other.noun()),
        });
        parts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tables_are_merged_and_everything_else_is_replaced() {
        let mut under = read("a = 1\nb = [1, 2]\n[t]\nx = 1\ny = 2\n[u]\nz = 1");
        merge(&mut under, read("b = 3\nt.y = 5\nt.w = 6\nu = 7\n[v]\nk = 1"));
        assert_eq!(text(&under), "a=1 b=3 t{w=6 x=1 y=5} u=7 v{k=1}");
        merge(&mut under, read("[u]\nq = 1"));
        assert_eq!(text(&under), "a=1 b=3 t{w=6 x=1 y=5} u{q=1} v{k=1}");
    }

    #[test]
    fn a_single_value_knows_its_place_in_a_longer_text() {
        let node = parse_value("[1, 2]", 0, 10).unwrap();
        let Value::List(items) = &node.value else { panic!() };
        assert_eq!((node.origin.start, node.origin.end), (10, 16));
        assert_eq!((items[1].origin.start, items[1].origin.end), (14, 15));
        assert!(parse_value("127.0.0.1:80", 0, 0).is_none() && parse_value("", 0, 0).is_none());
    }

    #[test]
    fn numbers_beyond_the_machine_are_problems() {
        let mut problems = Problems::default();
        let _ = parse("a = 99999999999999999999", 0, &mut problems);
        assert_eq!(problems.list().len(), 1);
    }
}
