//! Retries: whether, where and when to try again.
//!
//! One component owns all attempts of a request. SDKs and HTTP clients below it must not retry, or attempts would
//! multiply. After each failed attempt [`Retries::decide`] returns one of three decisions: retry on the same target
//! after a backoff, fail over to another target at once, or give up with a reason.
//!
//! **All gates must agree** before a retry on the same target: nothing has been sent to the caller yet, a retry can
//! help with this failure, the attempts allowed for this kind of failure and for the current pressure are not used up,
//! the breaker lets calls pass, backoff and attempt fit before the deadline, and the retry budget grants a credit. The
//! credit is withdrawn last, so that no refusal costs one. The gates are evaluated again after every failure: pressure
//! that rises in the middle of a request stops its retries.
//!
//! **The state belongs to the request**, never to a client that several requests share. Nothing here sleeps.

mod backoff;
mod counters;
mod hedge;
mod policy;
mod retry_after;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use backoff::{Backoff, BackoffOptions, BackoffState, Jitter};
pub use counters::{RetryCounters, RetrySnapshot};
pub use hedge::{HedgeCredits, HedgeDecision, HedgeOptions, HedgePolicy, HedgeRefusal, HedgeSituation};
pub use policy::{RetryLimits, RetryOptions, RetryPolicy};
pub use retry_after::RetryAfterOptions;

use crate::credit::{Credit, CreditRefusal, CreditUse, RetryBudget};
use crate::deadline::Deadline;
use crate::failure::{Failure, FailureKind, Retryability};
use crate::invariant::{Violation, attempt_fits_deadline, attempts_within_limit, enforce};
use crate::pressure::Pressure;
use crate::random::Draw;
use crate::time::Timestamp;
use std::time::Duration;

/// A target that asked for a pause no longer than this is waited for, even if another target is ready, because the
/// first target of a route is the one its operator prefers.
pub const MAX_PREFERRED_WAIT: Duration = Duration::from_secs(1);

/// The situation after a failed attempt.
#[derive(Clone, Copy, Debug)]
pub struct RetrySituation {
    /// The current time.
    pub now: Timestamp,
    /// The deadline for an attempt on this target to succeed; time reserved for later steps is already deducted.
    pub deadline: Deadline,
    /// The usual time to first content of an attempt, if known.
    pub usual_attempt: Option<Duration>,
    /// The pressure on the target; `None` if it is not measured.
    pub pressure: Option<Pressure>,
    /// How long the target is still held back because it asked for a pause; `None` if it did not. This wait replaces
    /// the limits of pressure, because the target has named the time from which it will answer.
    pub throttled_for: Option<Duration>,
    /// Whether another target can be called at once, and so earlier than one that is held back.
    pub other_is_ready: bool,
    /// Whether the target's breaker lets calls pass.
    pub breaker_passes: bool,
    /// Whether there is another target to fail over to.
    pub has_other_target: bool,
    /// Whether any part of the answer has been sent to the caller.
    pub committed: bool,
    /// Whether the call is idempotent, so that executing it twice does no harm.
    pub repeatable: bool,
}

impl RetrySituation {
    /// An idempotent call, nothing of it delivered, on a healthy target without an alternative.
    #[must_use]
    pub const fn new(now: Timestamp, deadline: Deadline) -> Self {
        Self {
            now,
            deadline,
            usual_attempt: None,
            pressure: None,
            throttled_for: None,
            other_is_ready: false,
            breaker_passes: true,
            has_other_target: false,
            committed: false,
            repeatable: true,
        }
    }
}

/// The decision after a failed attempt.
#[derive(Debug)]
pub enum RetryDecision {
    /// Retry on the same target after this wait.
    RetrySame {
        /// The backoff before the retry.
        after: Duration,
        /// The credit from the retry budget; hold it until the attempt has ended.
        credit: Option<Credit>,
    },
    /// Call another target at once.
    FailOver(StopReason),
    /// Make no further attempt.
    GiveUp(StopReason),
}

/// Why the same target is not retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopReason {
    /// Part of the answer has been delivered; a second answer must not follow it.
    Committed,
    /// A retry cannot help with this failure.
    NotRetryable,
    /// The call may have been executed and is not idempotent.
    MayHaveExecuted,
    /// All retries for this kind of failure are used.
    AttemptsUsed,
    /// All retries that the current pressure allows are used.
    Pressure,
    /// The breaker blocks calls.
    BreakerOpen,
    /// Backoff and attempt would not fit before the deadline.
    NoTime,
    /// The retry budget refused a credit.
    Budget,
    /// The target asked for a longer pause than a failover takes.
    Throttled,
}

impl StopReason {
    /// Every reason.
    pub const ALL: [Self; 9] = [
        Self::Committed,
        Self::NotRetryable,
        Self::MayHaveExecuted,
        Self::AttemptsUsed,
        Self::Pressure,
        Self::BreakerOpen,
        Self::NoTime,
        Self::Budget,
        Self::Throttled,
    ];

    /// The label in logs and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::NotRetryable => "not_retryable",
            Self::MayHaveExecuted => "may_have_executed",
            Self::AttemptsUsed => "attempts_used",
            Self::Pressure => "pressure",
            Self::BreakerOpen => "breaker_open",
            Self::NoTime => "no_time",
            Self::Budget => "retry_budget",
            Self::Throttled => "throttled",
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// A decision, for logs, traces and counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryEvent {
    /// The number of the failed attempt; the first is 1.
    pub attempt: u32,
    /// The kind of failure.
    pub kind: FailureKind,
    /// The backoff, if the same target is retried.
    pub delay: Option<Duration>,
    /// Why the same target is not retried, if it is not.
    pub stopped: Option<StopReason>,
    /// Whether another target is called.
    pub fails_over: bool,
    /// The gate of the retry budget that refused, if the budget was the reason.
    pub budget: Option<CreditRefusal>,
}

/// A request that gave up: its attempts and how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("gave up after {attempts} attempts and {waited:?} of waiting: {}", last.kind.label())]
pub struct RetriesExhausted {
    /// Attempts made, on all targets.
    pub attempts: u32,
    /// Total backoff between them.
    pub waited: Duration,
    /// The last failure.
    pub last: Failure,
}

/// The retry state of one request.
///
/// ```
/// use seawall_core::random::Draw;
/// use seawall_core::deadline::Deadline;
/// use seawall_core::failure::{Failure, FailureKind};
/// use seawall_core::retry::{Retries, RetryDecision, RetryOptions, RetrySituation, StopReason};
/// use seawall_core::time::Timestamp;
/// use std::time::Duration;
///
/// let mut retries = Retries::new(RetryOptions::interactive().check().unwrap());
/// let throttled = Failure::of(FailureKind::Throttled);
/// let deadline = Deadline::after(Timestamp::ZERO, Duration::from_millis(1_900));
/// let situation = RetrySituation { has_other_target: true, ..RetrySituation::new(Timestamp::ZERO, deadline) };
///
/// let (decision, event) = retries.decide(&throttled, &situation, None, Draw::MIDDLE);
/// assert!(matches!(decision, RetryDecision::RetrySame { .. }));
/// assert_eq!(event.delay, Some(Duration::from_millis(200)));
///
/// // Too late for another wait: the next target, without sleeping.
/// let late = RetrySituation { now: Timestamp::ZERO + Duration::from_millis(1_800), ..situation };
/// let (decision, _) = retries.decide(&throttled, &late, None, Draw::MIDDLE);
/// assert!(matches!(decision, RetryDecision::FailOver(StopReason::NoTime)));
/// ```
#[derive(Clone, Debug)]
pub struct Retries {
    policy: RetryPolicy,
    backoff: BackoffState,
    /// Retries on the current target.
    retries: u32,
    attempts: u32,
    waited: Duration,
}

/// The gate that stopped the retry.
struct StoppedRetry {
    reason: StopReason,
    budget: Option<CreditRefusal>,
}

impl From<StopReason> for StoppedRetry {
    fn from(reason: StopReason) -> Self {
        Self { reason, budget: None }
    }
}

impl Retries {
    /// Creates the state of a request before its first attempt.
    #[must_use]
    pub fn new(policy: RetryPolicy) -> Self {
        Self { policy, backoff: BackoffState::default(), retries: 0, attempts: 0, waited: Duration::ZERO }
    }

    /// Decides after a failed attempt. One draw serves both as the jitter of the backoff and as the spread of
    /// Retry-After.
    pub fn decide(
        &mut self,
        failure: &Failure,
        situation: &RetrySituation,
        budget: Option<&RetryBudget>,
        draw: Draw,
    ) -> (RetryDecision, RetryEvent) {
        self.attempts = self.attempts.saturating_add(1);
        let event = RetryEvent {
            attempt: self.attempts,
            kind: failure.kind,
            delay: None,
            stopped: None,
            fails_over: false,
            budget: None,
        };
        match self.retry_here(failure, situation, budget, draw) {
            Ok((after, credit)) => {
                self.retries = self.retries.saturating_add(1);
                self.waited = self.waited.saturating_add(after);
                (RetryDecision::RetrySame { after, credit }, RetryEvent { delay: Some(after), ..event })
            }
            Err(StoppedRetry { reason, budget }) => {
                let fails_over = situation.has_other_target && may_fail_over(failure, situation);
                let event = RetryEvent { stopped: Some(reason), fails_over, budget, ..event };
                if fails_over {
                    self.retries = 0;
                    self.backoff = BackoffState::default();
                    (RetryDecision::FailOver(reason), event)
                } else {
                    (RetryDecision::GiveUp(reason), event)
                }
            }
        }
    }

    /// Decides whether to call the same target at once with another of its keys. A key has limits of its own, so that
    /// there is no backoff, and neither pressure nor the retries of the failed key count. `None` if it must not be
    /// called; [`decide`](Self::decide) then says what follows.
    pub fn rotate(
        &mut self,
        failure: &Failure,
        situation: &RetrySituation,
        budget: Option<&RetryBudget>,
    ) -> Option<(Option<Credit>, RetryEvent)> {
        let has_time = situation.deadline.has_room(situation.now, self.policy.min_attempt_time);
        if !may_fail_over(failure, situation) || !situation.breaker_passes || !has_time {
            return None;
        }
        let withdraw = |budget: &RetryBudget| budget.withdraw(CreditUse::Retry(failure.kind), situation.now);
        let credit = budget.map(withdraw).transpose().ok()?;
        self.attempts = self.attempts.saturating_add(1);
        let event = RetryEvent {
            attempt: self.attempts,
            kind: failure.kind,
            delay: Some(Duration::ZERO),
            stopped: None,
            fails_over: false,
            budget: None,
        };
        Some((credit, event))
    }

    /// The error for a request that has given up.
    #[must_use]
    pub fn exhausted(&self, last: Failure) -> RetriesExhausted {
        RetriesExhausted { attempts: self.attempts, waited: self.waited, last }
    }

    fn retry_here(
        &mut self,
        failure: &Failure,
        situation: &RetrySituation,
        budget: Option<&RetryBudget>,
        draw: Draw,
    ) -> Result<(Duration, Option<Credit>), StoppedRetry> {
        if situation.committed {
            return Err(StopReason::Committed.into());
        }
        if failure.retryability != Retryability::SameTarget {
            return Err(StopReason::NotRetryable.into());
        }
        if !situation.repeatable && !failure.not_executed {
            return Err(StopReason::MayHaveExecuted.into());
        }
        if self.retries >= self.policy.retries(failure.kind) {
            return Err(StopReason::AttemptsUsed.into());
        }
        // Before pressure, which allows no retry while the breaker is open either: the breaker is the more precise
        // reason.
        if !situation.breaker_passes {
            return Err(StopReason::BreakerOpen.into());
        }
        let asked_for = situation.throttled_for.or_else(|| failure.honoured_retry_after());
        if situation.other_is_ready && asked_for.is_some_and(|wait| wait > MAX_PREFERRED_WAIT) {
            return Err(StopReason::Throttled.into());
        }
        let pressure = situation.pressure.filter(|_| situation.throttled_for.is_none());
        if pressure.is_some_and(|pressure| self.retries >= pressure.retries()) {
            return Err(StopReason::Pressure.into());
        }
        let mut backoff = self.backoff;
        let after = self.wait(&mut backoff, failure, pressure, draw);
        let after = after.max(situation.throttled_for.unwrap_or_default());
        let attempt = situation.usual_attempt.unwrap_or(Duration::ZERO).max(self.policy.min_attempt_time);
        if !situation.deadline.has_room(situation.now, after.saturating_add(attempt)) {
            return Err(StopReason::NoTime.into());
        }
        let credit = match budget {
            Some(budget) => {
                let credit_use = CreditUse::Retry(failure.kind);
                let refused = |gate| StoppedRetry { reason: StopReason::Budget, budget: Some(gate) };
                Some(budget.withdraw(credit_use, situation.now).map_err(refused)?)
            }
            None => None,
        };
        self.backoff = backoff;
        enforce(self.check_retry(failure.kind, situation, after));
        Ok((after, credit))
    }

    /// The invariants of one more retry after this wait.
    fn check_retry(
        &self,
        kind: FailureKind,
        situation: &RetrySituation,
        after: Duration,
    ) -> Result<(), Violation> {
        attempts_within_limit(self.retries.saturating_add(1), self.policy.retries(kind))?;
        attempt_fits_deadline(situation.now, after, self.policy.min_attempt_time, situation.deadline)
    }

    fn wait(
        &self,
        backoff: &mut BackoffState,
        failure: &Failure,
        pressure: Option<Pressure>,
        draw: Draw,
    ) -> Duration {
        let wait = self.policy.backoff.next(backoff, draw);
        let wait = pressure.map_or(wait, |pressure| pressure.multiplier().times(wait));
        self.policy.retry_after.apply(wait, failure.retry_after, draw)
    }
}

/// Another target can still help, unless the answer has begun or the failure is caused by the request itself.
fn may_fail_over(failure: &Failure, situation: &RetrySituation) -> bool {
    !situation.committed
        && failure.retryability != Retryability::Never
        && (situation.repeatable || failure.not_executed)
}
