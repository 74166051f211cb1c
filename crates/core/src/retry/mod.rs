//! Whether, where and when to try again.
//!
//! One owner decides over all attempts of a request: SDK and HTTP clients below do not retry, or tries would
//! multiply. After each failed attempt [`Retries::decide`] answers with one of three: the same target again
//! after a wait, another target at once, or give up and say why.
//!
//! **All gates must agree** before the same target is tried again: nothing has reached the caller yet, trying
//! again can help here, the attempts of this kind of failure and of the present pressure are not used up, the
//! breaker passes calls, wait and attempt fit before the deadline, and the budget has a credit, which is taken
//! last so that no refusal costs one. Gates are asked anew each time: pressure that rises in the middle of a
//! request stops it.
//!
//! **State belongs to the request**, never to a client that requests share. Nothing here sleeps.

mod backoff;
mod counters;
mod hedge;
mod hint;
mod policy;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use backoff::{Backoff, BackoffOptions, BackoffState, Jitter};
pub use counters::{RetryCounters, RetrySnapshot};
pub use hedge::{HedgeCredits, HedgeDecision, HedgeOptions, HedgePolicy, HedgeRefusal, HedgeSituation};
pub use hint::HintOptions;
pub use policy::{RetryLimits, RetryOptions, RetryPolicy};

use crate::chance::Draw;
use crate::credit::{Credit, CreditRefusal, CreditUse, RetryBudget};
use crate::deadline::Deadline;
use crate::failure::{Failure, FailureKind, Retryability};
use crate::pressure::Pressure;
use crate::time::Timestamp;
use std::time::Duration;

/// A target that is held back for no longer than this is waited for, even where another is ready: the first of a route is
/// the one that its operator wants.
pub const WORTH_WAITING_HERE: Duration = Duration::from_secs(1);

/// How things stand when an attempt has failed.
#[derive(Clone, Copy, Debug)]
pub struct RetrySituation {
    /// The moment.
    pub now: Timestamp,
    /// By when an attempt on this target must have succeeded; reserves for what comes after already kept.
    pub deadline: Deadline,
    /// How long an attempt usually takes until its first content, where that is known.
    pub usual_attempt: Option<Duration>,
    /// How hard the target struggles; `None` where that is not measured.
    pub pressure: Option<Pressure>,
    /// How long the target is held back because it asked for it; `None` where it is not. The wait replaces what pressure
    /// would say: the target has named the moment from which it answers.
    pub held_back: Option<Duration>,
    /// Whether another target can be asked at once, and so sooner than one that is held back.
    pub other_is_ready: bool,
    /// Whether the target's breaker passes calls.
    pub breaker_passes: bool,
    /// Whether there is another target to try.
    pub has_other_target: bool,
    /// Whether anything of the answer has reached the caller.
    pub committed: bool,
    /// Whether the call may happen twice without harm.
    pub repeatable: bool,
}

impl RetrySituation {
    /// A repeatable call of which nothing has been delivered, on a healthy target without alternative.
    #[must_use]
    pub const fn new(now: Timestamp, deadline: Deadline) -> Self {
        Self {
            now,
            deadline,
            usual_attempt: None,
            pressure: None,
            held_back: None,
            other_is_ready: false,
            breaker_passes: true,
            has_other_target: false,
            committed: false,
            repeatable: true,
        }
    }
}

/// The answer after a failed attempt.
#[derive(Debug)]
pub enum RetryDecision {
    /// The same target again, after this wait.
    RetrySame {
        /// How long to wait.
        after: Duration,
        /// What the budget paid; hold it until the attempt has ended.
        credit: Option<Credit>,
    },
    /// Another target, at once.
    FailOver(StopReason),
    /// No further attempt.
    GiveUp(StopReason),
}

/// Why the same target is not tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopReason {
    /// Part of the answer has been delivered; a second one must not follow it.
    Committed,
    /// Trying again cannot help.
    NotRetryable,
    /// It may have been carried out, and must not be twice.
    MayHaveExecuted,
    /// As often as this kind of failure is worth.
    AttemptsUsed,
    /// As often as the present pressure allows.
    Pressure,
    /// The breaker blocks calls.
    BreakerOpen,
    /// Wait and attempt would not fit before the deadline.
    NoTime,
    /// The budget has no credit.
    Budget,
    /// The target asked us to stay away for longer than asking another takes.
    HeldBack,
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
        Self::HeldBack,
    ];

    /// The word for logs and metrics.
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
            Self::Budget => "budget",
            Self::HeldBack => "held_back",
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// What was decided, for logs, traces and counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryEvent {
    /// The attempt that failed; the first is 1.
    pub attempt: u32,
    /// How it failed.
    pub kind: FailureKind,
    /// The wait, where the same target is tried again.
    pub delay: Option<Duration>,
    /// Why not, where it is not.
    pub stopped: Option<StopReason>,
    /// Whether another target is tried.
    pub fails_over: bool,
    /// Which gate of the budget refused, where it was the budget.
    pub budget: Option<CreditRefusal>,
}

/// A request that ran out of tries: what it took and how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("gave up after {attempts} attempts and {waited:?} of waiting: {}", last.kind.label())]
pub struct RetriesExhausted {
    /// Attempts made, on all targets.
    pub attempts: u32,
    /// Time spent between them.
    pub waited: Duration,
    /// How the last one failed.
    pub last: Failure,
}

/// The tries of one request.
///
/// ```
/// use seawall_core::chance::Draw;
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
    /// Retries on the present target.
    retries: u32,
    attempts: u32,
    waited: Duration,
}

/// A gate that said no.
struct Stop {
    reason: StopReason,
    budget: Option<CreditRefusal>,
}

impl From<StopReason> for Stop {
    fn from(reason: StopReason) -> Self {
        Self { reason, budget: None }
    }
}

impl Retries {
    /// A request of which nothing has been tried.
    #[must_use]
    pub fn new(policy: RetryPolicy) -> Self {
        Self { policy, backoff: BackoffState::default(), retries: 0, attempts: 0, waited: Duration::ZERO }
    }

    /// Decides after a failed attempt. One draw serves both the wait and the spread of a server's hint.
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
            Err(Stop { reason, budget }) => {
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

    /// What to say when a request has given up.
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
    ) -> Result<(Duration, Option<Credit>), Stop> {
        if situation.committed {
            return Err(StopReason::Committed.into());
        }
        if failure.retryability != Retryability::Here {
            return Err(StopReason::NotRetryable.into());
        }
        if !situation.repeatable && !failure.not_executed {
            return Err(StopReason::MayHaveExecuted.into());
        }
        if self.retries >= self.policy.retries(failure.kind) {
            return Err(StopReason::AttemptsUsed.into());
        }
        // Before pressure, which allows nothing either while the breaker is open: the breaker is the reason.
        if !situation.breaker_passes {
            return Err(StopReason::BreakerOpen.into());
        }
        let asked_for = situation.held_back.or_else(|| failure.hold());
        if situation.other_is_ready && asked_for.is_some_and(|wait| wait > WORTH_WAITING_HERE) {
            return Err(StopReason::HeldBack.into());
        }
        let pressure = situation.pressure.filter(|_| situation.held_back.is_none());
        if pressure.is_some_and(|pressure| self.retries >= pressure.retries()) {
            return Err(StopReason::Pressure.into());
        }
        let mut backoff = self.backoff;
        let after = self.wait(&mut backoff, failure, pressure, draw);
        let after = after.max(situation.held_back.unwrap_or_default());
        let attempt = situation.usual_attempt.unwrap_or(Duration::ZERO).max(self.policy.least_attempt);
        if !situation.deadline.has_room(situation.now, after.saturating_add(attempt)) {
            return Err(StopReason::NoTime.into());
        }
        let credit = match budget {
            Some(budget) => {
                let wanted_for = CreditUse::Retry(failure.kind);
                let refused = |gate| Stop { reason: StopReason::Budget, budget: Some(gate) };
                Some(budget.withdraw(wanted_for, situation.now).map_err(refused)?)
            }
            None => None,
        };
        self.backoff = backoff;
        Ok((after, credit))
    }

    fn wait(
        &self,
        backoff: &mut BackoffState,
        failure: &Failure,
        pressure: Option<Pressure>,
        draw: Draw,
    ) -> Duration {
        let own = self.policy.backoff.next(backoff, draw);
        let own = pressure.map_or(own, |pressure| pressure.multiplier().times(own));
        self.policy.hint.apply(own, failure.retry_after, draw)
    }
}

/// Another target can still help, unless the answer has begun or the trouble is the request's own.
fn may_fail_over(failure: &Failure, situation: &RetrySituation) -> bool {
    !situation.committed
        && failure.retryability != Retryability::Nowhere
        && (situation.repeatable || failure.not_executed)
}
