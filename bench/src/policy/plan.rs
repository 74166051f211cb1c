//! The cost of a plan, and of a reservation.

use super::{Part, median_of};
use crate::measure::Case;
use crate::report::Gate;
use seawall_core::budget::{Ask, BudgetBook, BudgetOptions, Entry};
use seawall_core::evaluator::{PlanSituation, Posture, Protection, evaluate};
use seawall_core::history::TokenLimits;
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_core::vocabulary::{CostState, Intent, Level, Mode, Tier};
use std::hint::black_box;

const DECISIONS: u32 = 400_000;
const PLAN: &str = "plan, every voice heard";
const BOTH_PLANS: &str = "plan, with the one that would be";
/// Goal for a plan, in nanoseconds.
const MOST_PLAN: f64 = 1_000.0;

/// Rotates callers, tiers and intents, so that no branch is always the same.
fn situation(number: u32) -> PlanSituation {
    let place = |many: usize| usize::try_from(number).unwrap_or(0) % many;
    PlanSituation {
        intent: Some(Intent::ALL[place(Intent::ALL.len())]),
        has_cart: number.is_multiple_of(5),
        ..PlanSituation::of(number.into(), Tier::ALL[place(Tier::ALL.len())])
    }
}

fn planning<'a>(name: &'static str, posture: Posture) -> Case<'a> {
    let utc = UtcTime::from_civil(2026, 11, 15);
    let run = move |decisions: u32| {
        let plan = |number| evaluate(black_box(&posture), &situation(number), utc).plan;
        (0..decisions).map(|number| plan(number).rungs.len() as u64).sum()
    };
    Case { name, decisions: DECISIONS, run: Box::new(run) }
}

fn reserving<'a>(name: &'static str, callers: u64) -> Option<Case<'a>> {
    let options = BudgetOptions { day: Money::MAX, caller_day: Money::MAX, ..BudgetOptions::default() };
    let mut book = BudgetBook::new(options.check().ok()?);
    let now = Now::default();
    let run = move |decisions: u32| {
        let mut refused = 0;
        for number in 0..u64::from(decisions) {
            let ask = Ask {
                caller: number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % callers,
                tier: Tier::Standard,
                session: None,
                limits: TokenLimits::default(),
                input: 1_200,
                output: 1_024,
                worst: Money::from_nanos(27_000_000),
                expires: Timestamp::NEVER,
            };
            match book.reserve(&ask, now) {
                Ok(id) => {
                    let entry = Entry::Posted { id, usage: Usage::default(), cost: Money::from_nanos(1) };
                    let _ = black_box(book.apply(&entry));
                }
                Err(_) => refused += 1,
            }
        }
        refused
    };
    Some(Case { name, decisions: DECISIONS, run: Box::new(run) })
}

pub(crate) fn part<'a>() -> Part<'a> {
    let strained = Posture { level: Level::HighLoad, day_cost: CostState::Warning, ..Posture::default() };
    let mut observing = strained.clone();
    observing.protections.set_mode(Protection::CostBreaker, Mode::Observe);
    let mut cases = vec![planning(PLAN, strained), planning(BOTH_PLANS, observing)];
    cases.extend(reserving("budget, reserve and post, one caller", 1));
    cases.extend(reserving("budget, reserve and post, 100,000 callers", 100_000));
    Part {
        cases,
        judge: vec![
            |measured| Gate { name: "a plan, in ns", figure: median_of(measured, PLAN), bound: MOST_PLAN },
            |measured| Gate {
                name: "both plans, in ns",
                figure: median_of(measured, BOTH_PLANS),
                bound: MOST_PLAN,
            },
        ],
    }
}
