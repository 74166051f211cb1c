//! Why an answer or a stream was not understood.

use crate::sse::SseError;

/// An answer that cannot be accounted for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It is not JSON, or a field is not what it must be.
    #[error("the answer cannot be read: {problem}")]
    Unreadable {
        /// What is wrong, and where.
        problem: String,
    },
    /// It is something else than a message.
    #[error("the answer is no message but {kind:?}")]
    NotAMessage {
        /// What it calls itself.
        kind: String,
    },
}

impl AnswerError {
    pub(crate) fn unreadable(problem: &str) -> Self {
        Self::Unreadable { problem: problem.to_owned() }
    }
}

/// A stream that cannot be accounted for any further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// It is no stream of events within the limits.
    #[error(transparent)]
    Sse(#[from] SseError),
    /// An event that matters is not what it must be.
    #[error("{event} cannot be read: {problem}")]
    Unreadable {
        /// The event's name.
        event: &'static str,
        /// What is wrong, and where.
        problem: String,
    },
}
