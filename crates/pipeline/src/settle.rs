//! Last stage: settles quotas and records what the request used and cost.

use crate::event::{Event, EventSinks};
use crate::quota_store::{AdmissionReservation, QuotaStore};
use crate::record::{
    AttemptRecord, AttemptSummary, CompactDuration, FirstAttempts, MAX_LISTED_ATTEMPTS, MAX_SKIPPED_TARGETS,
    RequestOutcome, RequestRecord, RequestStage, SkipKind, SkippedTarget,
};
use seawall_core::money::{Money, Usage};
use seawall_core::quota::{LimitView, QuotaUnits};
use seawall_core::runtime::Runtime;
use seawall_core::time::{Now, Timestamp};
use seawall_store::{AdmissionRecord, NodeLedger, Settlement};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The state that all attempts of one request share: their totals, to which every attempt adds however it ends, the
/// sinks of their events, and the journal entry of the admission.
pub(crate) struct RequestProgress {
    pub(crate) events: Arc<EventSinks>,
    /// The ID of the request.
    pub(crate) request: u64,
    began: Timestamp,
    attempts: AtomicU32,
    /// The first attempts by number, each set when it has ended. Cells and no lock: an attempt sets only its own.
    first_attempts: [OnceLock<AttemptSummary>; MAX_LISTED_ATTEMPTS],
    /// The targets that were not called. Absent for most requests, which then take no lock.
    skipped: OnceLock<Mutex<Vec<SkippedTarget>>>,
    /// The journal entry of its quotas and idempotency key, if the ledger keeps them across restarts.
    admission_record: OnceLock<Box<(NodeLedger, AdmissionRecord)>>,
    /// Whether any attempt reached a vendor.
    was_sent: AtomicBool,
    reserved_nanos: AtomicU64,
    cost_nanos: AtomicU64,
    overrun_nanos: AtomicU64,
    is_capped: AtomicBool,
    is_cost_unknown: AtomicBool,
    /// Posted tokens, input and output.
    tokens: AtomicU64,
    /// Time spent waiting for targets, concurrency slots and backoff.
    waited_nanos: AtomicU64,
    /// The part of it since the last attempt started: the delay of the next one.
    delay_nanos: AtomicU64,
}

impl RequestProgress {
    fn new(events: &Arc<EventSinks>, request: u64, began: Timestamp) -> Self {
        Self {
            events: Arc::clone(events),
            request,
            began,
            attempts: AtomicU32::new(0),
            first_attempts: [const { OnceLock::new() }; MAX_LISTED_ATTEMPTS],
            skipped: OnceLock::new(),
            admission_record: OnceLock::new(),
            was_sent: AtomicBool::new(false),
            reserved_nanos: AtomicU64::new(0),
            cost_nanos: AtomicU64::new(0),
            overrun_nanos: AtomicU64::new(0),
            is_capped: AtomicBool::new(false),
            is_cost_unknown: AtomicBool::new(false),
            tokens: AtomicU64::new(0),
            waited_nanos: AtomicU64::new(0),
            delay_nanos: AtomicU64::new(0),
        }
    }

    /// Records a completed attempt; `was_sent` says whether any of it reached a vendor.
    pub(crate) fn record_attempt(&self, attempt: &AttemptRecord<'_>, was_sent: bool) {
        if was_sent {
            self.was_sent.store(true, Ordering::Relaxed);
        }
        if let Some(cell) = self.first_attempts.get(attempt.number as usize) {
            // Set only here: each attempt has a number of its own and ends once.
            let _ = cell.set(AttemptSummary {
                target: Arc::clone(attempt.target),
                cause: attempt.cause,
                outcome: attempt.outcome,
                delay: CompactDuration::of(attempt.delay),
                start: CompactDuration::of(attempt.started - self.began),
                duration: CompactDuration::of(attempt.duration),
                first_content: attempt.first_content.map(CompactDuration::of),
                grade: attempt.grade,
                opened_breaker: attempt.opened_breaker,
                cost: attempt.cost,
                received_bytes: attempt.received_bytes,
                error: attempt.error.clone(),
            });
        }
        self.events.emit(&Event::AttemptEnded(attempt));
    }

    /// The first attempts that have ended, in the order in which they started.
    fn first_attempts(&self) -> FirstAttempts {
        self.first_attempts.iter().filter_map(OnceLock::get).cloned().collect()
    }

    /// Records that a target was not called. Of several reasons of one target the last one counts.
    pub(crate) fn record_skip(&self, target: &Arc<str>, reason: SkipKind) {
        let skipped = self.skipped.get_or_init(Mutex::default);
        let mut skipped = skipped.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = skipped.iter_mut().find(|known| known.target == *target) {
            known.reason = reason;
        } else if skipped.len() < MAX_SKIPPED_TARGETS {
            skipped.push(SkippedTarget { target: Arc::clone(target), reason });
        }
    }

    fn skipped_targets(&self) -> Option<Arc<[SkippedTarget]>> {
        let skipped = self.skipped.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(skipped.as_slice().into())
    }

    /// Adds the amount that is reserved for an attempt.
    pub(crate) fn add_reservation(&self, reserved: Money) {
        add(&self.reserved_nanos, reserved.as_nanos());
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

    /// Counts an attempt. Returns its number, from 0.
    pub(crate) fn count_attempt(&self) -> u32 {
        self.attempts.fetch_add(1, Ordering::Relaxed)
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

    /// Records that an attempt was made at a model whose price is unknown.
    pub(crate) fn set_cost_unknown(&self) {
        self.is_cost_unknown.store(true, Ordering::Relaxed);
    }

    /// Whether the cost is less than what the vendor will bill, because the price of a model is unknown.
    pub(crate) fn is_cost_unknown(&self) -> bool {
        self.is_cost_unknown.load(Ordering::Relaxed)
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

    /// Adds a wait before the next attempt.
    pub(crate) fn add_delay(&self, wait: Duration) {
        self.add_wait(wait);
        add(&self.delay_nanos, u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The waits since the last call, for the attempt that starts now.
    pub(crate) fn take_delay(&self) -> Duration {
        let nanos = self.delay_nanos.load(Ordering::Relaxed);
        // Only the request's own task waits and starts attempts, so nothing is added in between.
        if nanos > 0 {
            self.delay_nanos.store(0, Ordering::Relaxed);
        }
        Duration::from_nanos(nanos)
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
    /// The stage in progress and when it began; `None` after the last.
    stage: Option<RequestStage>,
    stage_began: Timestamp,
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
    pub(crate) fn new(runtime: &R, events: &Arc<EventSinks>, id: u64, face: &'static str) -> Self {
        let began = runtime.monotonic();
        events.emit(&Event::RequestReceived { request: id, face, at: began });
        Self {
            runtime: runtime.clone(),
            began,
            progress: Arc::new(RequestProgress::new(events, id, began)),
            record: RequestRecord::new(id, face),
            stage: Some(RequestStage::Receive),
            stage_began: began,
            reported_limit: None,
            policy: None,
            reservation: None,
            is_counted: true,
            ended: None,
        }
    }

    /// Records that a stage has ended and the next one begins.
    pub(crate) fn end_stage(&mut self, stage: RequestStage, now: Timestamp) {
        let duration = now - self.stage_began;
        self.record.stages.set(stage, duration);
        (self.stage, self.stage_began) = (stage.next(), now);
        self.progress.events.emit(&Event::StageEnded { request: self.record.id, stage, duration, at: now });
    }

    /// When the stage in progress began.
    pub(crate) const fn stage_began(&self) -> Timestamp {
        self.stage_began
    }

    /// Records that the answer has started, and the latency that was added until then: the time so far minus the time
    /// spent waiting.
    pub(crate) fn record_start(&mut self, now: Timestamp) {
        self.end_stage(RequestStage::Answer, now);
        self.record.overhead = Some((now - self.began).saturating_sub(self.progress.waited()));
    }
}

impl<R: Runtime> Drop for RequestCompletion<R> {
    fn drop(&mut self) {
        let ended = self.ended.unwrap_or_else(|| self.runtime.monotonic());
        // The request ends within this stage.
        if let Some(stage) = self.stage {
            self.end_stage(stage, ended);
        }
        let record = &mut self.record;
        record.attempts = self.progress.attempts();
        record.first_attempts = self.progress.first_attempts();
        record.skipped_targets = self.progress.skipped_targets();
        record.reserved = Money::from_nanos(self.progress.reserved_nanos.load(Ordering::Relaxed));
        record.cost = self.progress.cost();
        record.overrun = Money::from_nanos(self.progress.overrun_nanos.load(Ordering::Relaxed));
        record.is_capped = self.progress.is_capped.load(Ordering::Relaxed);
        record.is_cost_unknown = self.progress.is_cost_unknown();
        record.ended = ended;
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
                self.progress.events.emit(&Event::RequestCompleted(record));
                return;
            }
            // Everything that was posted, including failed attempts and answers that were not read to their end.
            // Otherwise a caller that disconnects in time would appear to have used nothing.
            let used = u32::try_from(self.progress.tokens()).unwrap_or(u32::MAX);
            let spent = Settlement {
                units: if self.is_counted { QuotaUnits::tokens(used) } else { QuotaUnits::NOTHING },
                cost: record.cost,
                answered: record.outcome.is_answered(),
            };
            let now = self.runtime.now();
            if let Some(admission_record) = self.progress.admission_record() {
                let units =
                    if reservation.needs_settlement() { spent.units } else { admission_record.units() };
                self.progress.settle_admission(Settlement { units, ..spent }, now);
            }
            quotas.settle(reservation, spent, now);
        }
        self.progress.events.emit(&Event::RequestCompleted(record));
    }
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
