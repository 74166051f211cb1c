//! The records of completed requests and attempts.
//!
//! A record is what an operator sees of a request afterwards: in the access log, in the admin API and in metrics. It holds
//! fixed labels, numbers and names from the settings, and no text of a message. It is copied into every sink that keeps
//! it, so it is kept small: times are numbers, attempts are listed inline up to a bound, and what only few requests
//! have is shared by reference.

mod attempt;
mod decision;
mod stage;

pub use attempt::{
    AttemptCause, AttemptError, AttemptOutcomeKind, AttemptRecord, AttemptSummary, CompactDuration,
    FirstAttempts, MAX_LISTED_ATTEMPTS, SkipKind,
};
pub use decision::{CheckedLimitSummary, PlannedRungs, SkippedTarget};
pub(crate) use decision::{MAX_SKIPPED_TARGETS, is_degraded};
pub use stage::{RequestStage, StageTimes};

use crate::callers::{CallerContract, CredentialKind, TierOrigin};
use crate::limit_description::LimitDescription;
use crate::reply::Rejection;
use seawall_core::evaluator::{Evaluation, Plan, PlanReasons};
use seawall_core::failure::FailureKind;
use seawall_core::money::{Money, Usage};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::{Rung, Tier};
use seawall_provider::TraceHeaders;
use std::sync::Arc;
use std::time::Duration;

/// How a request ended.
///
/// Requests that never enter the pipeline have no outcome: unknown paths, wrong methods, ambiguous HTTP framing and
/// headers that are too large are neither logged nor counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// Answered completely, as planned.
    Answered,
    /// Answered completely, but with less quality than planned: by an apology, a stale answer, or a lower grade or rung.
    Degraded,
    /// The stream was interrupted after text had been delivered.
    Interrupted(RequestInterruption),
    /// The request was dropped before an outcome was set: the caller disconnected, or the code that served it panicked.
    /// After a panic the caller receives an internal error under another request ID.
    Abandoned,
    /// Rejected, with the label of the reason.
    Rejected(&'static str),
}

impl RequestOutcome {
    /// Whether the caller received a complete answer, degraded or not.
    #[must_use]
    pub const fn is_answered(&self) -> bool {
        matches!(self, Self::Answered | Self::Degraded)
    }

    /// The label in logs and metrics.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Degraded => "degraded",
            Self::Interrupted(_) => "interrupted",
            Self::Abandoned => "abandoned",
            Self::Rejected(_) => "rejected",
        }
    }

    /// The label of the reason, if the outcome has one.
    #[must_use]
    pub const fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Interrupted(reason) => Some(reason.label()),
            Self::Rejected(reason) => Some(reason),
            Self::Answered | Self::Degraded | Self::Abandoned => None,
        }
    }
}

/// Why a stream was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestInterruption {
    /// The target failed, or a guardrail stopped the answer.
    Failed(FailureKind),
    /// The client stopped reading (`server.send_timeout`).
    ClientStalled,
    /// The request's deadline passed while the target was still sending.
    Deadline,
    /// The drain timeout expired.
    ShuttingDown,
}

impl RequestInterruption {
    /// The reasons that are no failure of a target.
    pub const OWN: [Self; 3] = [Self::ClientStalled, Self::Deadline, Self::ShuttingDown];

    /// The label in logs and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Failed(kind) => kind.label(),
            Self::ClientStalled => "client_stalled",
            Self::Deadline => "deadline",
            Self::ShuttingDown => "shutting_down",
        }
    }
}

/// The record of a completed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// The request ID.
    pub id: u64,
    /// The face at which it arrived.
    pub face: &'static str,
    /// The caller, if it was identified.
    pub caller: Option<(u64, Tier, TierOrigin)>,
    /// The terms of the caller's API key, if it presented one.
    pub contract: Option<Arc<CallerContract>>,
    /// The kind of credential; `None` for a guest, and for a request that was rejected before its caller was known.
    pub credential: Option<CredentialKind>,
    /// The caller's trace, if the request names one.
    pub trace: Option<Arc<TraceHeaders>>,
    /// The requested route, if it exists.
    pub route: Option<Arc<str>>,
    /// The rung that answered.
    pub rung: Option<Rung>,
    /// The target that answered, if any.
    pub target: Option<Arc<str>>,
    /// The provider's name of its model, if any.
    pub model: Option<Arc<str>>,
    /// Whether the request exceeded a limit in observe mode, which did not reject it.
    pub limit_observed: bool,
    /// The limit that the request exceeded, enforced or observed.
    pub limit: Option<Arc<LimitDescription>>,
    /// The limits that were checked; `None` if the request ended before.
    pub limits: Option<CheckedLimitSummary>,
    /// How the request ended.
    pub outcome: RequestOutcome,
    /// The rejection as the caller receives it.
    pub rejection: Option<Arc<Rejection>>,
    /// The reason of a rejection in more detail than the caller's message.
    pub cause: Option<&'static str>,
    /// Why each target did not answer, if none did: `sonnet 401 (key rejected), haiku skipped (circuit open)`.
    pub failed_targets: Option<Arc<str>>,
    /// The targets that were not called, each with the last reason, as far as listed.
    pub skipped_targets: Option<Arc<[SkippedTarget]>>,
    /// The number of attempts made.
    pub attempts: u32,
    /// The first of them, in the order in which they started.
    pub first_attempts: FirstAttempts,
    /// How long each stage took. The times add up to the duration.
    pub stages: StageTimes,
    /// Why the plan was restricted; `None` if nothing restricted it.
    pub plan: Option<Arc<PlanRecord>>,
    /// How the request was planned to be answered; `None` if it ended before.
    pub planned: Option<PlannedRungs>,
    /// Why no better rung answered, as an assistant reports it to the caller.
    pub rung_reasons: Option<Arc<[Box<str>]>>,
    /// The usage of the attempt that answered.
    pub usage: Usage,
    /// The most that all attempts together could cost, which was reserved for them.
    pub reserved: Money,
    /// The cost posted for all attempts together.
    pub cost: Money,
    /// Whether the price of a model that was called is unknown, so that the cost is not complete.
    pub is_cost_unknown: bool,
    /// The amount by which the cost exceeds the reservations.
    pub overrun: Money,
    /// Whether a vendor reported more usage than is possible and the charge was capped.
    pub is_capped: bool,
    /// Time from the complete receipt of the request to the first content, if any. The time for authentication and for
    /// the body is not included, here and below.
    pub first_content: Option<Duration>,
    /// Time from the complete receipt of the request to its end; about zero for a request that was rejected earlier.
    pub duration: Duration,
    /// Latency that the gateway added between the complete receipt of the request and the start of the answer, without
    /// the waits for targets, concurrency slots, pacing and backoff.
    pub overhead: Option<Duration>,
    /// When the request ended.
    pub ended: Timestamp,
}

impl RequestRecord {
    /// The record of a request of which nothing else is known: abandoned, without attempts or cost.
    #[must_use]
    pub fn new(id: u64, face: &'static str) -> Self {
        Self {
            id,
            face,
            caller: None,
            contract: None,
            credential: None,
            trace: None,
            route: None,
            rung: None,
            target: None,
            model: None,
            limit_observed: false,
            limit: None,
            limits: None,
            outcome: RequestOutcome::Abandoned,
            rejection: None,
            cause: None,
            failed_targets: None,
            skipped_targets: None,
            attempts: 0,
            first_attempts: FirstAttempts::new(),
            stages: StageTimes::default(),
            plan: None,
            planned: None,
            rung_reasons: None,
            usage: Usage::default(),
            reserved: Money::ZERO,
            cost: Money::ZERO,
            is_cost_unknown: false,
            overrun: Money::ZERO,
            is_capped: false,
            first_content: None,
            duration: Duration::ZERO,
            overhead: None,
            ended: Timestamp::ZERO,
        }
    }

    /// Sets the outcome of a request that was answered completely. An answer of less quality than planned is degraded.
    pub(crate) fn set_answered(&mut self) {
        let is_degraded = self.rung.is_some_and(|rung| is_degraded(rung, self.planned.as_ref()));
        self.outcome = if is_degraded { RequestOutcome::Degraded } else { RequestOutcome::Answered };
    }

    /// Whether the request took the usual way: one attempt, begun at once, with an answer.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let is_plain = |attempt: &AttemptSummary| {
            attempt.cause == AttemptCause::First
                && attempt.outcome == AttemptOutcomeKind::Succeeded
                && attempt.delay.is_zero()
        };
        self.attempts <= 1 && self.first_attempts.iter().all(is_plain)
    }
}

/// Why the plan of a request was restricted, and what protections in observe mode would have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRecord {
    /// Every input that restricted the plan.
    pub reasons: PlanReasons,
    /// The plan if every protection in observe mode were enforced, if it differs.
    pub shadow: Option<Plan>,
}

impl PlanRecord {
    /// What is worth recording of an evaluation; `None` for a plan without restrictions, which most are.
    pub(crate) fn of(evaluation: &Evaluation) -> Option<Arc<Self>> {
        let Evaluation { plan, shadow } = evaluation;
        let shadow = shadow.as_ref().filter(|shadow| *shadow != plan);
        if plan.reasons.is_empty() && shadow.is_none() {
            return None;
        }
        Some(Arc::new(Self { reasons: plan.reasons.clone(), shadow: shadow.cloned() }))
    }
}

#[cfg(test)]
mod tests {
    use super::PlanRecord;
    use seawall_core::evaluator::{PlanPolicy, PlanSituation, Posture, Protection, evaluate};
    use seawall_core::time::UtcTime;
    use seawall_core::vocabulary::{Ceiling, Level, Mode, Tier};

    fn record(level: Level, mode: Mode) -> Option<(Vec<String>, Option<Ceiling>)> {
        let (mut policy, posture) = (PlanPolicy::default(), Posture { level, ..Posture::default() });
        policy.protections.set_mode(Protection::Degradation, mode);
        let (situation, now) = (PlanSituation::of(7, Tier::Prime), UtcTime::from_civil(2026, 11, 15));
        let record = PlanRecord::of(&evaluate(&policy, &posture, &situation, now))?;
        let reasons = record.reasons.iter().map(ToString::to_string).collect();
        Some((reasons, record.shadow.as_ref().map(|shadow| shadow.ceiling)))
    }

    #[test]
    fn a_plan_is_recorded_if_it_is_restricted_or_would_have_been() {
        let reasons = vec!["level:high_load=fast".to_owned()];
        assert_eq!(record(Level::HighLoad, Mode::Enforce), Some((reasons, None)));
        assert_eq!(record(Level::HighLoad, Mode::Observe), Some((Vec::new(), Some(Ceiling::Fast))));
        assert_eq!(record(Level::HighLoad, Mode::Off), None);
        assert_eq!(record(Level::Normal, Mode::Enforce), None);
        assert_eq!(record(Level::Normal, Mode::Observe), None, "the same plan both times");
    }
}
