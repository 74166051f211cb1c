//! The fallback cascade over targets: tries them in order until one answers.
//!
//! Each attempt acquires a concurrency slot, a budget reservation and a breaker permit, in this order, and releases
//! them itself. [`Retries`] decides whether and where to retry; its state belongs to the request and spans all targets.

use super::cascade_failure::{CascadeFailure, SkipReason};
use super::try_once::{AttemptContent, AttemptResult, try_once};
use crate::attempt::{Attempt, AttemptRequest, AttemptResources};
use crate::event::{BudgetDecision, BudgetKind, Event};
use crate::output_limit::{OutputAllowance, OutputBudget};
use crate::pipeline::Pipeline;
use crate::plan::PlannedRequest;
use crate::record::AttemptCause;
use crate::reply::DEFAULT_RETRY_AFTER;
use crate::settle::RequestProgress;
use crate::shortage::BudgetShortage;
use crate::slot::{SlotUnavailable, TargetSlot};
use crate::target::{CallBound, GuardedTarget, PriceStatus};
use seawall_core::breaker::{BreakerPhase, LastResort, RejectReason};
use seawall_core::credit::Credit;
use seawall_core::deadline::Deadline;
use seawall_core::in_flight::{SlotOwner, SlotRefusal};
use seawall_core::queue::QueueRequest;
use seawall_core::retry::{Retries, RetryDecision, RetrySituation};
use seawall_core::runtime::{Runtime, yield_now};
use seawall_core::time::Timestamp;
use seawall_provider::{Call, CallError};
use seawall_store::{ReserveError, UnwrittenHold};
use std::sync::Arc;
use std::time::Duration;

/// One request in the fallback cascade.
pub(crate) struct TargetCascade<'a, R: Runtime> {
    pub(super) pipeline: &'a Pipeline<R>,
    pub(super) planned: &'a PlannedRequest,
    pub(super) progress: &'a Arc<RequestProgress>,
    pub(super) state: &'a mut CascadeState,
}

/// What spans all targets and all grades of a request.
pub(crate) struct CascadeState {
    pub(super) retries: Retries,
    pub(super) credit: Option<Credit>,
    /// Attempts with another key of the present target.
    pub(super) rotations: usize,
    /// Why the next attempt is made.
    cause: AttemptCause,
    first_failed: Option<Timestamp>,
    /// What may pass an open breaker, once no other target is available.
    pub(super) last_resort: Option<LastResort>,
}

impl CascadeState {
    /// The first call of a request is about to be made.
    pub(crate) fn new<R: Runtime>(pipeline: &Pipeline<R>, planned: &PlannedRequest) -> Self {
        let rules = &planned.request.rules;
        let now = pipeline.runtime.monotonic();
        rules.retry_budget.deposit(now);
        rules.hedge.first_attempt(now);
        Self {
            retries: Retries::new(rules.retry),
            credit: None,
            rotations: 0,
            cause: AttemptCause::First,
            first_failed: None,
            last_resort: None,
        }
    }
}

impl<'a, R: Runtime> TargetCascade<'a, R> {
    pub(crate) fn new(
        pipeline: &'a Pipeline<R>,
        planned: &'a PlannedRequest,
        progress: &'a Arc<RequestProgress>,
        state: &'a mut CascadeState,
    ) -> Self {
        Self { pipeline, planned, progress, state }
    }

    /// Tries these targets in order. An answer must have started by `deadline`, and each attempt within `start_timeout`.
    pub(crate) async fn try_targets(
        &mut self,
        targets: &[Arc<GuardedTarget>],
        deadline: Deadline,
        start_timeout: Duration,
    ) -> Result<(Box<Attempt<R>>, AttemptContent), CascadeFailure> {
        let mut cascade_failure = CascadeFailure::default();
        if let Some(answer) = self.try_each(targets, deadline, start_timeout, &mut cascade_failure).await {
            return Ok(answer);
        }
        if let Some(answer) =
            Box::pin(self.try_skipped(targets, deadline, start_timeout, &mut cascade_failure)).await
        {
            return Ok(answer);
        }
        if cascade_failure.conceals_shortage() && !targets.iter().any(|target| self.is_affordable(target)) {
            cascade_failure.report_shortage();
        }
        Err(cascade_failure)
    }

    /// Whether the daily budget would cover a call of this target, now or once the calls in progress have settled.
    fn is_affordable(&self, target: &GuardedTarget) -> bool {
        let Ok((_, bound)) = self.call_for(target) else { return false };
        let Err(refusal) =
            self.pipeline.ledger.check(&self.budget_request(&bound), self.pipeline.runtime.now())
        else {
            return true;
        };
        matches!(
            self.skip_reason(&ReserveError::Refused(refusal), &bound),
            SkipReason::Unaffordable(BudgetShortage::Held { .. })
        )
    }

    /// Tries each target until one answers, and records why the others did not.
    pub(super) async fn try_each(
        &mut self,
        targets: &[Arc<GuardedTarget>],
        deadline: Deadline,
        start_timeout: Duration,
        cascade_failure: &mut CascadeFailure,
    ) -> Option<(Box<Attempt<R>>, AttemptContent)> {
        let mut rest = targets;
        while let Some((target, others)) = rest.split_first() {
            let prepared = self.prepare(target, others, deadline, start_timeout).await;
            let (attempt, call) = match prepared {
                Ok(prepared) => prepared,
                Err(reason) => {
                    self.record_skip(target, &reason);
                    cascade_failure.causes.record_skip(&target.name, &reason);
                    cascade_failure.skip(reason);
                    rest = others;
                    continue;
                }
            };
            let AttemptResult { mut attempt, outcome } =
                self.run_attempt(attempt, call, others, deadline, start_timeout).await;
            let mut error = match outcome {
                Ok(content) => {
                    self.record_success();
                    return Some((attempt, content));
                }
                Err(error) => error,
            };
            attempt.fail_call(&mut error);
            let target = Arc::clone(&attempt.target);
            drop(attempt);
            match self.decide(&error, &target, deadline, others).await {
                NextTarget::Same => self.state.cause = AttemptCause::Retry,
                NextTarget::SameWithOtherKey => self.state.cause = AttemptCause::Rotation,
                NextTarget::Other => (self.state.cause, rest) = (AttemptCause::Failover(None), others),
                // The chat goes on with the next rung.
                NextTarget::Stop => (self.state.cause, rest) = (AttemptCause::Failover(None), &[]),
            }
            // A retry-after that the gateway considers implausible is not passed on to the caller.
            let is_plausible =
                |wait: &Duration| self.planned.request.rules.retry.is_plausible_retry_after(*wait);
            error.failure.retry_after = error.failure.retry_after.filter(is_plausible);
            cascade_failure.causes.record_failure(&target.name, &error);
            cascade_failure.failure = Some(error);
        }
        None
    }

    /// Records that a target was not called.
    fn record_skip(&mut self, target: &GuardedTarget, reason: &SkipReason) {
        let reason = reason.kind();
        self.state.cause = AttemptCause::Failover(Some(reason));
        let (request, target) = (self.progress.request, &target.name);
        self.progress.record_skip(target, reason);
        self.progress.events.emit(&Event::TargetSkipped { request, target, reason });
    }

    /// Runs one attempt, with a hedge if hedging is enabled.
    async fn run_attempt(
        &self,
        attempt: Box<Attempt<R>>,
        call: Call,
        others: &[Arc<GuardedTarget>],
        deadline: Deadline,
        start_timeout: Duration,
    ) -> AttemptResult<R> {
        let start_by = self.start_by(deadline, start_timeout, attempt.started);
        let deadlines = self.start_deadlines(&attempt, others, start_by, start_timeout);
        if self.planned.request.rules.hedge.is_enabled() {
            return Box::pin(self.run_hedged(attempt, call, others, deadlines)).await;
        }
        try_once(self.pipeline, self.planned, attempt, call, deadlines).await
    }

    /// Deadline for the start of an attempt. Nothing arrives of an unstreamed answer before its end, so it has all of
    /// the remaining time.
    fn start_by(&self, deadline: Deadline, start_timeout: Duration, now: Timestamp) -> Deadline {
        if self.planned.request.parsed.stream() { deadline.within(now, start_timeout) } else { deadline }
    }

    /// Acquires everything that an attempt needs, or nothing.
    async fn prepare(
        &mut self,
        target: &Arc<GuardedTarget>,
        others: &[Arc<GuardedTarget>],
        deadline: Deadline,
        start_timeout: Duration,
    ) -> Result<(Box<Attempt<R>>, Call), SkipReason> {
        if let Some(wait) = target.output.suspended_for(self.pipeline.runtime.monotonic()) {
            return Err(SkipReason::SuspendedForOverruns(wait));
        }
        let (call, bound) = self.call_for(target)?;
        if target.is_paced() {
            Box::pin(self.wait_to_send(target, others, deadline, start_timeout)).await?;
        }
        let slot = match target.try_take_slot(&self.pipeline.runtime, self.slot_holder()) {
            Some(slot) => slot,
            None => Box::pin(self.wait_for_slot(target, others, deadline, start_timeout)).await?,
        };
        let hold = self.reserve(target, &bound)?;
        // Yield for group commit: other requests may be about to write reservations, and one write covers all of them.
        if !hold.is_written() {
            yield_now().await;
        }
        let credit = self.state.credit.take();
        let cause =
            if self.state.last_resort.is_some() { AttemptCause::LastResort } else { self.state.cause };
        let request = self.attempt_request(bound, cause, None);
        Ok((self.start_attempt(target, slot, hold, request, credit)?, call))
    }

    /// The request in the target's dialect, and its upper bound there.
    pub(super) fn call_for(&self, target: &GuardedTarget) -> Result<(Call, CallBound), SkipReason> {
        let request = &self.planned.request;
        let parsed = &request.parsed;
        let (mut call, mut allowance) = self.call_with_allowance(target, request.input_bytes)?;
        let bytes = request.input_bytes.max(call.body.len() as u64);
        if bytes > request.input_bytes && allowance.added_limit().is_some() {
            // The request grew in translation, and a limit added by the gateway must account for all of it.
            (call, allowance) = self.call_with_allowance(target, bytes)?;
        }
        let bound = target.bound(bytes, parsed, allowance).map_err(SkipReason::Unbounded)?;
        Ok((call, bound))
    }

    /// The same, with the output allowance for a request of this size.
    fn call_with_allowance(
        &self,
        target: &GuardedTarget,
        bytes: u64,
    ) -> Result<(Call, OutputAllowance), SkipReason> {
        let parsed = &self.planned.request.parsed;
        if target.price_status == PriceStatus::Unknown && !self.window_caps().is_empty() {
            let model = &target.model;
            return Err(SkipReason::Unbounded(format!(
                "{model} has no price, and a budget of the key, its team or its tier applies; an operator can add its \
                 prices as [models.{model:?}]"
            )));
        }
        let allowance = target.allowance(bytes, parsed, || self.output_budget());
        let (field, dialect) = (target.output_limit_field, parsed.dialect_at(&*target.upstream));
        let limit = allowance.as_ref().ok().and_then(|allowance| allowance.sent_limit);
        // If the target cannot be called at all, that is the more useful reason.
        let call = parsed
            .call_for(limit, field, dialect, &target.model)
            .map_err(|error| SkipReason::Untranslatable(error.at_target(&target.name)))?;
        Ok((call, allowance.map_err(SkipReason::Unbounded)?))
    }

    /// The remaining budget and token limit, for a request that sets no output limit.
    fn output_budget(&self) -> OutputBudget {
        let (caller, now) = (&self.planned.caller, self.pipeline.runtime.now());
        let windows = self.window_caps();
        let available = self.pipeline.ledger.available(caller.id, caller.tier, &windows, now);
        let money = available.min(self.planned.shared_remaining);
        OutputBudget { money, tokens: self.planned.route.token_limit }
    }

    /// Reserves money for an attempt; the reservation is not in the journal yet.
    pub(super) fn reserve(
        &self,
        target: &GuardedTarget,
        bound: &CallBound,
    ) -> Result<UnwrittenHold, SkipReason> {
        let request = self.budget_request(bound);
        let held = self.pipeline.ledger.begin(
            &request,
            self.ledger_attempt(target),
            self.progress.admission_record(),
            self.pipeline.runtime.now(),
        );
        let held = held.map_err(|error| self.skip_reason(&error, bound));
        let decision = match &held {
            Ok(_) => BudgetDecision::Reserved,
            Err(reason) => BudgetDecision::Refused(reason.kind()),
        };
        self.progress.events.emit(&Event::BudgetDecided {
            request: self.progress.request,
            budget: BudgetKind::Node,
            max_cost: bound.max_cost,
            decision,
        });
        held
    }

    pub(super) fn attempt_request(
        &self,
        bound: CallBound,
        cause: AttemptCause,
        delay: Option<Duration>,
    ) -> AttemptRequest {
        AttemptRequest { cause, delay, bound, is_unstreamed: !self.planned.request.parsed.stream() }
    }

    /// Writes the reservation to the journal and acquires a breaker permit, for an attempt that has a slot.
    pub(super) fn start_attempt(
        &self,
        target: &Arc<GuardedTarget>,
        slot: TargetSlot<R>,
        hold: UnwrittenHold,
        request: AttemptRequest,
        credit: Option<Credit>,
    ) -> Result<Box<Attempt<R>>, SkipReason> {
        let (pipeline, now) = (self.pipeline, self.pipeline.runtime.monotonic());
        // Only the journal write can fail here.
        let hold = hold.write().map_err(|_| SkipReason::JournalUnavailable)?;
        let (caller, deadline) = (self.caller(), self.planned.request.deadline);
        let permit = target.breaker.acquire_with(|breaker| match self.state.last_resort {
            Some(allowed) => breaker.acquire_last_resort(caller, now, deadline, allowed),
            None => breaker.acquire_for(caller, now, deadline),
        });
        let permit = match permit {
            Ok(permit) => permit,
            Err((reason, retry_after)) => {
                // Nothing was sent, so nothing is owed.
                hold.release();
                // The probes in flight end soon.
                let ends_soon = (reason == RejectReason::ProbesInFlight).then_some(DEFAULT_RETRY_AFTER);
                return Err(SkipReason::BreakerOpen(retry_after.or(ends_soon)));
            }
        };
        let tier = self.planned.caller.tier;
        let resources = AttemptResources { request, tier, hold, permit, credit, slot };
        Ok(Attempt::start(&pipeline.runtime, target, resources, self.progress, now))
    }

    /// Queues for a slot, unless another target of the same grade has a free one or this target would not be called
    /// anyway.
    async fn wait_for_slot(
        &self,
        target: &Arc<GuardedTarget>,
        others: &[Arc<GuardedTarget>],
        deadline: Deadline,
        start_timeout: Duration,
    ) -> Result<TargetSlot<R>, SkipReason> {
        let now = self.pipeline.runtime.monotonic();
        let peek = target.breaker.with(|breaker| breaker.peek_for(self.caller(), now));
        if peek.phase == BreakerPhase::Open && self.state.last_resort.is_none() {
            return Err(SkipReason::BreakerOpen(peek.retry_after));
        }
        let has_room = |other: &Arc<GuardedTarget>| {
            other.grade == target.grade
                && other.in_flight.in_flight() < other.in_flight.limit()
                && !other.is_suspended_for_overruns(now)
        };
        if others.iter().any(has_room) {
            return Err(SkipReason::Busy(None));
        }
        let request = QueueRequest::new(
            self.planned.plan.priority,
            self.planned.caller.id,
            deadline.within(now, start_timeout).moment(),
        );
        let slot = target.wait_for_slot(&self.pipeline.runtime, &request, self.slot_holder()).await;
        self.progress.add_delay(self.pipeline.runtime.monotonic() - now);
        slot.map_err(|SlotUnavailable { reason, retry_after }| match reason {
            SlotRefusal::Full => SkipReason::Busy(retry_after),
            share => SkipReason::ShareExhausted(share, retry_after),
        })
    }

    /// Whose share of the concurrency slots the request uses.
    pub(super) fn slot_holder(&self) -> SlotOwner {
        let caller = &self.planned.caller;
        SlotOwner { caller: caller.id, guest_network: caller.network }
    }

    fn record_success(&mut self) {
        let since = |failed| self.pipeline.runtime.monotonic() - failed;
        self.pipeline.counters.request_succeeded(self.state.first_failed.map(since));
        if self.state.first_failed.is_none() {
            self.planned.request.rules.retry_budget.record_first_attempt_success();
        }
    }

    /// Decides what to do after a failed attempt; sleeps for the backoff where there is one.
    async fn decide(
        &mut self,
        error: &CallError,
        target: &GuardedTarget,
        deadline: Deadline,
        others: &[Arc<GuardedTarget>],
    ) -> NextTarget {
        let (pipeline, rules) = (self.pipeline, &self.planned.request.rules);
        let now = pipeline.runtime.monotonic();
        self.state.first_failed.get_or_insert(now);
        let phase = target.breaker.with(|breaker| breaker.peek_for(self.caller(), now).phase);
        let throttled_for = error
            .failure
            .honoured_retry_after()
            .map(|_| target.retry_after(now))
            .filter(|held| !held.is_zero());
        let situation = RetrySituation {
            pressure: Some(target.pressure_now(phase, now)),
            throttled_for,
            other_is_ready: error.failure.honoured_retry_after().is_some() && self.is_ready(others, now),
            breaker_passes: phase == BreakerPhase::Closed,
            has_other_target: others.iter().any(|other| !other.is_suspended_for_overruns(now)),
            ..RetrySituation::new(now, deadline)
        };
        if self.rotates(&error.failure, target, &situation) {
            return NextTarget::SameWithOtherKey;
        }
        self.state.rotations = 0;
        let (decision, event) = self.state.retries.decide(
            &error.failure,
            &situation,
            Some(&rules.retry_budget),
            pipeline.runtime.draw(),
        );
        pipeline.counters.attempt_failed(&event);
        match decision {
            RetryDecision::RetrySame { after, credit } => {
                self.state.credit = credit;
                pipeline.runtime.sleep_until(now + after).await;
                self.progress.add_delay(after);
                NextTarget::Same
            }
            RetryDecision::FailOver(_) => NextTarget::Other,
            RetryDecision::GiveUp(_) => NextTarget::Stop,
        }
    }
}

enum NextTarget {
    Same,
    SameWithOtherKey,
    Other,
    Stop,
}
