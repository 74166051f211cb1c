//! Hedging: a second attempt in parallel to one that is slow to start.
//!
//! The attempt that starts first answers; the other is dropped, which closes its connection and settles it. A hedge
//! takes only a free concurrency slot: it must not make other requests wait.

use super::try_once::{StartLimits, Tried, try_once};
use super::walk::Walk;
use crate::attempt::Attempt;
use crate::target::GuardedTarget;
use seawall_core::deadline::Deadline;
use seawall_core::handle::{Runtime, within};
use seawall_core::retry::{HedgeCredits, HedgeDecision, HedgeSituation};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::{CostState, Level};
use seawall_provider::Call;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

/// Number of starts to observe before the p95 is used as the threshold for slow.
const ENOUGH_STARTS: u64 = 20;

impl<R: Runtime> Walk<'_, R> {
    /// Runs an attempt, and hedges it on the next target if it is slow to start.
    pub(super) async fn hedged(
        &self,
        attempt: Box<Attempt<R>>,
        call: Call,
        others: &[Arc<GuardedTarget>],
        limits: StartLimits,
    ) -> Tried<R> {
        let (target, started) = (Arc::clone(&attempt.target), self.path.runtime.monotonic());
        let mut first = pin!(try_once(self.path, self.planned, attempt, call, limits));
        let credits = loop {
            let now = self.path.runtime.monotonic();
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
                    if let Some(tried) =
                        within(&self.path.runtime, Deadline::at(now + wait), first.as_mut()).await
                    {
                        return tried;
                    }
                }
            }
        };
        let Some(second) = self.second(others) else { return first.await };
        let (attempt, call) = second;
        let second = pin!(try_once(self.path, self.planned, attempt, call, limits));
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
        let posture = &self.planned.request.rules.posture;
        HedgeSituation {
            now,
            started,
            slow_start: (target.starts.count() >= ENOUGH_STARTS)
                .then(|| target.starts.quantile(0.95))
                .flatten(),
            pressure: target.pressure_now(phase, now),
            has_content: false,
            has_other_target: !others.is_empty(),
            must_save: posture.level != Level::Normal || posture.day_cost != CostState::Normal,
        }
    }

    /// Starts a second attempt on the first of these targets that takes a call now.
    fn second(&self, others: &[Arc<GuardedTarget>]) -> Option<(Box<Attempt<R>>, Call)> {
        others.iter().find_map(|target| {
            if target.is_set_aside(self.path.runtime.monotonic()) {
                return None;
            }
            let (call, bound) = self.call_for(target).ok()?;
            target.take_turn(self.path.runtime.monotonic()).then_some(())?;
            let place = target.place(&self.path.runtime, self.slot_holder())?;
            let money = self.hold(target, &bound).ok()?;
            Some((self.attempt(target, place, money, bound, None).ok()?, call))
        })
    }
}

/// Returns the attempt that starts first. One that fails is settled and releases its slot at once; the other then has
/// all of the remaining time.
async fn race<R: Runtime>(
    mut first: Pin<&mut impl Future<Output = Tried<R>>>,
    mut second: Pin<&mut impl Future<Output = Tried<R>>>,
    credits: HedgeCredits,
) -> Tried<R> {
    let mut failed = [false; 2];
    let tried = poll_fn(|context: &mut Context<'_>| {
        if !failed[0]
            && let Poll::Ready(tried) = first.as_mut().poll(context)
        {
            if tried.outcome.is_ok() || failed[1] {
                return Poll::Ready(tried);
            }
            failed[0] = true;
            settle(tried);
        }
        if !failed[1]
            && let Poll::Ready(tried) = second.as_mut().poll(context)
        {
            if tried.outcome.is_ok() || failed[0] {
                return Poll::Ready(tried);
            }
            failed[1] = true;
            settle(tried);
        }
        Poll::Pending
    })
    .await;
    drop(credits);
    tried
}

fn settle<R: Runtime>(mut lost: Tried<R>) {
    if let Err(error) = &lost.outcome {
        lost.attempt.fail(&error.failure);
    }
}
