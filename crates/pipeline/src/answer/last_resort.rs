//! Last resort: tries targets that were skipped because of an open breaker or throttling.

use super::try_once::Content;
use super::unanswered::Unanswered;
use super::walk::Walk;
use crate::attempt::Attempt;
use crate::target::GuardedTarget;
use seawall_core::breaker::LastResort;
use seawall_core::deadline::Deadline;
use seawall_core::handle::Runtime;
use seawall_core::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;

impl<R: Runtime> Walk<'_, R> {
    /// Tries the targets that were skipped. A target with an open breaker gets one probe every five seconds while no
    /// other target of its route is available. On a vendor's face, which has no lower rungs, a target that is only slow
    /// is tried as well: a late answer is better than none. A throttled target is waited for.
    pub(super) async fn ask_again(
        &mut self,
        targets: &[Arc<GuardedTarget>],
        deadline: Deadline,
        start_limit: Duration,
        unanswered: &mut Unanswered,
    ) -> Option<(Box<Attempt<R>>, Content)> {
        let now = self.path.runtime.monotonic();
        if !unanswered.is_worth_another() || deadline.has_passed(now) {
            return None;
        }
        let passed_by: Vec<Arc<GuardedTarget>> =
            targets.iter().filter(|target| self.was_passed_by(target, now)).cloned().collect();
        if passed_by.is_empty() {
            return None;
        }
        let route = &self.planned.route.targets;
        let single_probe =
            route.iter().all(|target| target.is_set_aside(now) || self.is_blocked(target, now));
        self.last_resort = Some(LastResort { single_probe, panic: self.planned.request.chat.is_none() });
        let found = self.ask_each(&passed_by, deadline, start_limit, unanswered).await;
        self.last_resort = None;
        found
    }

    fn was_passed_by(&self, target: &GuardedTarget, now: Timestamp) -> bool {
        !target.held_for(now).is_zero() || self.is_blocked(target, now)
    }

    fn is_blocked(&self, target: &GuardedTarget, now: Timestamp) -> bool {
        target.breaker.with(|breaker| breaker.peek_for(self.caller(), now)).rejects.is_some()
    }
}
