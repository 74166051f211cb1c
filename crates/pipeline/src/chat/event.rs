//! The events of a streamed answer: `text` as often as there is some, then `done` or `interrupted`, once.

use super::json::JsonObject;
use bytes::{Bytes, BytesMut};
use seawall_core::failure::FailureKind;
use seawall_wire::sse::write_event;
use std::time::Duration;

/// Appends more of the answer.
pub fn text_event(out: &mut BytesMut, text: &str) {
    write_event(out, "text", JsonObject::new().text("text", text).finish().as_bytes());
}

/// Why an answer is not completed, as far as the caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptReason {
    /// What followed is not acceptable.
    Blocked,
    /// It took too long.
    TimedOut,
    /// There is more to do than can be done.
    Overloaded,
    /// It broke off.
    BrokeOff,
}

impl InterruptReason {
    /// The reason when a model failed in this way. Whose fault it was behind that is not the caller's business.
    #[must_use]
    pub const fn of_failure(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Filtered => Self::Blocked,
            FailureKind::TimedOut | FailureKind::NotStarted => Self::TimedOut,
            FailureKind::Throttled
            | FailureKind::Overloaded
            | FailureKind::QuotaExhausted
            | FailureKind::NotReady => Self::Overloaded,
            FailureKind::Unreachable
            | FailureKind::BrokeMidStream
            | FailureKind::ServerFault
            | FailureKind::ModelFault
            | FailureKind::Unrecognised
            | FailureKind::BadRequest
            | FailureKind::TooLong
            | FailureKind::Unauthorized
            | FailureKind::NotFound => Self::BrokeOff,
        }
    }

    /// The name in the event.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::TimedOut => "timed_out",
            Self::Overloaded => "overloaded",
            Self::BrokeOff => "broke_off",
        }
    }
}

/// The end of a stream that is not completed. `delivered` is how many characters of text came before it.
#[must_use]
pub fn interrupted_event(
    reason: InterruptReason,
    words: &str,
    delivered: u64,
    retry_after: Option<Duration>,
) -> Bytes {
    let object = JsonObject::new()
        .text("reason", reason.name())
        .text("message", words)
        .number("delivered", delivered)
        .maybe(retry_after, |object, wait| object.number("retry_after", seconds(wait)));
    let mut out = BytesMut::new();
    write_event(&mut out, "interrupted", object.finish().as_bytes());
    out.freeze()
}

/// Whole seconds, rounded up, so that nobody comes too early.
pub(super) const fn seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add((wait.subsec_nanos() > 0) as u64)
}
