//! Hedging: a second attempt in parallel to one that is slow to start.
//!
//! The attempt that starts first answers; the other is dropped, which closes its connection and settles it. A hedge
//! takes only a free concurrency slot: it must not make other requests wait.

use super::cascade::TargetCascade;
use super::try_once::{AttemptResult, StartDeadlines, try_once};
use crate::attempt::Attempt;
use crate::record::AttemptCause;
use crate::target::GuardedTarget;
use seawall_core::deadline::Deadline;
use seawall_core::retry::{HedgeCredits, HedgeDecision, HedgeSituation};
use seawall_core::runtime::{Runtime, timeout_at};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::{CostState, Level};
use seawall_provider::Call;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

/// Number of starts to observe before the p95 is used as the threshold for slow.
const MIN_STARTS: u64 = 20;

impl<R: Runtime> TargetCascade<'_, R> {
    /// Runs an attempt, and hedges it on the next target if it is slow to start.
    pub(super) async fn run_hedged(
        &self,
        attempt: Box<Attempt<R>>,
        call: Call,
        others: &[Arc<GuardedTarget>],
        deadlines: StartDeadlines,
    ) -> AttemptResult<R> {
        let (target, started) = (Arc::clone(&attempt.target), self.pipeline.runtime.monotonic());
        let mut first = pin!(try_once(self.pipeline, self.planned, attempt, call, deadlines));
        let credits = loop {
            let now = self.pipeline.runtime.monotonic();
            let situation = self.situation(&target, now, started, others);
            match self
                .planned
                .request
                .rules
                .hedge
                .decide(&situation, &self.planned.request.rules.retry_budget)
            {
                HedgeDecision::Hedge(credits) => break credits,
                HedgeDecision::No(_) => return first.await,
                HedgeDecision::Wait(wait) => {
                    if let Some(result) =
                        timeout_at(&self.pipeline.runtime, Deadline::at(now + wait), first.as_mut()).await
                    {
                        return result;
                    }
                }
            }
        };
        let Some(second) = self.start_hedge(others, started) else { return first.await };
        let (attempt, call) = second;
        let second = pin!(try_once(self.pipeline, self.planned, attempt, call, deadlines));
        race(first, second, credits).await
    }

    fn situation(
        &self,
        target: &GuardedTarget,
        now: Timestamp,
        started: Timestamp,
        others: &[Arc<GuardedTarget>],
    ) -> HedgeSituation {
        let phase = target.breaker.with(|breaker| breaker.peek_for(self.caller(), now).phase);
        let posture = &self.planned.request.posture;
        HedgeSituation {
            now,
            started,
            slow_start: (target.time_to_first_content.count() >= MIN_STARTS)
                .then(|| target.time_to_first_content.quantile(0.95))
                .flatten(),
            pressure: target.pressure_now(phase, now),
            has_content: false,
            has_other_target: !others.is_empty(),
            extra_calls_barred: posture.level != Level::Normal || posture.day_cost != CostState::Normal,
        }
    }

    /// Starts a second attempt on the first of these targets that takes a call now.
    fn start_hedge(
        &self,
        others: &[Arc<GuardedTarget>],
        first_started: Timestamp,
    ) -> Option<(Box<Attempt<R>>, Call)> {
        others.iter().find_map(|target| {
            let now = self.pipeline.runtime.monotonic();
            if target.is_suspended_for_overruns(now) {
                return None;
            }
            let (call, bound) = self.call_for(target).ok()?;
            target.try_send_now(now).then_some(())?;
            let slot = target.try_take_slot(&self.pipeline.runtime, self.slot_holder())?;
            let hold = self.reserve(target, &bound).ok()?;
            let request = self.attempt_request(bound, AttemptCause::Hedge, Some(now - first_started));
            Some((self.start_attempt(target, slot, hold, request, None).ok()?, call))
        })
    }
}

/// Returns the attempt that starts first. One that fails is settled and releases its slot at once; the other then has
/// all of the remaining time.
async fn race<R: Runtime>(
    mut first: Pin<&mut impl Future<Output = AttemptResult<R>>>,
    mut second: Pin<&mut impl Future<Output = AttemptResult<R>>>,
    credits: HedgeCredits,
) -> AttemptResult<R> {
    let mut failed = [false; 2];
    let result = poll_fn(|context: &mut Context<'_>| {
        if !failed[0]
            && let Poll::Ready(result) = first.as_mut().poll(context)
        {
            if result.outcome.is_ok() || failed[1] {
                return Poll::Ready(result);
            }
            failed[0] = true;
            settle(result);
        }
        if !failed[1]
            && let Poll::Ready(result) = second.as_mut().poll(context)
        {
            if result.outcome.is_ok() || failed[0] {
                return Poll::Ready(result);
            }
            failed[1] = true;
            settle(result);
        }
        Poll::Pending
    })
    .await;
    drop(credits);
    result
}

fn settle<R: Runtime>(mut loser: AttemptResult<R>) {
    if let Err(error) = &mut loser.outcome {
        loser.attempt.fail_call(error);
    }
}
