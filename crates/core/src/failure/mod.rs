//! What went wrong, in the few words that decisions need.
//!
//! An attempt ends in an [`Outcome`]. A [`Failure`] says what kind it was, whose fault it was, whether trying
//! again can help, and what the server said about when. Retry, breaker, pressure and budgets read this and
//! nothing else, so a new vendor needs a new [`ErrorTable`] and no new decision.
//!
//! An outcome is reported once per attempt, and a stream's only when the stream has ended: a model that
//! answers 200 and breaks off after three words has failed.

mod table;
#[cfg(test)]
mod tests;

pub use table::{ANTHROPIC, BEDROCK, DRS, ErrorTable, OPENAI};

use std::time::Duration;

/// A vendor that is busy for longer than this is as good as away: nobody waits for it.
pub const MAX_HOLD: Duration = Duration::from_secs(30);

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer arrived whole.
    Succeeded {
        /// From the start of the attempt to its first useful content.
        first_content_after: Duration,
    },
    /// An answer in one piece arrived.
    AnsweredWhole {
        /// How long it took.
        took: Duration,
        /// How long an answer of that length may usually take on its target, where enough is known to say. Without that
        /// none is slow: a long answer takes long.
        usual: Option<Duration>,
    },
    /// It did not.
    Failed(Failure),
    /// The caller went away, or the attempt was dropped. Says nothing about the target.
    Abandoned,
}

impl Outcome {
    /// What this outcome says of the target's health, when `slow_after` is too long to wait for content.
    #[must_use]
    pub fn health(&self, slow_after: Duration) -> Health {
        match self {
            Self::Succeeded { first_content_after } if *first_content_after > slow_after => Health::Slow,
            Self::AnsweredWhole { took, usual: Some(usual) } if *took > slow_after.max(*usual) => {
                Health::Slow
            }
            Self::Succeeded { .. } | Self::AnsweredWhole { .. } => Health::Good,
            Self::Failed(failure) => failure.kind.health(),
            Self::Abandoned => Health::Unknown,
        }
    }
}

impl Outcome {
    /// Whether this is an answer in one piece.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        matches!(self, Self::AnsweredWhole { .. })
    }

    /// Whether an answer arrived.
    #[must_use]
    pub const fn is_answer(&self) -> bool {
        matches!(self, Self::Succeeded { .. } | Self::AnsweredWhole { .. })
    }
}

/// What an outcome says of a target's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answered.
    Good,
    /// It answered, later than is useful.
    Slow,
    /// We stopped waiting before it had begun: slow, but neither an answer nor a fault.
    Cut,
    /// It is at fault.
    Bad,
    /// The outcome is somebody else's doing.
    Unknown,
}

/// What went wrong. A closed set with few members: it is also a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// The vendor limits our rate.
    Throttled,
    /// The vendor has no capacity for anybody.
    Overloaded,
    /// An allowance that does not refill in seconds is used up: account quota, credit, spend limit.
    QuotaExhausted,
    /// The model is being loaded.
    NotReady,
    /// The vendor says that it took too long.
    TimedOut,
    /// We stopped waiting because nothing had begun within our own time.
    NotStarted,
    /// No connection, or it broke before an answer began.
    Unreachable,
    /// The answer began and did not end.
    BrokeMidStream,
    /// The vendor's own fault.
    ServerFault,
    /// The model itself failed on this input; the service around it is fine.
    ModelFault,
    /// The answer cannot be understood.
    Unrecognised,
    /// The request is malformed.
    BadRequest,
    /// The request is larger than the model takes.
    TooLong,
    /// The vendor refuses our credential.
    Unauthorized,
    /// The vendor does not know the model or resource.
    NotFound,
    /// A guardrail or content filter stopped it.
    Filtered,
}

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOrigin {
    /// Who asked us.
    Caller,
    /// We ourselves: our credential, our settings, our patience.
    Gateway,
    /// The vendor.
    Provider,
}

/// Where trying again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retryability {
    /// On the same target, after a wait; on another at once.
    Here,
    /// On another target only.
    Elsewhere,
    /// Nowhere.
    Nowhere,
}

impl FailureKind {
    /// Every kind, in a fixed order.
    pub const ALL: [Self; 16] = [
        Self::Throttled,
        Self::Overloaded,
        Self::QuotaExhausted,
        Self::NotReady,
        Self::TimedOut,
        Self::NotStarted,
        Self::Unreachable,
        Self::BrokeMidStream,
        Self::ServerFault,
        Self::ModelFault,
        Self::Unrecognised,
        Self::BadRequest,
        Self::TooLong,
        Self::Unauthorized,
        Self::NotFound,
        Self::Filtered,
    ];

    /// The word for logs, metrics and messages.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::Overloaded => "overloaded",
            Self::QuotaExhausted => "quota_exhausted",
            Self::NotReady => "not_ready",
            Self::TimedOut => "timed_out",
            Self::NotStarted => "not_started",
            Self::Unreachable => "unreachable",
            Self::BrokeMidStream => "broke_mid_stream",
            Self::ServerFault => "server_fault",
            Self::ModelFault => "model_fault",
            Self::Unrecognised => "unrecognised",
            Self::BadRequest => "bad_request",
            Self::TooLong => "too_long",
            Self::Unauthorized => "unauthorized",
            Self::NotFound => "not_found",
            Self::Filtered => "filtered",
        }
    }

    /// Whose fault this kind is.
    #[must_use]
    pub const fn origin(self) -> FaultOrigin {
        match self {
            Self::BadRequest | Self::TooLong | Self::Filtered => FaultOrigin::Caller,
            Self::NotStarted | Self::Unauthorized | Self::NotFound => FaultOrigin::Gateway,
            Self::Throttled
            | Self::Overloaded
            | Self::QuotaExhausted
            | Self::NotReady
            | Self::TimedOut
            | Self::Unreachable
            | Self::BrokeMidStream
            | Self::ServerFault
            | Self::ModelFault
            | Self::Unrecognised => FaultOrigin::Provider,
        }
    }

    /// Where trying again can help, unless a vendor's table says otherwise.
    #[must_use]
    pub const fn retryability(self) -> Retryability {
        match self {
            Self::Throttled
            | Self::Overloaded
            | Self::NotReady
            | Self::TimedOut
            | Self::Unreachable
            | Self::BrokeMidStream
            | Self::ServerFault => Retryability::Here,
            // A target that has not begun in its time will not begin sooner when asked again.
            Self::NotStarted
            | Self::QuotaExhausted
            | Self::ModelFault
            | Self::Unrecognised
            | Self::Unauthorized
            | Self::NotFound => Retryability::Elsewhere,
            Self::BadRequest | Self::TooLong | Self::Filtered => Retryability::Nowhere,
        }
    }

    /// What this kind says of the target's health.
    ///
    /// A caller's mistake says nothing, or one caller could open the breaker for all. A filter that blocks is
    /// a service that works.
    #[must_use]
    pub const fn health(self) -> Health {
        match self {
            Self::NotStarted => Health::Cut,
            Self::Filtered => Health::Good,
            _ => match self.origin() {
                FaultOrigin::Provider => Health::Bad,
                FaultOrigin::Caller | FaultOrigin::Gateway => Health::Unknown,
            },
        }
    }

    /// Whether this kind says that the vendor is busy rather than broken.
    #[must_use]
    pub const fn is_throttle(self) -> bool {
        matches!(self, Self::Throttled | Self::Overloaded | Self::NotReady)
    }

    /// Whether a refusal of this kind at the door proves that the vendor did not carry the request out. A 503 does
    /// not: what stands in front of a service sends one after the service has done its work.
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

/// One failed attempt, as decisions see it.
///
/// ```
/// use seawall_core::failure::{BEDROCK, FailureKind, FaultOrigin, Retryability};
///
/// let failure = BEDROCK.classify(429, Some("ThrottlingException"));
/// assert_eq!(failure.kind, FailureKind::Throttled);
/// assert_eq!(failure.origin, FaultOrigin::Provider);
/// assert_eq!(failure.retryability, Retryability::Here);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong.
    pub kind: FailureKind,
    /// Whose fault it is.
    pub origin: FaultOrigin,
    /// Where trying again can help.
    pub retryability: Retryability,
    /// Whether the vendor cannot have carried the request out. Only then may a call that must not happen twice be
    /// sent again, and only then is nothing owed for it.
    pub not_executed: bool,
    /// Whether the vendor's answer shows that it generated nothing. What it read may be owed all the same.
    pub no_output: bool,
    /// How long the server asked us to wait, exactly as it said.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure of this kind with the kind's usual meaning and no word from the server about when.
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

    /// How long a busy vendor asked us to stay away, where that is worth waiting for: at most [`MAX_HOLD`].
    #[must_use]
    pub fn hold(&self) -> Option<Duration> {
        let wait = self.retry_after.filter(|_| self.kind.is_throttle())?;
        (!wait.is_zero() && wait <= MAX_HOLD).then_some(wait)
    }

    /// The same failure, of which the vendor's answer shows that nothing was generated.
    #[must_use]
    pub const fn without_output(self) -> Self {
        Self { no_output: true, ..self }
    }

    /// The same failure, with the server's word on how long to wait.
    #[must_use]
    pub const fn with_retry_after(self, retry_after: Duration) -> Self {
        Self { retry_after: Some(retry_after), ..self }
    }
}
