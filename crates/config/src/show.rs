//! Formats settings as canonical TOML, and compares two of them.
//!
//! The output can be parsed again and gives equal settings. For secrets it contains the reference, never the value.

use crate::field::join;
use crate::load::{Layers, Written};
use crate::not_yet::is_followed;
use crate::profile::EMPTY_PROFILE;
use crate::raw::shape;
use crate::shape::{KeyShape, Leaf, Needs, SectionShape, Shape};
use crate::source::{Origin, Sources};
use crate::tree::{Entry, Node, Table, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A table of the output: its header and its keys.
struct Block {
    header: String,
    /// The header with `NAME` in place of user-defined names.
    pattern: String,
    /// Whether it must be written even if it has no keys.
    is_chosen: bool,
    lines: Vec<Line>,
}

struct Line {
    key: &'static str,
    text: String,
    /// `None` for a default.
    origin: Option<Origin>,
    needs: Needs,
}

/// The path of a section: as written, and with `NAME` in place of user-defined names.
struct Header<'a> {
    name: &'a str,
    pattern: &'a str,
}

fn blocks(shape: &SectionShape, table: &Table, header: &Header<'_>, is_chosen: bool, out: &mut Vec<Block>) {
    let mut lines = Vec::new();
    let mut inner = Vec::new();
    for key in &shape.keys {
        let entry = table.get(key.name).filter(|entry| !(key.is_optional && entry.node.value.is_none_word()));
        match &key.shape {
            Shape::Leaf(leaf) | Shape::List(leaf) => lines.extend(line(key, leaf, entry)),
            Shape::Section(section) => {
                if let Some(Entry { node: Node { value: Value::Table(table), .. }, .. }) = entry {
                    let (name, pattern) = (join(header.name, key.name), join(header.pattern, key.name));
                    let header = Header { name: &name, pattern: &pattern };
                    blocks(section, table, &header, key.is_optional, &mut inner);
                }
            }
            Shape::Named(section) => {
                let Some(Entry { node: Node { value: Value::Table(table), .. }, .. }) = entry else {
                    continue;
                };
                for (name, entry) in table {
                    if let Value::Table(table) = &entry.node.value {
                        let name = join(&join(header.name, key.name), name);
                        let pattern = join(&join(header.pattern, key.name), "NAME");
                        let header = Header { name: &name, pattern: &pattern };
                        blocks(section, table, &header, true, &mut inner);
                    }
                }
            }
        }
    }
    out.push(Block { header: header.name.to_owned(), pattern: header.pattern.to_owned(), is_chosen, lines });
    out.append(&mut inner);
}

fn line(key: &KeyShape, leaf: &Leaf, entry: Option<&Entry>) -> Option<Line> {
    let line = |text, origin| Line { key: key.name, text, origin, needs: key.needs };
    match entry {
        None => Some(line(key.default?.to_owned(), None)),
        Some(Entry { node, .. }) => match &node.value {
            Value::List(items) if matches!(key.shape, Shape::List(_)) => {
                let items: Vec<String> =
                    items.iter().filter_map(|item| (leaf.canonical)(&item.value)).collect();
                Some(line(format!("[{}]", items.join(", ")), Some(node.origin)))
            }
            value => Some(line((leaf.canonical)(value)?, Some(node.origin))),
        },
    }
}

/// All effective settings as TOML, optionally with the origin of each value.
#[must_use]
pub fn show(written: &impl AsRef<Written>, with_origins: bool) -> String {
    let Layers { tree, sources, .. } = written.as_ref().layers();
    let all = all_blocks(&tree);
    let mut out = format!(
        "# Everything is written here, so that no profile is needed.\nprofile = \"{EMPTY_PROFILE}\"\n"
    );
    for block in all.iter().filter(|block| block.is_chosen || !block.lines.is_empty()) {
        let _ = write!(out, "\n[{}]\n", block.header);
        for line in &block.lines {
            let _ = write!(out, "{} = {}", line.key, line.text);
            if with_origins {
                let _ = write!(out, " # {}", origin_of(&sources, line.origin));
            }
            out.push('\n');
        }
    }
    out
}

/// One effective key, and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKey {
    /// The dotted key.
    pub key: String,
    /// Its value as TOML. For a secret it is the reference.
    pub value: String,
    /// The origin; `default` if it was not written anywhere.
    pub origin: String,
    /// What a change of it needs to take effect.
    pub needs: Needs,
}

/// All effective keys.
#[must_use]
pub fn listed(written: &impl AsRef<Written>) -> Vec<ListedKey> {
    let Layers { tree, sources, .. } = written.as_ref().layers();
    let mut keys = Vec::new();
    for Block { header, pattern, lines, .. } in all_blocks(&tree) {
        keys.extend(lines.into_iter().map(|line| ListedKey {
            key: join(&header, line.key),
            value: line.text,
            origin: origin_of(&sources, line.origin),
            needs: if is_followed(&join(&pattern, line.key)) { line.needs } else { Needs::NotYet },
        }));
    }
    keys
}

/// The origin of a value, safe to display.
fn origin_of(sources: &Sources, origin: Option<Origin>) -> String {
    let place = origin.map_or_else(|| "default".to_owned(), |origin| sources.place(origin));
    crate::render::printable(&place)
}

/// A key with different values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The dotted key.
    pub key: String,
    /// The old value as TOML; `None` if it was absent.
    pub old: Option<String>,
    /// The new value as TOML; `None` if it is absent.
    pub new: Option<String>,
    /// What the change needs to take effect.
    pub needs: Needs,
}

fn all_blocks(tree: &Table) -> Vec<Block> {
    let mut all = Vec::new();
    blocks(shape(), tree, &Header { name: "", pattern: "" }, false, &mut all);
    all
}

fn flat(tree: &Table) -> BTreeMap<String, (String, Needs)> {
    let lines = all_blocks(tree).into_iter().flat_map(|block| {
        let Block { header, pattern, lines, .. } = block;
        let placed = move |line: Line| {
            let needs = if is_followed(&join(&pattern, line.key)) { line.needs } else { Needs::NotYet };
            (join(&header, line.key), Line { needs, ..line })
        };
        lines.into_iter().map(placed).collect::<Vec<_>>()
    });
    lines.map(|(path, line)| (path, (line.text, line.needs))).collect()
}

/// Every value by its dotted key.
pub(crate) fn values(written: &Written) -> BTreeMap<String, String> {
    flat(&written.layers().tree).into_iter().map(|(key, (value, _))| (key, value)).collect()
}

/// The differences between two settings, key by key.
#[must_use]
pub fn diff(old: &impl AsRef<Written>, new: &impl AsRef<Written>) -> Vec<Change> {
    differences(&old.as_ref().layers().tree, &new.as_ref().layers().tree)
}

/// Keys that differ from the profile and have no effect yet.
#[must_use]
pub fn unfollowed(written: &impl AsRef<Written>) -> Vec<Change> {
    written.as_ref().unfollowed.clone()
}

pub(crate) fn not_followed(profile: &Table, tree: &Table) -> Vec<Change> {
    let mut changes = differences(profile, tree);
    changes.retain(|change| change.needs == Needs::NotYet);
    changes
}

fn differences(old: &Table, new: &Table) -> Vec<Change> {
    let (old, mut new) = (flat(old), flat(new));
    let mut changes = Vec::new();
    for (key, (was, needs)) in old {
        match new.remove(&key) {
            Some((is, _)) if is == was => {}
            other => changes.push(Change { key, old: Some(was), new: other.map(|(is, _)| is), needs }),
        }
    }
    changes.extend(new.into_iter().map(|(key, (is, needs))| Change { key, old: None, new: Some(is), needs }));
    changes.sort_by(|left, right| left.key.cmp(&right.key));
    changes
}
