//! Why a request was not understood.

use crate::refusal::Refusal;

/// A request that cannot be read. Its text is meant for the caller and names the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The body is larger than allowed.
    #[error("the body has {size} bytes, and at most {limit} are taken")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The limit that was set.
        limit: usize,
    },
    /// The body is not UTF-8.
    #[error("the body is not UTF-8: byte {at} begins no character")]
    NotUtf8 {
        /// The place of the first byte that is wrong.
        at: usize,
    },
    /// The body is not JSON.
    #[error("the body is not JSON: {problem}")]
    NotJson {
        /// What is wrong, and where.
        problem: String,
    },
    /// Objects and lists nest deeper than allowed.
    #[error("the body nests deeper than {limit} levels")]
    TooDeep {
        /// The limit that was set.
        limit: usize,
    },
    /// The body is JSON but no object.
    #[error("the body must be a JSON object")]
    NotAnObject,
    /// The body has more fields than any request needs.
    #[error("the body has more than {limit} fields")]
    TooManyFields {
        /// The limit that was set.
        limit: usize,
    },
    /// A field is there twice, and whoever reads it next might take the other one.
    #[error("{field}: is given twice")]
    Duplicate {
        /// The way to the field.
        field: String,
    },
    /// A field that is needed is not there.
    #[error("{field}: is missing")]
    Missing {
        /// The way to the field.
        field: String,
    },
    /// A field does not hold what it must.
    #[error("{field}: {problem}")]
    Wrong {
        /// The way to the field.
        field: String,
        /// What it must be.
        problem: &'static str,
    },
    /// A list has more members than allowed.
    #[error("{field}: has more than {limit} members")]
    TooMany {
        /// The way to the list.
        field: String,
        /// The limit that was set.
        limit: usize,
    },
    /// The request is in order, but the dialect it would be passed on in has no words for it.
    #[error("{field}: {problem}, which the model asked cannot be told")]
    Untranslatable {
        /// The way to what has no words.
        field: String,
        /// What it is.
        problem: &'static str,
    },
}

impl RequestError {
    /// How to refuse such a request.
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

    /// The same error, told from one level further out.
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
