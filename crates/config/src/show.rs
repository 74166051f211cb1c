//! Formats settings as canonical TOML, and compares two of them.
//!
//! The output can be parsed again and gives equal settings. For secrets it contains the reference, never the value.

use crate::field::join;
use crate::load::{Layers, LoadedInput};
use crate::profile::EMPTY_PROFILE;
use crate::raw::shape;
use crate::shape::{Activation, KeyShape, ScalarShape, SectionShape, ValueShape};
use crate::source::{SettingOrigin, SettingSources};
use crate::tree::{TomlEntry, TomlNode, TomlTable, TomlValue};
use crate::unimplemented::is_implemented;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A table of the output: its header and its keys.
struct SectionLines {
    header: String,
    /// The header with `NAME` in place of user-defined names.
    pattern: String,
    /// Whether it must be written even if it has no keys.
    is_explicit: bool,
    lines: Vec<KeyLine>,
}

struct KeyLine {
    key: &'static str,
    text: String,
    /// `None` for a default.
    origin: Option<SettingOrigin>,
    activation: Activation,
}

/// The path of a section: as written, and with `NAME` in place of user-defined names.
struct SectionHeader<'a> {
    name: &'a str,
    pattern: &'a str,
}

fn section_lines(
    shape: &SectionShape,
    table: &TomlTable,
    header: &SectionHeader<'_>,
    is_explicit: bool,
    out: &mut Vec<SectionLines>,
) {
    let mut lines = Vec::new();
    let mut inner = Vec::new();
    for key in &shape.keys {
        let entry = table.get(key.name).filter(|entry| !(key.is_optional && entry.node.value.is_none_word()));
        match &key.shape {
            ValueShape::Scalar(scalar) | ValueShape::List(scalar) => lines.extend(line(key, scalar, entry)),
            ValueShape::Section(section) => {
                if let Some(TomlEntry { node: TomlNode { value: TomlValue::Table(table), .. }, .. }) = entry {
                    let (name, pattern) = (join(header.name, key.name), join(header.pattern, key.name));
                    let header = SectionHeader { name: &name, pattern: &pattern };
                    section_lines(section, table, &header, key.is_optional, &mut inner);
                }
            }
            ValueShape::Named(section) => {
                let Some(TomlEntry { node: TomlNode { value: TomlValue::Table(table), .. }, .. }) = entry
                else {
                    continue;
                };
                for (name, entry) in table {
                    if let TomlValue::Table(table) = &entry.node.value {
                        let name = join(&join(header.name, key.name), name);
                        let pattern = join(&join(header.pattern, key.name), "NAME");
                        let header = SectionHeader { name: &name, pattern: &pattern };
                        section_lines(section, table, &header, true, &mut inner);
                    }
                }
            }
        }
    }
    out.push(SectionLines {
        header: header.name.to_owned(),
        pattern: header.pattern.to_owned(),
        is_explicit,
        lines,
    });
    out.append(&mut inner);
}

fn line(key: &KeyShape, scalar: &ScalarShape, entry: Option<&TomlEntry>) -> Option<KeyLine> {
    let line = |text, origin| KeyLine { key: key.name, text, origin, activation: key.activation };
    match entry {
        None => Some(line(key.default?.to_owned(), None)),
        Some(TomlEntry { node, .. }) => match &node.value {
            TomlValue::List(items) if matches!(key.shape, ValueShape::List(_)) => {
                let items: Vec<String> =
                    items.iter().filter_map(|item| (scalar.canonical)(&item.value)).collect();
                Some(line(format!("[{}]", items.join(", ")), Some(node.origin)))
            }
            value => Some(line((scalar.canonical)(value)?, Some(node.origin))),
        },
    }
}

/// All effective settings as TOML, optionally with the origin of each value.
#[must_use]
pub fn show(input: &impl AsRef<LoadedInput>, with_origins: bool) -> String {
    let Layers { tree, sources, .. } = input.as_ref().layers();
    let sections = all_sections(&tree);
    let mut out =
        format!("# All settings are listed here, so no profile is needed.\nprofile = \"{EMPTY_PROFILE}\"\n");
    for section in sections.iter().filter(|section| section.is_explicit || !section.lines.is_empty()) {
        let _ = write!(out, "\n[{}]\n", section.header);
        for line in &section.lines {
            let _ = write!(out, "{} = {}", line.key, line.text);
            if with_origins {
                let _ = write!(out, " # {}", display_origin(&sources, line.origin));
            }
            out.push('\n');
        }
    }
    out
}

/// One effective key, and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveSetting {
    /// The dotted key.
    pub key: String,
    /// Its value as TOML. For a secret it is the reference.
    pub value: String,
    /// The origin; `default` if it was not written anywhere.
    pub origin: String,
    /// What a change of it needs to take effect.
    pub activation: Activation,
}

/// All effective keys.
#[must_use]
pub fn effective_settings(input: &impl AsRef<LoadedInput>) -> Vec<EffectiveSetting> {
    let Layers { tree, sources, .. } = input.as_ref().layers();
    let mut keys = Vec::new();
    for SectionLines { header, pattern, lines, .. } in all_sections(&tree) {
        keys.extend(lines.into_iter().map(|line| EffectiveSetting {
            key: join(&header, line.key),
            value: line.text,
            origin: display_origin(&sources, line.origin),
            activation: if is_implemented(&join(&pattern, line.key)) {
                line.activation
            } else {
                Activation::NotImplemented
            },
        }));
    }
    keys
}

/// The origin of a value, safe to display.
fn display_origin(sources: &SettingSources, origin: Option<SettingOrigin>) -> String {
    let location = origin.map_or_else(|| "default".to_owned(), |origin| sources.location(origin));
    crate::render::printable(&location)
}

/// A key with different values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    /// The dotted key.
    pub key: String,
    /// The old value as TOML; `None` if it was absent.
    pub old: Option<String>,
    /// The new value as TOML; `None` if it is absent.
    pub new: Option<String>,
    /// What the change needs to take effect.
    pub activation: Activation,
}

fn all_sections(tree: &TomlTable) -> Vec<SectionLines> {
    let mut all = Vec::new();
    section_lines(shape(), tree, &SectionHeader { name: "", pattern: "" }, false, &mut all);
    all
}

fn flatten(tree: &TomlTable) -> BTreeMap<String, (String, Activation)> {
    let lines = all_sections(tree).into_iter().flat_map(|section| {
        let SectionLines { header, pattern, lines, .. } = section;
        let with_key = move |line: KeyLine| {
            let activation = if is_implemented(&join(&pattern, line.key)) {
                line.activation
            } else {
                Activation::NotImplemented
            };
            (join(&header, line.key), KeyLine { activation, ..line })
        };
        lines.into_iter().map(with_key).collect::<Vec<_>>()
    });
    lines.map(|(path, line)| (path, (line.text, line.activation))).collect()
}

/// Every value by its dotted key.
pub(crate) fn values(input: &LoadedInput) -> BTreeMap<String, String> {
    flatten(&input.layers().tree).into_iter().map(|(key, (value, _))| (key, value)).collect()
}

/// The differences between two settings, key by key.
#[must_use]
pub fn diff(old: &impl AsRef<LoadedInput>, new: &impl AsRef<LoadedInput>) -> Vec<SettingChange> {
    compare(&old.as_ref().layers().tree, &new.as_ref().layers().tree)
}

/// Keys that differ from the profile and have no effect yet.
#[must_use]
pub fn unimplemented_settings(input: &impl AsRef<LoadedInput>) -> Vec<SettingChange> {
    input.as_ref().unimplemented.clone()
}

pub(crate) fn find_unimplemented(profile: &TomlTable, tree: &TomlTable) -> Vec<SettingChange> {
    let mut changes = compare(profile, tree);
    changes.retain(|change| change.activation == Activation::NotImplemented);
    changes
}

/// Where each key is written.
pub(crate) fn origins(tree: &TomlTable) -> BTreeMap<String, SettingOrigin> {
    let keys = all_sections(tree).into_iter().flat_map(|SectionLines { header, lines, .. }| {
        let with_path = move |line: KeyLine| Some((join(&header, line.key), line.origin?));
        lines.into_iter().filter_map(with_path).collect::<Vec<_>>()
    });
    keys.collect()
}

fn compare(old: &TomlTable, new: &TomlTable) -> Vec<SettingChange> {
    let (old, mut new) = (flatten(old), flatten(new));
    let mut changes = Vec::new();
    for (key, (old_value, activation)) in old {
        match new.remove(&key) {
            Some((new_value, _)) if new_value == old_value => {}
            other => changes.push(SettingChange {
                key,
                old: Some(old_value),
                new: other.map(|(new_value, _)| new_value),
                activation,
            }),
        }
    }
    changes.extend(new.into_iter().map(|(key, (new_value, activation))| SettingChange {
        key,
        old: None,
        new: Some(new_value),
        activation,
    }));
    changes.sort_by(|left, right| left.key.cmp(&right.key));
    changes
}
