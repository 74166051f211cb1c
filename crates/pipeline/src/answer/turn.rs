//! How long to wait for a target: one that throttles, and one that does not begin.

use super::try_once::StartLimits;
use super::unanswered::Skipped;
use super::walk::Walk;
use crate::attempt::Attempt;
use crate::callers::TierOrigin;
use crate::target::GuardedTarget;
use crate::usual::FirstByteLimit;
use seawall_core::breaker::CallerKey;
use seawall_core::deadline::Deadline;
use seawall_core::handle::Runtime;
use seawall_core::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// An attempt that has less time than this after its turn has come is not worth a turn.
const MIN_ATTEMPT: Duration = Duration::from_millis(100);

impl<R: Runtime> Walk<'_, R> {
    /// Who is to blame for what its calls provoke. All guests are one: a cookie is soon thrown away.
    pub(super) fn caller(&self) -> Option<CallerKey> {
        let caller = &self.planned.caller;
        Some(if caller.origin == TierOrigin::Guest { CallerKey::GUESTS } else { CallerKey(caller.id) })
    }

    /// Whether one of these would be sent a call at once.
    pub(super) fn is_ready(&self, others: &[Arc<GuardedTarget>], now: Timestamp) -> bool {
        others.iter().any(|other| other.is_ready(self.caller(), now))
    }

    /// Until when an attempt must have begun. Where another target could be asked, one that sends nothing is left early, so
    /// that the rest of the time belongs to the others.
    pub(super) fn start_limits(
        &self,
        attempt: &Attempt<R>,
        others: &[Arc<GuardedTarget>],
        start_by: Deadline,
    ) -> StartLimits {
        let is_chat = self.planned.request.chat.is_some();
        if is_chat || !self.is_ready(others, attempt.started) {
            return StartLimits { start_by, first_byte_by: start_by, silence_is_failure: !is_chat };
        }
        let comes_whole = !self.planned.request.spoken.stream();
        let all = start_by.moment() - attempt.started;
        let FirstByteLimit { limit, is_well_known } = attempt.target.first_byte_limit(comes_whole, all);
        let first_byte_by = start_by.within(attempt.started, limit);
        StartLimits { start_by, first_byte_by, silence_is_failure: is_well_known || limit >= all }
    }

    /// Waits until a paced target takes a call, unless another can be asked sooner or the turn would come too late.
    pub(super) async fn wait_for_turn(
        &self,
        target: &GuardedTarget,
        others: &[Arc<GuardedTarget>],
        deadline: Deadline,
        start_limit: Duration,
    ) -> Result<(), Skipped> {
        let now = self.path.runtime.monotonic();
        let received = self.planned.request.received.monotonic;
        let until = deadline.within(received, start_limit).moment() - MIN_ATTEMPT;
        let other_is_ready = |now| self.is_ready(others, now);
        let turn = target.wait_for_turn(&self.path.runtime, until, other_is_ready).await;
        self.tally.add_wait(self.path.runtime.monotonic() - now);
        turn.map_err(Skipped::HeldBack)
    }
}

impl GuardedTarget {
    /// Whether a call of this caller would be sent at once.
    fn is_ready(&self, caller: Option<CallerKey>, now: Timestamp) -> bool {
        self.held_for(now).is_zero()
            && self.in_flight.in_flight() < self.in_flight.limit()
            && self.breaker.with(|breaker| breaker.peek_for(caller, now)).rejects.is_none()
    }
}
