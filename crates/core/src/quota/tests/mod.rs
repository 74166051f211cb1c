//! Tests of quotas, by what they show.

mod book;
mod calendar;
mod change;
mod change_model;
mod hint;
mod limits;
mod model;
mod rate;
mod saving;
mod settings;
mod settle;
mod sliding;
mod threads;

use super::{Cost, Quota, QuotaBook, QuotaDecision, QuotaGroup, QuotaKey, Refusal, Reservation, Scope, Unit};
use crate::time::{Now, Timestamp, UtcTime};
use std::time::Duration;

pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3_600);

/// This many milliseconds after a midnight in November.
pub(super) fn at(millis: u64) -> Now {
    let since = Duration::from_millis(millis);
    Now::new(Timestamp::ZERO + since, UtcTime::from_civil(2026, 11, 15) + since)
}

pub(super) fn sliding(name: &str, limit: u32, per: Duration, burst: u32) -> Quota {
    Quota::sliding(name, Unit::Request, limit, per, burst).unwrap()
}

pub(super) fn rate(limit: u32, per: Duration, burst: u32) -> Quota {
    Quota::rate("rate", Unit::Request, limit, per, burst).unwrap()
}

pub(super) fn group(name: &str, quotas: Vec<Quota>) -> QuotaGroup {
    QuotaGroup::new(name, quotas).unwrap()
}

/// A book with one group of these limits.
pub(super) fn book(quotas: Vec<Quota>) -> QuotaBook {
    QuotaBook::new(vec![group("caller", quotas)], 1).unwrap()
}

/// The book of a manga shop: three tiers and a global limit.
pub(super) fn shop() -> QuotaBook {
    let tier = |name: &str, minute, burst, hour| {
        group(name, vec![sliding("minute", minute, MINUTE, burst), sliding("hour", hour, HOUR, 0)])
    };
    let groups = vec![
        tier("prime", 60, 10, 500),
        tier("standard", 30, 5, 200),
        tier("guest", 10, 2, 50),
        group("global", vec![sliding("minute", 50_000, MINUTE, 0)]),
    ];
    QuotaBook::new(groups, 1).unwrap()
}

pub(super) fn scope(book: &QuotaBook, group: &str, key: u64) -> Scope {
    Scope { group: book.group(group).unwrap(), key: QuotaKey(key) }
}

/// The scopes of a caller of the shop: its tier and the global limit.
pub(super) fn caller(book: &QuotaBook, tier: &str, key: u64) -> [Scope; 2] {
    [scope(book, tier, key), scope(book, "global", 0)]
}

pub(super) fn take(book: &QuotaBook, scopes: &[Scope], cost: Cost, now: Now) -> Result<Reservation, Refusal> {
    match book.reserve(scopes, cost, now).unwrap() {
        QuotaDecision::Granted { reservation, .. } => Ok(reservation),
        QuotaDecision::RetryAfter(refusal) => Err(refusal),
        QuotaDecision::TooLarge { .. } => panic!("larger than the limit"),
    }
}

/// How many of `times` requests at this time are admitted.
pub(super) fn admitted(book: &QuotaBook, scopes: &[Scope], times: usize, now: Now) -> usize {
    (0..times).filter(|_| take(book, scopes, Cost::REQUEST, now).is_ok()).count()
}

/// What remains of each limit of these scopes.
pub(super) fn remaining(book: &QuotaBook, scopes: &[Scope], now: Now) -> Vec<u32> {
    book.view(scopes, now).unwrap().iter().map(|view| view.remaining).collect()
}
