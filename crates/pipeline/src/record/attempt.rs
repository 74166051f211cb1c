//! The records of attempts: one with everything for metrics and traces, and a summary for the record of the request.

use arrayvec::ArrayVec;
use seawall_core::failure::FailureKind;
use seawall_core::money::{Money, Usage};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::{Grade, Tier};
use std::sync::Arc;
use std::time::Duration;

/// The record of a completed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptRecord<'a> {
    /// The ID of the request.
    pub request: u64,
    /// The number of the attempt within its request, from 0.
    pub number: u32,
    /// The target of the attempt.
    pub target: &'a Arc<str>,
    /// Why the attempt was made.
    pub cause: AttemptCause,
    /// The wait before the attempt: backoff, pacing and the queue for a concurrency slot.
    pub delay: Duration,
    /// When the attempt started.
    pub started: Timestamp,
    /// Time from the start of the attempt to its end.
    pub duration: Duration,
    /// The caller's tier.
    pub tier: Tier,
    /// The grade of the target's model.
    pub grade: Grade,
    /// Time from the start of the attempt to its first content, if any.
    pub first_content: Option<Duration>,
    /// The bytes that the target has sent.
    pub received_bytes: u64,
    /// The target's error response, if it is known.
    pub error: &'a AttemptError,
    /// Whether this attempt opened the target's breaker.
    pub opened_breaker: bool,
    /// How the attempt ended.
    pub outcome: AttemptOutcomeKind,
    /// The posted usage: the vendor's report, or the upper bound without one.
    pub usage: Usage,
    /// The posted cost.
    pub cost: Money,
    /// Whether the price of the model is unknown, so that nothing was posted.
    pub is_cost_unknown: bool,
    /// The amount by which the cost exceeds the reservation.
    pub overrun: Money,
    /// Whether the vendor reported more usage than is possible and the charge was capped.
    pub is_capped: bool,
}

/// What is known of the error response of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttemptError {
    /// The HTTP status, if there was a response.
    pub status: Option<u16>,
    /// The vendor's message, if the caller's request is at fault: truncated and safe to display.
    pub message: Option<Arc<str>>,
}

/// The kind of an [`AttemptOutcome`](seawall_core::failure::AttemptOutcome), for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcomeKind {
    /// With an answer.
    Succeeded,
    /// With this failure.
    Failed(FailureKind),
    /// Its answer was not needed any more.
    Abandoned,
}

impl AttemptOutcomeKind {
    /// The label in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed(kind) => kind.label(),
            Self::Abandoned => "abandoned",
        }
    }
}

/// A duration in microseconds, as far as 71 minutes; longer ones are shown as that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CompactDuration(u32);

impl CompactDuration {
    /// Rounds down to a microsecond.
    #[must_use]
    pub fn of(duration: Duration) -> Self {
        Self(u32::try_from(duration.as_micros()).unwrap_or(u32::MAX))
    }

    /// Whether it is less than a microsecond.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<CompactDuration> for Duration {
    fn from(compact: CompactDuration) -> Self {
        Self::from_micros(compact.0.into())
    }
}

/// The maximum number of attempts that the record of a request lists; the others are counted only.
pub const MAX_LISTED_ATTEMPTS: usize = 4;

/// The first attempts of a request.
pub type FirstAttempts = ArrayVec<AttemptSummary, MAX_LISTED_ATTEMPTS>;

/// One attempt in the record of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptSummary {
    /// The target of the attempt.
    pub target: Arc<str>,
    /// Why the attempt was made.
    pub cause: AttemptCause,
    /// How the attempt ended.
    pub outcome: AttemptOutcomeKind,
    /// The wait before the attempt: backoff, pacing and the queue for a concurrency slot.
    pub delay: CompactDuration,
    /// Time from the receipt of the request to the start of the attempt.
    pub start: CompactDuration,
    /// Time from the start of the attempt to its end.
    pub duration: CompactDuration,
    /// Time from the start of the attempt to its first content, if any.
    pub first_content: Option<CompactDuration>,
    /// The grade of the target's model.
    pub grade: Grade,
    /// Whether the attempt opened the target's breaker.
    pub opened_breaker: bool,
    /// The posted cost.
    pub cost: Money,
    /// The bytes that the target has sent.
    pub received_bytes: u64,
    /// The target's error response, as far as it is known.
    pub error: AttemptError,
}

/// Why an attempt was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptCause {
    /// It is the first one, at the preferred target.
    First,
    /// The last one failed, and the same target is tried again.
    Retry,
    /// The vendor rejected or throttled the key of the last one, and the same target is tried with another key.
    Rotation,
    /// The last one failed, or its target was not called for this reason; the next target is tried.
    Failover(Option<SkipKind>),
    /// No target was available, so one that was skipped is tried after all.
    LastResort,
    /// The last one is slow to start, and another target is tried in parallel.
    Hedge,
}

impl AttemptCause {
    /// The label in logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Retry => "retry",
            Self::Rotation => "rotation",
            Self::Failover(_) => "failover",
            Self::LastResort => "last_resort",
            Self::Hedge => "hedge",
        }
    }

    /// Why the target before was not called, if it was skipped.
    #[must_use]
    pub const fn skipped(self) -> Option<SkipKind> {
        match self {
            Self::Failover(skipped) => skipped,
            Self::First | Self::Retry | Self::Rotation | Self::LastResort | Self::Hedge => None,
        }
    }
}

/// Why a target was not called, or why no money was reserved for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipKind {
    /// The daily budget is spent.
    BudgetExhausted,
    /// The rest of the daily budget is held by calls in progress.
    BudgetHeld,
    /// The call may cost more than what remains of the daily budget.
    ExceedsRemainingBudget,
    /// The call may cost more than the budget of a whole day.
    ExceedsDailyBudget,
    /// The breaker blocks calls.
    BreakerOpen,
    /// Calls of the target cost more than was reserved for them.
    CostOverruns,
    /// All concurrency slots are taken.
    Busy,
    /// The caller or all guests use their share of the concurrency slots.
    ConcurrencyShare,
    /// The provider named a wait.
    Throttled,
    /// The request cannot be expressed in the target's dialect.
    UnsupportedByTarget,
    /// The cost has no bound or no price.
    UntrackedInput,
    /// The journal cannot be written.
    JournalUnavailable,
}

impl SkipKind {
    /// The label in logs, and in the cause of a rejection.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::BudgetExhausted => "budget_exhausted",
            Self::BudgetHeld => "budget_held",
            Self::ExceedsRemainingBudget => "exceeds_remaining_budget",
            Self::ExceedsDailyBudget => "exceeds_daily_budget",
            Self::BreakerOpen => "breaker_open",
            Self::CostOverruns => "cost_overruns",
            Self::Busy => "busy",
            Self::ConcurrencyShare => "concurrency_share",
            Self::Throttled => "throttled",
            Self::UnsupportedByTarget => "unsupported_by_target",
            Self::UntrackedInput => "untracked_input",
            Self::JournalUnavailable => crate::reply::JOURNAL_UNAVAILABLE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CompactDuration;
    use std::time::Duration;

    #[test]
    fn a_compact_duration_saturates() {
        for (duration, micros) in [
            (Duration::from_nanos(999), 0),
            (Duration::from_micros(1), 1),
            (Duration::from_secs(600), 600_000_000),
            (Duration::MAX, u64::from(u32::MAX)),
        ] {
            let compact = CompactDuration::of(duration);
            assert_eq!(Duration::from(compact), Duration::from_micros(micros));
            assert_eq!(compact.is_zero(), micros == 0);
        }
    }
}
