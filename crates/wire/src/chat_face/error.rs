//! Errors of chat requests.

use crate::{ApiErrorKind, RequestError};

/// Why a message cannot be sent to a model. The text of the error is written for the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChatError {
    /// The request cannot be parsed.
    #[error(transparent)]
    Unreadable(#[from] RequestError),
    /// The message has too many characters.
    #[error("message: {characters} characters exceed the limit of {limit}")]
    TooLong {
        /// The message's length.
        characters: usize,
        /// The maximum length.
        limit: usize,
    },
    /// The request is too large even without its history.
    #[error("message: about {needed} tokens, including the system prompt, exceed the limit of {limit}")]
    InputTooLarge {
        /// Tokens of the parts that cannot be dropped.
        needed: u64,
        /// The maximum number of input tokens.
        limit: u64,
    },
}

impl ChatError {
    /// The kind of API error to return.
    #[must_use]
    pub const fn api_error_kind(&self) -> ApiErrorKind {
        match self {
            Self::Unreadable(error) => error.api_error_kind(),
            Self::TooLong { .. } | Self::InputTooLarge { .. } => ApiErrorKind::TooLarge,
        }
    }
}
