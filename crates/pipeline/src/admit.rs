//! Third stage: finds the requested route and makes one all-or-nothing decision over every limit.
//!
//! The route is resolved first, because some limits belong to it and because a request for a route that does not exist
//! must not use up any limit.

use crate::attempt::LATEST_END;
use crate::callers::Caller;
use crate::identify::IdentifiedRequest;
use crate::limit_name::LimitScope;
use crate::output_limit::OutputRoom;
use crate::path::Path;
use crate::receive::ReceivedRequest;
use crate::reply::{Conflict, Rejection};
use crate::rules::Groups;
use crate::settle::Closing;
use crate::shortage::BudgetShortage;
use crate::target::{CallBound, GuardedTarget, Route};
use arrayvec::ArrayVec;
use seawall_core::budget::DayShortage;
use seawall_core::evaluator::Protection;
use seawall_core::handle::Runtime;
use seawall_core::money::Money;
use seawall_core::quota::{Cost, QuotaKey, Scope};
use seawall_core::vocabulary::Mode;
use seawall_store::{AdmitDecision, ClaimAsk, MoneyAsk, QuotaAsk};
use std::sync::Arc;
use std::time::Duration;

/// How long the idempotency key of a completed request is remembered.
const KEEP_NAMES: Duration = Duration::from_secs(600);

/// A request that passed every limit.
pub(crate) struct AdmittedRequest {
    pub(crate) request: Box<ReceivedRequest>,
    pub(crate) caller: Caller,
    pub(crate) route: Arc<Route>,
    /// Whether the caller's daily budget for models is exhausted.
    pub(crate) is_day_spent: bool,
    /// What remains of the caller's daily budget in the shared store, as far as known.
    pub(crate) shared_left: Money,
}

pub(crate) async fn admit<R: Runtime>(
    path: &Path<R>,
    identified: IdentifiedRequest,
    closing: &mut Closing<R>,
) -> Result<AdmittedRequest, Rejection> {
    let IdentifiedRequest { request, caller } = identified;
    let route = find_route(&request, &caller)?;
    closing.record.route = Some(Arc::clone(&route.alias));
    let scopes = scopes(&request.rules.groups, &caller, Some(&route.alias));
    let mut shared_left = request.rules.shared_caller_day.unwrap_or(Money::MAX);
    let room = |left: Money| OutputRoom {
        money: path.books.free(caller.id, caller.tier, request.received).min(left),
        tokens: route.token_limit,
    };
    let mut worst = worst_bounds(&request, &route, || room(shared_left));
    let ask = |cost, worst| QuotaAsk {
        home: caller.network.unwrap_or(caller.id),
        scopes: &scopes,
        cost,
        money: money_ask(&request, &caller, worst),
        claim: request.name.as_deref().map(|name| claim(name, &request, &caller)),
    };
    let cost = |tokens| if route.token_limit.is_some() { Cost::tokens(tokens) } else { Cost::REQUEST };
    let mut decision = path.limits.reserve(ask(cost(worst.tokens), worst.money), request.received).await;
    if let (AdmitDecision::DayShort(day), None) = (&decision, request.spoken.max_output()) {
        // The request sets no output limit of its own, so a lower limit may still fit the remaining budget.
        shared_left = day.free;
        worst = worst_bounds(&request, &route, || room(shared_left));
        decision = path.limits.reserve(ask(cost(worst.tokens), worst.money), request.received).await;
    }
    // Rate limits in observe mode only record what they would have refused. Budgets and idempotency keys are enforced
    // regardless.
    let refused_by = match &decision {
        AdmitDecision::RetryAfter(refusal) => Some(refusal.binding.limit),
        AdmitDecision::TooLarge { limit, .. } => Some(*limit),
        _ => None,
    };
    closing.record.limit = refused_by.map(|limit| request.rules.groups.named(limit));
    if refused_by.is_some() && !is_enforced(&request) {
        closing.record.would_limit = true;
        let uncounted = ask(Cost::NOTHING, worst.money);
        if uncounted.money.is_some() || uncounted.claim.is_some() {
            decision = path.limits.reserve(uncounted, request.received).await;
        }
    }
    let is_counted = !closing.record.would_limit;
    let is_day_spent = matches!(decision, AdmitDecision::DayShort(_)) && request.chat.is_some();
    if is_day_spent {
        // The chat face falls back to the lower rungs, which cost nothing. Rate limits and idempotency keys still
        // apply.
        decision = path
            .limits
            .reserve(QuotaAsk { money: None, ..ask(Cost::REQUEST, worst.money) }, request.received)
            .await;
    }
    match decision {
        AdmitDecision::Granted { receipt, tightest } => {
            closing.tightest = Some(tightest);
            if path.keeps_counts {
                let lasts = request.deadline.remaining(request.received.monotonic);
                if let Some(mark) = path.limits.mark(&receipt, lasts, request.received) {
                    closing.tally.set_mark(path.books.clone(), mark);
                }
            }
            closing.taking = Some((receipt, Arc::clone(&path.limits)));
            closing.is_counted = is_counted;
            Ok(AdmittedRequest { request, caller, route, is_day_spent, shared_left })
        }
        AdmitDecision::RetryAfter(_) | AdmitDecision::TooLarge { .. } if !is_counted => {
            Ok(AdmittedRequest { request, caller, route, is_day_spent, shared_left })
        }
        AdmitDecision::RetryAfter(refusal) => {
            let limit = request.rules.groups.named(refusal.binding.limit);
            closing.tightest = Some(refusal.binding);
            closing.record.limit = Some(Arc::clone(&limit));
            closing.policy = Some(match limit.scope {
                LimitScope::Tier(tier) => request.rules.policy(tier),
                _ => Arc::clone(&limit.policy),
            });
            let come_back = request.rules.come_back.hint(refusal.wait, path.runtime.draw());
            Err(Rejection::Limited { limit, come_back })
        }
        AdmitDecision::TooLarge { limit, .. } => {
            Err(Rejection::TooLargeForLimit(request.rules.groups.named(limit)))
        }
        AdmitDecision::DayShort(day) => {
            let bounds: Vec<_> = bounds(&request, &route, || room(shared_left)).collect();
            Err(too_dear_for_day(path, &request, &bounds, &day))
        }
        AdmitDecision::InProgress => Err(Rejection::Conflict(Conflict::InProgress)),
        AdmitDecision::Done => Err(Rejection::Conflict(Conflict::Done)),
        AdmitDecision::OutcomeUnknown => Err(Rejection::Conflict(Conflict::OutcomeUnknown)),
        AdmitDecision::OtherRequest => Err(Rejection::Conflict(Conflict::OtherRequest)),
    }
}

fn is_enforced(request: &ReceivedRequest) -> bool {
    request.rules.posture.protections.mode(Protection::RateLimit) == Mode::Enforce
}

/// Returns the route if it exists, is served on this face and is open to this caller.
fn find_route(request: &ReceivedRequest, caller: &Caller) -> Result<Arc<Route>, Rejection> {
    let model = request.spoken.model();
    let unknown = || Rejection::UnknownModel(model.to_owned());
    let route = request.rules.routes.get(model).ok_or_else(unknown)?;
    if !route.faces.has(request.spoken.face()) {
        return Err(unknown());
    }
    if !route.is_open_at(request.spoken.face(), caller.is_guest()) {
        return Err(Rejection::needs_credential());
    }
    if !caller.may_use(model) {
        return Err(Rejection::Forbidden);
    }
    Ok(Arc::clone(route))
}

/// The limits that this caller's request counts against. `route` is `None` for requests that reach no model.
pub(crate) fn scopes(groups: &Groups, caller: &Caller, route: Option<&str>) -> ArrayVec<Scope, 4> {
    let mut scopes = ArrayVec::new();
    scopes.push(Scope { group: groups.of(caller.tier), key: QuotaKey(caller.id) });
    scopes.push(Scope { group: groups.everybody, key: QuotaKey(0) });
    if let (Some(network), Some(group)) = (caller.network, groups.by_address) {
        scopes.push(Scope { group, key: QuotaKey(network) });
    }
    if let Some(group) = route.and_then(|route| groups.of_route(route)) {
        scopes.push(Scope { group, key: QuotaKey(0) });
    }
    scopes
}

/// Upper bounds of a request, over all targets of its route.
#[derive(Clone, Copy, Default)]
struct WorstBounds {
    tokens: u32,
    money: Money,
}

/// Computes the bounds that token limits and the shared daily budget need. Skips the work and returns zeros where
/// neither is configured.
fn worst_bounds(
    request: &ReceivedRequest,
    route: &Route,
    room: impl Fn() -> OutputRoom + Copy,
) -> WorstBounds {
    if route.token_limit.is_none() && request.rules.shared_caller_day.is_none() {
        return WorstBounds::default();
    }
    bounds(request, route, room).fold(WorstBounds::default(), |worst, bound| {
        let tokens = u32::try_from(bound.input.saturating_add(bound.output)).unwrap_or(u32::MAX);
        WorstBounds { tokens: worst.tokens.max(tokens), money: worst.money.max(bound.worst) }
    })
}

/// The upper bound at each candidate target.
fn bounds(
    request: &ReceivedRequest,
    route: &Route,
    room: impl Fn() -> OutputRoom + Copy,
) -> impl Iterator<Item = CallBound> {
    let bound = move |target: &Arc<GuardedTarget>| {
        let allowance = target.allowance(request.input_bytes, &request.spoken, room).ok()?;
        target.bound(request.input_bytes, &request.spoken, allowance).ok()
    };
    route.targets.iter().filter_map(bound)
}

/// The reservation against the caller's daily budget, if a shared store keeps that budget.
fn money_ask(request: &ReceivedRequest, caller: &Caller, worst: Money) -> Option<MoneyAsk> {
    let cap = request.rules.shared_caller_day?;
    let lasts = request.deadline.remaining(request.received.monotonic).saturating_add(LATEST_END);
    Some(MoneyAsk { caller: caller.id, worst, cap, lasts })
}

/// The rejection for a request that the caller's daily budget in the shared store does not cover.
fn too_dear_for_day<R: Runtime>(
    path: &Path<R>,
    request: &ReceivedRequest,
    bounds: &[CallBound],
    day: &DayShortage,
) -> Rejection {
    let worst = |output| bounds.iter().map(|bound| bound.worst_with(output)).max().unwrap_or_default();
    let output = bounds.iter().map(|bound| bound.output).max().unwrap_or_default();
    let shortage = BudgetShortage::of(day, output, path.books.typical_hold(), worst);
    Rejection::of_shortage(shortage, &request.rules.come_back, path.runtime.draw())
}

fn claim<'a>(name: &'a str, request: &ReceivedRequest, caller: &Caller) -> ClaimAsk<'a> {
    use sha2::{Digest, Sha256};
    let digest = match &request.chat {
        Some(chat) => Sha256::digest(format!("{:?}", chat.ask)),
        None => Sha256::digest(request.spoken.body()),
    };
    let fingerprint = digest.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte));
    let lasts = request.deadline.remaining(request.received.monotonic);
    ClaimAsk { caller: caller.id, name, fingerprint, lasts, keep: KEEP_NAMES }
}
