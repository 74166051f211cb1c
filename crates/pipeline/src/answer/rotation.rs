//! Another attempt at the same target with another of its keys.

use super::cascade::TargetCascade;
use crate::target::GuardedTarget;
use seawall_core::failure::Failure;
use seawall_core::retry::RetrySituation;
use seawall_core::runtime::Runtime;

impl<R: Runtime> TargetCascade<'_, R> {
    /// Whether the attempt that failed is repeated with another key. Each key is tried at most once per visit, and each
    /// repetition takes a credit of the retry budget.
    pub(super) fn rotates(
        &mut self,
        failure: &Failure,
        target: &GuardedTarget,
        situation: &RetrySituation,
    ) -> bool {
        let Some(keys) = &target.keys else { return false };
        if self.state.rotations + 1 >= keys.count() || !keys.may_rotate(failure.kind, situation.now) {
            return false;
        }
        let budget = &self.planned.request.rules.retry_budget;
        let Some((credit, event)) = self.state.retries.rotate(failure, situation, Some(budget)) else {
            return false;
        };
        self.pipeline.counters.attempt_failed(&event);
        (self.state.credit, self.state.rotations) = (credit, self.state.rotations + 1);
        true
    }
}
