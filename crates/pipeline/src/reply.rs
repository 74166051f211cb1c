//! What goes back to the caller.

use crate::relay::ReplyStream;
use bytes::Bytes;
use seawall_core::failure::Failure;
use seawall_core::quota::ComeBack;
use std::time::Duration;

/// A refusal, before any model was asked or after all of them failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The request is malformed; the words say where.
    Malformed(String),
    /// No key, or one we do not know.
    UnknownKey,
    /// No route has this name.
    UnknownModel(String),
    /// A limit has no room.
    Limited {
        /// Which.
        limit: String,
        /// When to come back.
        come_back: ComeBack,
    },
    /// The day's money is spent.
    BudgetSpent,
    /// Every target's breaker is open or every place is taken.
    Unavailable {
        /// When a target may be tried again, where that is known.
        retry_after: Option<Duration>,
    },
    /// Targets were tried, and this is how the last one failed.
    Exhausted {
        /// How.
        failure: Failure,
        /// Attempts made.
        attempts: u32,
    },
}

impl Rejection {
    /// The word for logs and metrics.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::UnknownKey => "unknown_key",
            Self::UnknownModel(_) => "unknown_model",
            Self::Limited { .. } => "limited",
            Self::BudgetSpent => "budget_spent",
            Self::Unavailable { .. } => "unavailable",
            Self::Exhausted { .. } => "exhausted",
        }
    }
}

/// What a face writes out.
pub enum Reply<R: crate::Runtime> {
    /// An answer in one piece, as the vendor wrote it.
    Whole(Bytes),
    /// An answer in pieces.
    Stream(Box<ReplyStream<R>>),
    /// No answer.
    Rejected(Rejection),
}
