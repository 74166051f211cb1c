//! One limiter shared by many threads.

use super::super::{QuotaUnits, RateLimiter};
use super::{HOUR, MINUTE, admitted, at, group, limiter, remaining, scope, sliding, take};
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn fifty_times_five_of_a_hundred_pass_exactly_twenty_times() {
    let limiter = limiter(vec![sliding("minute", 100, MINUTE, 0)]);
    let scopes = [scope(&limiter, "caller", 1)];
    let passed = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for _ in 0..10 {
            threads.spawn(|| {
                for _ in 0..5 {
                    let result = take(&limiter, &scopes, QuotaUnits { requests: 5, tokens: 0 }, at(0));
                    passed.fetch_add(usize::from(result.is_ok()), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(passed.into_inner(), 20);
    assert_eq!(remaining(&limiter, &scopes, at(0)), [0]);
}

#[test]
fn scopes_named_in_any_order_do_not_wait_for_one_another() {
    let limited = |name: &str| group(name, vec![sliding("minute", 30_000, MINUTE, 0)]);
    let limiter = RateLimiter::new(vec![limited("one"), limited("two"), limited("three")], 1).unwrap();
    let names =
        [["one", "two", "three"], ["three", "two", "one"], ["two", "three", "one"], ["one", "three", "two"]];
    let passed = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for order in names {
            let scopes = order.map(|name| scope(&limiter, name, 1));
            let (limiter, passed) = (&limiter, &passed);
            threads.spawn(move || {
                passed.fetch_add(admitted(limiter, &scopes, 10_000, at(0)), Ordering::Relaxed);
                limiter.sweep(3, at(0));
            });
        }
    });
    assert_eq!(passed.into_inner(), 30_000);
}

#[test]
fn what_threads_reserve_and_settle_adds_up() {
    let limiter = limiter(vec![sliding("minute", 1_000_000, MINUTE, 0)]);
    let scopes = [scope(&limiter, "caller", 1)];
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for round in 0..1_000 {
                    let held =
                        take(&limiter, &scopes, QuotaUnits { requests: 10, tokens: 0 }, at(round)).unwrap();
                    limiter.settle(held, QuotaUnits { requests: 7, tokens: 0 }, at(round));
                }
            });
        }
    });
    assert_eq!(remaining(&limiter, &scopes, at(2_000)), [1_000_000 - 4 * 1_000 * 7]);
}

#[test]
fn limits_that_change_all_the_time_never_admit_more_than_the_larger() {
    let (smaller, larger) = (40, 60);
    let minute = |limit| sliding("minute", limit, MINUTE, 0);
    let other = || sliding("other", 10_000, HOUR, 0);
    // The same counts under other numbers, at another position, beside another limit, and over another period.
    let sets = [
        vec![minute(smaller)],
        vec![other(), minute(larger)],
        vec![minute(smaller), other()],
        vec![sliding("minute", larger, MINUTE * 2, 0)],
    ];
    let limiter = limiter(sets[0].clone());
    let keys = 0..6_usize;
    for round in 0..8_u32 {
        let now = at(u64::from(round) * 3_600_000);
        let passed: Vec<AtomicUsize> = keys.clone().map(|_| AtomicUsize::new(0)).collect();
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    for turn in 0..600 {
                        let key = turn % keys.len();
                        let scopes = [scope(&limiter, "caller", key as u64)];
                        let Ok(held) = take(&limiter, &scopes, QuotaUnits::REQUEST, now) else { continue };
                        if turn % 5 == 0 {
                            limiter.refund(held, now);
                        } else {
                            passed[key].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            threads.spawn(|| {
                for set in sets.iter().cycle().take(60) {
                    limiter.change_limits(vec![group("caller", set.clone())], now).unwrap();
                    limiter.sweep(0, now);
                }
            });
        });
        for passed in passed {
            let passed = passed.into_inner();
            assert!(passed <= larger as usize, "{passed} in round {round}");
            // Refunds into a window that was recounted meanwhile are partly lost: the safe side.
            assert!(passed >= smaller as usize / 4, "{passed} in round {round}");
        }
    }
}
