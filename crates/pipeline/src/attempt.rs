//! One try on one target, and every resource it holds.
//!
//! An attempt holds a budget reservation, a breaker permit, a concurrency slot and, for a retry, a retry credit. It
//! releases each of them exactly once: on success, on failure, or on drop. A drop means that the caller disconnected;
//! the attempt is then charged by what was known at that moment.

use crate::event::Event;
use crate::health::error_text;
use crate::output::{AttemptOutput, Charge, OutputEnd};
use crate::record::{AttemptCause, AttemptError, AttemptOutcomeKind, AttemptRecord};
use crate::settle::RequestProgress;
use crate::slot::TargetSlot;
use crate::target::{CallBound, GuardedTarget, PriceStatus};
use seawall_core::breaker::{Breaker, BreakerPhase, SharedPermit, TripReason};
use seawall_core::credit::Credit;
use seawall_core::failure::{AttemptOutcome, Failure, FailureKind};
use seawall_core::key_pool::KeyReport;
use seawall_core::money::{Money, ServiceTier, Usage};
use seawall_core::runtime::Runtime;
use seawall_core::sender::ThrottleDecision;
use seawall_core::time::{Now, Timestamp};
use seawall_core::tokens::OutputMeter;
use seawall_core::vocabulary::Tier;
use seawall_provider::CallError;
use seawall_store::{Certainty, Hold};
use seawall_wire::chat::UsageReport;
use std::sync::Arc;
use std::time::Duration;

/// A hold that is still open this long after the request's deadline is charged in full.
pub(crate) const HOLD_GRACE: Duration = Duration::from_secs(30);

pub(crate) struct Attempt<R: Runtime> {
    runtime: R,
    pub(crate) target: Arc<GuardedTarget>,
    /// The position of the key that it uses.
    pub(crate) key: usize,
    /// Its number within the request, from 0.
    number: u32,
    cause: AttemptCause,
    delay: Duration,
    pub(crate) started: Timestamp,
    ended: Option<Timestamp>,
    first_content: Option<Timestamp>,
    /// The usage that the vendor has reported so far.
    pub(crate) usage: Usage,
    /// Whether that report covers all of the output.
    output_reported: bool,
    received_bytes: u64,
    /// Upper bound of the call in tokens and money.
    bound: CallBound,
    /// Whether the answer is not streamed: nothing arrives before all of it does.
    is_unstreamed: bool,
    output: AttemptOutput,
    hold: Option<Hold>,
    permit: Option<SharedPermit>,
    credit: Option<Credit>,
    /// Held until the answer has ended, even if the caller reads it slowly.
    slot: Option<TargetSlot<R>>,
    progress: Arc<RequestProgress>,
    tier: Tier,
    outcome: AttemptOutcomeKind,
    /// The target's error response, if it is known.
    error: AttemptError,
    /// Whether the outcome opened the target's breaker.
    opened_breaker: bool,
    /// The attempt failed before any byte was sent.
    was_never_sent: bool,
    /// The posted charge, and the amount by which it exceeds the reservation.
    posted: Option<(Charge, Money)>,
}

/// What an attempt requests from its target.
pub(crate) struct AttemptRequest {
    /// Why the attempt is made.
    pub(crate) cause: AttemptCause,
    /// The wait before it; `None` for the waits of the request since its last attempt.
    pub(crate) delay: Option<Duration>,
    /// Upper bound of the call in tokens and money.
    pub(crate) bound: CallBound,
    /// Whether the answer is not streamed.
    pub(crate) is_unstreamed: bool,
}

/// The resources that an attempt takes over when it starts.
pub(crate) struct AttemptResources<R: Runtime> {
    pub(crate) request: AttemptRequest,
    /// The tier whose budget pays.
    pub(crate) tier: Tier,
    pub(crate) hold: Hold,
    pub(crate) permit: SharedPermit,
    pub(crate) credit: Option<Credit>,
    pub(crate) slot: TargetSlot<R>,
}

impl<R: Runtime> Attempt<R> {
    pub(crate) fn start(
        runtime: &R,
        target: &Arc<GuardedTarget>,
        resources: AttemptResources<R>,
        progress: &Arc<RequestProgress>,
        now: Timestamp,
    ) -> Box<Self> {
        let AttemptResources { request, tier, hold, permit, credit, slot } = resources;
        let AttemptRequest { cause, delay, bound, is_unstreamed } = request;
        progress.add_reservation(hold.amount());
        let (number, delay) = (progress.count_attempt(), delay.unwrap_or_else(|| progress.take_delay()));
        progress.events.emit(&Event::AttemptStarted {
            request: progress.request,
            number,
            target: &target.name,
            cause,
            delay,
            at: now,
        });
        Box::new(Self {
            runtime: runtime.clone(),
            target: Arc::clone(target),
            key: target.keys.as_ref().map_or(0, |keys| keys.choose(now)),
            number,
            cause,
            delay,
            started: now,
            ended: None,
            first_content: None,
            usage: Usage::default(),
            output_reported: false,
            received_bytes: 0,
            bound,
            is_unstreamed,
            output: AttemptOutput::new(&bound, is_unstreamed, target),
            hold: Some(hold),
            permit: Some(permit),
            credit,
            slot: Some(slot),
            progress: Arc::clone(progress),
            tier,
            outcome: AttemptOutcomeKind::Abandoned,
            error: AttemptError::default(),
            opened_breaker: false,
            was_never_sent: false,
            posted: None,
        })
    }

    /// The output limit that the gateway added to the request, if any.
    pub(crate) const fn added_limit(&self) -> Option<u32> {
        self.bound.added_limit
    }

    /// The maximum number of output tokens that the request allows.
    pub(crate) const fn max_output(&self) -> u64 {
        self.bound.output
    }

    /// Records the service tier that the vendor reported in the response headers.
    pub(crate) fn record_service_level(&mut self, service: ServiceTier) {
        self.bound.record_service_level(service);
    }

    pub(crate) fn record_bytes(&mut self, bytes: usize) {
        self.received_bytes = self.received_bytes.saturating_add(bytes as u64);
    }

    pub(crate) const fn has_received_bytes(&self) -> bool {
        self.received_bytes > 0
    }

    /// Records how much of a stream has arrived and how many of its bytes are not metered yet. Returns whether the
    /// output exceeds the reservation.
    pub(crate) fn record_output(&mut self, meter: &mut OutputMeter, unread: usize) -> bool {
        self.output.record(meter, unread as u64, self.target.family)
    }

    /// The number of output tokens of a stream that exceeded its limit, as far as known.
    pub(crate) fn exceeded_tokens(&self) -> u64 {
        self.output.exceeded_tokens()
    }

    /// Records that content has arrived; only the first call has an effect.
    pub(crate) fn record_content(&mut self) {
        // This runs for every event with content; only the first one needs a clock read.
        if self.first_content.is_none() {
            self.record_content_at(self.runtime.monotonic());
        }
    }

    /// Records the arrival time of the first content.
    pub(crate) fn record_content_at(&mut self, now: Timestamp) {
        if self.first_content.is_none() {
            self.first_content = Some(now);
            self.target.time_to_first_content.record(now - self.started);
            self.progress.add_wait(now - self.started);
        }
    }

    pub(crate) fn has_content(&self) -> bool {
        self.first_content.is_some()
    }

    pub(crate) fn first_content(&self) -> Option<Timestamp> {
        self.first_content
    }

    /// Ends the attempt with a complete answer that was not streamed.
    pub(crate) fn succeed_unstreamed(&mut self, report: UsageReport, body: &[u8]) {
        if !(report.output_reported && report.usage.total_input() > 0) {
            self.output.record_unstreamed(seawall_wire::output_token_bound(body));
        }
        self.succeed(report);
    }

    /// Ends the attempt with a properly terminated answer and the usage that the vendor reported.
    pub(crate) fn succeed(&mut self, report: UsageReport) {
        (self.usage, self.output_reported) = (report.usage, report.output_reported);
        let now = self.runtime.now();
        if let Some(first) = self.first_content.filter(|_| report.output_reported) {
            self.target.output.record_answer(
                report.usage.output,
                self.output.visible(),
                now.monotonic - first,
            );
        }
        self.complete(now);
    }

    /// Ends the attempt after the gateway cut the stream because it exceeded its output limit.
    pub(crate) fn cut_at_limit(&mut self) {
        self.complete(self.runtime.now());
    }

    fn complete(&mut self, now: Now) {
        self.ended = Some(now.monotonic);
        let duration = self.first_content.unwrap_or(now.monotonic) - self.started;
        let outcome = if self.is_unstreamed {
            let expected = self.target.measurements().baselines.record_unstreamed(
                duration,
                self.usage.output,
                now.monotonic,
            );
            AttemptOutcome::SucceededUnstreamed { duration, expected }
        } else {
            AttemptOutcome::Succeeded { time_to_first_content: duration }
        };
        self.report(&outcome, None, now);
        if let Some(credit) = self.credit.take() {
            credit.record_success();
        }
        let end = if self.output.is_exceeded() { OutputEnd::StillGenerating } else { OutputEnd::ByVendor };
        self.post_at(now, end);
        // The usage reported to the caller is the usage that was charged.
        self.usage = self.posted.map_or(self.usage, |(charge, _)| charge.usage);
        self.slot = None;
    }

    /// Ends the attempt because a guardrail of the gateway stopped the answer. The target is not at fault and is owed
    /// for what it sent.
    pub(crate) fn block(&mut self) {
        let now = self.runtime.now();
        let first_content_after = self.first_content.unwrap_or(now.monotonic) - self.started;
        self.report(&AttemptOutcome::Succeeded { time_to_first_content: first_content_after }, None, now);
        self.post_at(now, OutputEnd::StillGenerating);
        self.slot = None;
    }

    /// Ends the attempt as failed. An error response from the vendor is not billed, so the hold is released. Without a
    /// response, or after the answer has begun, the cost is unknown and the upper bound is charged.
    pub(crate) fn fail(&mut self, failure: &Failure) {
        self.end_failed(failure, None);
    }

    /// The same with the vendor's response. If all keys of the target are set aside, its `Retry-After` becomes the time
    /// until the first of them can be used.
    pub(crate) fn fail_call(&mut self, error: &mut CallError) {
        let failure = error.failure;
        let message = error.message.as_deref().or(error.detail.as_deref());
        self.error = AttemptError { status: error.status, message: message.map(Into::into) };
        if let Some(wait) = self.end_failed(&failure, Some(error)) {
            error.failure.retry_after = Some(wait);
        }
    }

    fn end_failed(&mut self, failure: &Failure, error: Option<&CallError>) -> Option<Duration> {
        let now = self.runtime.now();
        self.ended.get_or_insert(now.monotonic);
        if self.first_content.is_none() {
            self.progress.add_wait(now.monotonic - self.started);
        }
        let available_in = self.report(&AttemptOutcome::Failed(*failure), error, now);
        self.was_never_sent = failure.not_executed && is_before_sending(failure.kind);
        let answered_with_error = self.received_bytes == 0 && is_vendor_response(failure.kind);
        if failure.not_executed || answered_with_error {
            if let Some(hold) = self.hold.take() {
                hold.release();
            }
        } else {
            self.post_at(
                now,
                match failure {
                    _ if failure.no_output => OutputEnd::NoOutput,
                    _ if is_vendor_response(failure.kind) => OutputEnd::ByVendor,
                    _ => OutputEnd::StillGenerating,
                },
            );
        }
        self.slot = None;
        available_in
    }

    /// Abandons the attempt without blaming the target: the answer is not read any further, or the gateway shuts down.
    pub(crate) fn abandon(&mut self) {
        self.permit = None;
        self.post();
        self.slot = None;
    }

    /// Posts the usage that the vendor reported, or, without a complete report, the upper bound of what it can bill.
    fn post_at(&mut self, now: Now, end: OutputEnd) {
        let Some(hold) = self.hold.take() else { return };
        self.ended.get_or_insert(now.monotonic);
        let (held, report) = (
            hold.amount(),
            UsageReport { usage: self.bound.completed(self.usage), output_reported: self.output_reported },
        );
        let charge = self.output.charge(report, end, &self.bound, held, &self.target);
        let certainty = match charge.is_reported {
            true => Certainty::Reported,
            false if charge.cost == held => Certainty::Maximum,
            false => Certainty::Counted,
        };
        let overrun = charge.cost.saturating_sub(held);
        if overrun > Money::ZERO {
            self.target.output.record_overrun(now.monotonic);
            self.progress.add_overrun(overrun, charge.is_capped);
        }
        self.progress.add(&charge.usage, charge.cost);
        if self.target.price_status == PriceStatus::Unknown {
            self.progress.set_cost_unknown();
        }
        self.posted = Some((charge, overrun));
        hold.post(charge.usage, charge.cost, certainty, now);
    }

    /// Posts now, unless the hold was already posted or released.
    fn post(&mut self) {
        if self.hold.is_some() {
            self.post_at(self.runtime.now(), OutputEnd::StillGenerating);
        }
    }

    /// Reports the outcome to everything that learns from it. Returns how long until a key can be used, if all keys of the
    /// target are set aside.
    fn report(&mut self, outcome: &AttemptOutcome, error: Option<&CallError>, now: Now) -> Option<Duration> {
        let permit = self.permit.take()?;
        self.outcome = match outcome {
            AttemptOutcome::Succeeded { .. } | AttemptOutcome::SucceededUnstreamed { .. } => {
                AttemptOutcomeKind::Succeeded
            }
            AttemptOutcome::Failed(failure) => AttemptOutcomeKind::Failed(failure.kind),
            AttemptOutcome::Throttled | AttemptOutcome::Abandoned => AttemptOutcomeKind::Abandoned,
        };
        let (outcome, available_in) = self.report_key(*outcome, error, now);
        let outcome = &outcome;
        self.report_health(outcome, error, now);
        let now = now.monotonic;
        self.target.record_latency(outcome, self.first_content.unwrap_or(now) - self.started, now);
        let mut measurements = self.target.measurements();
        // An attempt that timed out took at least as long as the gateway waited for it.
        let timed_out_silently = matches!(outcome, AttemptOutcome::Failed(failure) if is_timeout(failure.kind))
            && !self.has_received_bytes();
        if outcome.is_success() || timed_out_silently {
            let began = self.first_content.unwrap_or(now);
            measurements.baselines.record_start(self.is_unstreamed, began - self.started, now);
        }
        // A throttled target that announced when to retry does not count as failed for its breaker.
        let is_paused = measurements.record(outcome, self.started, now) == Some(ThrottleDecision::Paused);
        self.target.update_pacing(&measurements);
        permit.report(if is_paused { &AttemptOutcome::Throttled } else { outcome }, now);
        let pressure = &mut measurements.pressure;
        if pressure.record(outcome, now).is_some() {
            self.target.breaker.with(|breaker| breaker.trip(TripReason::SustainedPressure, now));
        }
        let transitions = self.target.breaker.with(Breaker::take_transitions);
        for transition in &transitions {
            pressure.breaker_changed(transition.to);
        }
        let pressure_change = pressure.take_transition(now);
        // Sinks may format what they receive; release the lock first so that other attempts do not wait for that.
        drop(measurements);
        let target = &self.target.name;
        for transition in &transitions {
            self.opened_breaker |= transition.to == BreakerPhase::Open;
            self.progress.events.emit(&Event::BreakerChanged { target, transition });
        }
        if let Some(transition) = pressure_change {
            self.progress.events.emit(&Event::PressureChanged { target, transition });
        }
        available_in
    }

    /// Reports the outcome to the pool of keys, if there are several. While another key can be used, a rejected or
    /// throttled one says nothing about the target.
    fn report_key(
        &self,
        outcome: AttemptOutcome,
        error: Option<&CallError>,
        now: Now,
    ) -> (AttemptOutcome, Option<Duration>) {
        let Some(keys) = &self.target.keys else { return (outcome, None) };
        let KeyReport { spares_target, available_in, transition } =
            keys.record(self.key, &outcome, self.started, now, || error_text(&outcome, error));
        if let Some(transition) = &transition {
            let (target, keys) = (&self.target.name, keys.count());
            self.progress.events.emit(&Event::TargetKeyChanged { target, keys, transition });
        }
        let outcome = match (outcome, available_in) {
            _ if spares_target => AttemptOutcome::Abandoned,
            (AttemptOutcome::Failed(failure), Some(wait)) => {
                AttemptOutcome::Failed(failure.with_retry_after(wait))
            }
            (outcome, _) => outcome,
        };
        (outcome, available_in)
    }

    fn report_health(&self, outcome: &AttemptOutcome, error: Option<&CallError>, now: Now) {
        let Some(evidence) = self.target.evidence(outcome) else { return };
        let text = || error_text(outcome, error);
        if let Some(transition) = self.target.health.record(evidence, self.started, now, text) {
            let (target, model) = (&self.target.name, &self.target.model);
            self.progress.events.emit(&Event::TargetHealthChanged {
                target,
                model,
                transition: &transition,
                error: &text(),
            });
        }
    }
}

/// Whether a failure of this kind is a timeout.
const fn is_timeout(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::StartTimeout | FailureKind::TimedOut)
}

/// Whether a failure of this kind is a response of the vendor, as opposed to a condition that the gateway detected.
const fn is_vendor_response(kind: FailureKind) -> bool {
    !matches!(
        kind,
        FailureKind::StartTimeout
            | FailureKind::TimedOut
            | FailureKind::Unreachable
            | FailureKind::StreamInterrupted
            | FailureKind::Unrecognised
    )
}

/// Whether a failure of this kind with `not_executed` set happened while connecting. A vendor that responded was
/// reached.
const fn is_before_sending(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::Unreachable | FailureKind::StartTimeout)
}

impl<R: Runtime> Drop for Attempt<R> {
    fn drop(&mut self) {
        // If nothing was reported, the attempt was abandoned: the dropped permit reports nothing about the target, but
        // the cost is still owed.
        self.post();
        let (usage, cost) = self.posted.map(|(charge, _)| (charge.usage, charge.cost)).unwrap_or_default();
        let record = AttemptRecord {
            request: self.progress.request,
            number: self.number,
            target: &self.target.name,
            cause: self.cause,
            delay: self.delay,
            started: self.started,
            // Every way to end an attempt sets it.
            duration: self.ended.unwrap_or(self.started) - self.started,
            tier: self.tier,
            grade: self.target.grade,
            first_content: self.first_content.map(|first| first - self.started),
            received_bytes: self.received_bytes,
            error: &self.error,
            opened_breaker: self.opened_breaker,
            outcome: self.outcome,
            usage,
            cost,
            is_cost_unknown: self.posted.is_some() && self.target.price_status == PriceStatus::Unknown,
            overrun: self.posted.map_or(Money::ZERO, |(_, overrun)| overrun),
            is_capped: self.posted.is_some_and(|(charge, _)| charge.is_capped),
        };
        self.progress.record_attempt(&record, !self.was_never_sent);
    }
}
