//! The limits of a manga shop.

use super::super::slab::Slab;
use super::super::{CalendarPeriod, Quota, QuotaUnit, QuotaUnits};
use super::{HOUR, MINUTE, admitted, at, caller, rate, remaining, scope, shop, sliding, take};
use crate::invariant::Invariant;
use std::time::Duration;

#[test]
fn each_tier_gets_its_minute_and_no_more() {
    let limiter = shop();
    for (key, (tier, limit)) in (0..).zip([("prime", 70), ("standard", 35), ("guest", 12)]) {
        let scopes = caller(&limiter, tier, key);
        let passed: usize = (0..u64::try_from(limit).unwrap() + 1)
            .map(|n| admitted(&limiter, &scopes, 1, at(n * 10_000 / (limit as u64 + 1))))
            .sum();
        assert_eq!(passed, limit, "{tier}");
        let refusal = take(&limiter, &scopes, QuotaUnits::REQUEST, at(9_999)).unwrap_err();
        assert_eq!(refusal.binding.limit.group, scopes[0].group);
        assert_eq!(limiter.quota(refusal.binding.limit).unwrap().name(), "minute");
        assert!(refusal.wait <= Duration::from_secs(61));
    }
}

#[test]
fn the_hour_binds_when_the_minute_does_not() {
    let limiter = shop();
    let scopes = caller(&limiter, "guest", 1);
    for batch in 0..5 {
        assert_eq!(admitted(&limiter, &scopes, 10, at(batch * 480_000)), 10);
    }
    // Minute 40: fifty admitted in the hour.
    let refusal = take(&limiter, &scopes, QuotaUnits::REQUEST, at(2_400_000)).unwrap_err();
    assert_eq!(limiter.quota(refusal.binding.limit).unwrap().name(), "hour");
    assert_eq!(refusal.wait, HOUR + Duration::from_secs(60) - Duration::from_secs(2_400));
}

#[test]
fn a_thousand_refusals_use_up_no_quota() {
    let limiter = shop();
    let abuser = caller(&limiter, "guest", 666);
    assert_eq!((0..1_000).map(|n| admitted(&limiter, &abuser, 1, at(n * 60))).sum::<usize>(), 12);
    assert_eq!(remaining(&limiter, &abuser, at(59_999)), [0, 38, 50_000 - 12]);
    assert_eq!(admitted(&limiter, &caller(&limiter, "guest", 7), 1, at(59_999)), 1);
}

#[test]
fn the_fifty_thousand_and_first_of_all_is_refused_and_not_charged_for_it() {
    let limiter = shop();
    for key in 0..50_000 {
        assert!(
            take(&limiter, &caller(&limiter, "standard", key), QuotaUnits::REQUEST, at(key / 1_000)).is_ok()
        );
    }
    let unlucky = caller(&limiter, "standard", 50_000);
    let refusal = take(&limiter, &unlucky, QuotaUnits::REQUEST, at(59_000)).unwrap_err();
    assert_eq!(refusal.binding.limit.group, unlucky[1].group);
    assert_eq!(remaining(&limiter, &unlucky, at(59_000)), [35, 200, 0]);
    assert_eq!(limiter.memory().callers, 50_001, "the refused one is not kept");
}

#[test]
fn callers_who_were_refused_or_have_gone_leave_nothing_behind() {
    let limiter = shop();
    let guest = |key| [scope(&limiter, "guest", key)];
    for key in 0..10_000 {
        assert!(take(&limiter, &guest(key), QuotaUnits { requests: 12, tokens: 0 }, at(0)).is_ok());
        assert!(take(&limiter, &guest(key), QuotaUnits::REQUEST, at(1)).is_err());
    }
    assert_eq!(limiter.memory().callers, 10_000);
    let sweep = |millis| (0..64).map(|shard| limiter.sweep(shard, at(millis))).sum::<usize>();
    assert_eq!(sweep(3_659_999), 0);
    let before = limiter.memory().bytes;
    assert_eq!(sweep(3_660_000), 10_000);
    assert_eq!(limiter.memory().callers, 0);
    // Their slots are reused by the next callers.
    for key in 20_000..30_000 {
        assert!(take(&limiter, &guest(key), QuotaUnits::REQUEST, at(3_700_000)).is_ok());
    }
    assert!(limiter.memory().bytes <= before * 11 / 10, "{} after {before}", limiter.memory().bytes);
}

#[test]
fn usage_beyond_a_limit_is_a_violation() {
    let daily = Quota::calendar("day", QuotaUnit::Request, 3, CalendarPeriod::Day).unwrap();
    for (quota, invariant) in [
        (sliding("minute", 3, MINUTE, 0), Invariant::WindowWithinLimit),
        (daily, Invariant::WindowWithinLimit),
        (rate(1, MINUTE, 3), Invariant::RateWithinBurst),
    ] {
        let (mut words, mut rings) = (vec![0; quota.words()], Slab::default());
        for _ in 0..3 {
            quota.take(&mut words, &mut rings, at(0), QuotaUnits::REQUEST);
            assert_eq!(quota.check_usage(&words, &rings, at(0), QuotaUnits::REQUEST), Ok(()));
        }
        quota.take(&mut words, &mut rings, at(0), QuotaUnits::REQUEST);
        let violation = quota.check_usage(&words, &rings, at(0), QuotaUnits::REQUEST).unwrap_err();
        assert_eq!(violation.invariant, invariant);
        assert_eq!(quota.check_usage(&words, &rings, at(0), QuotaUnits::NOTHING), Ok(()));
    }
}
