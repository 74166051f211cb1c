//! Last stage: settles quotas and records what the request used and cost.

use crate::callers::TierOrigin;
use crate::credential::CredentialStatus;
use crate::limit_description::LimitDescription;
use crate::quota_store::{AdmissionReservation, QuotaStore};
use seawall_core::breaker::Transition;
use seawall_core::failure::FailureKind;
use seawall_core::money::{Money, Usage};
use seawall_core::quota::{LimitView, QuotaUnits};
use seawall_core::runtime::Runtime;
use seawall_core::time::{Now, Timestamp};
use seawall_core::vocabulary::{Rung, Tier};
use seawall_store::{AdmissionRecord, NodeLedger, Settlement};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How a request ended.
///
/// Requests that never enter the pipeline have no outcome: unknown paths, wrong methods, ambiguous HTTP framing and
/// headers that are too large are neither logged nor counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// Answered completely.
    Answered,
    /// The stream was interrupted after text had been delivered.
    Interrupted(RequestInterruption),
    /// The request was dropped before an outcome was set: the caller disconnected, or the code that served it panicked.
    /// After a panic the caller receives an internal error under another request ID.
    Abandoned,
    /// Rejected, with the label of the reason.
    Rejected(&'static str),
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
    /// The requested route, if it exists.
    pub route: Option<Arc<str>>,
    /// The rung that answered.
    pub rung: Option<Rung>,
    /// The target that answered, if any.
    pub target: Option<Arc<str>>,
    /// Whether the request exceeded a limit in observe mode, which did not reject it.
    pub limit_observed: bool,
    /// The limit that the request exceeded, enforced or observed.
    pub limit: Option<Arc<LimitDescription>>,
    /// How the request ended.
    pub outcome: RequestOutcome,
    /// The reason of a rejection in more detail than the caller's message.
    pub cause: Option<&'static str>,
    /// The number of attempts made.
    pub attempts: u32,
    /// The usage of the attempt that answered.
    pub usage: Usage,
    /// The cost posted for all attempts together.
    pub cost: Money,
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

/// The record of a completed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptRecord<'a> {
    /// The target of the attempt.
    pub target: &'a Arc<str>,
    /// The caller's tier.
    pub tier: Tier,
    /// How the attempt ended.
    pub outcome: AttemptOutcomeKind,
    /// The posted usage: the vendor's report, or the upper bound without one.
    pub usage: Usage,
    /// The posted cost.
    pub cost: Money,
    /// The amount by which the cost exceeds the reservation.
    pub overrun: Money,
    /// Whether the vendor reported more usage than is possible and the charge was capped.
    pub is_capped: bool,
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

/// The state that all attempts of one request share: their totals, to which every attempt adds however it ends, the
/// observer that they report to, and the journal entry of the admission.
pub(crate) struct RequestProgress {
    observer: Arc<dyn Observer>,
    attempts: AtomicU32,
    /// The journal entry of its quotas and idempotency key, if the ledger keeps them across restarts.
    admission_record: OnceLock<Box<(NodeLedger, AdmissionRecord)>>,
    /// Whether any attempt reached a vendor.
    was_sent: AtomicBool,
    cost_nanos: AtomicU64,
    overrun_nanos: AtomicU64,
    is_capped: AtomicBool,
    /// Posted tokens, input and output.
    tokens: AtomicU64,
    /// Time spent waiting for targets, concurrency slots and backoff.
    waited_nanos: AtomicU64,
}

impl RequestProgress {
    fn new(observer: &Arc<dyn Observer>) -> Self {
        Self {
            observer: Arc::clone(observer),
            attempts: AtomicU32::new(0),
            admission_record: OnceLock::new(),
            was_sent: AtomicBool::new(false),
            cost_nanos: AtomicU64::new(0),
            overrun_nanos: AtomicU64::new(0),
            is_capped: AtomicBool::new(false),
            tokens: AtomicU64::new(0),
            waited_nanos: AtomicU64::new(0),
        }
    }

    /// Reports a completed attempt; `was_sent` says whether any of it reached a vendor.
    pub(crate) fn record_attempt(&self, attempt: &AttemptRecord<'_>, was_sent: bool) {
        if was_sent {
            self.was_sent.store(true, Ordering::Relaxed);
        }
        self.observer.attempt_completed(attempt);
    }

    pub(crate) fn credential_changed(&self, target: &Arc<str>, status: CredentialStatus) {
        self.observer.credential_changed(target, status);
    }

    pub(crate) fn breaker_changed(&self, target: &Arc<str>, transition: &Transition) {
        self.observer.breaker_changed(target, transition);
    }

    /// Sets the journal entry that is written with the first reservation.
    pub(crate) fn set_admission_record(&self, ledger: NodeLedger, admission_record: AdmissionRecord) {
        // A request is admitted once, so the cell is empty.
        let _ = self.admission_record.set(Box::new((ledger, admission_record)));
    }

    pub(crate) fn admission_record(&self) -> Option<&AdmissionRecord> {
        self.admission_record.get().map(|entry| &entry.1)
    }

    fn settle_admission(&self, spent: Settlement, now: Now) {
        if let Some((ledger, admission_record)) = self.admission_record.get().map(Box::as_ref) {
            ledger.settle_admission(admission_record, spent, now);
        }
    }

    pub(crate) fn count_attempt(&self) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::Relaxed)
    }

    /// Adds the posted usage and cost of an attempt.
    pub(crate) fn add(&self, usage: &Usage, cost: Money) {
        add(&self.cost_nanos, cost.as_nanos());
        add(&self.tokens, usage.total_input().saturating_add(usage.output));
    }

    /// Adds the amount by which an attempt cost more than was reserved.
    pub(crate) fn add_overrun(&self, overrun: Money, is_capped: bool) {
        add(&self.overrun_nanos, overrun.as_nanos());
        self.is_capped.fetch_or(is_capped, Ordering::Relaxed);
    }

    fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }

    pub(crate) fn cost(&self) -> Money {
        Money::from_nanos(self.cost_nanos.load(Ordering::Relaxed))
    }

    pub(crate) fn add_wait(&self, wait: Duration) {
        let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        add(&self.waited_nanos, nanos);
    }

    pub(crate) fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_nanos.load(Ordering::Relaxed))
    }
}

/// Saturates: a vendor may report absurdly large numbers, whose sum must not wrap around to a small one.
fn add(sum: &AtomicU64, more: u64) {
    let added = |sum: u64| Some(sum.saturating_add(more));
    // Cannot fail: the closure always returns a value.
    let _ = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
}

/// Records the end of a request exactly once. Dropped at any point, it reports what is known by then and settles the
/// quotas. A request that is dropped before an outcome is set ends as abandoned.
pub(crate) struct RequestCompletion<R: Runtime> {
    runtime: R,
    began: Timestamp,
    pub(crate) progress: Arc<RequestProgress>,
    pub(crate) record: RequestRecord,
    /// The limit that the response reports; see [`ReplyMetadata::reported_limit`](crate::ReplyMetadata).
    pub(crate) reported_limit: Option<LimitView>,
    /// The `RateLimit-Policy` header of a rejection.
    pub(crate) policy: Option<Arc<str>>,
    /// The reservation to settle, and the store it belongs to.
    pub(crate) reservation: Option<(AdmissionReservation, Arc<QuotaStore>)>,
    /// Whether the limits counted the request.
    pub(crate) is_counted: bool,
    /// When the request ended, if that was before the drop.
    pub(crate) ended: Option<Timestamp>,
}

impl<R: Runtime> RequestCompletion<R> {
    pub(crate) fn new(runtime: &R, observer: &Arc<dyn Observer>, id: u64, face: &'static str) -> Self {
        let record = RequestRecord {
            id,
            face,
            caller: None,
            route: None,
            rung: None,
            target: None,
            limit_observed: false,
            limit: None,
            outcome: RequestOutcome::Abandoned,
            cause: None,
            attempts: 0,
            usage: Usage::default(),
            cost: Money::ZERO,
            overrun: Money::ZERO,
            is_capped: false,
            first_content: None,
            duration: Duration::ZERO,
            overhead: None,
            ended: Timestamp::ZERO,
        };
        Self {
            runtime: runtime.clone(),
            began: runtime.monotonic(),
            progress: Arc::new(RequestProgress::new(observer)),
            record,
            reported_limit: None,
            policy: None,
            reservation: None,
            is_counted: true,
            ended: None,
        }
    }

    /// Records the added latency at the start of the answer: the time so far minus the time spent waiting.
    pub(crate) fn record_overhead(&mut self, now: Timestamp) {
        self.record.overhead = Some((now - self.began).saturating_sub(self.progress.waited()));
    }
}

impl<R: Runtime> Drop for RequestCompletion<R> {
    fn drop(&mut self) {
        let record = &mut self.record;
        record.attempts = self.progress.attempts();
        record.cost = self.progress.cost();
        record.overrun = Money::from_nanos(self.progress.overrun_nanos.load(Ordering::Relaxed));
        record.is_capped = self.progress.is_capped.load(Ordering::Relaxed);
        record.ended = self.ended.unwrap_or_else(|| self.runtime.monotonic());
        record.duration = record.ended - self.began;
        if let Some((reservation, quotas)) = self.reservation.take() {
            // A rejection returns the whole reservation, unless a vendor has already worked on the request. A caller
            // that disconnects still counts: otherwise disconnecting early would bypass the limits.
            let is_free = matches!(record.outcome, RequestOutcome::Rejected(_))
                && !self.progress.was_sent.load(Ordering::Relaxed);
            if is_free {
                let now = self.runtime.now();
                self.progress.settle_admission(Settlement::default(), now);
                quotas.refund(reservation, now);
                self.progress.observer.request_completed(record);
                return;
            }
            // Everything that was posted, including failed attempts and answers that were not read to their end.
            // Otherwise a caller that disconnects in time would appear to have used nothing.
            let used = u32::try_from(self.progress.tokens()).unwrap_or(u32::MAX);
            let spent = Settlement {
                units: if self.is_counted { QuotaUnits::tokens(used) } else { QuotaUnits::NOTHING },
                cost: record.cost,
                answered: record.outcome == RequestOutcome::Answered,
            };
            let now = self.runtime.now();
            if let Some(admission_record) = self.progress.admission_record() {
                let units =
                    if reservation.needs_settlement() { spent.units } else { admission_record.units() };
                self.progress.settle_admission(Settlement { units, ..spent }, now);
            }
            quotas.settle(reservation, spent, now);
        }
        self.progress.observer.request_completed(record);
    }
}

/// Receives a record of every completed request. Called on the request's own task, so it must not block.
pub trait Observer: Send + Sync {
    /// Called when a request is complete.
    fn request_completed(&self, record: &RequestRecord);

    /// Called when an attempt is complete, usually before the end of its request.
    fn attempt_completed(&self, _attempt: &AttemptRecord<'_>) {}

    /// Called when a target's vendor starts to reject the credential, or accepts it again.
    fn credential_changed(&self, _target: &Arc<str>, _status: CredentialStatus) {}

    /// Called when a target's breaker has opened, become half-open or closed. The change is detected when a call ends;
    /// [`Transition::at`] is when it happened.
    fn breaker_changed(&self, _target: &Arc<str>, _transition: &Transition) {}
}

#[cfg(test)]
mod tests {
    use super::add;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn sums_saturate() {
        let sum = AtomicU64::new(0);
        for (more, all) in [(1, 1), (u64::MAX - 2, u64::MAX - 1), (1, u64::MAX), (u64::MAX, u64::MAX)] {
            add(&sum, more);
            assert_eq!(sum.load(Ordering::Relaxed), all);
        }
    }
}
