//! The fourth stage: which targets to try, in which order.

use crate::admit::AdmittedRequest;
use crate::identify::Caller;
use crate::receive::ReceivedRequest;
use crate::reply::Rejection;
use crate::target::{GuardedTarget, Route};
use bytes::Bytes;
use seawall_wire::anthropic::with_model;
use std::sync::Arc;

/// A request with its plan.
pub(crate) struct PlannedRequest {
    pub(crate) request: ReceivedRequest,
    pub(crate) caller: Caller,
    pub(crate) route: Arc<Route>,
}

impl PlannedRequest {
    /// The body as this target wants it: the caller's bytes with the target's model name.
    pub(crate) fn body_for(&self, target: &GuardedTarget) -> Bytes {
        with_model(&self.request.body, &self.request.head, &target.model)
    }
}

pub(crate) fn plan(admitted: AdmittedRequest) -> Result<PlannedRequest, Rejection> {
    let AdmittedRequest { request, caller } = admitted;
    match request.rules.routes.get(request.head.model.as_str()) {
        Some(route) => Ok(PlannedRequest { caller, route: Arc::clone(route), request }),
        None => Err(Rejection::UnknownModel(request.head.model)),
    }
}
