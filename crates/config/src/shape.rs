//! The shape of settings: every section, every key, its kind and its description.
//!
//! One macro defines a section together with its shape, so that the parser, the printer, the schema, the reference page
//! and the tests cannot diverge.

use crate::kind::ValueFormat;
use crate::problem::ProblemCode;
use crate::tree::TomlValue;

/// What a change of a key needs to take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Nothing: it is applied to a running gateway.
    Live,
    /// A restart.
    Restart,
    /// It cannot take effect: this version does not implement the key.
    NotImplemented,
}

impl Activation {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Restart => "restart",
            Self::NotImplemented => "not implemented",
        }
    }
}

/// The shape of the value under a key.
#[derive(Clone, Debug)]
pub enum ValueShape {
    /// One value.
    Scalar(ScalarShape),
    /// A list of values of one kind.
    List(ScalarShape),
    /// A table with known keys.
    Section(SectionShape),
    /// A table with user-defined keys; each holds a section.
    Named(SectionShape),
}

/// The shape of one value.
#[derive(Clone, Debug)]
pub struct ScalarShape {
    /// Its format.
    pub format: ValueFormat,
    /// Formats a value canonically; `None` if it is not of this kind.
    pub(crate) canonical: fn(&TomlValue) -> Option<String>,
}

/// The shape of a table with known keys.
#[derive(Clone, Debug)]
pub struct SectionShape {
    /// Its description.
    pub doc: String,
    /// Its keys, in order.
    pub keys: Vec<KeyShape>,
    /// The noun for its keys, and the problem code for an unknown one.
    pub(crate) noun: (&'static str, ProblemCode),
}

/// The shape of one key of a section.
#[derive(Clone, Debug)]
pub struct KeyShape {
    /// The name of the key.
    pub name: &'static str,
    /// Its description.
    pub doc: String,
    /// The shape of its value.
    pub shape: ValueShape,
    /// Whether it may be absent, which means that there is none.
    pub is_optional: bool,
    /// The default as TOML.
    pub default: Option<&'static str>,
    /// What a change needs to take effect.
    pub activation: Activation,
}

impl SectionShape {
    /// The key of this name.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&KeyShape> {
        self.keys.iter().find(|key| key.name == name)
    }
}

/// The lines of a doc comment as one text.
pub(crate) fn join_lines(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").trim().to_owned()
}
