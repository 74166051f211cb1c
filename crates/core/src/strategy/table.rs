//! Retries, alerting and fallback per class of failure.

use super::FallbackKind;
use crate::failure::FailureKind;
use crate::vocabulary::named_enum;

named_enum! {
    /// Kinds of failure that are handled alike.
    pub enum FailureClass as "failure class" {
        /// The vendor rate-limits us, has no capacity, or is loading the model.
        Throttled = "throttled",
        /// The vendor timed out or stopped sending.
        TimedOut = "timed_out",
        /// Our own timeout expired before the response began.
        StartTimeout = "start_timeout",
        /// The vendor failed, was unreachable, or cut the response off.
        Transient = "transient",
        /// An allowance that does not refill within seconds is exhausted.
        QuotaExhausted = "quota_exhausted",
        /// A guardrail or filter blocked it.
        Blocked = "blocked",
        /// The request itself is at fault.
        CallerFault = "caller_fault",
        /// Anything else, including errors of our own.
        Other = "other",
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureRow {
    /// Retries on the same target while a user waits for the response.
    pub interactive_retries: u32,
    /// Retries on the same target for background work. No retry is made if the vendor's table marks the failure as not
    /// retryable.
    pub background_retries: u32,
    /// Whether to alert when the last retry has failed.
    pub alerts: bool,
    /// The fallback to use.
    pub fallback: FallbackKind,
}

impl FailureClass {
    /// The class of a kind of failure.
    #[must_use]
    pub const fn of(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Throttled | FailureKind::Overloaded | FailureKind::NotReady => Self::Throttled,
            FailureKind::TimedOut => Self::TimedOut,
            FailureKind::StartTimeout => Self::StartTimeout,
            FailureKind::ServerFault | FailureKind::Unreachable | FailureKind::StreamInterrupted => {
                Self::Transient
            }
            FailureKind::QuotaExhausted => Self::QuotaExhausted,
            FailureKind::Filtered => Self::Blocked,
            FailureKind::BadRequest | FailureKind::TooLong => Self::CallerFault,
            FailureKind::ModelFault
            | FailureKind::Unrecognised
            | FailureKind::Unauthorized
            | FailureKind::NotFound => Self::Other,
        }
    }

    /// The row of this class. Throttling is routine and does not alert; neither does a caller's fault, so that callers
    /// cannot trigger alerts.
    #[must_use]
    pub const fn row(self) -> FailureRow {
        match self {
            Self::Throttled => row(3, 5, false, FallbackKind::Throttled),
            Self::TimedOut => row(1, 5, true, FallbackKind::ModelTimeout),
            Self::StartTimeout => row(0, 0, true, FallbackKind::ModelTimeout),
            Self::Transient => row(2, 5, true, FallbackKind::Generic),
            Self::QuotaExhausted => row(0, 5, true, FallbackKind::Generic),
            Self::Blocked => row(0, 0, false, FallbackKind::GuardrailBlock),
            Self::CallerFault => row(0, 0, false, FallbackKind::Generic),
            Self::Other => row(0, 0, true, FallbackKind::Generic),
        }
    }
}

const fn row(
    interactive_retries: u32,
    background_retries: u32,
    alerts: bool,
    fallback: FallbackKind,
) -> FailureRow {
    FailureRow { interactive_retries, background_retries, alerts, fallback }
}
