//! One decision over many limits.

use super::super::{LimitId, LimitView, QuotaDecision, QuotaUnits, RateLimiter};
use super::{HOUR, MINUTE, at, group, limiter, rate, remaining, scope, sliding, take};
use std::time::Duration;

#[test]
fn a_batch_that_one_limit_refuses_leaves_the_others_untouched() {
    let limited = |name: &str| group(name, vec![sliding("minute", 100, MINUTE, 0)]);
    let limiter = RateLimiter::new(vec![limited("one"), limited("two")], 1).unwrap();
    let (one, two) = ([scope(&limiter, "one", 1)], [scope(&limiter, "two", 1)]);
    let units = |requests| QuotaUnits { requests, tokens: 0 };
    assert!(take(&limiter, &one, units(50), at(0)).is_ok());
    assert!(take(&limiter, &two, units(80), at(0)).is_ok());
    assert!(take(&limiter, &[one[0], two[0]], units(30), at(0)).is_err());
    assert_eq!(remaining(&limiter, &[one[0], two[0]], at(0)), [50, 20]);
}

#[test]
fn the_longest_wait_binds_and_never_goes_before_it() {
    let limiter =
        limiter(vec![sliding("hour", 10, HOUR, 0), sliding("minute", 5, MINUTE, 0), rate(1, HOUR, 20)]);
    let scopes = [scope(&limiter, "caller", 1)];
    let units = |requests| QuotaUnits { requests, tokens: 0 };
    let ask = |requests| limiter.reserve(&scopes, units(requests), at(0)).unwrap();
    assert!(matches!(ask(5), QuotaDecision::Granted { .. }));
    let QuotaDecision::RetryAfter(refusal) = ask(5) else { panic!("the minute is full") };
    let limit = LimitId { group: scopes[0].group, quota: 1 };
    assert_eq!(refusal.binding, LimitView { limit, capacity: 5, remaining: 0 });
    assert_eq!(refusal.wait, Duration::from_secs(61));
    // Too large for the minute, although the hour alone would only have to wait.
    assert_eq!(ask(6), QuotaDecision::TooLarge { limit, capacity: 5 });

    assert!(take(&limiter, &scopes, units(5), at(61_000)).is_ok());
    let refusal = take(&limiter, &scopes, units(1), at(122_000)).unwrap_err();
    assert_eq!(limiter.quota(refusal.binding.limit).unwrap().name(), "hour");
}

#[test]
fn a_grant_names_the_tightest_limit() {
    let limiter =
        limiter(vec![sliding("hour", 10, HOUR, 0), sliding("minute", 5, MINUTE, 0), rate(1, HOUR, 20)]);
    let scopes = [scope(&limiter, "caller", 1)];
    let QuotaDecision::Granted { tightest, .. } =
        limiter.reserve(&scopes, QuotaUnits::REQUEST, at(0)).unwrap()
    else {
        panic!("nothing was used yet")
    };
    let limit = LimitId { group: scopes[0].group, quota: 1 };
    assert_eq!(tightest, LimitView { limit, capacity: 5, remaining: 4 });
}

#[test]
fn callers_are_spread_over_the_shards_and_forgotten_once_every_limit_is_idle() {
    let limiter =
        limiter(vec![rate(1, Duration::from_secs(1), 10), sliding("second", 100, Duration::from_secs(1), 0)]);
    for key in 0..6_400 {
        assert!(
            take(&limiter, &[scope(&limiter, "caller", key)], QuotaUnits { requests: 5, tokens: 0 }, at(0))
                .is_ok()
        );
    }
    // The window is empty after a second, the smoothed rate only after five.
    assert_eq!((0..64).map(|shard| limiter.sweep(shard, at(4_999))).sum::<usize>(), 0);
    let forgotten: Vec<usize> = (0..64).map(|shard| limiter.sweep(shard, at(5_000))).collect();
    assert_eq!(forgotten.iter().sum::<usize>(), 6_400);
    assert!(forgotten.iter().all(|shard| (50..=160).contains(shard)), "{forgotten:?}");
}

#[test]
fn looking_changes_nothing_and_remembers_nobody() {
    let limiter = limiter(vec![sliding("minute", 5, MINUTE, 0)]);
    let scopes = [scope(&limiter, "caller", 1)];
    for _ in 0..100 {
        assert_eq!(remaining(&limiter, &scopes, at(0)), [5]);
    }
    assert_eq!(limiter.memory().callers, 0);
}

#[test]
fn a_million_callers_weigh_little_each() {
    let limiter = limiter(vec![
        sliding("minute", 60, MINUTE, 10),
        sliding("hour", 500, HOUR, 0),
        super::Quota::calendar("day", super::QuotaUnit::Request, 5_000, super::super::CalendarPeriod::Day)
            .unwrap(),
        rate(5, Duration::from_secs(1), 10),
        super::Quota::sliding("tokens", super::QuotaUnit::Token, 100_000, MINUTE, 0).unwrap(),
    ]);
    for key in 0..200_000 {
        assert!(take(&limiter, &[scope(&limiter, "caller", key)], QuotaUnits::tokens(100), at(0)).is_ok());
    }
    let memory = limiter.memory();
    assert_eq!(memory.callers, 200_000);
    assert!(memory.bytes <= 128 * memory.callers, "{} bytes each", memory.bytes / memory.callers);
    assert!(memory.bytes >= 100 * memory.callers, "{} bytes each", memory.bytes / memory.callers);
}

#[test]
fn a_caller_who_calms_down_gives_the_room_back() {
    let limiter = limiter(vec![sliding("minute", 60, MINUTE, 10), sliding("hour", 500, HOUR, 0)]);
    let weigh = |keys: std::ops::Range<u64>, seconds: u64| {
        for key in keys {
            for second in 0..seconds {
                let _ = take(
                    &limiter,
                    &[scope(&limiter, "caller", key)],
                    QuotaUnits::REQUEST,
                    at(second * 1_000),
                );
            }
        }
        limiter.memory().bytes
    };
    let calm = weigh(0..1_000, 2);
    let busy = weigh(0..1_000, 20);
    assert!(busy >= calm + 200_000, "{calm} then {busy}");
    for shard in 0..64 {
        limiter.sweep(shard, at(600_000));
    }
    assert_eq!(limiter.memory().callers, 1_000);
    // A thousand other callers become active and reuse the rings that the first ones freed.
    let more = weigh(1_000..2_000, 20);
    assert!(more < busy + 220_000, "{busy} then {more}");
}
