//! How long to wait for a target that throttles or does not start.

use super::try_once::StartLimits;
use super::unanswered::Skipped;
use super::walk::Walk;
use crate::attempt::Attempt;
use crate::callers::TierOrigin;
use crate::target::GuardedTarget;
use crate::usual::{FirstByteLimit, longest_whole};
use seawall_core::breaker::CallerKey;
use seawall_core::deadline::Deadline;
use seawall_core::handle::Runtime;
use seawall_core::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// A turn that leaves less time than this for the attempt is not worth taking.
const MIN_ATTEMPT: Duration = Duration::from_millis(100);

impl<R: Runtime> Walk<'_, R> {
    /// The caller that the breaker attributes failures to. All guests count as one, because a cookie is easily
    /// discarded.
    pub(super) fn caller(&self) -> Option<CallerKey> {
        let caller = &self.planned.caller;
        Some(if caller.origin == TierOrigin::Guest { CallerKey::GUESTS } else { CallerKey(caller.id) })
    }

    /// Whether one of these targets would take a call at once.
    pub(super) fn is_ready(&self, others: &[Arc<GuardedTarget>], now: Timestamp) -> bool {
        others.iter().any(|other| other.is_ready(self.caller(), now))
    }

    /// Timeouts for the start of an attempt. If another target is available, one that sends nothing is abandoned early,
    /// so that the remaining time is left for the others.
    pub(super) fn start_limits(
        &self,
        attempt: &Attempt<R>,
        others: &[Arc<GuardedTarget>],
        start_by: Deadline,
        start_limit: Duration,
    ) -> StartLimits {
        let is_chat = self.planned.request.chat.is_some();
        let comes_whole = !self.planned.request.spoken.stream();
        let written = comes_whole.then(|| longest_whole(start_limit, attempt.max_output()));
        let all = start_by.moment() - attempt.started;
        if is_chat || !self.is_ready(others, attempt.started) {
            let limit = written.map_or(all, |written| attempt.target.silence_limit(written, all));
            let first_byte_by = start_by.within(attempt.started, limit);
            return StartLimits { start_by, first_byte_by, silence_is_failure: !is_chat };
        }
        let FirstByteLimit { limit, is_well_known } = attempt.target.first_byte_limit(written, all);
        let first_byte_by = start_by.within(attempt.started, limit);
        StartLimits { start_by, first_byte_by, silence_is_failure: is_well_known || limit >= all }
    }

    /// Waits until a paced target takes a call, unless another is available sooner or the turn would come too late.
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
        let turn =
            target.wait_for_turn(&self.path.runtime, until, self.slot_holder().into(), other_is_ready).await;
        self.tally.add_wait(self.path.runtime.monotonic() - now);
        turn.map_err(Skipped::HeldBack)
    }
}

impl GuardedTarget {
    /// Whether the target is out of rotation because its calls cost more than was reserved.
    pub(super) fn is_set_aside(&self, now: Timestamp) -> bool {
        self.output.set_aside(now).is_some()
    }

    /// Whether a call of this caller would be sent at once.
    fn is_ready(&self, caller: Option<CallerKey>, now: Timestamp) -> bool {
        !self.is_set_aside(now)
            && self.held_for(now).is_zero()
            && self.in_flight.in_flight() < self.in_flight.limit()
            && self.breaker.with(|breaker| breaker.peek_for(caller, now)).rejects.is_none()
    }
}
