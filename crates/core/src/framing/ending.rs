//! How a stream ends.

use crate::failure::FailureKind;

/// Why an answer is over that was not interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FinishReason {
    /// The model said that it was done.
    Stop,
    /// The model used all the tokens it was given.
    MaxTokens,
    /// The stream took as long as a stream may.
    Timeout,
    /// The answer used all the tokens that we pay for.
    Budget,
    /// The model's stream closed without its stop event. What is there may be all or not.
    UpstreamEnded,
    /// The client went away or asked to stop.
    Cancelled,
    /// The gateway is going down.
    Shutdown,
}

impl FinishReason {
    /// Every reason.
    pub const ALL: [Self; 7] = [
        Self::Stop,
        Self::MaxTokens,
        Self::Timeout,
        Self::Budget,
        Self::UpstreamEnded,
        Self::Cancelled,
        Self::Shutdown,
    ];

    /// The name in frames, logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::MaxTokens => "max_tokens",
            Self::Timeout => "timeout",
            Self::Budget => "budget",
            Self::UpstreamEnded => "upstream_ended",
            Self::Cancelled => "cancelled",
            Self::Shutdown => "shutdown",
        }
    }
}

/// What broke an answer off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptionCode {
    /// The model began and then said nothing for too long.
    UpstreamSilent,
    /// The model's stream failed.
    UpstreamFailed(FailureKind),
}

impl InterruptionCode {
    /// The name in frames, logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UpstreamSilent => "upstream_silent",
            Self::UpstreamFailed(kind) => kind.label(),
        }
    }
}

/// An answer that was broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// By what.
    pub code: InterruptionCode,
    /// Whether asking again can help.
    pub retryable: bool,
    /// Whether there is text before it. Without any, another model's answer may still take its place.
    pub partial: bool,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is over, for this reason.
    Finished(FinishReason),
    /// It was broken off.
    Interrupted(Interruption),
}

impl Ending {
    pub(super) const fn is_cancelled(self) -> bool {
        matches!(self, Self::Finished(FinishReason::Cancelled))
    }
}
