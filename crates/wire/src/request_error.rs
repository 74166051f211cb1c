//! Errors of the request readers.

use crate::api_error_kind::ApiErrorKind;
use crate::chat::{ChatFeature, FeatureColumn};

/// A request that cannot be read. The message is meant for the caller and names the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The body exceeds the size limit.
    #[error("Request exceeds the maximum size: the body has {size} bytes, the limit is {limit} bytes")]
    TooLarge {
        /// The size of the body in bytes.
        size: usize,
        /// The configured limit.
        limit: usize,
    },
    /// The body is not UTF-8.
    #[error("The request body is not valid UTF-8: invalid byte at offset {at}")]
    NotUtf8 {
        /// The offset of the first invalid byte.
        at: usize,
    },
    /// The body is not JSON.
    #[error("The request body is not valid JSON: {problem}")]
    NotJson {
        /// The parse error, with its position.
        problem: String,
    },
    /// The nesting depth exceeds the limit.
    #[error("The request body is nested too deeply: the limit is {limit} levels")]
    TooDeep {
        /// The configured limit.
        limit: usize,
    },
    /// The body is JSON but not an object.
    #[error("The request body must be a JSON object")]
    NotAnObject,
    /// The body exceeds the limit on top-level fields.
    #[error("The request body has too many fields: the limit is {limit}")]
    TooManyFields {
        /// The configured limit.
        limit: usize,
    },
    /// A field occurs twice. It is rejected because the upstream's parser might use the other occurrence.
    #[error("{field}: Duplicate field")]
    Duplicate {
        /// The path of the field.
        field: String,
    },
    /// A required field is missing.
    #[error("{field}: Field required")]
    Missing {
        /// The path of the field.
        field: String,
    },
    /// A field has the wrong type or value.
    #[error("{field}: {problem}")]
    Invalid {
        /// The path of the field.
        field: String,
        /// What the field must be.
        problem: &'static str,
    },
    /// A list exceeds the limit on items.
    #[error("{field}: List should have at most {limit} items")]
    TooMany {
        /// The path of the list.
        field: String,
        /// The configured limit.
        limit: usize,
    },
    /// The request is valid, but the target's dialect cannot express it.
    #[error("{field}: Not supported by the target model: {problem}")]
    Untranslatable {
        /// The path of the part that cannot be expressed.
        field: String,
        /// What the target's dialect lacks.
        problem: &'static str,
        /// The feature in the feature table, if it has a row there.
        feature: Option<ChatFeature>,
    },
    /// The same, with the name of the target.
    #[error("{field}: Not supported by the target model {target}: {problem}")]
    UnsupportedByTarget {
        /// The path of the part that cannot be expressed.
        field: String,
        /// The name of the target.
        target: Box<str>,
        /// What the target lacks.
        problem: &'static str,
    },
}

impl RequestError {
    /// The kind of API error to return for it.
    #[must_use]
    pub const fn api_error_kind(&self) -> ApiErrorKind {
        match self {
            Self::TooLarge { .. } | Self::TooMany { .. } => ApiErrorKind::TooLarge,
            Self::NotUtf8 { .. }
            | Self::NotJson { .. }
            | Self::TooDeep { .. }
            | Self::NotAnObject
            | Self::TooManyFields { .. }
            | Self::Duplicate { .. }
            | Self::Missing { .. }
            | Self::Invalid { .. }
            | Self::Untranslatable { .. }
            | Self::UnsupportedByTarget { .. } => ApiErrorKind::Malformed,
        }
    }

    pub(crate) fn missing(field: impl Into<String>) -> Self {
        Self::Missing { field: field.into() }
    }

    pub(crate) fn invalid(field: impl Into<String>, problem: &'static str) -> Self {
        Self::Invalid { field: field.into(), problem }
    }

    pub(crate) fn untranslatable(field: impl Into<String>, problem: &'static str) -> Self {
        Self::Untranslatable { field: field.into(), problem, feature: None }
    }

    /// The feature that a target lacks, if that is the error.
    #[must_use]
    pub const fn feature(&self) -> Option<ChatFeature> {
        match self {
            Self::Untranslatable { feature, .. } => *feature,
            _ => None,
        }
    }

    /// Names the field of a feature as the caller's dialect does.
    #[must_use]
    pub fn in_dialect(mut self, caller: FeatureColumn) -> Self {
        if let Self::Untranslatable { field, feature: Some(feature), .. } = &mut self
            && let Some(name) = feature.field_in(caller)
        {
            name.clone_into(field);
        }
        self
    }

    /// Names the target that does not support the request.
    #[must_use]
    pub fn at_target(self, name: &str) -> Self {
        match self {
            Self::Untranslatable { field, problem, .. } => {
                Self::UnsupportedByTarget { field, target: name.into(), problem }
            }
            error => error,
        }
    }

    /// Prepends an outer path segment to the field name.
    pub(crate) fn within(mut self, outer: &str) -> Self {
        if let Self::Duplicate { field }
        | Self::Missing { field }
        | Self::Invalid { field, .. }
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
