use super::super::{QuotaDecision, QuotaUnit, QuotaUnits};
use super::{admitted, at, limiter, rate, remaining, scope, take};
use crate::invariant::rate_within_burst;
use crate::quota::rate::{Backlog, RateRule};
use crate::quota::rule::LimitCheck;
use crate::time::Timestamp;
use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_published_table_of_one_a_second_with_a_burst_of_five() {
    let limiter = limiter(vec![rate(1, SECOND, 5)]);
    let scopes = [scope(&limiter, "caller", 1)];
    let units = |units| QuotaUnits { requests: units, tokens: 0 };
    assert!(matches!(
        limiter.reserve(&scopes, units(6), at(0)),
        Ok(QuotaDecision::TooLarge { capacity: 5, .. })
    ));
    // (time, units, remaining or the wait)
    for (millis, requested, expected) in [
        (0, 1, Ok(4)),
        (0, 1, Ok(3)),
        (0, 1, Ok(2)),
        (0, 1, Ok(1)),
        (0, 1, Ok(0)),
        (0, 1, Err(1_000)),
        (3_000, 1, Ok(2)),
        (3_100, 1, Ok(1)),
        (4_000, 1, Ok(1)),
        (8_000, 1, Ok(4)),
        (9_500, 1, Ok(4)),
        (9_500, 0, Ok(4)),
        (9_500, 2, Ok(2)),
        (9_500, 5, Err(3_000)),
    ] {
        let answer = match limiter.reserve(&scopes, units(requested), at(millis)).unwrap() {
            QuotaDecision::Granted { tightest, .. } => Ok(tightest.remaining),
            QuotaDecision::RetryAfter(refusal) => Err(refusal.wait.as_millis()),
            QuotaDecision::TooLarge { .. } => panic!("not larger than five"),
        };
        assert_eq!(answer, expected, "{requested} at {millis} ms");
    }
}

#[test]
fn a_refusal_says_what_is_left_and_the_wait_is_exact() {
    let limiter = limiter(vec![rate(5, SECOND, 10)]);
    let scopes = [scope(&limiter, "caller", 1)];
    assert_eq!(admitted(&limiter, &scopes, 8, at(0)), 8);
    let refusal = take(&limiter, &scopes, QuotaUnits { requests: 3, tokens: 0 }, at(0)).unwrap_err();
    assert_eq!((refusal.binding.remaining, refusal.binding.capacity), (2, 10));
    assert_eq!(refusal.wait, Duration::from_millis(200));
    assert!(take(&limiter, &scopes, QuotaUnits { requests: 3, tokens: 0 }, at(199)).is_err());
    assert!(take(&limiter, &scopes, QuotaUnits { requests: 3, tokens: 0 }, at(200)).is_ok());
}

#[test]
fn a_thousand_connections_at_once_and_five_hundred_in_the_second_after() {
    let limiter = limiter(vec![rate(500, SECOND, 1_000)]);
    let scopes = [scope(&limiter, "caller", 1)];
    let passed: usize = (0..1_600_u64).map(|n| admitted(&limiter, &scopes, 1, at(n * 1_000 / 1_600))).sum();
    assert!((1_499..=1_501).contains(&passed), "{passed}");
}

#[test]
fn a_rate_that_does_not_divide_is_never_exceeded() {
    let rule = RateRule::new(7, SECOND, 1).unwrap();
    let mut backlog = Backlog::default();
    rule.take(&mut backlog, Timestamp::ZERO, 1);
    let wait = |now| rule.check(backlog, Timestamp::from_nanos(now), 1);
    assert_eq!(wait(142_857_142), LimitCheck::Wait { wait: Duration::from_nanos(1), remaining: 0 });
    assert_eq!(wait(142_857_143), LimitCheck::Fits { remaining: 0 });
}

#[test]
fn a_refund_right_away_gives_everything_back_and_a_late_one_nothing_twice() {
    let limiter = limiter(vec![rate(1, SECOND, 10)]);
    let scopes = [scope(&limiter, "caller", 1)];
    let five = QuotaUnits { requests: 5, tokens: 0 };
    let [first, second] = [0, 1].map(|_| take(&limiter, &scopes, five, at(0)).unwrap());
    limiter.refund(first, at(0));
    assert_eq!(remaining(&limiter, &scopes, at(0)), [5]);
    assert!(take(&limiter, &scopes, five, at(6_000)).is_ok());
    limiter.refund(second, at(6_000));
    assert_eq!(remaining(&limiter, &scopes, at(6_000)), [5]);
    let held = take(&limiter, &scopes, five, at(20_000)).unwrap();
    limiter.refund(held, at(22_000));
    assert_eq!(remaining(&limiter, &scopes, at(22_000)), [10]);
}

#[test]
fn looking_is_free_even_in_debt() {
    let limiter = limiter(vec![rate(1, SECOND, 2)]);
    let scopes = [scope(&limiter, "caller", 1)];
    let held = take(&limiter, &scopes, QuotaUnits::REQUEST, at(0)).unwrap();
    limiter.settle(held, QuotaUnits { requests: 5, tokens: 0 }, at(0));
    assert!(take(&limiter, &scopes, QuotaUnits::NOTHING, at(0)).is_ok());
    assert_eq!(remaining(&limiter, &scopes, at(0)), [0]);
    // Five of two: three in debt, so the fourth second brings the first unit.
    let refusal = take(&limiter, &scopes, QuotaUnits::REQUEST, at(0)).unwrap_err();
    assert_eq!((refusal.wait, refusal.binding.remaining), (SECOND * 4, 0));
}

#[test]
fn the_unit_decides_what_is_counted() {
    let tokens = super::Quota::rate("tokens", QuotaUnit::Token, 100, SECOND, 100).unwrap();
    assert_eq!((tokens.name(), tokens.unit(), tokens.capacity()), ("tokens", QuotaUnit::Token, 100));
    let limiter = limiter(vec![rate(1, SECOND, 10), tokens]);
    let scopes = [scope(&limiter, "caller", 1)];
    assert!(take(&limiter, &scopes, QuotaUnits::tokens(60), at(0)).is_ok());
    assert_eq!(remaining(&limiter, &scopes, at(0)), [9, 40]);
    let refusal = take(&limiter, &scopes, QuotaUnits::tokens(60), at(0)).unwrap_err();
    assert_eq!(limiter.quota(refusal.binding.limit).unwrap().name(), "tokens");
}

proptest! {
    /// A token bucket that refills continuously, in nanoseconds of allowance.
    #[test]
    fn the_rate_equals_a_bucket(
        limit in 1_u32..50,
        burst in 1_u32..20,
        steps in vec((0_u64..2_000_000_000, 0_u32..8), 1..60),
    ) {
        let rule = RateRule::new(limit, SECOND, burst).unwrap();
        let unit = 1_000_000_000_u64.div_ceil(limit.into());
        let full = unit * u64::from(burst);
        let (mut backlog, mut level, mut now) = (Backlog::default(), full, 0_u64);
        let mut admitted = Vec::new();
        for (wait, units) in steps {
            now += wait;
            level = (level + wait).min(full);
            let need = unit * u64::from(units);
            let expected = if units > burst {
                LimitCheck::Never { capacity: burst }
            } else if need > level {
                let remaining = u32::try_from(level / unit).unwrap();
                LimitCheck::Wait { wait: Duration::from_nanos(need - level), remaining }
            } else {
                LimitCheck::Fits { remaining: u32::try_from((level - need) / unit).unwrap() }
            };
            let moment = Timestamp::from_nanos(now);
            prop_assert_eq!(rule.check(backlog, moment, units), expected);
            if let LimitCheck::Wait { wait, .. } = expected {
                let fits_then = matches!(rule.check(backlog, moment + wait, units), LimitCheck::Fits { .. });
                prop_assert!(fits_then);
                let too_soon = moment + (wait - Duration::from_nanos(1));
                let is_refused = matches!(rule.check(backlog, too_soon, units), LimitCheck::Wait { .. });
                prop_assert!(is_refused);
            }
            if matches!(expected, LimitCheck::Fits { .. }) {
                rule.take(&mut backlog, moment, units);
                level -= need;
                admitted.push((moment, u64::from(units)));
            }
        }
        prop_assert_eq!(rate_within_burst(&admitted, burst.into(), Duration::from_nanos(unit)), Ok(()));
    }

    /// Refunds of any number of reservations, in any order, never leave more room than if their units had never been
    /// reserved.
    #[test]
    fn refunds_lend_nothing_twice(
        steps in vec((0_u64..400_000_000, 0_u32..4, 0_u8..3, proptest::num::usize::ANY), 1..60),
    ) {
        let rule = RateRule::new(10, SECOND, 10).unwrap();
        let mut backlog = Backlog::default();
        // Everything charged: when, how much, and whether it was refunded.
        let mut charges: Vec<(u64, u32, bool)> = Vec::new();
        let mut open: Vec<(usize, u64)> = Vec::new();
        let mut now = 0;
        for (wait, units, step, which) in steps {
            now += wait;
            let moment = Timestamp::from_nanos(now);
            if step < 2 {
                let mark = rule.take(&mut backlog, moment, units);
                if step == 1 {
                    open.push((charges.len(), mark));
                }
                charges.push((now, units, false));
            } else if !open.is_empty() {
                let (index, mark) = open.swap_remove(which % open.len());
                rule.refund(&mut backlog, mark, charges[index].1, moment);
                charges[index].2 = true;
            }
            let mut without = Backlog::default();
            for (when, units, is_refunded) in &charges {
                if !is_refunded {
                    rule.take(&mut without, Timestamp::from_nanos(*when), *units);
                }
            }
            let left = |backlog| match rule.check(backlog, moment, 0) {
                LimitCheck::Fits { remaining } => remaining,
                LimitCheck::Wait { .. } | LimitCheck::Never { .. } => 0,
            };
            prop_assert!(left(backlog) <= left(without));
        }
    }
}
