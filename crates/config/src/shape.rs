//! The shape of settings: every section, every key, its kind and its words.
//!
//! One macro defines a section together with its shape, so that the parser, the printer, the schema, the reference page
//! and the tests cannot diverge.

use crate::kind::Form;
use crate::problem::Code;
use crate::tree::Value;

/// What a change of a key needs to take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: it is applied to a running gateway.
    Live,
    /// A restart.
    Restart,
    /// A later version: this one does not act on the key yet.
    NotYet,
}

impl Needs {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Restart => "restart",
            Self::NotYet => "not yet",
        }
    }
}

/// The shape of the value under a key.
#[derive(Clone, Debug)]
pub enum Shape {
    /// One value.
    Leaf(Leaf),
    /// A list of values of one kind.
    List(Leaf),
    /// A table with known keys.
    Section(SectionShape),
    /// A table with user-defined keys; each holds a section.
    Named(SectionShape),
}

/// The shape of one value.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Its form.
    pub form: Form,
    /// Formats a value canonically; `None` if it is not of this kind.
    pub(crate) canonical: fn(&Value) -> Option<String>,
}

/// The shape of a table with known keys.
#[derive(Clone, Debug)]
pub struct SectionShape {
    /// Its description.
    pub doc: String,
    /// Its keys, in order.
    pub keys: Vec<KeyShape>,
    /// The noun for its keys, and the problem code for an unknown one.
    pub(crate) noun: (&'static str, Code),
}

/// The shape of one key of a section.
#[derive(Clone, Debug)]
pub struct KeyShape {
    /// The name of the key.
    pub name: &'static str,
    /// Its description.
    pub doc: String,
    /// The shape of its value.
    pub shape: Shape,
    /// Whether it may be absent, which means that there is none.
    pub is_optional: bool,
    /// The default as TOML.
    pub default: Option<&'static str>,
    /// What a change needs to take effect.
    pub needs: Needs,
}

impl SectionShape {
    /// The key of this name.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&KeyShape> {
        self.keys.iter().find(|key| key.name == name)
    }
}

/// The lines of a doc comment as one text.
pub(crate) fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").trim().to_owned()
}
