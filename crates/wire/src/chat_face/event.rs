//! Server-sent events of a streamed answer: any number of `text` events, then one `done` or `interrupted`.

use super::ChatReply;
use super::json::JsonObject;
use crate::sse::write_event;
use bytes::BytesMut;
use seawall_core::failure::FailureKind;
use std::time::Duration;

/// One event of a streamed reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatReplyEvent {
    /// More of the answer.
    Text(String),
    /// The answer is complete. The text of the reply is not repeated.
    Done(Box<ChatReply>),
    /// The answer is incomplete, and nothing follows.
    Interrupted(ChatInterruption),
}

/// Why a reply ends early, and how much of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChatInterruption {
    /// The reason.
    pub reason: InterruptReason,
    /// The message for the end user, in the user's language.
    pub message: &'static str,
    /// The number of characters of text sent before.
    pub delivered: u64,
    /// When to retry, if known.
    pub retry_after: Option<Duration>,
}

impl ChatReplyEvent {
    /// Appends the event as a server-sent event.
    pub fn write_sse(&self, out: &mut BytesMut) {
        match self {
            Self::Text(text) => {
                write_event(out, "text", JsonObject::new().text("text", text).finish().as_bytes());
            }
            Self::Done(reply) => reply.write_done(out),
            Self::Interrupted(ChatInterruption { reason, message, delivered, retry_after }) => {
                let object = JsonObject::new()
                    .text("reason", reason.name())
                    .text("message", message)
                    .number("delivered", *delivered)
                    .optional(*retry_after, |object, wait| object.number("retry_after", seconds(wait)));
                write_event(out, "interrupted", object.finish().as_bytes());
            }
        }
    }
}

/// Why an answer is incomplete, as reported to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptReason {
    /// A guardrail blocked the rest.
    Blocked,
    /// The answer took too long.
    TimedOut,
    /// The service is overloaded.
    Overloaded,
    /// The stream was interrupted.
    StreamInterrupted,
}

impl InterruptReason {
    /// Maps a failure kind to a reason. The origin of the failure is not disclosed to the caller.
    #[must_use]
    pub const fn of_failure(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Filtered => Self::Blocked,
            FailureKind::TimedOut | FailureKind::StartTimeout => Self::TimedOut,
            FailureKind::Throttled
            | FailureKind::Overloaded
            | FailureKind::QuotaExhausted
            | FailureKind::NotReady => Self::Overloaded,
            FailureKind::Unreachable
            | FailureKind::StreamInterrupted
            | FailureKind::ServerFault
            | FailureKind::ModelFault
            | FailureKind::Unrecognised
            | FailureKind::BadRequest
            | FailureKind::TooLong
            | FailureKind::Unauthorized
            | FailureKind::NotFound => Self::StreamInterrupted,
        }
    }

    /// The value in the event.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::TimedOut => "timed_out",
            Self::Overloaded => "overloaded",
            Self::StreamInterrupted => "stream_interrupted",
        }
    }
}

/// Whole seconds, rounded up, so that clients do not retry too early.
pub(super) const fn seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add((wait.subsec_nanos() > 0) as u64)
}
