//! Admission of requests that no model answers, such as token counting.
//!
//! Counting tokens costs no money but uses CPU. Without a limit, one caller could keep every core busy. Such a request
//! is therefore admitted by the same limits as a request to a model, and counts against them.

use crate::admit::scopes;
use crate::callers::Caller;
use crate::pipeline::Pipeline;
use crate::reply::Rejection;
use seawall_core::evaluator::Protection;
use seawall_core::quota::QuotaUnits;
use seawall_core::runtime::Runtime;
use seawall_core::vocabulary::Mode;
use seawall_store::{AdmissionRequest, AdmitDecision};

impl<R: Runtime> Pipeline<R> {
    /// Takes one request from every limit of this caller that belongs to no route, or rejects it like any other
    /// request.
    pub async fn admit_without_model(&self, caller: &Caller) -> Result<(), Rejection> {
        let (rules, now) = (self.rules.load_full(), self.runtime.now());
        let scopes = scopes(&rules.groups, caller, None);
        let admission = AdmissionRequest {
            partition: caller.network.unwrap_or(caller.id),
            scopes: &scopes,
            units: QuotaUnits::tokens(0),
            money: None,
            claim: None,
        };
        let is_enforced = rules.plan.protections.mode(Protection::RateLimit) == Mode::Enforce;
        match self.quotas.reserve(admission, now).await? {
            AdmitDecision::RateLimited(refusal) if is_enforced => Err(Rejection::RateLimited {
                limit: rules.groups.describe(refusal.binding.limit),
                retry_after: rules.retry_after.advise(refusal.wait, self.runtime.draw()),
            }),
            AdmitDecision::TooLarge { limit, .. } if is_enforced => {
                Err(Rejection::TooLargeForLimit(rules.groups.describe(limit)))
            }
            _ => Ok(()),
        }
    }
}
