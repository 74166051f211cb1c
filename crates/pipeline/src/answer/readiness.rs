//! Whether a target is ready, and how long to wait for one that throttles or does not start.

use super::cascade::TargetCascade;
use super::cascade_failure::SkipReason;
use super::try_once::StartDeadlines;
use crate::attempt::Attempt;
use crate::baselines::{FirstByteTimeout, unstreamed_timeout};
use crate::callers::{Caller, TierOrigin};
use crate::target::GuardedTarget;
use seawall_core::breaker::CallerKey;
use seawall_core::deadline::Deadline;
use seawall_core::runtime::Runtime;
use seawall_core::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// A wait that leaves less time than this for the attempt is not worth it.
const MIN_ATTEMPT_TIME: Duration = Duration::from_millis(100);

impl<R: Runtime> TargetCascade<'_, R> {
    /// The caller that the breaker attributes failures to. All guests count as one, because a cookie is easily
    /// discarded.
    pub(super) fn caller(&self) -> Option<CallerKey> {
        caller_key(&self.planned.caller)
    }

    /// Whether one of these targets would take a call at once.
    pub(super) fn is_ready(&self, others: &[Arc<GuardedTarget>], now: Timestamp) -> bool {
        others.iter().any(|other| other.is_ready(self.caller(), now))
    }

    /// Timeouts for the start of an attempt. If another target is available, one that sends nothing is abandoned early,
    /// so that the remaining time is left for the others.
    pub(super) fn start_deadlines(
        &self,
        attempt: &Attempt<R>,
        others: &[Arc<GuardedTarget>],
        start_by: Deadline,
        start_timeout: Duration,
    ) -> StartDeadlines {
        let has_lower_rungs = self.planned.request.has_lower_rungs;
        let is_unstreamed = !self.planned.request.parsed.stream();
        let generation_time = is_unstreamed.then(|| unstreamed_timeout(start_timeout, attempt.max_output()));
        let remaining = start_by.moment() - attempt.started;
        if has_lower_rungs || !self.is_ready(others, attempt.started) {
            let timeout = generation_time.map_or(remaining, |generation_time| {
                attempt.target.silence_timeout(generation_time, remaining)
            });
            let first_byte_by = start_by.within(attempt.started, timeout);
            return StartDeadlines { start_by, first_byte_by, silence_is_failure: !has_lower_rungs };
        }
        let FirstByteTimeout { timeout, is_reliable } =
            attempt.target.first_byte_timeout(generation_time, remaining);
        let first_byte_by = start_by.within(attempt.started, timeout);
        StartDeadlines { start_by, first_byte_by, silence_is_failure: is_reliable || timeout >= remaining }
    }

    /// Waits until a paced target takes a call, unless another is available sooner or that would be too late.
    pub(super) async fn wait_to_send(
        &self,
        target: &GuardedTarget,
        others: &[Arc<GuardedTarget>],
        deadline: Deadline,
        start_timeout: Duration,
    ) -> Result<(), SkipReason> {
        let now = self.pipeline.runtime.monotonic();
        let received = self.planned.request.received.monotonic;
        let until = deadline.within(received, start_timeout).moment() - MIN_ATTEMPT_TIME;
        let other_is_ready = |now| self.is_ready(others, now);
        let sent = target
            .wait_to_send(&self.pipeline.runtime, until, self.slot_holder().into(), other_is_ready)
            .await;
        self.progress.add_delay(self.pipeline.runtime.monotonic() - now);
        sent.map_err(SkipReason::Throttled)
    }
}

/// See [`TargetCascade::caller`].
pub(crate) fn caller_key(caller: &Caller) -> Option<CallerKey> {
    Some(if caller.origin == TierOrigin::Guest { CallerKey::GUESTS } else { CallerKey(caller.id) })
}

impl GuardedTarget {
    /// Whether the target is out of rotation because its calls cost more than was reserved.
    pub(super) fn is_suspended_for_overruns(&self, now: Timestamp) -> bool {
        self.output.suspended_for(now).is_some()
    }

    /// Whether a call of this caller would be sent at once.
    pub(crate) fn is_ready(&self, caller: Option<CallerKey>, now: Timestamp) -> bool {
        !self.is_suspended_for_overruns(now)
            && self.retry_after(now).is_zero()
            && self.in_flight.in_flight() < self.in_flight.limit()
            && self.breaker.with(|breaker| breaker.peek_for(caller, now)).rejects.is_none()
    }
}
