//! The cost of a plan, and of a reservation.

use super::{PolicyCases, median_of};
use crate::measure::Case;
use crate::report::BenchGate;
use seawall_assistant::intent::Intent;
use seawall_assistant::plan::MessageSituation;
use seawall_assistant::router::Router;
use seawall_core::budget::{BudgetEntry, BudgetLedger, BudgetOptions, ReservationRequest};
use seawall_core::evaluator::{PlanPolicy, Posture, Protection};
use seawall_core::history::TokenLimits;
use seawall_core::hours::{HoursOptions, OffPeakOptions};
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_core::vocabulary::{CostState, Level, Mode, Tier};
use std::hint::black_box;

const DECISIONS: u32 = 400_000;
const PLAN: &str = "plan, all policies";
const BOTH_PLANS: &str = "plan, with shadow plan";
/// Goal for a plan, in nanoseconds.
const MAX_PLAN: f64 = 1_000.0;

/// Rotates callers, tiers and intents, so that no branch is always the same.
fn message(number: u32) -> MessageSituation {
    let index = |many: usize| usize::try_from(number).unwrap_or(0) % many;
    MessageSituation {
        intent: Some(Intent::ALL[index(Intent::ALL.len())]),
        has_cart: number.is_multiple_of(5),
        ..MessageSituation::of(number.into(), Tier::ALL[index(Tier::ALL.len())])
    }
}

fn planning<'a>(name: &'static str, mut policy: PlanPolicy, posture: Posture) -> Option<Case<'a>> {
    let in_japan = |start, end| HoursOptions::full_hours(start, end, 9 * 60);
    let router = Router::new(in_japan(19, 23).check().ok()?);
    policy.off_peak = Some(OffPeakOptions::of(in_japan(23, 8)).check().ok()?);
    let utc = UtcTime::from_civil(2026, 11, 15);
    let run = move |decisions: u32| {
        let plan = |number| router.plan(black_box(&policy), black_box(&posture), &message(number), utc).plan;
        (0..decisions).map(|number| plan(number).rungs.len() as u64).sum()
    };
    Some(Case { name, decisions: DECISIONS, run: Box::new(run) })
}

fn reserving<'a>(name: &'static str, callers: u64) -> Option<Case<'a>> {
    let options = BudgetOptions { day: Money::MAX, caller_day: Money::MAX, ..BudgetOptions::default() };
    let mut ledger = BudgetLedger::new(options.check().ok()?);
    let now = Now::default();
    let run = move |decisions: u32| {
        let mut refused = 0;
        for number in 0..u64::from(decisions) {
            let ask = ReservationRequest {
                caller: number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % callers,
                tier: Tier::Standard,
                session: None,
                limits: TokenLimits::default(),
                input: 1_200,
                output: 1_024,
                max_cost: Money::from_nanos(27_000_000),
                expires: Timestamp::NEVER,
                windows: Default::default(),
            };
            match ledger.reserve(&ask, now) {
                Ok(id) => {
                    let entry =
                        BudgetEntry::Posted { id, usage: Usage::default(), cost: Money::from_nanos(1) };
                    let _ = black_box(ledger.apply(&entry));
                }
                Err(_) => refused += 1,
            }
        }
        refused
    };
    Some(Case { name, decisions: DECISIONS, run: Box::new(run) })
}

pub(crate) fn cases<'a>() -> PolicyCases<'a> {
    let strained = Posture { level: Level::HighLoad, day_cost: CostState::Warning, ..Posture::default() };
    let (policy, mut observing) = (PlanPolicy::default(), PlanPolicy::default());
    observing.protections.set_mode(Protection::CostBreaker, Mode::Observe);
    let mut cases = Vec::new();
    cases.extend(planning(PLAN, policy, strained.clone()));
    cases.extend(planning(BOTH_PLANS, observing, strained));
    cases.extend(reserving("budget, reserve and post, one caller", 1));
    cases.extend(reserving("budget, reserve and post, 100,000 callers", 100_000));
    PolicyCases {
        cases,
        gates: vec![
            |measured| BenchGate { name: "plan, in ns", figure: median_of(measured, PLAN), bound: MAX_PLAN },
            |measured| BenchGate {
                name: "both plans, in ns",
                figure: median_of(measured, BOTH_PLANS),
                bound: MAX_PLAN,
            },
        ],
    }
}
