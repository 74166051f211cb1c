//! Settings from environment variables and arguments.
//!
//! `SEAWALL__BUDGET__DAY=$100/day` sets `budget.day`. Names are case-insensitive, and characters that are neither
//! letters nor digits are written as underscores. The value is parsed as TOML if it is valid TOML for that key, and as
//! plain text otherwise. **What it does not do.** It does not read the environment; `SEAWALL_` with one underscore is
//! not used.

use crate::field::{join, suggest_key};
use crate::kind::quoted;
use crate::problem::{Problem, ProblemCode, Problems};
use crate::render::printable;
use crate::shape::{ScalarShape, SectionShape, ValueShape};
use crate::source::{SettingOrigin, SettingSource, SettingSources, SourceKind};
use crate::tree::{MAX_TEXT_BYTES, TomlEntry, TomlNode, TomlTable, TomlValue, merge, parse_value};
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

const PREFIX: &str = "SEAWALL__";

/// A key path and the value to set.
pub(crate) struct Assignment {
    key_path: Vec<String>,
    source: usize,
    /// The byte at which the value begins in the source.
    start: usize,
    value: String,
    is_variable: bool,
}

impl Assignment {
    /// The value, if this sets the profile, which belongs to no section.
    pub(crate) fn profile(&self) -> Option<(&str, SettingOrigin)> {
        let is_profile = self.key_path.len() == 1 && normalized(&self.key_path[0]) == "profile";
        is_profile.then(|| (self.value.as_str(), self.value_origin()))
    }

    fn value_origin(&self) -> SettingOrigin {
        SettingOrigin { source: self.source, start: self.start, end: self.start + self.value.len() }
    }

    fn key_origin(&self) -> SettingOrigin {
        SettingOrigin { source: self.source, start: 0, end: self.start.saturating_sub(1) }
    }
}

/// Whether a variable of this name is a setting.
pub(crate) fn is_setting_variable(name: &str) -> bool {
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// The assignments of our environment variables.
pub(crate) fn from_variables(
    variables: &[(String, String)],
    sources: &mut SettingSources,
    problems: &mut Problems,
) -> Vec<Assignment> {
    let mut settings: Vec<&(String, String)> =
        variables.iter().filter(|(name, _)| is_setting_variable(name)).collect();
    settings.sort();
    let assignments = settings.into_iter().map(|(name, value)| {
        let key_path =
            name.get(PREFIX.len()..).unwrap_or_default().split("__").map(str::to_lowercase).collect();
        new_assignment(key_path, (name, value), SourceKind::Variable, sources)
    });
    let assignments: Vec<Assignment> = assignments.collect();
    let mut seen: BTreeMap<String, SettingOrigin> = BTreeMap::new();
    for assignment in &assignments {
        let key = assignment.key_path.iter().map(|step| normalized(step)).collect::<Vec<_>>().join("__");
        if let Some(first) = seen.insert(key, assignment.key_origin()) {
            let message = "two variables set the same key";
            problems.redact(assignment.value_origin());
            problems.redact(SettingOrigin { start: first.end + 1, end: usize::MAX, ..first });
            let problem = Problem::error(ProblemCode::Duplicate, message, assignment.key_origin())
                .also_at(first, "first set here");
            problems.add(problem.help("remove one of them: names are case-insensitive"));
        }
    }
    assignments.into_iter().filter(|assignment| check_length(assignment, problems)).collect()
}

/// The assignments of arguments: dotted keys as in TOML, and values.
pub(crate) fn from_arguments(
    arguments: &[(String, String)],
    sources: &mut SettingSources,
    problems: &mut Problems,
) -> Vec<Assignment> {
    let mut assignments = Vec::new();
    for (key, value) in arguments {
        let key_path = parse_dotted_key(key);
        let assignment =
            new_assignment(key_path.clone().unwrap_or_default(), (key, value), SourceKind::Argument, sources);
        if key_path.is_none() {
            let message = format!("{} is not a valid key", quoted(&printable(key)));
            let problem = Problem::error(ProblemCode::Syntax, message, assignment.key_origin());
            problems.redact(assignment.value_origin());
            problems.add(problem.help("write a dotted key such as budget.day"));
        } else if check_length(&assignment, problems) {
            assignments.push(assignment);
        }
    }
    assignments
}

/// Whether the value is short enough. Reports it otherwise.
fn check_length(assignment: &Assignment, problems: &mut Problems) -> bool {
    let is_valid = assignment.value.len() <= MAX_TEXT_BYTES;
    if !is_valid {
        let message =
            format!("the value has {} bytes; the maximum is {MAX_TEXT_BYTES}", assignment.value.len());
        problems.add(Problem::error(ProblemCode::TooLarge, message, assignment.key_origin()));
    }
    is_valid
}

fn new_assignment(
    key_path: Vec<String>,
    (name, value): (&str, &str),
    kind: SourceKind,
    sources: &mut SettingSources,
) -> Assignment {
    let text = format!("{name}={value}");
    let source = sources.add(SettingSource { name: name.to_owned(), text: text.into(), kind });
    let is_variable = kind == SourceKind::Variable;
    Assignment { key_path, source, start: name.len() + 1, value: value.to_owned(), is_variable }
}

/// The parts of a dotted key.
fn parse_dotted_key(key: &str) -> Option<Vec<String>> {
    if key.contains(['\n', '\r', '#', '=']) {
        return None;
    }
    let text = format!("{key} = 0");
    let mut table = DeTable::parse(&text).ok()?.into_inner();
    let mut key_path = Vec::new();
    loop {
        let mut entries = table.into_iter();
        let (key, value) = entries.next()?;
        key_path.push(key.into_inner().into_owned());
        match value.into_inner() {
            DeValue::Table(inner) => table = inner,
            _ => return Some(key_path),
        }
    }
}

/// Lower case, with underscores for characters that a variable's name cannot contain.
fn normalized(name: &str) -> String {
    let assignment = |character: char| {
        if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '_' }
    };
    name.chars().map(assignment).collect()
}

/// Merges an assignment into the table.
pub(crate) fn assign(
    assignment: &Assignment,
    shape: &SectionShape,
    below: &mut TomlTable,
    problems: &mut Problems,
) {
    if let Some(over) = assign_in_section(assignment, &assignment.key_path, shape, Some(below), "", problems)
    {
        merge(below, over);
    }
}

fn assign_in_section(
    assignment: &Assignment,
    key_path: &[String],
    shape: &SectionShape,
    below: Option<&TomlTable>,
    path: &str,
    problems: &mut Problems,
) -> Option<TomlTable> {
    let (step, rest) = key_path.split_first()?;
    let matches =
        |name: &str| if assignment.is_variable { normalized(name) == normalized(step) } else { name == step };
    let Some(key) = shape.keys.iter().find(|key| matches(key.name)) else {
        let (noun, code) = shape.noun;
        let context = if path.is_empty() { String::new() } else { format!(" in [{path}]") };
        let message = format!("unknown {noun} {}{context}", quoted(&printable(step)));
        problems.redact(assignment.value_origin());
        problems
            .add(Problem::error(code, message, assignment.key_origin()).help(suggest_key(step, path, shape)));
        return None;
    };
    let inner = below.and_then(|table| table.get(key.name)).and_then(|entry| match &entry.node.value {
        TomlValue::Table(table) => Some(table),
        _ => None,
    });
    let path = join(path, key.name);
    let node = match (&key.shape, rest) {
        (ValueShape::Scalar(scalar) | ValueShape::List(scalar), []) => {
            scalar_node(assignment, scalar, matches!(key.shape, ValueShape::List(_)))
        }
        (ValueShape::Section(_) | ValueShape::Named(_), []) => table_node(assignment),
        (ValueShape::Section(inner_shape), rest) => {
            table_of(assignment, assign_in_section(assignment, rest, inner_shape, inner, &path, problems)?)
        }
        (ValueShape::Named(inner_shape), [name, rest @ ..]) => {
            let existing = inner.and_then(|table| {
                table.keys().find(|key| {
                    if assignment.is_variable { normalized(key) == normalized(name) } else { *key == name }
                })
            });
            let name = existing.cloned().unwrap_or_else(|| name.clone());
            let entry = if rest.is_empty() {
                table_node(assignment)
            } else {
                let named =
                    inner.and_then(|table| table.get(&name)).and_then(|entry| match &entry.node.value {
                        TomlValue::Table(table) => Some(table),
                        _ => None,
                    });
                let path = join(&path, &name);
                table_of(
                    assignment,
                    assign_in_section(assignment, rest, inner_shape, named, &path, problems)?,
                )
            };
            table_of(
                assignment,
                TomlTable::from([(name, TomlEntry { key: assignment.key_origin(), node: entry })]),
            )
        }
        (ValueShape::Scalar(_) | ValueShape::List(_), _) => {
            let message = format!("{path} is a single value and has no keys");
            problems.redact(assignment.value_origin());
            problems.add(Problem::error(ProblemCode::UnknownKey, message, assignment.key_origin()));
            return None;
        }
    };
    Some(TomlTable::from([(key.name.to_owned(), TomlEntry { key: assignment.key_origin(), node })]))
}

fn table_of(assignment: &Assignment, table: TomlTable) -> TomlNode {
    TomlNode { value: TomlValue::Table(table), origin: assignment.key_origin() }
}

fn text_node(assignment: &Assignment) -> TomlNode {
    TomlNode { value: TomlValue::Text(assignment.value.clone()), origin: assignment.value_origin() }
}

fn table_node(assignment: &Assignment) -> TomlNode {
    parse_value(&assignment.value, assignment.source, assignment.start)
        .unwrap_or_else(|| text_node(assignment))
}

/// Parses the value as TOML if the result fits the key, and as plain text otherwise.
fn scalar_node(assignment: &Assignment, scalar: &ScalarShape, is_list: bool) -> TomlNode {
    let text = text_node(assignment);
    let Some(node) = parse_value(&assignment.value, assignment.source, assignment.start) else { return text };
    if is_list || (scalar.canonical)(&node.value).is_some() || (scalar.canonical)(&text.value).is_none() {
        node
    } else {
        text
    }
}
