//! What an attempt reserves in the ledger, and why that may be refused.

use super::cascade::TargetCascade;
use super::cascade_failure::SkipReason;
use crate::attempt::HOLD_GRACE;
use crate::shortage::BudgetShortage;
use crate::target::{CallBound, GuardedTarget};
use seawall_core::budget::{BudgetRefusal, ReservationRequest, WindowCaps};
use seawall_core::runtime::Runtime;
use seawall_store::{CallId, ReserveError, SpendLabels};
use std::sync::Arc;

impl<R: Runtime> TargetCascade<'_, R> {
    /// The budgets by calendar window that apply to the request.
    pub(super) fn window_caps(&self) -> WindowCaps {
        self.planned.request.rules.budgets.caps(&self.planned.caller)
    }

    /// The reservation for the upper bound of a call.
    pub(super) fn budget_request(&self, bound: &CallBound) -> ReservationRequest {
        let request = &self.planned.request;
        ReservationRequest {
            caller: self.planned.caller.id,
            tier: self.planned.caller.tier,
            session: None,
            limits: self.pipeline.token_limits,
            input: bound.input,
            output: bound.output,
            max_cost: bound.max_cost,
            expires: request.deadline.moment() + HOLD_GRACE,
            windows: self.window_caps(),
        }
    }

    pub(super) fn ledger_attempt(&self, target: &GuardedTarget) -> seawall_store::LedgerCall {
        seawall_store::LedgerCall {
            id: CallId { request: self.planned.request.id.into(), attempt: self.progress.attempts() },
            model: Arc::clone(&target.model),
            labels: SpendLabels {
                target: Arc::clone(&target.name),
                route: Arc::clone(&self.planned.route.alias),
                key: self.planned.caller.contract.as_ref().map(|contract| Arc::clone(&contract.labels)),
            },
        }
    }

    /// Why the reservation of a call with this bound was rejected.
    pub(super) fn skip_reason(&self, error: &ReserveError, bound: &CallBound) -> SkipReason {
        match error {
            ReserveError::Refused(BudgetRefusal::ExceedsDailyBudget { wanted, .. }) => {
                match bound.largest_feature {
                    Some((feature, tokens)) => SkipReason::Unbounded(format!(
                        "this request may cost {wanted}, which exceeds the daily budget: {tokens} tokens are reserved \
                     for input by reference ({feature}); send the content itself, or an operator can set \
                     limits.untracked_input.{feature}"
                    )),
                    None => SkipReason::ExceedsDailyBudget(*wanted),
                }
            }
            ReserveError::Refused(refusal) => match refusal.shortage() {
                Some(day) => {
                    let settles_in = self.pipeline.ledger.typical_hold_duration();
                    let max_cost = |output| bound.max_cost_with_limit(output);
                    SkipReason::Unaffordable(BudgetShortage::of(&day, bound.output, settles_in, max_cost))
                }
                // Unreachable: the pipeline's ledger has neither session budgets nor token limits per request.
                None => SkipReason::JournalUnavailable,
            },
            ReserveError::Journal(_) => SkipReason::JournalUnavailable,
        }
    }
}
