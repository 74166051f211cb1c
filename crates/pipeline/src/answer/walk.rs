//! The fallback cascade over targets: tries them in order until one answers.
//!
//! Each attempt acquires a concurrency slot, a budget reservation and a breaker permit, in this order, and releases
//! them itself. [`Retries`] decides whether and where to retry; its state belongs to the request and spans all targets.

use super::try_once::{Content, Tried, try_once};
use super::unanswered::{Skipped, Unanswered};
use crate::attempt::{Attempt, Holdings, LATEST_END, Wanted};
use crate::output_limit::{OutputAllowance, OutputRoom};
use crate::path::Path;
use crate::place::{NoPlace, Place};
use crate::plan::PlannedRequest;
use crate::reply::SOON;
use crate::settle::Tally;
use crate::shortage::BudgetShortage;
use crate::target::{CallBound, GuardedTarget};
use seawall_core::breaker::{BreakerPhase, LastResort, RejectReason};
use seawall_core::budget::{Ask, BudgetRefusal};
use seawall_core::credit::Credit;
use seawall_core::deadline::Deadline;
use seawall_core::handle::{Runtime, after_you};
use seawall_core::in_flight::{SlotHolder, SlotRefusal};
use seawall_core::queue::QueueRequest;
use seawall_core::retry::{Retries, RetryDecision, RetrySituation};
use seawall_core::time::Timestamp;
use seawall_provider::{Call, CallError};
use seawall_store::{CallId, ReserveError, Unwritten};
use std::sync::Arc;
use std::time::Duration;

/// One request in the fallback cascade.
pub(super) struct Walk<'a, R: Runtime> {
    pub(super) path: &'a Path<R>,
    pub(super) planned: &'a PlannedRequest,
    pub(super) tally: &'a Arc<Tally>,
    retries: Retries,
    credit: Option<Credit>,
    first_failed: Option<Timestamp>,
    /// What may pass an open breaker, once no other target is available.
    pub(super) last_resort: Option<LastResort>,
}

impl<'a, R: Runtime> Walk<'a, R> {
    pub(super) fn new(path: &'a Path<R>, planned: &'a PlannedRequest, tally: &'a Arc<Tally>) -> Self {
        let rules = &planned.request.rules;
        let now = path.runtime.monotonic();
        rules.retry_budget.deposit(now);
        rules.hedge.first_attempt(now);
        let retries = Retries::new(rules.retry);
        Self { path, planned, tally, retries, credit: None, first_failed: None, last_resort: None }
    }

    /// Tries these targets in order. An answer must have started by `deadline`, and each attempt within `start_limit`.
    pub(super) async fn ask(
        &mut self,
        targets: &[Arc<GuardedTarget>],
        deadline: Deadline,
        start_limit: Duration,
    ) -> Result<(Box<Attempt<R>>, Content), Unanswered> {
        let mut unanswered = Unanswered::default();
        if let Some(found) = self.ask_each(targets, deadline, start_limit, &mut unanswered).await {
            return Ok(found);
        }
        if let Some(found) = Box::pin(self.ask_again(targets, deadline, start_limit, &mut unanswered)).await {
            return Ok(found);
        }
        Err(unanswered)
    }

    /// Tries each target until one answers, and records why the others did not.
    pub(super) async fn ask_each(
        &mut self,
        targets: &[Arc<GuardedTarget>],
        deadline: Deadline,
        start_limit: Duration,
        unanswered: &mut Unanswered,
    ) -> Option<(Box<Attempt<R>>, Content)> {
        let mut rest = targets;
        while let Some((target, others)) = rest.split_first() {
            let prepared = self.prepare(target, others, deadline, start_limit).await;
            let (attempt, call) = match prepared {
                Ok(prepared) => prepared,
                Err(reason) => {
                    unanswered.skip(reason);
                    rest = others;
                    continue;
                }
            };
            let Tried { mut attempt, outcome } = self.run(attempt, call, others, deadline, start_limit).await;
            let mut error = match outcome {
                Ok(content) => {
                    self.succeeded();
                    return Some((attempt, content));
                }
                Err(error) => error,
            };
            attempt.fail(&error.failure);
            let target = Arc::clone(&attempt.target);
            drop(attempt);
            match self.decide(&error, &target, deadline, others).await {
                Next::Same => {}
                Next::Other => rest = others,
                Next::Nobody => rest = &[],
            }
            // A retry-after that the gateway considers implausible is not passed on to the caller.
            let believed = |wait: &Duration| self.planned.request.rules.retry.believes(*wait);
            error.failure.retry_after = error.failure.retry_after.filter(believed);
            unanswered.failure = Some(error);
        }
        None
    }

    /// Runs one attempt, with a hedge if hedging is enabled.
    async fn run(
        &self,
        attempt: Box<Attempt<R>>,
        call: Call,
        others: &[Arc<GuardedTarget>],
        deadline: Deadline,
        start_limit: Duration,
    ) -> Tried<R> {
        let start_by = self.start_by(deadline, start_limit, attempt.started);
        let limits = self.start_limits(&attempt, others, start_by, start_limit);
        if self.planned.request.rules.hedge.is_enabled() {
            return Box::pin(self.hedged(attempt, call, others, limits)).await;
        }
        try_once(self.path, self.planned, attempt, call, limits).await
    }

    /// Deadline for the start of an attempt. Nothing arrives of a non-streamed answer before its end, so it has all of
    /// the remaining time.
    fn start_by(&self, deadline: Deadline, start_limit: Duration, now: Timestamp) -> Deadline {
        if self.planned.request.spoken.stream() { deadline.within(now, start_limit) } else { deadline }
    }

    /// Acquires everything that an attempt needs, or nothing.
    async fn prepare(
        &mut self,
        target: &Arc<GuardedTarget>,
        others: &[Arc<GuardedTarget>],
        deadline: Deadline,
        start_limit: Duration,
    ) -> Result<(Box<Attempt<R>>, Call), Skipped> {
        if let Some(wait) = target.output.set_aside(self.path.runtime.monotonic()) {
            return Err(Skipped::SetAside(wait));
        }
        let (call, bound) = self.call_for(target)?;
        if target.is_paced() {
            Box::pin(self.wait_for_turn(target, others, deadline, start_limit)).await?;
        }
        let place = match target.place(&self.path.runtime, self.slot_holder()) {
            Some(place) => place,
            None => Box::pin(self.wait_for_place(target, others, deadline, start_limit)).await?,
        };
        let money = self.hold(target, &bound)?;
        // Yield for group commit: other requests may be about to write reservations, and one write covers all of them.
        if !money.is_written() {
            after_you().await;
        }
        let credit = self.credit.take();
        Ok((self.attempt(target, place, money, bound, credit)?, call))
    }

    /// The request in the target's dialect, and its upper bound there.
    pub(super) fn call_for(&self, target: &GuardedTarget) -> Result<(Call, CallBound), Skipped> {
        let request = &self.planned.request;
        let spoken = &request.spoken;
        let (mut call, mut allowance) = self.call_within(target, request.input_bytes)?;
        let bytes = request.input_bytes.max(call.body.len() as u64);
        if bytes > request.input_bytes && allowance.added().is_some() {
            // The request grew in translation, and a limit added by the gateway must account for all of it.
            (call, allowance) = self.call_within(target, bytes)?;
        }
        let bound = target.bound(bytes, spoken, allowance).map_err(Skipped::Unbounded)?;
        Ok((call, bound))
    }

    /// The same, with the output allowance for a request of this size.
    fn call_within(&self, target: &GuardedTarget, bytes: u64) -> Result<(Call, OutputAllowance), Skipped> {
        let spoken = &self.planned.request.spoken;
        let allowance = target.allowance(bytes, spoken, || self.output_room());
        let (field, dialect) = (target.output_limit_field, spoken.dialect_at(&*target.upstream));
        let limit = allowance.as_ref().ok().and_then(|allowance| allowance.sent);
        // If the target cannot be called at all, that is the more useful reason.
        let call = spoken.call_for(limit, field, dialect, &target.model).map_err(Skipped::Untellable)?;
        Ok((call, allowance.map_err(Skipped::Unbounded)?))
    }

    /// The remaining budget and token limit, for a request that sets no output limit.
    fn output_room(&self) -> OutputRoom {
        let (caller, now) = (&self.planned.caller, self.path.runtime.now());
        let money = self.path.books.free(caller.id, caller.tier, now).min(self.planned.shared_left);
        OutputRoom { money, tokens: self.planned.route.token_limit }
    }

    /// Reserves money for an attempt; the reservation is not in the journal yet.
    pub(super) fn hold(&self, target: &GuardedTarget, bound: &CallBound) -> Result<Unwritten, Skipped> {
        let ask = self.money(bound);
        let held =
            self.path.books.begin(&ask, self.named(target), self.tally.mark(), self.path.runtime.now());
        held.map_err(|error| self.no_money(&error, bound))
    }

    /// Why the reservation of a call with this bound was refused.
    fn no_money(&self, error: &ReserveError, bound: &CallBound) -> Skipped {
        match error {
            ReserveError::Refused(BudgetRefusal::MoreThanADay { wanted, .. }) => match bound.largest {
                Some((feature, tokens)) => Skipped::Unbounded(format!(
                    "this request may cost {wanted}, more than a whole day's budget, because {tokens} tokens are reserved \
                     for input by reference ({feature}); send the content itself, or an operator can set \
                     limits.untracked_input.{feature}"
                )),
                None => Skipped::TooDear(*wanted),
            },
            ReserveError::Refused(refusal) => match refusal.shortage() {
                Some(day) => {
                    let settles_in = self.path.books.typical_hold();
                    let worst = |output| bound.worst_with(output);
                    Skipped::Unaffordable(BudgetShortage::of(&day, bound.output, settles_in, worst))
                }
                // Unreachable: the pipeline's ledger has neither session budgets nor token limits per request.
                None => Skipped::NoJournal,
            },
            ReserveError::Journal(_) => Skipped::NoJournal,
        }
    }

    /// Writes the reservation to the journal and acquires a breaker permit, for an attempt that has a slot.
    pub(super) fn attempt(
        &self,
        target: &Arc<GuardedTarget>,
        place: Place<R>,
        money: Unwritten,
        bound: CallBound,
        credit: Option<Credit>,
    ) -> Result<Box<Attempt<R>>, Skipped> {
        let (path, now) = (self.path, self.path.runtime.monotonic());
        // Only the journal write can fail here.
        let hold = money.write().map_err(|_| Skipped::NoJournal)?;
        let (caller, deadline) = (self.caller(), self.planned.request.deadline);
        let permit = target.breaker.acquire_by(|breaker| match self.last_resort {
            Some(allowed) => breaker.acquire_last_resort(caller, now, deadline, allowed),
            None => breaker.acquire_for(caller, now, deadline),
        });
        let permit = match permit {
            Ok(permit) => permit,
            Err((reason, retry_after)) => {
                // Nothing was sent, so nothing is owed.
                hold.void();
                // The probes in flight end soon.
                let ends_soon = (reason == RejectReason::ProbesTaken).then_some(SOON);
                return Err(Skipped::Open(retry_after.or(ends_soon)));
            }
        };
        let tier = self.planned.caller.tier;
        let wanted = Wanted { bound, comes_whole: !self.planned.request.spoken.stream() };
        let holdings = Holdings { wanted, tier, hold, permit, credit, place };
        Ok(Attempt::start(&path.runtime, target, holdings, self.tally, now))
    }

    /// Queues for a slot, unless another target of the same grade has a free one or this target would not be called
    /// anyway.
    async fn wait_for_place(
        &self,
        target: &Arc<GuardedTarget>,
        others: &[Arc<GuardedTarget>],
        deadline: Deadline,
        start_limit: Duration,
    ) -> Result<Place<R>, Skipped> {
        let now = self.path.runtime.monotonic();
        let peek = target.breaker.with(|breaker| breaker.peek_for(self.caller(), now));
        if peek.phase == BreakerPhase::Open && self.last_resort.is_none() {
            return Err(Skipped::Open(peek.retry_after));
        }
        let has_room = |other: &Arc<GuardedTarget>| {
            other.grade == target.grade
                && other.in_flight.in_flight() < other.in_flight.limit()
                && !other.is_set_aside(now)
        };
        if others.iter().any(has_room) {
            return Err(Skipped::Busy(None));
        }
        let request = QueueRequest::new(
            self.planned.plan.priority,
            self.planned.caller.id,
            deadline.within(now, start_limit).moment(),
        );
        let place = target.wait_for_place(&self.path.runtime, &request, self.slot_holder()).await;
        self.tally.add_wait(self.path.runtime.monotonic() - now);
        place.map_err(|NoPlace { reason, retry_after }| match reason {
            SlotRefusal::Full => Skipped::Busy(retry_after),
            share => Skipped::ShareTaken(share, retry_after),
        })
    }

    /// Whose share of the concurrency slots the request uses.
    pub(super) fn slot_holder(&self) -> SlotHolder {
        let caller = &self.planned.caller;
        SlotHolder { caller: caller.id, guest_from: caller.network }
    }

    /// The reservation for the upper bound of a call.
    fn money(&self, bound: &CallBound) -> Ask {
        let request = &self.planned.request;
        Ask {
            caller: self.planned.caller.id,
            tier: self.planned.caller.tier,
            session: None,
            limits: self.path.token_limits,
            input: bound.input,
            output: bound.output,
            worst: bound.worst,
            expires: request.deadline.moment() + LATEST_END,
        }
    }

    fn named(&self, target: &GuardedTarget) -> seawall_store::Attempt {
        seawall_store::Attempt {
            id: CallId { request: self.planned.request.id.into(), attempt: self.tally.attempts() },
            model: Arc::clone(&target.model),
        }
    }

    fn succeeded(&mut self) {
        let since = |failed| self.path.runtime.monotonic() - failed;
        self.path.counters.request_succeeded(self.first_failed.map(since));
        if self.first_failed.is_none() {
            self.planned.request.rules.retry_budget.first_attempt_succeeded();
        }
    }

    /// Decides what to do after a failed attempt; sleeps for the backoff where there is one.
    async fn decide(
        &mut self,
        error: &CallError,
        target: &GuardedTarget,
        deadline: Deadline,
        others: &[Arc<GuardedTarget>],
    ) -> Next {
        let (path, rules) = (self.path, &self.planned.request.rules);
        let now = path.runtime.monotonic();
        self.first_failed.get_or_insert(now);
        let phase = target.breaker.with(|breaker| breaker.peek_for(self.caller(), now).phase);
        let held_back = error.failure.hold().map(|_| target.held_for(now)).filter(|held| !held.is_zero());
        let situation = RetrySituation {
            pressure: Some(target.pressure_now(phase, now)),
            held_back,
            other_is_ready: error.failure.hold().is_some() && self.is_ready(others, now),
            breaker_passes: phase == BreakerPhase::Closed,
            has_other_target: others.iter().any(|other| !other.is_set_aside(now)),
            ..RetrySituation::new(now, deadline)
        };
        let (decision, event) =
            self.retries.decide(&error.failure, &situation, Some(&rules.retry_budget), path.runtime.draw());
        path.counters.attempt_failed(&event);
        match decision {
            RetryDecision::RetrySame { after, credit } => {
                self.credit = credit;
                path.runtime.sleep_until(now + after).await;
                self.tally.add_wait(after);
                Next::Same
            }
            RetryDecision::FailOver(_) => Next::Other,
            RetryDecision::GiveUp(_) => Next::Nobody,
        }
    }
}

enum Next {
    Same,
    Other,
    Nobody,
}
