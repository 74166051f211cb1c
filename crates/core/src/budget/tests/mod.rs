//! Tests of whole ledgers; small parts are tested next to their code.

mod cost;
mod eviction;
mod fleet;
mod lease;
mod ledger;
mod model;
mod node;
mod pace;
mod snapshot;
mod snapshot_model;

use super::{
    BudgetAccount, BudgetEntry, BudgetLedger, BudgetLimits, BudgetOptions, ReservationId, ReservationRequest,
    WindowCaps,
};
use crate::history::TokenLimits;
use crate::money::{Money, Usage};
use crate::time::{Now, Timestamp, UtcTime};
use crate::vocabulary::Tier;
use std::time::Duration;

const DAY: u64 = 86_400;

fn nanos(nanos: u64) -> Money {
    Money::from_nanos(nanos)
}

fn dollars(dollars: u64) -> Money {
    Money::from_dollars(dollars)
}

/// This many seconds into day 0, on both clocks.
fn at(seconds: u64) -> Now {
    let since = Duration::from_secs(seconds);
    Now::new(Timestamp::ZERO + since, UtcTime::default() + since)
}

/// Caps small enough that every one of them is reached: 1,000 a day (500, 350, 150), 150 per caller.
fn small() -> BudgetLimits {
    let options = BudgetOptions {
        session_input: 100,
        session_output: 50,
        caller_day: nanos(150),
        day: nanos(1_000),
        ..BudgetOptions::default()
    };
    options.check().unwrap()
}

fn ask(caller: u64, tier: Tier, max_cost: u64) -> ReservationRequest {
    ReservationRequest {
        caller,
        tier,
        session: None,
        limits: TokenLimits::default(),
        input: 10,
        output: 10,
        max_cost: nanos(max_cost),
        expires: Timestamp::NEVER,
        windows: WindowCaps::default(),
    }
}

fn small_ledger() -> BudgetLedger {
    BudgetLedger::new(small())
}

fn post(id: ReservationId, cost: u64) -> BudgetEntry {
    BudgetEntry::Posted { id, usage: Usage { input: 7, output: 3, ..Usage::default() }, cost: nanos(cost) }
}

fn account(posted: u64, held: u64) -> BudgetAccount {
    BudgetAccount { posted: nanos(posted), held: nanos(held) }
}

/// `day` on the wall clock, with this many seconds on the monotonic clock.
fn on(day: u64, seconds: u64) -> Now {
    Now::new(at(seconds).monotonic, at(day * DAY).utc)
}
