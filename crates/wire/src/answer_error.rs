//! Errors of the readers of upstream answers and streams.

use crate::sse::SseError;

/// An answer from which neither content nor usage can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The body is not JSON, or a field has the wrong type.
    #[error("invalid response body: {problem}")]
    Unreadable {
        /// The parse error, with its position.
        problem: String,
    },
    /// The body is valid JSON but not a message, for example an error object.
    #[error("the response body is not a message: its type is {kind:?}")]
    NotAMessage {
        /// The value of the body's type field.
        kind: String,
    },
}

impl AnswerError {
    pub(crate) fn unreadable(problem: &str) -> Self {
        Self::Unreadable { problem: problem.to_owned() }
    }
}

/// A stream that cannot be parsed any further; the reader fails with the same error from then on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The byte stream is not a valid event stream, or exceeds the limits on line and event size.
    #[error(transparent)]
    Sse(#[from] SseError),
    /// The payload of an event that carries content, usage or the ending does not have the expected shape.
    #[error("invalid {event} event: {problem}")]
    Unreadable {
        /// The event type.
        event: &'static str,
        /// The parse error, with its position.
        problem: String,
    },
}
