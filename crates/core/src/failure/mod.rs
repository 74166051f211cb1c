//! Classification of failures: kind, origin, retryability and the vendor's `Retry-After`.
//!
//! An attempt ends in an [`AttemptOutcome`]. A [`Failure`] states its kind, its origin, whether a retry can help, and how
//! long the server asked to wait. Retry, circuit breaker, pressure and budgets depend on this and nothing else, so
//! that a new vendor needs a new [`ErrorTable`] and no new decision logic.
//!
//! An outcome is reported once per attempt, and for a stream only when the stream has ended: a model that responds
//! with 200 and breaks off after three words has failed.

mod table;
#[cfg(test)]
mod tests;

pub use table::{ANTHROPIC, BEDROCK, DRS, ErrorTable, GEMINI, OPENAI};

use std::time::Duration;

/// Longest `Retry-After` that is honoured by waiting. A vendor that is busy for longer is treated as unavailable.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// A stream arrived completely.
    Succeeded {
        /// Time from the start of the attempt to the first useful content.
        time_to_first_content: Duration,
    },
    /// An unstreamed response arrived completely.
    SucceededUnstreamed {
        /// Duration of the attempt.
        duration: Duration,
        /// How long a response of that length usually takes at most on this target, if enough samples exist. Without
        /// it no response counts as slow, because a long answer takes long.
        expected: Option<Duration>,
    },
    /// The attempt failed.
    Failed(Failure),
    /// The target throttled and named a wait that is observed, so that this does not count as a failure.
    Throttled,
    /// The caller disconnected or the attempt was dropped. This carries no information about the target.
    Abandoned,
}

impl AttemptOutcome {
    /// Effect of this outcome on the target's health; a first content later than `slow_threshold` counts as slow.
    #[must_use]
    pub fn health(&self, slow_threshold: Duration) -> Health {
        match self {
            Self::Succeeded { time_to_first_content } if *time_to_first_content > slow_threshold => {
                Health::Slow
            }
            Self::SucceededUnstreamed { duration, expected: Some(expected) }
                if *duration > slow_threshold.max(*expected) =>
            {
                Health::Slow
            }
            Self::Succeeded { .. } | Self::SucceededUnstreamed { .. } => Health::Good,
            Self::Failed(failure) => failure.kind.health(),
            Self::Throttled | Self::Abandoned => Health::Unknown,
        }
    }
}

impl AttemptOutcome {
    /// Whether this is an unstreamed response.
    #[must_use]
    pub const fn is_unstreamed(&self) -> bool {
        matches!(self, Self::SucceededUnstreamed { .. })
    }

    /// Whether a complete response arrived.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Succeeded { .. } | Self::SucceededUnstreamed { .. })
    }
}

/// Effect of an outcome on a target's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// A response within time.
    Good,
    /// A response that came too late to be useful.
    Slow,
    /// The gateway gave up before the response began: slow, but neither a success nor a fault.
    TimedOut,
    /// The target is at fault.
    Bad,
    /// The outcome carries no information about the target.
    Unknown,
}

/// What went wrong. A small closed set, because it is also a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// The vendor rate-limits us.
    Throttled,
    /// The vendor has no capacity for any client.
    Overloaded,
    /// An allowance that does not refill within seconds is exhausted: account quota, credit, spend limit.
    QuotaExhausted,
    /// The model is being loaded.
    NotReady,
    /// The vendor reports a timeout, or stops sending for longer than our timeout.
    TimedOut,
    /// The route's start timeout, or a timeout of the connection, expired before the response began.
    StartTimeout,
    /// No connection, or it broke before a response began.
    Unreachable,
    /// The response began and was cut off.
    StreamInterrupted,
    /// An internal error of the vendor.
    ServerFault,
    /// The model failed on this input; the service around it works.
    ModelFault,
    /// The response cannot be parsed.
    Unrecognised,
    /// The request is malformed.
    BadRequest,
    /// The request exceeds the model's context or size limit.
    TooLong,
    /// The vendor rejects our credential.
    Unauthorized,
    /// The vendor does not know the model or resource.
    NotFound,
    /// A guardrail or content filter blocked it.
    Filtered,
}

/// Which party caused a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOrigin {
    /// The caller's request.
    Caller,
    /// The gateway: its credential, its settings, its timeouts.
    Gateway,
    /// The vendor.
    Provider,
}

/// Where a retry can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retryability {
    /// On the same target after a backoff; on another target at once.
    SameTarget,
    /// On another target only.
    OtherTarget,
    /// On no target.
    Never,
}

impl FailureKind {
    /// Every kind, in a fixed order.
    pub const ALL: [Self; 16] = [
        Self::Throttled,
        Self::Overloaded,
        Self::QuotaExhausted,
        Self::NotReady,
        Self::TimedOut,
        Self::StartTimeout,
        Self::Unreachable,
        Self::StreamInterrupted,
        Self::ServerFault,
        Self::ModelFault,
        Self::Unrecognised,
        Self::BadRequest,
        Self::TooLong,
        Self::Unauthorized,
        Self::NotFound,
        Self::Filtered,
    ];

    /// The label in logs, metrics and messages.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::Overloaded => "overloaded",
            Self::QuotaExhausted => "quota_exhausted",
            Self::NotReady => "not_ready",
            Self::TimedOut => "timed_out",
            Self::StartTimeout => "start_timeout",
            Self::Unreachable => "unreachable",
            Self::StreamInterrupted => "stream_interrupted",
            Self::ServerFault => "server_fault",
            Self::ModelFault => "model_fault",
            Self::Unrecognised => "unrecognized",
            Self::BadRequest => "bad_request",
            Self::TooLong => "too_long",
            Self::Unauthorized => "unauthorized",
            Self::NotFound => "not_found",
            Self::Filtered => "filtered",
        }
    }

    /// The party that causes this kind.
    #[must_use]
    pub const fn origin(self) -> FaultOrigin {
        match self {
            Self::BadRequest | Self::TooLong | Self::Filtered => FaultOrigin::Caller,
            Self::StartTimeout | Self::Unauthorized | Self::NotFound => FaultOrigin::Gateway,
            Self::Throttled
            | Self::Overloaded
            | Self::QuotaExhausted
            | Self::NotReady
            | Self::TimedOut
            | Self::Unreachable
            | Self::StreamInterrupted
            | Self::ServerFault
            | Self::ModelFault
            | Self::Unrecognised => FaultOrigin::Provider,
        }
    }

    /// Where a retry can help, unless a vendor's table overrides it.
    #[must_use]
    pub const fn retryability(self) -> Retryability {
        match self {
            Self::Throttled
            | Self::Overloaded
            | Self::NotReady
            | Self::TimedOut
            | Self::Unreachable
            | Self::StreamInterrupted
            | Self::ServerFault => Retryability::SameTarget,
            // A target that has not begun within the timeout will not begin sooner on a retry.
            Self::StartTimeout
            | Self::QuotaExhausted
            | Self::ModelFault
            | Self::Unrecognised
            | Self::Unauthorized
            | Self::NotFound => Retryability::OtherTarget,
            Self::BadRequest | Self::TooLong | Self::Filtered => Retryability::Never,
        }
    }

    /// Effect of this kind on the target's health.
    ///
    /// A caller's mistake has no effect, or one caller could open the breaker for all. A filter that blocks belongs to
    /// a service that works.
    #[must_use]
    pub const fn health(self) -> Health {
        match self {
            Self::StartTimeout => Health::TimedOut,
            Self::Filtered => Health::Good,
            _ => match self.origin() {
                FaultOrigin::Provider => Health::Bad,
                FaultOrigin::Caller | FaultOrigin::Gateway => Health::Unknown,
            },
        }
    }

    /// Whether the vendor is busy rather than broken.
    #[must_use]
    pub const fn is_throttle(self) -> bool {
        matches!(self, Self::Throttled | Self::Overloaded | Self::NotReady)
    }

    /// Whether an error response of this kind proves that the vendor did not execute the request. A 503 does not: a
    /// proxy in front of a service may send one after the service has done its work.
    #[must_use]
    pub const fn proves_not_executed(self) -> bool {
        matches!(
            self,
            Self::Throttled
                | Self::QuotaExhausted
                | Self::BadRequest
                | Self::TooLong
                | Self::Unauthorized
                | Self::NotFound
        )
    }
}

/// One failed attempt, as input for decisions.
///
/// ```
/// use seawall_core::failure::{BEDROCK, FailureKind, FaultOrigin, Retryability};
///
/// let failure = BEDROCK.classify(429, Some("ThrottlingException"));
/// assert_eq!(failure.kind, FailureKind::Throttled);
/// assert_eq!(failure.origin, FaultOrigin::Provider);
/// assert_eq!(failure.retryability, Retryability::SameTarget);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong.
    pub kind: FailureKind,
    /// Which party caused it.
    pub origin: FaultOrigin,
    /// Where a retry can help.
    pub retryability: Retryability,
    /// Whether the vendor cannot have executed the request. Only then may a non-idempotent call be retried, and only
    /// then does it cost nothing.
    pub not_executed: bool,
    /// Whether the vendor's response shows that no output was generated. Input may be billed all the same.
    pub no_output: bool,
    /// The server's `Retry-After`, unmodified.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure with the defaults of its kind and no `Retry-After`.
    #[must_use]
    pub const fn of(kind: FailureKind) -> Self {
        Self {
            kind,
            origin: kind.origin(),
            retryability: kind.retryability(),
            not_executed: kind.proves_not_executed(),
            no_output: false,
            retry_after: None,
        }
    }

    /// How long to back off from a busy vendor, if its `Retry-After` is worth waiting for: at most [`MAX_RETRY_AFTER`].
    #[must_use]
    pub fn honoured_retry_after(&self) -> Option<Duration> {
        let wait = self.retry_after.filter(|_| self.kind.is_throttle())?;
        (!wait.is_zero() && wait <= MAX_RETRY_AFTER).then_some(wait)
    }

    /// A copy marked as having generated no output.
    #[must_use]
    pub const fn without_output(self) -> Self {
        Self { no_output: true, ..self }
    }

    /// A copy with the server's `Retry-After`.
    #[must_use]
    pub const fn with_retry_after(self, retry_after: Duration) -> Self {
        Self { retry_after: Some(retry_after), ..self }
    }
}
