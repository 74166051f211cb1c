//! Property-test strategies that generate overlays from the shape of settings.

use proptest::collection::btree_map;
use proptest::prelude::Strategy;
use proptest::sample::select;
use seawall_config::{SectionShape, ValueShape, shape};
use std::collections::BTreeMap;

/// A key, by its steps, and possible values.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) steps: Vec<String>,
    pub(crate) values: Vec<String>,
}

/// Existing names, so that overlays change entries as well as add some.
fn names(collection: &str) -> &'static [&'static str] {
    match collection {
        "models" => &["anthropic.claude-3-haiku-20240307-v1:0", "新しい"],
        "targets" => &["sonnet", "haiku"],
        "routes" => &["manga"],
        "breakers" => &["sonnet", "redis"],
        "surcharges" => &["fast", "priority"],
        "keys" | "teams" | "issuers" | "events" => &["one", "one two"],
        other => panic!("{other} has no names"),
    }
}

fn walk(shape: &SectionShape, steps: &[String], out: &mut Vec<Choice>) {
    for key in &shape.keys {
        let mut steps = steps.to_vec();
        steps.push(key.name.to_owned());
        let mut values: Vec<String> = match &key.shape {
            ValueShape::Scalar(scalar) => scalar.format.examples.clone(),
            ValueShape::List(scalar) => {
                let examples = &scalar.format.examples;
                vec![format!("[{}]", examples.join(", ")), format!("[{}]", examples[0]), "[]".to_owned()]
            }
            ValueShape::Section(section) => {
                walk(section, &steps, out);
                Vec::new()
            }
            ValueShape::Named(section) => {
                for name in names(key.name) {
                    let mut steps = steps.clone();
                    steps.push((*name).to_owned());
                    out.push(Choice { steps: steps.clone(), values: vec!["\"none\"".to_owned()] });
                    walk(section, &steps, out);
                }
                Vec::new()
            }
        };
        if key.is_optional && !matches!(key.shape, ValueShape::Named(_)) {
            values.push("\"none\"".to_owned());
        }
        if !values.is_empty() {
            out.push(Choice { steps, values });
        }
    }
}

/// All keys with their possible values.
pub(crate) fn choices() -> Vec<Choice> {
    let mut out = Vec::new();
    walk(shape(), &[], &mut out);
    out
}

/// The key in TOML notation.
pub(crate) fn dotted(steps: &[String]) -> String {
    let quote = |step: &String| {
        if step.is_ascii() && !step.contains([' ', '.', ':']) { step.clone() } else { format!("{step:?}") }
    };
    steps.iter().map(quote).collect::<Vec<_>>().join(".")
}

/// The key as an environment variable.
pub(crate) fn variable(steps: &[String]) -> String {
    let plain = |step: &String| {
        let one = |character: char| {
            if character.is_ascii_alphanumeric() { character.to_ascii_uppercase() } else { '_' }
        };
        step.chars().map(one).collect::<String>()
    };
    format!("SEAWALL__{}", steps.iter().map(plain).collect::<Vec<_>>().join("__"))
}

/// A few keys with a value each.
pub(crate) fn overlay() -> impl Strategy<Value = String> {
    let one = select(choices()).prop_flat_map(|choice| {
        let steps = choice.steps.clone();
        select(choice.values).prop_map(move |value| (steps.clone(), value))
    });
    proptest::collection::vec(one, 0..8).prop_map(|pairs| {
        let mut assignments: BTreeMap<Vec<String>, String> = BTreeMap::new();
        for (steps, value) in pairs {
            // An entry cannot be removed and changed at once.
            let clashes = |other: &Vec<String>| other.starts_with(&steps) || steps.starts_with(other);
            if !assignments.keys().any(clashes) {
                assignments.insert(steps, value);
            }
        }
        assignments.iter().map(|(steps, value)| format!("{} = {value}\n", dotted(steps))).collect()
    })
}

/// A document that looks like settings and is mostly invalid.
pub(crate) fn nonsense() -> impl Strategy<Value = String> {
    let key = select(choices()).prop_map(|choice| dotted(&choice.steps));
    let value = select(vec![
        "1",
        "-1",
        "1.5",
        "nan",
        "true",
        "\"\"",
        "\"none\"",
        "\"30s\"",
        "\"80%\"",
        "[]",
        "[1, \"x\"]",
        "{}",
        "{ a = 1 }",
        "2026-11-16",
        "23:00",
        "\"env:X\"",
        "\"漫画\"",
        "'''\n'''",
        "\"99999999999999999999s\"",
        "0x7fffffffffffffff",
    ]);
    btree_map(key, value, 0..8)
        .prop_map(|pairs| pairs.iter().map(|(key, value)| format!("{key} = {value}\n")).collect())
}
