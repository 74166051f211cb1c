//! How a stream ends.

use crate::failure::FailureKind;

/// Why an answer ended without an interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FramingFinishReason {
    /// The model sent its stop event.
    Stop,
    /// The model reached its maximum of output tokens.
    MaxTokens,
    /// The stream reached its maximum duration.
    Timeout,
    /// The answer used up its token budget.
    Budget,
    /// The model's stream closed without a stop event, so that the answer may be incomplete.
    UpstreamEnded,
    /// The client disconnected or cancelled.
    Cancelled,
    /// The gateway is shutting down.
    Shutdown,
}

impl FramingFinishReason {
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

/// What interrupted an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptionCode {
    /// The model began and then exceeded the idle timeout.
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

/// An interrupted answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// What interrupted it.
    pub code: InterruptionCode,
    /// Whether a retry can help.
    pub retryable: bool,
    /// Whether there is text before it. Without any, failover to another model is still possible.
    pub partial: bool,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramingEnding {
    /// It ended for this reason.
    Finished(FramingFinishReason),
    /// It was interrupted.
    Interrupted(Interruption),
}

impl FramingEnding {
    pub(super) const fn is_cancelled(self) -> bool {
        matches!(self, Self::Finished(FramingFinishReason::Cancelled))
    }
}
