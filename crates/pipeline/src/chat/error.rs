//! Errors of chat requests.

use super::ChatText;
use seawall_wire::{Refusal, RequestError};

/// Why a message cannot be sent to a model. The text of the error is written for the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChatError {
    /// The request cannot be parsed.
    #[error(transparent)]
    Unreadable(#[from] RequestError),
    /// The message has too many characters.
    #[error("message: has {characters} characters, and at most {limit} are taken")]
    TooLong {
        /// The message's length.
        characters: usize,
        /// The maximum length.
        limit: usize,
    },
    /// The request is too large even without its history.
    #[error("message: has about {needed} tokens with what goes along, and at most {limit} are taken")]
    InputTooLarge {
        /// Tokens of the parts that cannot be dropped.
        needed: u64,
        /// The maximum number of input tokens.
        limit: u64,
    },
}

impl ChatError {
    /// The kind of refusal.
    #[must_use]
    pub const fn refusal(&self) -> Refusal {
        match self {
            Self::Unreadable(error) => error.refusal(),
            Self::TooLong { .. } | Self::InputTooLarge { .. } => Refusal::TooLarge,
        }
    }

    /// The prepared text for the caller.
    #[must_use]
    pub const fn text(&self) -> ChatText {
        ChatText::of_refusal(self.refusal())
    }
}
