//! Admission of requests that no model answers, such as token counting.
//!
//! Counting tokens costs no money but uses CPU. Without a limit, one caller could keep every core busy. Such a request
//! is therefore admitted by the same limits as a request to a model, and counts against them.

use crate::admit::scopes;
use crate::callers::Caller;
use crate::path::Path;
use crate::reply::Rejection;
use seawall_core::evaluator::Protection;
use seawall_core::handle::Runtime;
use seawall_core::quota::Cost;
use seawall_core::vocabulary::Mode;
use seawall_store::{AdmitDecision, QuotaAsk};

impl<R: Runtime> Path<R> {
    /// Takes one request from every limit of this caller that belongs to no route, or rejects it like any other
    /// request.
    pub async fn admit_without_model(&self, caller: &Caller) -> Result<(), Rejection> {
        let (rules, now) = (self.rules.load_full(), self.runtime.now());
        let scopes = scopes(&rules.groups, caller, None);
        let ask = QuotaAsk {
            home: caller.network.unwrap_or(caller.id),
            scopes: &scopes,
            cost: Cost::tokens(0),
            money: None,
            claim: None,
        };
        let is_enforced = rules.posture.protections.mode(Protection::RateLimit) == Mode::Enforce;
        match self.limits.reserve(ask, now).await {
            AdmitDecision::RetryAfter(refusal) if is_enforced => Err(Rejection::Limited {
                limit: rules.groups.named(refusal.binding.limit),
                come_back: rules.come_back.hint(refusal.wait, self.runtime.draw()),
            }),
            AdmitDecision::TooLarge { limit, .. } if is_enforced => {
                Err(Rejection::TooLargeForLimit(rules.groups.named(limit)))
            }
            _ => Ok(()),
        }
    }
}
