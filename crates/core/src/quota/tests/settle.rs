//! Reservations that turn out to cost less, or more.

use super::super::{Quota, QuotaUnit, QuotaUnits, RateLimiter};
use super::{HOUR, MINUTE, admitted, at, limiter, rate, remaining, scope, sliding, take};

fn tokens_limiter() -> RateLimiter {
    let tokens = Quota::sliding("tokens", QuotaUnit::Token, 1_000, MINUTE, 0).unwrap();
    limiter(vec![sliding("minute", 10, MINUTE, 0), tokens])
}

#[test]
fn unused_units_are_refunded_to_their_window() {
    let limiter = tokens_limiter();
    let scopes = [scope(&limiter, "caller", 1)];
    let held = take(&limiter, &scopes, QuotaUnits::tokens(800), at(0)).unwrap();
    assert_eq!(remaining(&limiter, &scopes, at(0)), [9, 200]);
    limiter.settle(held, QuotaUnits::tokens(300), at(5_000));
    assert_eq!(remaining(&limiter, &scopes, at(5_000)), [9, 700]);
    let held = take(&limiter, &scopes, QuotaUnits::tokens(700), at(10_000)).unwrap();
    limiter.refund(held, at(10_000));
    assert_eq!(remaining(&limiter, &scopes, at(10_000)), [9, 700]);
}

#[test]
fn a_window_that_has_passed_takes_nothing_back() {
    let limiter = tokens_limiter();
    let scopes = [scope(&limiter, "caller", 1)];
    let held = take(&limiter, &scopes, QuotaUnits::tokens(800), at(0)).unwrap();
    assert!(take(&limiter, &scopes, QuotaUnits::tokens(600), at(61_000)).is_ok());
    limiter.refund(held, at(61_000));
    assert_eq!(remaining(&limiter, &scopes, at(61_000)), [9, 400]);
}

#[test]
fn usage_beyond_the_reservation_becomes_debt() {
    let limiter = tokens_limiter();
    let scopes = [scope(&limiter, "caller", 1)];
    let held = take(&limiter, &scopes, QuotaUnits::tokens(400), at(0)).unwrap();
    limiter.settle(held, QuotaUnits::tokens(1_900), at(30_000));
    assert_eq!(remaining(&limiter, &scopes, at(30_000)), [9, 0]);
    // The 400 expire after a minute; the 1,500 that were booked later expire later.
    assert!(take(&limiter, &scopes, QuotaUnits::tokens(1), at(90_999)).is_err());
    assert!(take(&limiter, &scopes, QuotaUnits::tokens(1_000), at(91_000)).is_ok());
}

#[test]
fn debt_is_booked_even_for_a_caller_who_was_forgotten() {
    let limiter = tokens_limiter();
    let scopes = [scope(&limiter, "caller", 1)];
    let (held, same) = (
        take(&limiter, &scopes, QuotaUnits::tokens(10), at(0)),
        take(&limiter, &scopes, QuotaUnits::tokens(10), at(0)),
    );
    for shard in 0..64 {
        limiter.sweep(shard, at(100_000));
    }
    assert_eq!(limiter.memory().callers, 0);
    limiter.settle(same.unwrap(), QuotaUnits::tokens(10), at(100_000));
    assert_eq!(limiter.memory().callers, 0, "no debt, so no caller is stored");
    limiter.settle(held.unwrap(), QuotaUnits::tokens(510), at(100_000));
    assert_eq!(remaining(&limiter, &scopes, at(100_000)), [10, 500]);
}

#[test]
fn several_groups_are_settled_each_at_its_own() {
    let groups = ["one", "two"]
        .map(|name| super::group(name, vec![rate(1, HOUR, 10), sliding("minute", 20, MINUTE, 0)]));
    let limiter = RateLimiter::new(groups.into(), 3).unwrap();
    // In another order than the limiter's.
    let scopes = [scope(&limiter, "two", 9), scope(&limiter, "one", 4)];
    let units = |requests| QuotaUnits { requests, tokens: 0 };
    let held = take(&limiter, &scopes, units(8), at(0)).unwrap();
    assert_eq!(remaining(&limiter, &scopes, at(0)), [2, 12, 2, 12]);
    assert_eq!(admitted(&limiter, &scopes[..1], 1, at(0)), 1);
    limiter.settle(held, units(5), at(0));
    assert_eq!(remaining(&limiter, &scopes, at(0)), [5, 15, 4, 14]);
    let held = take(&limiter, &scopes, units(1), at(0)).unwrap();
    limiter.settle(held, units(3), at(0));
    assert_eq!(remaining(&limiter, &scopes, at(0)), [2, 12, 1, 11]);
}

#[test]
fn a_reservation_that_is_dropped_stays_charged() {
    let limiter = tokens_limiter();
    let scopes = [scope(&limiter, "caller", 1)];
    drop(take(&limiter, &scopes, QuotaUnits::tokens(800), at(0)));
    assert_eq!(remaining(&limiter, &scopes, at(0)), [9, 200]);
    assert_eq!(QuotaUnits::tokens(5), QuotaUnits { requests: 1, tokens: 5 });
}
