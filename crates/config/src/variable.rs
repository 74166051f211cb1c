//! Settings from environment variables and arguments.
//!
//! `SEAWALL__BUDGET__DAY=$100/day` sets `budget.day`. Names are case-insensitive, and characters that are neither
//! letters nor digits are written as underscores. The value is parsed as TOML if it is valid TOML for that key, and as
//! plain text otherwise. **What it does not do.** It does not read the environment; `SEAWALL_` with one underscore is
//! not used.

use crate::field::{join, what_exists};
use crate::kind::quoted;
use crate::problem::{Code, Problem, Problems};
use crate::render::printable;
use crate::shape::{Leaf, SectionShape, Shape};
use crate::source::{Origin, Source, SourceKind, Sources};
use crate::tree::{Entry, LONGEST_TEXT, Node, Table, Value, merge, parse_value};
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

const PREFIX: &str = "SEAWALL__";

/// A key path and the value to set.
pub(crate) struct Assignment {
    steps: Vec<String>,
    source: usize,
    /// The byte at which the value begins in the source.
    start: usize,
    value: String,
    is_variable: bool,
}

impl Assignment {
    /// The value, if this sets the profile, which belongs to no section.
    pub(crate) fn profile(&self) -> Option<(&str, Origin)> {
        let is_profile = self.steps.len() == 1 && plain(&self.steps[0]) == "profile";
        is_profile.then(|| (self.value.as_str(), self.value_origin()))
    }

    fn value_origin(&self) -> Origin {
        Origin { source: self.source, start: self.start, end: self.start + self.value.len() }
    }

    fn key_origin(&self) -> Origin {
        Origin { source: self.source, start: 0, end: self.start.saturating_sub(1) }
    }
}

/// Whether a variable of this name is a setting.
pub(crate) fn is_ours(name: &str) -> bool {
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// The assignments of our environment variables.
pub(crate) fn from_variables(
    variables: &[(String, String)],
    sources: &mut Sources,
    problems: &mut Problems,
) -> Vec<Assignment> {
    let mut ours: Vec<&(String, String)> = variables.iter().filter(|(name, _)| is_ours(name)).collect();
    ours.sort();
    let assignments = ours.into_iter().map(|(name, value)| {
        let steps = name.get(PREFIX.len()..).unwrap_or_default().split("__").map(str::to_lowercase).collect();
        assignment(steps, (name, value), SourceKind::Variable, sources)
    });
    let assignments: Vec<Assignment> = assignments.collect();
    let mut seen: BTreeMap<String, Origin> = BTreeMap::new();
    for one in &assignments {
        let key = one.steps.iter().map(|step| plain(step)).collect::<Vec<_>>().join("__");
        if let Some(first) = seen.insert(key, one.key_origin()) {
            let message = "two variables set the same key";
            problems.cover(one.value_origin());
            problems.cover(Origin { start: first.end + 1, end: usize::MAX, ..first });
            let problem =
                Problem::error(Code::NamedTwice, message, one.key_origin()).also(first, "the other");
            problems.add(problem.help("take one of them out: case makes no difference"));
        }
    }
    assignments.into_iter().filter(|one| is_short(one, problems)).collect()
}

/// The assignments of arguments: dotted keys as in TOML, and values.
pub(crate) fn from_arguments(
    arguments: &[(String, String)],
    sources: &mut Sources,
    problems: &mut Problems,
) -> Vec<Assignment> {
    let mut assignments = Vec::new();
    for (key, value) in arguments {
        let steps = dotted(key);
        let one = assignment(steps.clone().unwrap_or_default(), (key, value), SourceKind::Argument, sources);
        if steps.is_none() {
            let message = format!("{} is not a key", quoted(&printable(key)));
            let problem = Problem::error(Code::Syntax, message, one.key_origin());
            problems.cover(one.value_origin());
            problems.add(problem.help("write a dotted key such as budget.day"));
        } else if is_short(&one, problems) {
            assignments.push(one);
        }
    }
    assignments
}

fn is_short(one: &Assignment, problems: &mut Problems) -> bool {
    let is_short = one.value.len() <= LONGEST_TEXT;
    if !is_short {
        let message = format!("{} bytes are more than a setting may have ({LONGEST_TEXT})", one.value.len());
        problems.add(Problem::error(Code::TooLarge, message, one.key_origin()));
    }
    is_short
}

fn assignment(
    steps: Vec<String>,
    (name, value): (&str, &str),
    kind: SourceKind,
    sources: &mut Sources,
) -> Assignment {
    let text = format!("{name}={value}");
    let source = sources.add(Source { name: name.to_owned(), text: text.into(), kind });
    let is_variable = kind == SourceKind::Variable;
    Assignment { steps, source, start: name.len() + 1, value: value.to_owned(), is_variable }
}

/// The parts of a dotted key.
fn dotted(key: &str) -> Option<Vec<String>> {
    if key.contains(['\n', '\r', '#', '=']) {
        return None;
    }
    let text = format!("{key} = 0");
    let mut table = DeTable::parse(&text).ok()?.into_inner();
    let mut steps = Vec::new();
    loop {
        let mut entries = table.into_iter();
        let (key, value) = entries.next()?;
        steps.push(key.into_inner().into_owned());
        match value.into_inner() {
            DeValue::Table(inner) => table = inner,
            _ => return Some(steps),
        }
    }
}

/// Lower case, with underscores for characters that a variable's name cannot contain.
fn plain(name: &str) -> String {
    let one = |character: char| {
        if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '_' }
    };
    name.chars().map(one).collect()
}

/// Merges an assignment into the table.
pub(crate) fn assign(one: &Assignment, shape: &SectionShape, below: &mut Table, problems: &mut Problems) {
    if let Some(over) = section(one, &one.steps, shape, Some(below), "", problems) {
        merge(below, over);
    }
}

fn section(
    one: &Assignment,
    steps: &[String],
    shape: &SectionShape,
    below: Option<&Table>,
    path: &str,
    problems: &mut Problems,
) -> Option<Table> {
    let (step, rest) = steps.split_first()?;
    let matches = |name: &str| if one.is_variable { plain(name) == plain(step) } else { name == step };
    let Some(key) = shape.keys.iter().find(|key| matches(key.name)) else {
        let (noun, code) = shape.noun;
        let place = if path.is_empty() { String::new() } else { format!(" in [{path}]") };
        let message = format!("unknown {noun} {}{place}", quoted(&printable(step)));
        problems.cover(one.value_origin());
        problems.add(Problem::error(code, message, one.key_origin()).help(what_exists(step, path, shape)));
        return None;
    };
    let inner = below.and_then(|table| table.get(key.name)).and_then(|entry| match &entry.node.value {
        Value::Table(table) => Some(table),
        _ => None,
    });
    let path = join(path, key.name);
    let node = match (&key.shape, rest) {
        (Shape::Leaf(leaf) | Shape::List(leaf), []) => {
            leaf_node(one, leaf, matches!(key.shape, Shape::List(_)))
        }
        (Shape::Section(_) | Shape::Named(_), []) => table_node(one),
        (Shape::Section(inner_shape), rest) => {
            table_of(one, section(one, rest, inner_shape, inner, &path, problems)?)
        }
        (Shape::Named(inner_shape), [name, rest @ ..]) => {
            let known =
                inner.and_then(|table| {
                    table.keys().find(|known| {
                        if one.is_variable { plain(known) == plain(name) } else { *known == name }
                    })
                });
            let name = known.cloned().unwrap_or_else(|| name.clone());
            let entry = if rest.is_empty() {
                table_node(one)
            } else {
                let named =
                    inner.and_then(|table| table.get(&name)).and_then(|entry| match &entry.node.value {
                        Value::Table(table) => Some(table),
                        _ => None,
                    });
                let path = join(&path, &name);
                table_of(one, section(one, rest, inner_shape, named, &path, problems)?)
            };
            table_of(one, Table::from([(name, Entry { key: one.key_origin(), node: entry })]))
        }
        (Shape::Leaf(_) | Shape::List(_), _) => {
            let message = format!("{path} is one value and has no parts");
            problems.cover(one.value_origin());
            problems.add(Problem::error(Code::UnknownKey, message, one.key_origin()));
            return None;
        }
    };
    Some(Table::from([(key.name.to_owned(), Entry { key: one.key_origin(), node })]))
}

fn table_of(one: &Assignment, table: Table) -> Node {
    Node { value: Value::Table(table), origin: one.key_origin() }
}

fn text_node(one: &Assignment) -> Node {
    Node { value: Value::Text(one.value.clone()), origin: one.value_origin() }
}

fn table_node(one: &Assignment) -> Node {
    parse_value(&one.value, one.source, one.start).unwrap_or_else(|| text_node(one))
}

/// Parses the value as TOML if the result fits the key, and as plain text otherwise.
fn leaf_node(one: &Assignment, leaf: &Leaf, is_list: bool) -> Node {
    let text = text_node(one);
    let Some(node) = parse_value(&one.value, one.source, one.start) else { return text };
    if is_list || (leaf.canonical)(&node.value).is_some() || (leaf.canonical)(&text.value).is_none() {
        node
    } else {
        text
    }
}
