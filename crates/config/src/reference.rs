//! The settings reference: a page in Markdown.

use crate::load::{Input, load};
use crate::not_yet::is_followed;
use crate::profile::DEFAULT_PROFILE;
use crate::raw::shape;
use crate::shape::{KeyShape, Needs, SectionShape, Shape};
use crate::show;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const INTRODUCTION: &str = "\
# Settings

One TOML file says what Seawall does. It starts from a profile and writes only what differs; without a file the
profile `mangaassist` holds. `profile = \"demo\"` at the top takes another one, `profile = \"none\"` starts from nothing.

Each key can also be set by an environment variable, with two underscores between the steps:
`SEAWALL__BUDGET__DAY='$100/day'`. Variables overrule the file, and arguments overrule variables. An optional key and an
entry of a collection can be taken away with the word `\"none\"`: `targets.haiku = \"none\"`.

Keys marked *restart* hold from the next start. Keys marked *not yet* are checked, and this version does not act on
them: it says so at the start if one is set, and does not start at all where going on without it would be dangerous. All
others are applied to a running gateway: within two seconds of a change of the file, or at once on a hangup signal (SIGHUP).
A secret in a file or a variable is read again whenever settings are.
";

/// The page: a table per section with its keys, their kinds, the values in the default profile, and their meaning.
#[must_use]
pub fn reference() -> String {
    let mut out = INTRODUCTION.to_owned();
    let usual = load(&Input::default()).map(|loaded| show::values(&loaded.written)).unwrap_or_default();
    let shape = shape();
    for key in &shape.keys {
        section(&mut out, key, key.name, &usual);
    }
    out
}

fn section(out: &mut String, key: &KeyShape, path: &str, usual: &BTreeMap<String, String>) {
    let (shape, header) = match &key.shape {
        Shape::Section(shape) => (shape, path.to_owned()),
        Shape::Named(shape) => (shape, format!("{path}.NAME")),
        Shape::Leaf(_) | Shape::List(_) => return,
    };
    let _ = write!(out, "\n## `[{header}]`\n\n{}\n", shape.doc);
    let leaves: Vec<&KeyShape> =
        shape.keys.iter().filter(|key| matches!(key.shape, Shape::Leaf(_) | Shape::List(_))).collect();
    if !leaves.is_empty() {
        let _ = write!(
            out,
            "\n| key | kind | in `{DEFAULT_PROFILE}` | what it means |\n| --- | --- | --- | --- |\n"
        );
        for leaf in &leaves {
            row(out, leaf, &header, usual);
        }
        example(out, &header, shape, usual);
    }
    for inner in &shape.keys {
        section(out, inner, &format!("{header}.{}", inner.name), usual);
    }
}

fn row(out: &mut String, key: &KeyShape, header: &str, usual: &BTreeMap<String, String>) {
    let kind = match &key.shape {
        Shape::Leaf(leaf) if leaf.form.words.is_empty() => leaf.form.name.to_owned(),
        Shape::Leaf(leaf) => words(&leaf.form.words),
        Shape::List(leaf) if leaf.form.words.is_empty() => format!("list: {}", leaf.form.name),
        Shape::List(leaf) => format!("list: {}", words(&leaf.form.words)),
        Shape::Section(_) | Shape::Named(_) => return,
    };
    let value = match (usual.get(&format!("{header}.{}", key.name)), key.default) {
        (Some(value), _) => code(value),
        (None, Some(default)) => format!("{} where left out", code(default)),
        (None, None) if key.is_optional => "none".to_owned(),
        (None, None) => "must be written".to_owned(),
    };
    let mark = match key.needs {
        _ if !is_followed(&format!("{header}.{}", key.name)) => " *not yet*",
        Needs::Restart => " *restart*",
        Needs::Live | Needs::NotYet => "",
    };
    let _ = writeln!(out, "| `{}` | {} | {value} | {}{mark} |", key.name, cell(&kind), cell(&key.doc));
}

fn words(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn code(text: &str) -> String {
    format!("`{}`", cell(text))
}

/// The first keys of a section as an example.
fn example(out: &mut String, header: &str, shape: &SectionShape, usual: &BTreeMap<String, String>) {
    let name = header.replace("NAME", "example");
    let _ = write!(out, "\n```toml\n[{name}]\n");
    let leaves = shape.keys.iter().filter_map(|key| match &key.shape {
        Shape::Leaf(leaf) => Some((key, leaf, false)),
        Shape::List(leaf) => Some((key, leaf, true)),
        Shape::Section(_) | Shape::Named(_) => None,
    });
    let is_named = header.contains("NAME");
    for (key, leaf, is_list) in
        leaves.filter(|(key, ..)| !is_named || !key.is_optional && key.default.is_none()).take(4)
    {
        let first = leaf.form.examples.first().cloned().unwrap_or_default();
        let shown = if is_list { format!("[{first}]") } else { first };
        let value = usual.get(&format!("{header}.{}", key.name)).cloned().unwrap_or(shown);
        let _ = writeln!(out, "{} = {value}", key.name);
    }
    out.push_str("```\n");
}
