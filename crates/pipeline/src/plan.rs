//! Fourth stage: evaluates settings and posture for this caller, which gives the plan of the request. An assistant makes its own.

use crate::admit::AdmittedRequest;
use crate::callers::Caller;
use crate::receive::ReceivedRequest;
use crate::record::{PlanRecord, PlannedRungs, RequestRecord};
use crate::reply::Rejection;
use crate::route::Route;
use seawall_core::evaluator::{FaceKind, Plan, PlanSituation, evaluate};
use seawall_core::money::Money;
use seawall_core::vocabulary::{Grade, Rung};
use std::sync::Arc;

/// A request with its plan.
pub(crate) struct PlannedRequest {
    pub(crate) request: Box<ReceivedRequest>,
    pub(crate) caller: Caller,
    pub(crate) route: Arc<Route>,
    pub(crate) plan: Plan,
    /// Whether the caller's daily budget in the shared store does not cover the request, so that no model is called.
    pub(crate) is_over_budget: bool,
    /// What remains of that budget, as far as known.
    pub(crate) shared_remaining: Money,
}

pub(crate) fn plan(
    admitted: AdmittedRequest,
    record: &mut RequestRecord,
) -> Result<PlannedRequest, Rejection> {
    let (request, caller) = (&admitted.request, &admitted.caller);
    let situation = PlanSituation {
        face: FaceKind::Api,
        is_suspended: caller.is_suspended,
        ..PlanSituation::of(caller.id, caller.tier)
    };
    let evaluation = evaluate(&request.rules.plan, &request.posture, &situation, request.received.utc);
    record.plan = PlanRecord::of(&evaluation);
    let plan = evaluation.plan;
    // A request of an API tries the targets of its route in their order, whatever their grade.
    let preferred = admitted.route.targets.first().map(|target| model_rung(target.grade));
    record.planned = Some(PlannedRungs::of(&plan, request.posture.level, |rung| Some(rung) == preferred));
    if plan.rungs.is_empty() {
        return Err(if caller.is_suspended { Rejection::CallerSuspended } else { Rejection::SwitchedOff });
    }
    Ok(PlannedRequest::new(admitted, plan))
}

/// The rung of the models of this grade.
pub(crate) const fn model_rung(grade: Grade) -> Rung {
    match grade {
        Grade::Strong => Rung::StrongModel,
        Grade::Fast => Rung::FastModel,
    }
}

impl PlannedRequest {
    pub(crate) fn new(admitted: AdmittedRequest, plan: Plan) -> Self {
        let AdmittedRequest { request, caller, route, is_over_budget, shared_remaining } = admitted;
        Self { request, caller, route, plan, is_over_budget, shared_remaining }
    }
}
