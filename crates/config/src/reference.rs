//! The settings reference: a page in Markdown.

use crate::load::{SettingsInput, load};
use crate::profile::DEFAULT_PROFILE;
use crate::raw::shape;
use crate::shape::{Activation, KeyShape, SectionShape, ValueShape};
use crate::show;
use crate::unimplemented::is_implemented;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const INTRODUCTION: &str = "\
# Settings

Seawall is configured by one TOML file. The file starts from a profile and lists only what differs from it. The default profile
is `gateway`; `profile = \"demo\"` at the top of the file selects another one, and `profile = \"none\"` starts without
defaults.

Each key can also be set by an environment variable, with two underscores between the parts of its path:
`SEAWALL__BUDGET__DAY='$100/day'`. Environment variables override the file, and `--set` arguments override both. The value
`\"none\"` removes an optional key or a named entry of the profile: `targets.haiku = \"none\"`.

Changes are applied to a running gateway within two seconds after the file has changed, or immediately on SIGHUP. Files of
secrets and certificates are read again at each reload. A change of such a file alone triggers no reload: send SIGHUP after it.
A changed environment variable needs a restart. Keys marked *restart* take effect after a restart. Keys marked *not implemented*
are validated but have no effect in this version: the gateway logs a warning if one is set, and refuses to start if running
without it would be unsafe.
";

/// Values in the examples of keys that the default profile does not set and for which the example of their kind would be
/// misleading: one secret must not serve several purposes.
const EXAMPLES: &[(&str, &str)] = &[
    ("server.tls.certificate", "\"/etc/seawall/tls.crt\""),
    ("server.tls.key", "\"file:/etc/seawall/tls.key\""),
    ("admin.credential", "\"env:SEAWALL_ADMIN_CREDENTIAL\""),
    ("callers.master_secret", "\"env:SEAWALL_MASTER_SECRET\""),
    ("callers.guest_secret", "\"env:SEAWALL_GUEST_SECRET\""),
    ("assistant.catalogue", "\"/etc/seawall/catalogue.json\""),
    ("store.redis.url", "\"rediss://cache:6379\""),
    ("store.redis.ca_file", "\"/etc/seawall/redis-ca.pem\""),
    ("store.redis.password", "\"env:REDIS_PASSWORD\""),
];

/// The page: a table per section with its keys, their kinds, the values in the default profile, and their meaning.
#[must_use]
pub fn reference() -> String {
    let mut out = INTRODUCTION.to_owned();
    let defaults =
        load(&SettingsInput::default()).map(|loaded| show::values(&loaded.input)).unwrap_or_default();
    let shape = shape();
    for key in &shape.keys {
        section(&mut out, key, key.name, &defaults);
    }
    out
}

fn section(out: &mut String, key: &KeyShape, path: &str, defaults: &BTreeMap<String, String>) {
    let (shape, header) = match &key.shape {
        ValueShape::Section(shape) => (shape, path.to_owned()),
        ValueShape::Named(shape) => (shape, format!("{path}.NAME")),
        ValueShape::Scalar(_) | ValueShape::List(_) => return,
    };
    let _ = write!(out, "\n## `[{header}]`\n\n{}\n", shape.doc);
    let scalars: Vec<&KeyShape> = shape
        .keys
        .iter()
        .filter(|key| matches!(key.shape, ValueShape::Scalar(_) | ValueShape::List(_)))
        .collect();
    if !scalars.is_empty() {
        let _ = write!(
            out,
            "\n| key | type | value in `{DEFAULT_PROFILE}` | description |\n| --- | --- | --- | --- |\n"
        );
        for scalar in &scalars {
            row(out, scalar, &header, defaults);
        }
        example(out, &header, shape, defaults);
    }
    for inner in &shape.keys {
        section(out, inner, &format!("{header}.{}", inner.name), defaults);
    }
}

fn row(out: &mut String, key: &KeyShape, header: &str, defaults: &BTreeMap<String, String>) {
    let kind = match &key.shape {
        ValueShape::Scalar(scalar) if scalar.format.choices.is_empty() => {
            without_article(scalar.format.name).to_owned()
        }
        ValueShape::Scalar(scalar) => choices(&scalar.format.choices),
        ValueShape::List(scalar) if scalar.format.choices.is_empty() => {
            format!("list of {}", without_article(scalar.format.name))
        }
        ValueShape::List(scalar) => format!("list of {}", choices(&scalar.format.choices)),
        ValueShape::Section(_) | ValueShape::Named(_) => return,
    };
    let value = match (defaults.get(&format!("{header}.{}", key.name)), key.default) {
        (Some(value), _) => code(value),
        (None, Some(default)) => format!("{} by default", code(default)),
        (None, None) if key.is_optional => "not set".to_owned(),
        (None, None) => "required".to_owned(),
    };
    let mark = match key.activation {
        _ if !is_implemented(&format!("{header}.{}", key.name)) => " *not implemented*",
        Activation::Restart => " *restart*",
        Activation::Live | Activation::NotImplemented => "",
    };
    let _ = writeln!(out, "| `{}` | {} | {value} | {}{mark} |", key.name, cell(&kind), cell(&key.doc));
}

fn without_article(name: &str) -> &str {
    name.strip_prefix("a ").or_else(|| name.strip_prefix("an ")).unwrap_or(name)
}

fn choices(choices: &[&str]) -> String {
    choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(", ")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn code(text: &str) -> String {
    format!("`{}`", cell(text))
}

/// The first keys of a section as an example.
fn example(out: &mut String, header: &str, shape: &SectionShape, defaults: &BTreeMap<String, String>) {
    let name = header.replace("NAME", "example");
    let _ = write!(out, "\n```toml\n[{name}]\n");
    let scalars = shape.keys.iter().filter_map(|key| match &key.shape {
        ValueShape::Scalar(scalar) => Some((key, scalar, false)),
        ValueShape::List(scalar) => Some((key, scalar, true)),
        ValueShape::Section(_) | ValueShape::Named(_) => None,
    });
    let is_named = header.contains("NAME");
    for (key, scalar, is_list) in
        scalars.filter(|(key, ..)| !is_named || !key.is_optional && key.default.is_none()).take(4)
    {
        let path = format!("{header}.{}", key.name);
        let own = EXAMPLES.iter().find(|(key, _)| *key == path).map(|(_, example)| (*example).to_owned());
        let first = own.or_else(|| scalar.format.examples.first().cloned()).unwrap_or_default();
        let shown = if is_list { format!("[{first}]") } else { first };
        let value = defaults.get(&path).cloned().unwrap_or(shown);
        let _ = writeln!(out, "{} = {value}", key.name);
    }
    out.push_str("```\n");
}
