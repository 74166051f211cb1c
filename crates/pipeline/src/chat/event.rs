//! Server-sent events of a streamed answer: any number of `text` events, then one `done` or `interrupted`.

use super::json::JsonObject;
use bytes::{Bytes, BytesMut};
use seawall_core::failure::FailureKind;
use seawall_wire::sse::write_event;
use std::time::Duration;

/// Appends a `text` event with more of the answer.
pub fn text_event(out: &mut BytesMut, text: &str) {
    write_event(out, "text", JsonObject::new().text("text", text).finish().as_bytes());
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

/// The final event of an incomplete stream. `delivered` is the number of characters of text sent before it.
#[must_use]
pub fn interrupted_event(
    reason: InterruptReason,
    message: &str,
    delivered: u64,
    retry_after: Option<Duration>,
) -> Bytes {
    let object = JsonObject::new()
        .text("reason", reason.name())
        .text("message", message)
        .number("delivered", delivered)
        .optional(retry_after, |object, wait| object.number("retry_after", seconds(wait)));
    let mut out = BytesMut::new();
    write_event(&mut out, "interrupted", object.finish().as_bytes());
    out.freeze()
}

/// Whole seconds, rounded up, so that clients do not retry too early.
pub(super) const fn seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add((wait.subsec_nanos() > 0) as u64)
}
