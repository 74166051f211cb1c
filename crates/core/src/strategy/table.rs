//! What each class of failure is worth.

use super::FallbackKind;
use crate::failure::FailureKind;
use crate::vocabulary::words;

words! {
    /// Kinds of failure that are treated alike.
    pub enum FailureClass as "failure class" {
        /// The vendor limits our rate, has no capacity, or is loading the model.
        Throttled = "throttled",
        /// The vendor took too long.
        TimedOut = "timed_out",
        /// We stopped waiting before anything had begun.
        NotStarted = "not_started",
        /// The vendor failed, could not be reached, or broke off.
        Transient = "transient",
        /// An allowance is used up that does not come back in seconds.
        QuotaExhausted = "quota_exhausted",
        /// A guardrail or filter stopped it.
        Blocked = "blocked",
        /// The request itself is at fault.
        CallerFault = "caller_fault",
        /// Anything else, our own mistakes among it.
        Other = "other",
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureRow {
    /// How often to try the same target again while a person waits.
    pub interactive_retries: u32,
    /// How often when nobody does. Where a vendor's table says that trying again cannot help, it is not done.
    pub background_retries: u32,
    /// Whether somebody should be told when the last try has failed.
    pub alerts: bool,
    /// What is answered with instead.
    pub fallback: FallbackKind,
}

impl FailureClass {
    /// The class of a kind.
    #[must_use]
    pub const fn of(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Throttled | FailureKind::Overloaded | FailureKind::NotReady => Self::Throttled,
            FailureKind::TimedOut => Self::TimedOut,
            FailureKind::NotStarted => Self::NotStarted,
            FailureKind::ServerFault | FailureKind::Unreachable | FailureKind::BrokeMidStream => {
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

    /// What this class is worth. A throttle is daily business and wakes nobody; neither can a caller wake anybody.
    #[must_use]
    pub const fn row(self) -> FailureRow {
        match self {
            Self::Throttled => row(3, 5, false, FallbackKind::Throttled),
            Self::TimedOut => row(1, 5, true, FallbackKind::ModelTimeout),
            Self::NotStarted => row(0, 0, true, FallbackKind::ModelTimeout),
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
