//! Third stage: finds the requested route and makes one all-or-nothing decision over every limit.
//!
//! The route is resolved first, because some limits belong to it and because a request for a route that does not exist
//! must not use up any limit.

use crate::attempt::HOLD_GRACE;
use crate::callers::Caller;
use crate::event::{BudgetDecision, BudgetKind, Event, EventTopic, LimitDecision};
use crate::identify::IdentifiedRequest;
use crate::limit_description::LimitScope;
use crate::output_limit::OutputBudget;
use crate::pipeline::Pipeline;
use crate::receive::ReceivedRequest;
use crate::record::CheckedLimitSummary;
use crate::reply::{IdempotencyConflict, Rejection};
use crate::route::Route;
use crate::rules::LimitGroups;
use crate::settle::RequestCompletion;
use crate::shortage::BudgetShortage;
use crate::target::{CallBound, GuardedTarget};
use seawall_core::budget::DayShortage;
use seawall_core::evaluator::Protection;
use seawall_core::money::Money;
use seawall_core::quota::{QuotaKey, QuotaScope, QuotaUnits, ScopeList};
use seawall_core::runtime::Runtime;
use seawall_core::vocabulary::Mode;
use seawall_store::{AdmissionRequest, AdmitDecision, CallerBudgetRequest, ClaimRequest};
use std::sync::Arc;
use std::time::Duration;

/// How long the idempotency key of a completed request is remembered.
const IDEMPOTENCY_KEY_TTL: Duration = Duration::from_secs(600);

/// A request that passed every limit.
pub(crate) struct AdmittedRequest {
    pub(crate) request: Box<ReceivedRequest>,
    pub(crate) caller: Caller,
    pub(crate) route: Arc<Route>,
    /// Whether the caller's daily budget does not cover the request, so that no model is called: the budget may be
    /// spent, held by calls in progress, or too small for this request.
    pub(crate) is_over_budget: bool,
    /// What remains of the caller's daily budget in the shared store, as far as known.
    pub(crate) shared_remaining: Money,
}

pub(crate) async fn admit<R: Runtime>(
    pipeline: &Pipeline<R>,
    identified: IdentifiedRequest,
    completion: &mut RequestCompletion<R>,
) -> Result<AdmittedRequest, Rejection> {
    let IdentifiedRequest { request, caller } = identified;
    let route = find_route(&request, &caller)?;
    completion.record.route = Some(Arc::clone(&route.alias));
    let scopes = scopes(&request.rules.groups, &caller, Some(&route.alias));
    let mut shared_remaining = request.rules.shared_caller_budget.unwrap_or(Money::MAX);
    let windows = request.rules.budgets.caps(&caller);
    let available = || pipeline.ledger.available(caller.id, caller.tier, &windows, request.received);
    let output_budget =
        |remaining: Money| OutputBudget { money: available().min(remaining), tokens: route.token_limit };
    let mut max = max_usage(&request, &route, || output_budget(shared_remaining));
    let admission = |units, max_cost| AdmissionRequest {
        partition: caller.network.unwrap_or(caller.id),
        scopes: &scopes,
        units,
        money: budget_reservation(&request, &caller, max_cost),
        claim: request.idempotency_key.as_deref().map(|key| idempotency_claim(key, &request, &caller)),
    };
    let units =
        |tokens| if route.token_limit.is_some() { QuotaUnits::tokens(tokens) } else { QuotaUnits::REQUEST };
    let mut decision =
        pipeline.quotas.reserve(admission(units(max.tokens), max.money), request.received).await?;
    if let (AdmitDecision::InsufficientBudget(day), None) = (&decision, request.parsed.max_output()) {
        // The request sets no output limit of its own, so a lower limit may still fit the remaining budget.
        shared_remaining = day.available;
        max = max_usage(&request, &route, || output_budget(shared_remaining));
        decision = pipeline.quotas.reserve(admission(units(max.tokens), max.money), request.received).await?;
    }
    // Rate limits in observe mode only record what they would have rejected. Budgets and idempotency keys are enforced
    // regardless.
    let rejected_by = match &decision {
        AdmitDecision::RateLimited(refusal) => Some(refusal.binding.limit),
        AdmitDecision::TooLarge { limit, .. } => Some(*limit),
        _ => None,
    };
    completion.record.limit = rejected_by.map(|limit| request.rules.groups.describe(limit));
    if rejected_by.is_some() && !is_enforced(&request) {
        completion.record.limit_observed = true;
        let uncounted = admission(QuotaUnits::NOTHING, max.money);
        if uncounted.money.is_some() || uncounted.claim.is_some() {
            decision = pipeline.quotas.reserve(uncounted, request.received).await?;
        }
    }
    let is_counted = !completion.record.limit_observed;
    let all_bounds = || -> Vec<_> { bounds(&request, &route, || output_budget(shared_remaining)).collect() };
    let is_over_budget = matches!(decision, AdmitDecision::InsufficientBudget(_)) && request.has_lower_rungs;
    if let (AdmitDecision::InsufficientBudget(day), true) = (&decision, is_over_budget) {
        let shortage = shortage(pipeline, &all_bounds(), day);
        emit_budget_decision(completion, max.money, BudgetDecision::Refused(shortage.kind()));
        // The asker falls back to its lower rungs, which cost nothing. Rate limits and idempotency keys still
        // apply.
        decision = pipeline
            .quotas
            .reserve(
                AdmissionRequest { money: None, ..admission(QuotaUnits::REQUEST, max.money) },
                request.received,
            )
            .await?;
    }
    emit_limit_decision(&request, completion, &decision);
    let checked = match &decision {
        AdmitDecision::Granted { tightest, .. } => Some(tightest),
        AdmitDecision::RateLimited(refusal) => Some(&refusal.binding),
        _ => None,
    };
    completion.record.limits = checked.map(|view| {
        let groups = &request.rules.groups;
        CheckedLimitSummary::new(groups.limits_in(&scopes), groups.describe(view.limit), view)
    });
    match decision {
        AdmitDecision::Granted { reservation, tightest } => {
            if request.rules.shared_caller_budget.is_some() && !is_over_budget {
                emit_budget_decision(completion, max.money, BudgetDecision::Reserved);
            }
            completion.reported_limit = Some(tightest);
            if pipeline.journals_admissions {
                let timeout = request.deadline.remaining(request.received.monotonic);
                if let Some(admission_record) =
                    pipeline.quotas.admission_record(&reservation, timeout, request.received)
                {
                    completion.progress.set_admission_record(pipeline.ledger.clone(), admission_record);
                }
            }
            completion.reservation = Some((reservation, Arc::clone(&pipeline.quotas)));
            completion.is_counted = is_counted;
            Ok(AdmittedRequest { request, caller, route, is_over_budget, shared_remaining })
        }
        AdmitDecision::RateLimited(_) | AdmitDecision::TooLarge { .. } if !is_counted => {
            Ok(AdmittedRequest { request, caller, route, is_over_budget, shared_remaining })
        }
        AdmitDecision::RateLimited(refusal) => {
            let limit = request.rules.groups.describe(refusal.binding.limit);
            completion.reported_limit = Some(refusal.binding);
            completion.record.limit = Some(Arc::clone(&limit));
            let policy = match limit.scope {
                LimitScope::Caller(tier) => request.rules.policy(tier),
                _ => None,
            };
            completion.policy = Some(policy.unwrap_or_else(|| Arc::clone(&limit.policy)));
            let retry_after = request.rules.retry_after.advise(refusal.wait, pipeline.runtime.draw());
            Err(Rejection::RateLimited { limit, retry_after })
        }
        AdmitDecision::TooLarge { limit, .. } => {
            Err(Rejection::TooLargeForLimit(request.rules.groups.describe(limit)))
        }
        AdmitDecision::InsufficientBudget(day) => {
            let shortage = shortage(pipeline, &all_bounds(), &day);
            emit_budget_decision(completion, max.money, BudgetDecision::Refused(shortage.kind()));
            let (policy, draw) = (&request.rules.retry_after, pipeline.runtime.draw());
            Err(Rejection::of_shortage(shortage, &caller, policy, draw))
        }
        AdmitDecision::InProgress => Err(Rejection::Conflict(IdempotencyConflict::InProgress)),
        AdmitDecision::Completed => Err(Rejection::Conflict(IdempotencyConflict::Completed)),
        AdmitDecision::OutcomeUnknown => Err(Rejection::Conflict(IdempotencyConflict::OutcomeUnknown)),
        AdmitDecision::KeyReused => Err(Rejection::Conflict(IdempotencyConflict::KeyReused)),
    }
}

fn is_enforced(request: &ReceivedRequest) -> bool {
    request.rules.plan.protections.mode(Protection::RateLimit) == Mode::Enforce
}

/// Returns the route if it exists, is served on this face and is open to this caller.
fn find_route(request: &ReceivedRequest, caller: &Caller) -> Result<Arc<Route>, Rejection> {
    let model = request.parsed.model();
    let unknown = || Rejection::UnknownModel(model.to_owned());
    let route = request.rules.routes.find(model).ok_or_else(unknown)?;
    if !route.faces.has(request.parsed.face()) {
        return Err(unknown());
    }
    if !route.is_open_at(request.parsed.face(), caller.is_guest()) {
        return Err(Rejection::needs_credential());
    }
    if !caller.may_use(model) && !caller.may_use(&route.alias) {
        return Err(Rejection::Forbidden);
    }
    Ok(route)
}

/// The limits that this caller's request counts against. `route` is `None` for requests that reach no model. A group that
/// is added here is also added to [`LimitRules::check`](crate::rules::LimitRules::check).
pub(crate) fn scopes(groups: &LimitGroups, caller: &Caller, route: Option<&str>) -> ScopeList {
    let mut scopes = ScopeList::new();
    if let Some(group) = groups.of_tier(caller.tier) {
        scopes.push(QuotaScope { group, key: QuotaKey(caller.id) });
    }
    scopes.push(QuotaScope { group: groups.global, key: QuotaKey(0) });
    if let (Some(network), Some(group)) = (caller.network, groups.by_address) {
        scopes.push(QuotaScope { group, key: QuotaKey(network) });
    }
    if let Some(group) = caller.contract.as_ref().and_then(|contract| contract.limit_group.as_deref()) {
        scopes.push(QuotaScope { group: groups.of_key_limits(group), key: QuotaKey(caller.id) });
    }
    if let Some(group) = route.and_then(|route| groups.of_route(route)) {
        scopes.push(QuotaScope { group, key: QuotaKey(0) });
    }
    scopes
}

/// Upper bounds of a request, over all targets of its route.
#[derive(Clone, Copy, Default)]
struct MaxUsage {
    tokens: u32,
    money: Money,
}

/// Computes the bounds that token limits and the shared daily budget need. Skips the work and returns zeros where
/// neither is configured.
fn max_usage(
    request: &ReceivedRequest,
    route: &Route,
    output_budget: impl Fn() -> OutputBudget + Copy,
) -> MaxUsage {
    if route.token_limit.is_none() && request.rules.shared_caller_budget.is_none() {
        return MaxUsage::default();
    }
    bounds(request, route, output_budget).fold(MaxUsage::default(), |max, bound| {
        let tokens = u32::try_from(bound.input.saturating_add(bound.output)).unwrap_or(u32::MAX);
        MaxUsage { tokens: max.tokens.max(tokens), money: max.money.max(bound.max_cost) }
    })
}

/// The upper bound at each candidate target.
fn bounds(
    request: &ReceivedRequest,
    route: &Route,
    output_budget: impl Fn() -> OutputBudget + Copy,
) -> impl Iterator<Item = CallBound> {
    let bound = move |target: &Arc<GuardedTarget>| {
        let allowance = target.allowance(request.input_bytes, &request.parsed, output_budget).ok()?;
        target.bound(request.input_bytes, &request.parsed, allowance).ok()
    };
    route.targets.iter().filter_map(bound)
}

/// The reservation against the caller's daily budget, if a shared store keeps that budget.
fn budget_reservation(
    request: &ReceivedRequest,
    caller: &Caller,
    max_cost: Money,
) -> Option<CallerBudgetRequest> {
    let cap = request.rules.shared_caller_budget?;
    let timeout = request.deadline.remaining(request.received.monotonic).saturating_add(HOLD_GRACE);
    Some(CallerBudgetRequest { caller: caller.id, max_cost, cap, timeout })
}

/// Why the caller's daily budget in the shared store does not cover the request.
fn shortage<R: Runtime>(pipeline: &Pipeline<R>, bounds: &[CallBound], day: &DayShortage) -> BudgetShortage {
    let max_cost =
        |output| bounds.iter().map(|bound| bound.max_cost_with_limit(output)).max().unwrap_or_default();
    let output = bounds.iter().map(|bound| bound.output).max().unwrap_or_default();
    BudgetShortage::of(day, output, pipeline.ledger.typical_hold_duration(), max_cost)
}

fn emit_budget_decision<R: Runtime>(
    completion: &RequestCompletion<R>,
    max_cost: Money,
    decision: BudgetDecision,
) {
    let (request, budget) = (completion.record.id, BudgetKind::SharedCaller);
    completion.progress.events.emit(&Event::BudgetDecided { request, budget, max_cost, decision });
}

/// Emits what the limits decided, if they did: a conflict of idempotency keys and a spent budget come before them.
fn emit_limit_decision<R: Runtime, T>(
    request: &ReceivedRequest,
    completion: &RequestCompletion<R>,
    decision: &AdmitDecision<T>,
) {
    let (events, record) = (&completion.progress.events, &completion.record);
    // The description of a limit is looked up only if a sink wants it.
    if !events.wants(EventTopic::LimitDecided) {
        return;
    }
    let (limit, decision) = match decision {
        AdmitDecision::Granted { .. } | AdmitDecision::RateLimited(_) | AdmitDecision::TooLarge { .. }
            if record.limit_observed =>
        {
            (record.limit.clone(), LimitDecision::Observed)
        }
        AdmitDecision::Granted { tightest, .. } => {
            (Some(request.rules.groups.describe(tightest.limit)), LimitDecision::Granted)
        }
        AdmitDecision::RateLimited(_) | AdmitDecision::TooLarge { .. } => {
            (record.limit.clone(), LimitDecision::Rejected)
        }
        _ => return,
    };
    if let Some(limit) = &limit {
        events.emit(&Event::LimitDecided { request: record.id, limit, decision });
    }
}

fn idempotency_claim<'a>(key: &'a str, request: &ReceivedRequest, caller: &Caller) -> ClaimRequest<'a> {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(request.parsed.body());
    let fingerprint = digest.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte));
    let timeout = request.deadline.remaining(request.received.monotonic);
    ClaimRequest { caller: caller.id, key, fingerprint, timeout, retention: IDEMPOTENCY_KEY_TTL }
}
