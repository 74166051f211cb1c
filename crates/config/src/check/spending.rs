//! Checks of budgets and token limits.

use super::Checker;
use crate::field::KeyOrigins;
use crate::kind::{DateKind, StoreKind, ValueKind as _};
use crate::problem::{Problem, ProblemCode};
use crate::raw;
use crate::settings::{BudgetSettings, TokenSettings};
use crate::source::Located;
use crate::terms::collect_budgets;
use seawall_core::budget::{
    BudgetLimits, BudgetOptions, BudgetPeriod, CalendarOffset, CostOptions, EventBudget, LeaseSizeOptions,
    PeriodCaps,
};
use seawall_core::history::TokenLimitsOptions;
use seawall_core::money::Money;
use seawall_core::tokens::OverheadOptions;

pub(super) fn budget(budget: &raw::BudgetSection, checker: &mut Checker<'_>) -> Option<BudgetSettings> {
    let limits = limits(budget, checker);
    let raw::CostSection { warning, recovery_threshold, recovery_for, renotify_after, .. } = &budget.cost;
    let cost = CostOptions {
        warning: warning.value,
        recovery_threshold: recovery_threshold.value,
        recovery_for: recovery_for.value,
        renotify_after: renotify_after.value,
        velocity: budget.cost.velocity.value,
        min_baseline_days: budget.cost.min_baseline_days.value,
        stale_after: budget.cost.stale_after.value,
        expired_after: budget.cost.expired_after.value,
    };
    let cost = checker.checked(&[&budget.cost], cost.check());
    let lease = LeaseSizeOptions {
        forecast: budget.lease.forecast.value,
        requests: budget.lease.requests.value,
        prefetch: budget.lease.prefetch.value,
        expiry_margin: budget.lease.expiry_margin.value,
    };
    let lease = checker.checked(&[&budget.lease], lease.check());
    let per_node = budget.per_node.value;
    let raw::BudgetTiersSection { prime, standard, guest, .. } = &budget.tiers;
    let tiers = [("prime", prime), ("standard", standard), ("guest", guest)];
    let tiers = tiers.map(|(name, caps)| period_caps(&budget.tiers, name, caps, checker));
    let offset = CalendarOffset { minutes: budget.utc_offset.value };
    Some(BudgetSettings { limits: limits?, per_node, tiers, offset, cost: cost?, lease: lease? })
}

/// The budgets in this list. Two for one period are reported.
pub(super) fn period_caps(
    section: &dyn KeyOrigins,
    name: &'static str,
    budgets: &Located<Vec<Located<(BudgetPeriod, Money)>>>,
    checker: &mut Checker<'_>,
) -> PeriodCaps {
    let caps = collect_budgets(budgets.value.iter().map(|budget| budget.value));
    caps.unwrap_or_else(|error| {
        checker.report_invalid(section, name, budgets, &error.to_string());
        PeriodCaps::NONE
    })
}

/// Whether no budget applies to any request.
pub(super) fn is_unlimited(budget: &raw::BudgetSection) -> bool {
    budget.day.value == Money::MAX && budget.caller_day.value == Money::MAX && budget.events.is_empty()
}

/// Nodes that share limits through Redis do not share the daily budget. The operator of several nodes must have
/// accepted that each of them may spend all of it.
pub(super) fn fleet_budget(raw: &raw::RootSection, checker: &mut Checker<'_>) {
    if raw.store.kind.value != StoreKind::Redis || raw.budget.per_node.value || is_unlimited(&raw.budget) {
        return;
    }
    let message =
        "store.kind: nodes that share Redis do not share budget.day: N nodes may spend N times as much";
    let help = "divide budget.day by the number of nodes and set budget.per_node = true, \
                or run one node with store.kind = \"embedded\"";
    let problem = Problem::error(ProblemCode::BudgetPerNode, message, raw.store.kind.origin);
    checker.add(problem.also_at(raw.budget.day.origin, "the budget of each node").help(help));
}

fn limits(budget: &raw::BudgetSection, checker: &mut Checker<'_>) -> Option<BudgetLimits> {
    let shares = [&budget.shares.prime, &budget.shares.standard, &budget.shares.guest];
    let mut is_invalid = false;
    for (name, share) in ["prime", "standard", "guest"].into_iter().zip(shares) {
        if share.value <= 0.0 || share.value > 100.0 {
            checker.report_invalid(&budget.shares, name, share, "must be more than 0% and at most 100%");
            is_invalid = true;
        }
    }
    is_invalid |= has_invalid_events(budget, checker);
    if is_invalid {
        return None;
    }
    let options = BudgetOptions {
        session_input: budget.session_input.value,
        session_output: budget.session_output.value,
        // Without a budget of its own a caller is limited by the daily budget.
        caller_day: match budget.caller_day.value {
            Money::MAX => budget.day.value,
            amount => amount,
        },
        day: budget.day.value,
        shares: shares.map(|share| share.value),
        single_source_alarm: budget.single_source_alarm.value,
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
            let problem = Problem::error(ProblemCode::SumExceedsTotal, message, prime);
            checker.add(problem.also_at(standard, "").also_at(guest, "").help("reduce one of the shares"));
        }
        "caller_day" if budget.caller_day.value > budget.day.value => {
            let message = format!("budget.caller_day: {}", error.problem());
            let problem = Problem::error(ProblemCode::SumExceedsTotal, message, budget.caller_day.origin);
            checker.add(problem.also_at(budget.day.origin, "the daily budget"));
        }
        _ => checker.report_core_error(&[budget], ProblemCode::InvalidValue, &error),
    }
    None
}

fn event(event: &raw::BudgetEventSection) -> EventBudget {
    EventBudget { first_day: event.first_day.value, last_day: event.last_day.value, day: event.day.value }
}

/// Reports events in the wrong order, without money, or with two caps.
fn has_invalid_events(budget: &raw::BudgetSection, checker: &mut Checker<'_>) -> bool {
    let mut is_invalid = false;
    let mut events: Vec<&raw::BudgetEventSection> = budget.events.values().collect();
    events.sort_by_key(|event| event.first_day.value);
    for event in &events {
        let (first, last) = (&event.first_day, &event.last_day);
        if first.value > last.value {
            let message =
                format!("{}.last_day: {} is before first_day", event.path, DateKind::to_toml(&last.value));
            let problem = Problem::error(ProblemCode::InvalidValue, message, last.origin);
            checker.add(problem.also_at(first.origin, "first day"));
            is_invalid = true;
        }
        if event.day.value == Money::ZERO {
            checker.report_invalid(*event, "day", &event.day, "must be more than $0");
            is_invalid = true;
        }
    }
    for pair in events.windows(2) {
        let [earlier, later] = pair else { continue };
        if later.first_day.value <= earlier.last_day.value {
            let day = DateKind::to_toml(&later.first_day.value);
            let message = format!("{} and {} overlap on {day}", earlier.path, later.path);
            let problem = Problem::error(ProblemCode::OverlappingEvents, message, later.first_day.origin);
            checker.add(problem.also_at(earlier.last_day.origin, "the other event ends here"));
            is_invalid = true;
        }
    }
    is_invalid
}

pub(super) fn tokens(tokens: &raw::TokensSection, checker: &mut Checker<'_>) -> Option<TokenSettings> {
    let options = TokenLimitsOptions {
        max_input: tokens.max_input.value,
        max_output: tokens.max_output.value,
        context_window: tokens.context_window.value,
        overhead: tokens.overhead.value,
        safety_margin: tokens.safety_margin.value,
    };
    let limits = checker.checked(&[tokens], options.check())?;
    let overhead = OverheadOptions {
        request: tokens.per_request.value,
        message: tokens.per_message.value,
        reserve: tokens.reservation_margin.value,
    };
    Some(TokenSettings { limits, overhead })
}
