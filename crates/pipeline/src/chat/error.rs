//! Why a question cannot be put to a model.

use super::ChatText;
use seawall_wire::{Refusal, RequestError};

/// A question that cannot be put to a model. Its text is meant for the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChatError {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] RequestError),
    /// The message has too many characters.
    #[error("message: has {characters} characters, and at most {limit} are taken")]
    TooLong {
        /// How many it has.
        characters: usize,
        /// How many it may have.
        limit: usize,
    },
    /// With all history left out it is still too large.
    #[error("message: has about {needed} tokens with what goes along, and at most {limit} are taken")]
    InputTooLarge {
        /// Tokens of what cannot be left out.
        needed: u64,
        /// Tokens there is room for.
        limit: u64,
    },
}

impl ChatError {
    /// How to refuse such a question.
    #[must_use]
    pub const fn refusal(&self) -> Refusal {
        match self {
            Self::Unreadable(error) => error.refusal(),
            Self::TooLong { .. } | Self::InputTooLarge { .. } => Refusal::TooLarge,
        }
    }

    /// What to say of it.
    #[must_use]
    pub const fn text(&self) -> ChatText {
        ChatText::of_refusal(self.refusal())
    }
}
