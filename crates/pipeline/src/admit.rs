//! The third stage: the route that is asked for, and one all-or-nothing decision over every limit.
//!
//! The route comes first: some limits belong to it, and who asks for what is not there has used nothing.

use crate::attempt::LATEST_END;
use crate::callers::Caller;
use crate::identify::IdentifiedRequest;
use crate::limit_name::LimitScope;
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
use seawall_core::quota::{Cost, QuotaKey, Scope};
use seawall_core::vocabulary::Mode;
use seawall_store::{AdmitDecision, ClaimAsk, MoneyAsk, QuotaAsk};
use std::sync::Arc;
use std::time::Duration;

/// How long a request that has been done is remembered by its caller's name for it.
const KEEP_NAMES: Duration = Duration::from_secs(600);

/// A request that every limit has let through.
pub(crate) struct AdmittedRequest {
    pub(crate) request: Box<ReceivedRequest>,
    pub(crate) caller: Caller,
    pub(crate) route: Arc<Route>,
    /// Whether the caller has no money left for models today.
    pub(crate) is_day_spent: bool,
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
    let tokens = if route.counts_tokens { most_tokens(&request, &route) } else { 0 };
    let ask = |cost| QuotaAsk {
        home: caller.network.unwrap_or(caller.id),
        scopes: &scopes,
        cost,
        money: worst_money(&request, &caller, &route),
        claim: request.name.as_deref().map(|name| claim(name, &request, &caller)),
    };
    let mut decision = path.limits.reserve(ask(Cost::tokens(tokens)), request.received).await;
    // Limits that are only being tried say what they would have done. Money and names hold all the same.
    let refused_by = match &decision {
        AdmitDecision::RetryAfter(refusal) => Some(refusal.binding.limit),
        AdmitDecision::TooLarge { limit, .. } => Some(*limit),
        _ => None,
    };
    closing.record.limit = refused_by.map(|limit| request.rules.groups.named(limit));
    if refused_by.is_some() && !is_enforced(&request) {
        closing.record.would_limit = true;
        let uncounted = ask(Cost::NOTHING);
        if uncounted.money.is_some() || uncounted.claim.is_some() {
            decision = path.limits.reserve(uncounted, request.received).await;
        }
    }
    let is_counted = !closing.record.would_limit;
    let is_day_spent = matches!(decision, AdmitDecision::DayShort(_)) && request.chat.is_some();
    if is_day_spent {
        // Our own face answers from the lower rungs, which cost nothing. Limits and names hold all the same.
        decision =
            path.limits.reserve(QuotaAsk { money: None, ..ask(Cost::REQUEST) }, request.received).await;
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
            Ok(AdmittedRequest { request, caller, route, is_day_spent })
        }
        AdmitDecision::RetryAfter(_) | AdmitDecision::TooLarge { .. } if !is_counted => {
            Ok(AdmittedRequest { request, caller, route, is_day_spent })
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
        AdmitDecision::DayShort(day) => Err(too_dear_for_day(path, &request, &route, &day)),
        AdmitDecision::InProgress => Err(Rejection::Conflict(Conflict::InProgress)),
        AdmitDecision::Done => Err(Rejection::Conflict(Conflict::Done)),
        AdmitDecision::OutcomeUnknown => Err(Rejection::Conflict(Conflict::OutcomeUnknown)),
        AdmitDecision::OtherRequest => Err(Rejection::Conflict(Conflict::OtherRequest)),
    }
}

fn is_enforced(request: &ReceivedRequest) -> bool {
    request.rules.posture.protections.mode(Protection::RateLimit) == Mode::Enforce
}

/// The route, if it is there for this caller and this face.
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

/// The limits that a request of this caller counts against, on this route or on none.
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

/// The most tokens that a request can come to.
fn most_tokens(request: &ReceivedRequest, route: &Route) -> u32 {
    let most = bounds(request, route).map(|bound| bound.input.saturating_add(bound.output)).max();
    u32::try_from(most.unwrap_or_default()).unwrap_or(u32::MAX)
}

/// What it can come to at each target that could be asked.
fn bounds(request: &ReceivedRequest, route: &Route) -> impl Iterator<Item = CallBound> {
    let bound = |target: &Arc<GuardedTarget>| target.bound(request.input_bytes, &request.spoken).ok();
    route.targets.iter().filter_map(bound)
}

/// What it may cost its caller's day, where a shared store keeps that.
fn worst_money(request: &ReceivedRequest, caller: &Caller, route: &Route) -> Option<MoneyAsk> {
    let cap = request.rules.shared_caller_day?;
    let worst = bounds(request, route).map(|bound| bound.worst).max().unwrap_or_default();
    let lasts = request.deadline.remaining(request.received.monotonic).saturating_add(LATEST_END);
    Some(MoneyAsk { caller: caller.id, worst, cap, lasts })
}

/// Why the caller's day, which a shared store keeps, does not pay for it.
fn too_dear_for_day<R: Runtime>(
    path: &Path<R>,
    request: &ReceivedRequest,
    route: &Route,
    day: &DayShortage,
) -> Rejection {
    let worst =
        |output| bounds(request, route).map(|bound| bound.worst_with(output)).max().unwrap_or_default();
    let output = request.spoken.max_output();
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
