//! The fourth stage: which targets to try, in which order, and what each may cost at worst.

use crate::admit::AdmittedRequest;
use crate::identify::Caller;
use crate::path::Path;
use crate::receive::ReceivedRequest;
use crate::reply::Rejection;
use bytes::Bytes;
use seawall_core::breaker::{Breaker, BreakerProfile, SharedBreaker};
use seawall_core::handle::Runtime;
use seawall_core::in_flight::InFlightLimit;
use seawall_core::money::{Money, Price};
use seawall_core::pressure::{PressureGauge, PressureOptions};
use seawall_core::setting::SettingError;
use seawall_provider::Target;
use seawall_wire::anthropic::with_model;
use std::sync::{Arc, Mutex};

/// Tokens that a vendor may add to what the caller wrote.
const INPUT_OVERHEAD: u64 = 300;

/// One model at one provider, as somebody wrote it.
pub struct TargetOptions {
    /// The name in logs and metrics.
    pub name: String,
    /// What the provider calls the model.
    pub model: String,
    /// What its tokens cost.
    pub price: Price,
    /// Calls in flight at once.
    pub concurrency: u32,
    /// When its breaker opens.
    pub breaker: BreakerProfile,
    /// The way there.
    pub upstream: Arc<dyn Target>,
}

/// A target with what protects it.
pub(crate) struct GuardedTarget {
    pub(crate) name: String,
    /// Shared with every call that the books keep.
    pub(crate) model: Arc<str>,
    pub(crate) price: Price,
    pub(crate) in_flight: InFlightLimit,
    pub(crate) breaker: SharedBreaker,
    pub(crate) pressure: Mutex<PressureGauge>,
    pub(crate) upstream: Arc<dyn Target>,
}

/// A name that callers use, and the targets behind it in the order they are tried.
pub struct Route {
    pub(crate) alias: String,
    /// Shared with every request under way, which keeps the plan it was given.
    pub(crate) targets: Arc<[Arc<GuardedTarget>]>,
}

impl Route {
    /// Refuses a route without targets, and targets whose settings make no sense.
    pub fn new(alias: &str, targets: Vec<TargetOptions>) -> Result<Self, SettingError> {
        if targets.is_empty() {
            return Err(SettingError::new("targets", format!("route {alias} has none")));
        }
        let guarded = targets.into_iter().map(guard).collect::<Result<_, _>>()?;
        Ok(Self { alias: alias.to_owned(), targets: guarded })
    }
}

fn guard(options: TargetOptions) -> Result<Arc<GuardedTarget>, SettingError> {
    let TargetOptions { name, model, price, concurrency, breaker, upstream } = options;
    Ok(Arc::new(GuardedTarget {
        name,
        model: model.into(),
        price,
        in_flight: InFlightLimit::new(concurrency)?,
        breaker: SharedBreaker::new(Breaker::new(breaker.options().check()?)),
        pressure: Mutex::new(PressureGauge::new(PressureOptions::default().check()?)),
        upstream,
    }))
}

impl GuardedTarget {
    /// The most that input of this many bytes can come to: no tokenizer makes more tokens than bytes.
    pub(crate) fn worst(&self, input_bytes: u64, output: u64) -> Money {
        self.price.at_most(most_input(input_bytes), output)
    }
}

/// The most tokens that input of this many bytes can have, with what a vendor adds.
pub(crate) const fn most_input(input_bytes: u64) -> u64 {
    input_bytes.saturating_add(INPUT_OVERHEAD)
}

/// A request with its plan.
pub(crate) struct PlannedRequest {
    pub(crate) request: ReceivedRequest,
    pub(crate) caller: Caller,
    pub(crate) targets: Arc<[Arc<GuardedTarget>]>,
}

impl PlannedRequest {
    /// The body as this target wants it: the caller's bytes with the target's model name.
    pub(crate) fn body_for(&self, target: &GuardedTarget) -> Bytes {
        with_model(&self.request.body, &self.request.head, &target.model)
    }
}

pub(crate) fn plan<R: Runtime>(
    path: &Path<R>,
    admitted: AdmittedRequest,
) -> Result<PlannedRequest, Rejection> {
    let AdmittedRequest { request, caller } = admitted;
    if request.head.model != path.route.alias {
        return Err(Rejection::UnknownModel(request.head.model));
    }
    Ok(PlannedRequest { request, caller, targets: Arc::clone(&path.route.targets) })
}
