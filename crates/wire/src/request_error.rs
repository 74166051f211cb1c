//! Errors of the request readers.

use crate::refusal::Refusal;

/// A request that cannot be read. The message is meant for the caller and names the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The body exceeds the size limit.
    #[error("the body has {size} bytes, and at most {limit} are taken")]
    TooLarge {
        /// The size of the body in bytes.
        size: usize,
        /// The configured limit.
        limit: usize,
    },
    /// The body is not UTF-8.
    #[error("the body is not UTF-8: byte {at} begins no character")]
    NotUtf8 {
        /// The offset of the first invalid byte.
        at: usize,
    },
    /// The body is not JSON.
    #[error("the body is not JSON: {problem}")]
    NotJson {
        /// The parse error, with its position.
        problem: String,
    },
    /// The nesting depth exceeds the limit.
    #[error("the body nests deeper than {limit} levels")]
    TooDeep {
        /// The configured limit.
        limit: usize,
    },
    /// The body is JSON but not an object.
    #[error("the body must be a JSON object")]
    NotAnObject,
    /// The body exceeds the limit on top-level fields.
    #[error("the body has more than {limit} fields")]
    TooManyFields {
        /// The configured limit.
        limit: usize,
    },
    /// A field occurs twice. It is refused because the upstream's parser might use the other occurrence.
    #[error("{field}: is given twice")]
    Duplicate {
        /// The path of the field.
        field: String,
    },
    /// A required field is missing.
    #[error("{field}: is missing")]
    Missing {
        /// The path of the field.
        field: String,
    },
    /// A field has the wrong type or value.
    #[error("{field}: {problem}")]
    Wrong {
        /// The path of the field.
        field: String,
        /// What the field must be.
        problem: &'static str,
    },
    /// A list exceeds the limit on items.
    #[error("{field}: has more than {limit} members")]
    TooMany {
        /// The path of the list.
        field: String,
        /// The configured limit.
        limit: usize,
    },
    /// The request is valid, but the target's dialect cannot express it.
    #[error("{field}: {problem}, which the model asked cannot be told")]
    Untranslatable {
        /// The path of the part that cannot be expressed.
        field: String,
        /// What the target's dialect lacks.
        problem: &'static str,
    },
}

impl RequestError {
    /// The refusal to return for this error.
    #[must_use]
    pub const fn refusal(&self) -> Refusal {
        match self {
            Self::TooLarge { .. } | Self::TooMany { .. } => Refusal::TooLarge,
            Self::NotUtf8 { .. }
            | Self::NotJson { .. }
            | Self::TooDeep { .. }
            | Self::NotAnObject
            | Self::TooManyFields { .. }
            | Self::Duplicate { .. }
            | Self::Missing { .. }
            | Self::Wrong { .. }
            | Self::Untranslatable { .. } => Refusal::Malformed,
        }
    }

    pub(crate) fn missing(field: impl Into<String>) -> Self {
        Self::Missing { field: field.into() }
    }

    pub(crate) fn wrong(field: impl Into<String>, problem: &'static str) -> Self {
        Self::Wrong { field: field.into(), problem }
    }

    pub(crate) fn untranslatable(field: impl Into<String>, problem: &'static str) -> Self {
        Self::Untranslatable { field: field.into(), problem }
    }

    /// Prepends an outer path segment to the field name.
    pub(crate) fn within(mut self, outer: &str) -> Self {
        if let Self::Duplicate { field }
        | Self::Missing { field }
        | Self::Wrong { field, .. }
        | Self::TooMany { field, .. }
        | Self::Untranslatable { field, .. } = &mut self
        {
            let dot = if field.is_empty() { "" } else { "." };
            *field = format!("{outer}{dot}{field}");
        }
        self
    }

    pub(crate) fn not_json(problem: impl Into<String>) -> Self {
        Self::NotJson { problem: problem.into() }
    }
}
