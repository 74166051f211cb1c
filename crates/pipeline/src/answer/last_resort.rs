//! Last resort: tries targets that were skipped because of an open breaker or throttling.

use super::cascade::TargetCascade;
use super::cascade_failure::CascadeFailure;
use super::try_once::AttemptContent;
use crate::attempt::Attempt;
use crate::target::GuardedTarget;
use seawall_core::breaker::LastResort;
use seawall_core::deadline::Deadline;
use seawall_core::runtime::Runtime;
use seawall_core::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;

impl<R: Runtime> TargetCascade<'_, R> {
    /// Tries the targets that were skipped. A target with an open breaker gets one probe every five seconds while no
    /// other target of its route is available. For an asker without lower rungs, a target that is only slow
    /// is tried as well: a late answer is better than none. A throttled target is waited for.
    pub(super) async fn try_skipped(
        &mut self,
        targets: &[Arc<GuardedTarget>],
        deadline: Deadline,
        start_timeout: Duration,
        cascade_failure: &mut CascadeFailure,
    ) -> Option<(Box<Attempt<R>>, AttemptContent)> {
        let now = self.pipeline.runtime.monotonic();
        if !cascade_failure.may_retry() || deadline.has_passed(now) {
            return None;
        }
        let skipped: Vec<Arc<GuardedTarget>> =
            targets.iter().filter(|target| self.was_skipped(target, now)).cloned().collect();
        if skipped.is_empty() {
            return None;
        }
        let route = &self.planned.route.targets;
        let single_probe =
            route.iter().all(|target| target.is_suspended_for_overruns(now) || self.is_blocked(target, now));
        let panic = !self.planned.request.has_lower_rungs;
        self.state.last_resort = Some(LastResort { single_probe, panic });
        let found = self.try_each(&skipped, deadline, start_timeout, cascade_failure).await;
        self.state.last_resort = None;
        found
    }

    fn was_skipped(&self, target: &GuardedTarget, now: Timestamp) -> bool {
        !target.retry_after(now).is_zero() || self.is_blocked(target, now)
    }

    fn is_blocked(&self, target: &GuardedTarget, now: Timestamp) -> bool {
        target.breaker.with(|breaker| breaker.peek_for(self.caller(), now)).rejects.is_some()
    }
}
