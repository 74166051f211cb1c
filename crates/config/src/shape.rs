//! What settings look like: every section, every key, its kind and its words.
//!
//! One macro writes a section and its shape together, so that the reader, the printer, the schema, the reference page
//! and the tests cannot differ.

use crate::kind::Form;
use crate::problem::Code;
use crate::tree::Value;

/// What a changed key needs before it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: it is applied to a running gateway.
    Live,
    /// Another start.
    Restart,
    /// A gateway that acts on it: this one does not yet.
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

/// What is under a key.
#[derive(Clone, Debug)]
pub enum Shape {
    /// One value.
    Leaf(Leaf),
    /// Several values of one kind.
    List(Leaf),
    /// A table with known keys.
    Section(SectionShape),
    /// A table whose keys are names that somebody chooses; each holds a section.
    Named(SectionShape),
}

/// One value.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// What it looks like.
    pub form: Form,
    /// Writes a value in the canonical way; nothing if it is not of this kind.
    pub(crate) canonical: fn(&Value) -> Option<String>,
}

/// A table with known keys.
#[derive(Clone, Debug)]
pub struct SectionShape {
    /// What it is for.
    pub doc: String,
    /// Its keys, in order.
    pub keys: Vec<KeyShape>,
    /// What its keys are called, and the mistake of naming one that does not exist.
    pub(crate) noun: (&'static str, Code),
}

/// A key of a section.
#[derive(Clone, Debug)]
pub struct KeyShape {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub doc: String,
    /// What is under it.
    pub shape: Shape,
    /// Whether it may be left out, which means that there is none.
    pub is_optional: bool,
    /// What holds where it is left out, as TOML.
    pub default: Option<&'static str>,
    /// What a change needs.
    pub needs: Needs,
}

impl SectionShape {
    /// The key of this name.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&KeyShape> {
        self.keys.iter().find(|key| key.name == name)
    }
}

/// The lines of a documentation comment as one text.
pub(crate) fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").trim().to_owned()
}
