//! Checks of budgets and token limits.

use super::Checker;
use crate::kind::{Date, Kind as _, StoreKind};
use crate::problem::{Code, Problem};
use crate::raw;
use crate::settings::{BudgetSettings, TokenSettings};
use seawall_core::budget::{BudgetLimits, BudgetOptions, CostOptions, EventBudget, LeaseSizeOptions};
use seawall_core::history::TokenLimitsOptions;
use seawall_core::money::Money;
use seawall_core::tokens::OverheadOptions;

pub(super) fn budget(budget: &raw::Budget, checker: &mut Checker<'_>) -> Option<BudgetSettings> {
    let limits = limits(budget, checker);
    let raw::Cost { warning, calm, calm_for, stuck_after, .. } = &budget.cost;
    let cost = CostOptions {
        warning: warning.value,
        calm: calm.value,
        calm_for: calm_for.value,
        stuck_after: stuck_after.value,
        velocity: budget.cost.velocity.value,
        usual_days: budget.cost.usual_days.value,
        doubtful_after: budget.cost.doubtful_after.value,
        blind_after: budget.cost.blind_after.value,
    };
    let cost = checker.checked(&[&budget.cost], cost.check());
    let lease = LeaseSizeOptions {
        span: budget.lease.span.value,
        requests: budget.lease.requests.value,
        before_midnight: budget.lease.before_midnight.value,
        margin: budget.lease.margin.value,
    };
    let lease = checker.checked(&[&budget.lease], lease.check());
    let per_node = budget.per_node.value;
    Some(BudgetSettings { limits: limits?, per_node, cost: cost?, lease: lease? })
}

/// Nodes that share limits through Redis do not share the daily budget. The operator of several nodes must have
/// accepted that each of them may spend all of it.
pub(super) fn fleet_budget(raw: &raw::Raw, checker: &mut Checker<'_>) {
    if raw.store.kind.value != StoreKind::Redis || raw.budget.per_node.value {
        return;
    }
    let message = "store.kind: nodes that share Redis do not share budget.day, so that N nodes may spend N times as much";
    let help = "divide budget.day by the number of nodes and set budget.per_node = true, \
                or run one node with store.kind = \"embedded\"";
    let problem = Problem::error(Code::BudgetPerNode, message, raw.store.kind.origin);
    checker.add(problem.also(raw.budget.day.origin, "the budget of each node").help(help));
}

fn limits(budget: &raw::Budget, checker: &mut Checker<'_>) -> Option<BudgetLimits> {
    let shares = [&budget.shares.prime, &budget.shares.standard, &budget.shares.guest];
    let mut is_wrong = false;
    for (name, share) in ["prime", "standard", "guest"].into_iter().zip(shares) {
        if share.value <= 0.0 || share.value > 100.0 {
            checker.impossible(&budget.shares, name, share, "must be more than 0% and at most 100%");
            is_wrong = true;
        }
    }
    is_wrong |= events_are_wrong(budget, checker);
    if is_wrong {
        return None;
    }
    let options = BudgetOptions {
        session_input: budget.session_input.value,
        session_output: budget.session_output.value,
        caller_day: budget.caller_day.value,
        day: budget.day.value,
        shares: shares.map(|share| share.value),
        single_source: budget.single_source.value,
        events: budget.events.values().map(event).collect(),
    };
    let error = match options.check() {
        Ok(limits) => return Some(limits),
        Err(error) => error,
    };
    match error.setting() {
        "shares" => {
            let message = format!("budget.shares: {}", error.problem());
            let [prime, standard, guest] = shares.map(|share| share.origin);
            let problem = Problem::error(Code::PartsExceedWhole, message, prime);
            checker.add(problem.also(standard, "").also(guest, "").help("lower one of them"));
        }
        "caller_day" if budget.caller_day.value > budget.day.value => {
            let message = format!("budget.caller_day: {}", error.problem());
            let problem = Problem::error(Code::PartsExceedWhole, message, budget.caller_day.origin);
            checker.add(problem.also(budget.day.origin, "the whole"));
        }
        _ => checker.refused(&[budget], Code::Impossible, &error),
    }
    None
}

fn event(event: &raw::Event) -> EventBudget {
    EventBudget { first: event.first.value, last: event.last.value, day: event.day.value }
}

/// Reports events in the wrong order, without money, or with two caps.
fn events_are_wrong(budget: &raw::Budget, checker: &mut Checker<'_>) -> bool {
    let mut is_wrong = false;
    let mut events: Vec<&raw::Event> = budget.events.values().collect();
    events.sort_by_key(|event| event.first.value);
    for event in &events {
        let (first, last) = (&event.first, &event.last);
        if first.value > last.value {
            let message = format!("{}.last: {} is before its first day", event.path, Date::show(&last.value));
            let problem = Problem::error(Code::Impossible, message, last.origin);
            checker.add(problem.also(first.origin, "the first day"));
            is_wrong = true;
        }
        if event.day.value == Money::ZERO {
            checker.impossible(*event, "day", &event.day, "must be more than $0");
            is_wrong = true;
        }
    }
    for pair in events.windows(2) {
        let [earlier, later] = pair else { continue };
        if later.first.value <= earlier.last.value {
            let day = Date::show(&later.first.value);
            let message = format!("{} and {} both have a cap for {day}", earlier.path, later.path);
            let problem = Problem::error(Code::OverlappingEvents, message, later.first.origin);
            checker.add(problem.also(earlier.last.origin, "the other one ends here"));
            is_wrong = true;
        }
    }
    is_wrong
}

pub(super) fn tokens(tokens: &raw::Tokens, checker: &mut Checker<'_>) -> Option<TokenSettings> {
    let options = TokenLimitsOptions {
        request_input: tokens.request_input.value,
        request_output: tokens.request_output.value,
        window: tokens.window.value,
        overhead: tokens.overhead.value,
        safety: tokens.safety.value,
    };
    let limits = checker.checked(&[tokens], options.check())?;
    let overhead = OverheadOptions {
        request: tokens.per_request.value,
        message: tokens.per_message.value,
        reserve: tokens.reserve.value,
    };
    Some(TokenSettings { limits, overhead })
}
