//! The health of a target, in words that say what an operator should do.
//!
//! **Why not only a breaker?** A breaker answers whether to call. It does not say that a key was revoked, that the
//! vendor's credit is used up or that a model name is wrong: for those the vendor answers promptly, so that no breaker
//! opens, and no retry helps. This machine names the condition of a target, since when it lasts, how often it was seen,
//! and the last error.
//!
//! **When a condition begins.** What the vendor states about our account (credential, quota, model) counts at once,
//! because one request may be all that arrives in an hour. Other problems count once at least [`MIN_RUN`] calls in a row
//! over at least [`RUN_TIME`] had one and none was answered well, because single failures are normal.
//!
//! **When it ends.** With the first good answer to a call that was sent after it began. If that answer comes soon after
//! only one or two statements of the vendor, the statement was about a request and not about the account: for the next
//! [`DOUBT`] three in a row are needed, so that one odd request cannot change the condition again and again.
//!
//! **What it does not do.** It blocks nothing. Breaker, pacing and the retry policy decide which calls are made;
//! balancing tries a target in a stated condition last, except for one call per [`PROBE_INTERVAL`].
//!
//! ```
//! use seawall_core::health::{HealthEvidence, TargetCondition, TargetHealth};
//! use seawall_core::time::{Now, Timestamp};
//!
//! let mut health = TargetHealth::new(Now::default());
//! let rejected = HealthEvidence::Problem(TargetCondition::CredentialRejected);
//! let change = health.record(rejected, Timestamp::ZERO, Now::default(), || "401 unauthorized".into());
//! assert_eq!(change.map(|change| change.to), Some(TargetCondition::CredentialRejected));
//! ```

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use crate::failure::{AttemptOutcome, FailureKind, Health};
use crate::time::{Now, Timestamp};
use crate::vocabulary::named_enum;
use std::time::Duration;

/// Calls in a row that a problem needs, unless the vendor states it.
pub const MIN_RUN: u32 = 3;
/// The time that these calls must span at least.
pub const RUN_TIME: Duration = Duration::from_secs(5);
/// A stated condition that ends this soon was probably about one request.
const DISPROOF_TIME: Duration = Duration::from_secs(60);
/// How long the vendor's statements are then doubted.
pub const DOUBT: Duration = Duration::from_secs(10 * 60);
/// How often a target in a stated condition is tried first all the same.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(60);

named_enum! {
    /// The condition of a target.
    pub enum TargetCondition as "condition" {
        /// No call has ended yet.
        Unknown = "unknown",
        /// Calls are answered.
        Healthy = "healthy",
        /// The vendor rejects our credential.
        CredentialRejected = "credential_rejected",
        /// Our quota, credit or spend limit at the vendor is used up.
        QuotaExhausted = "quota_exhausted",
        /// The vendor does not know the model.
        UnknownModel = "unknown_model",
        /// The vendor rate-limits us, or has no capacity.
        Throttled = "throttled",
        /// No connection can be made.
        Unreachable = "unreachable",
        /// Calls end with errors of the vendor, or break off.
        Failing = "failing",
        /// Answers start too late.
        Slow = "slow",
    }
}

impl TargetCondition {
    /// Whether something is wrong.
    #[must_use]
    pub const fn is_problem(self) -> bool {
        !matches!(self, Self::Unknown | Self::Healthy)
    }

    /// Whether the vendor states it about our account. It then lasts until an operator acts.
    #[must_use]
    pub const fn is_stated(self) -> bool {
        matches!(self, Self::CredentialRejected | Self::QuotaExhausted | Self::UnknownModel)
    }
}

/// What one attempt shows about a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthEvidence {
    /// A good answer.
    Answered,
    /// An answer that started too late. It shows that credential, quota and model are accepted.
    AnsweredSlowly,
    /// A problem.
    Problem(TargetCondition),
}

impl HealthEvidence {
    /// What an outcome shows; `None` if nothing. An unknown model is a problem of the target only if the settings name
    /// the model, not if the caller does.
    #[must_use]
    pub fn of(outcome: &AttemptOutcome, slow_threshold: Duration, is_model_configured: bool) -> Option<Self> {
        let failure = match outcome {
            AttemptOutcome::Failed(failure) => failure,
            AttemptOutcome::Succeeded { .. } | AttemptOutcome::SucceededUnstreamed { .. } => {
                let is_slow = outcome.health(slow_threshold) == Health::Slow;
                return Some(if is_slow { Self::AnsweredSlowly } else { Self::Answered });
            }
            AttemptOutcome::Throttled | AttemptOutcome::Abandoned => return None,
        };
        Some(Self::Problem(match failure.kind {
            FailureKind::Unauthorized => TargetCondition::CredentialRejected,
            FailureKind::QuotaExhausted => TargetCondition::QuotaExhausted,
            FailureKind::NotFound if is_model_configured => TargetCondition::UnknownModel,
            FailureKind::Throttled | FailureKind::Overloaded | FailureKind::NotReady => {
                TargetCondition::Throttled
            }
            FailureKind::Unreachable => TargetCondition::Unreachable,
            FailureKind::StartTimeout => TargetCondition::Slow,
            FailureKind::TimedOut
            | FailureKind::StreamInterrupted
            | FailureKind::ServerFault
            | FailureKind::ModelFault
            | FailureKind::Unrecognised => TargetCondition::Failing,
            FailureKind::Filtered => return Some(Self::Answered),
            FailureKind::NotFound | FailureKind::BadRequest | FailureKind::TooLong => return None,
        }))
    }
}

/// The last error of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// When.
    pub at: Now,
    /// What, in one line that is safe to show to operators.
    pub text: Box<str>,
}

/// A change of the condition of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthTransition {
    /// The condition before.
    pub from: TargetCondition,
    /// How long it lasted.
    pub lasted: Duration,
    /// The condition now.
    pub to: TargetCondition,
}

/// Problems in a row.
#[derive(Clone, Copy, Debug)]
struct ProblemRun {
    first: Timestamp,
    count: u32,
}

impl ProblemRun {
    fn extended(run: Option<Self>, now: Timestamp) -> Self {
        match run {
            Some(run) => Self { count: run.count.saturating_add(1), ..run },
            None => Self { first: now, count: 1 },
        }
    }

    fn is_long(&self, now: Timestamp) -> bool {
        self.count >= MIN_RUN && now - self.first >= RUN_TIME
    }
}

/// The health of one target. The [module](self) documents when it changes.
#[derive(Clone, Debug)]
pub struct TargetHealth {
    condition: TargetCondition,
    since: Now,
    occurrences: u64,
    has_answered: bool,
    last_error: Option<LastError>,
    /// Problems of any kind since the last good answer.
    problems: Option<ProblemRun>,
    /// The last of them that were of one kind.
    same: Option<(TargetCondition, ProblemRun)>,
    doubts_until: Option<Timestamp>,
    next_probe: Timestamp,
}

impl TargetHealth {
    /// A target that was not called yet.
    #[must_use]
    pub const fn new(now: Now) -> Self {
        Self {
            condition: TargetCondition::Unknown,
            since: now,
            occurrences: 0,
            has_answered: false,
            last_error: None,
            problems: None,
            same: None,
            doubts_until: None,
            next_probe: now.monotonic,
        }
    }

    /// The present condition.
    #[must_use]
    pub const fn condition(&self) -> TargetCondition {
        self.condition
    }

    /// Since when it lasts.
    #[must_use]
    pub const fn since(&self) -> Now {
        self.since
    }

    /// How many attempts have shown the present problem since it began, with those that led to it.
    #[must_use]
    pub const fn occurrences(&self) -> u64 {
        self.occurrences
    }

    /// Whether the vendor has ever answered a call.
    #[must_use]
    pub const fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// The last error, which may be older than the present condition.
    #[must_use]
    pub const fn last_error(&self) -> Option<&LastError> {
        self.last_error.as_ref()
    }

    /// Whether a good answer would change nothing.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        matches!(self.condition, TargetCondition::Healthy) && self.problems.is_none()
    }

    /// Records what an attempt shows that was sent at `sent`. Returns the change, if the condition begins or ends to be a
    /// problem, or becomes another one. The text of an error is only made for a problem.
    pub fn record(
        &mut self,
        evidence: HealthEvidence,
        sent: Timestamp,
        now: Now,
        error: impl FnOnce() -> Box<str>,
    ) -> Option<HealthTransition> {
        match evidence {
            HealthEvidence::Answered => self.answered(sent, now),
            // What the vendor had stated is over; whether the target is slow is for the next answers to show.
            HealthEvidence::AnsweredSlowly if self.condition.is_stated() => self.answered(sent, now),
            HealthEvidence::AnsweredSlowly => {
                self.has_answered = true;
                self.problem(TargetCondition::Slow, now)
            }
            HealthEvidence::Problem(problem) => {
                self.last_error = Some(LastError { at: now, text: error() });
                self.problem(problem, now)
            }
        }
    }

    /// Whether a target in a stated condition may be tried first now, to see whether it has ended. Returns `true` once
    /// per interval.
    pub fn claim_probe(&mut self, now: Timestamp) -> bool {
        let is_due = self.condition.is_stated() && now >= self.next_probe;
        if is_due {
            self.next_probe = now + PROBE_INTERVAL;
        }
        is_due
    }

    fn answered(&mut self, sent: Timestamp, now: Now) -> Option<HealthTransition> {
        self.has_answered = true;
        (self.problems, self.same) = (None, None);
        // A call from before the problem began says nothing about it.
        if self.condition.is_problem() && sent < self.since.monotonic {
            return None;
        }
        let is_brief = now.monotonic - self.since.monotonic < DISPROOF_TIME;
        if self.condition.is_stated() && is_brief && self.occurrences < u64::from(MIN_RUN) {
            self.doubts_until = Some(now.monotonic + DOUBT);
        }
        self.change(TargetCondition::Healthy, 0, now)
    }

    fn problem(&mut self, problem: TargetCondition, now: Now) -> Option<HealthTransition> {
        let at = now.monotonic;
        let problems = ProblemRun::extended(self.problems, at);
        let earlier = self.same.and_then(|(kind, run)| (kind == problem).then_some(run));
        let same = ProblemRun::extended(earlier, at);
        (self.problems, self.same) = (Some(problems), Some((problem, same)));
        if problem == self.condition {
            self.occurrences = self.occurrences.saturating_add(1);
            return None;
        }
        let is_doubted = self.doubts_until.is_some_and(|until| at < until);
        let has_begun = match problem.is_stated() {
            true => !is_doubted || same.count >= MIN_RUN,
            false if self.condition.is_problem() => same.is_long(at),
            false => problems.is_long(at),
        };
        has_begun.then(|| self.change(problem, same.count, now)).flatten()
    }

    /// From unknown to healthy is no news.
    fn change(&mut self, to: TargetCondition, occurrences: u32, now: Now) -> Option<HealthTransition> {
        if to == self.condition {
            return None;
        }
        let lasted = now.monotonic - self.since.monotonic;
        let change = HealthTransition { from: self.condition, lasted, to };
        (self.condition, self.since, self.occurrences) = (to, now, occurrences.into());
        self.next_probe = now.monotonic + PROBE_INTERVAL;
        (change.from.is_problem() || to.is_problem()).then_some(change)
    }
}
