//! Tests of quotas, by what they show.

mod calendar;
mod change;
mod change_model;
mod limiter;
mod limits;
mod model;
mod rate;
mod retry_after;
mod saving;
mod settings;
mod settle;
mod sliding;
mod threads;

use super::{
    Quota, QuotaDecision, QuotaGroup, QuotaKey, QuotaRefusal, QuotaReservation, QuotaScope, QuotaUnit,
    QuotaUnits, RateLimiter,
};
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
    Quota::sliding(name, QuotaUnit::Request, limit, per, burst).unwrap()
}

pub(super) fn rate(limit: u32, per: Duration, burst: u32) -> Quota {
    Quota::rate("rate", QuotaUnit::Request, limit, per, burst).unwrap()
}

pub(super) fn group(name: &str, quotas: Vec<Quota>) -> QuotaGroup {
    QuotaGroup::new(name, quotas).unwrap()
}

/// A limiter with one group of these limits.
pub(super) fn limiter(quotas: Vec<Quota>) -> RateLimiter {
    RateLimiter::new(vec![group("caller", quotas)], 1).unwrap()
}

/// The limiter of a manga shop: three tiers and a global limit.
pub(super) fn shop() -> RateLimiter {
    let tier = |name: &str, minute, burst, hour| {
        group(name, vec![sliding("minute", minute, MINUTE, burst), sliding("hour", hour, HOUR, 0)])
    };
    let groups = vec![
        tier("prime", 60, 10, 500),
        tier("standard", 30, 5, 200),
        tier("guest", 10, 2, 50),
        group("global", vec![sliding("minute", 50_000, MINUTE, 0)]),
    ];
    RateLimiter::new(groups, 1).unwrap()
}

pub(super) fn scope(limiter: &RateLimiter, group: &str, key: u64) -> QuotaScope {
    QuotaScope { group: limiter.group(group).unwrap(), key: QuotaKey(key) }
}

/// The scopes of a caller of the shop: its tier and the global limit.
pub(super) fn caller(limiter: &RateLimiter, tier: &str, key: u64) -> [QuotaScope; 2] {
    [scope(limiter, tier, key), scope(limiter, "global", 0)]
}

pub(super) fn take(
    limiter: &RateLimiter,
    scopes: &[QuotaScope],
    cost: QuotaUnits,
    now: Now,
) -> Result<QuotaReservation, QuotaRefusal> {
    match limiter.reserve(scopes, cost, now).unwrap() {
        QuotaDecision::Granted { reservation, .. } => Ok(reservation),
        QuotaDecision::RetryAfter(refusal) => Err(refusal),
        QuotaDecision::TooLarge { .. } => panic!("larger than the limit"),
    }
}

/// How many of `times` requests at this time are admitted.
pub(super) fn admitted(limiter: &RateLimiter, scopes: &[QuotaScope], times: usize, now: Now) -> usize {
    (0..times).filter(|_| take(limiter, scopes, QuotaUnits::REQUEST, now).is_ok()).count()
}

/// What remains of each limit of these scopes.
pub(super) fn remaining(limiter: &RateLimiter, scopes: &[QuotaScope], now: Now) -> Vec<u32> {
    limiter.view(scopes, now).unwrap().iter().map(|view| view.remaining).collect()
}
