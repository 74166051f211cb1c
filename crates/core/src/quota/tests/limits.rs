//! The limits of a manga shop.

use super::super::Cost;
use super::{HOUR, admitted, at, caller, remaining, scope, shop, take};
use std::time::Duration;

#[test]
fn each_tier_gets_its_minute_and_no_more() {
    let book = shop();
    for (key, (tier, limit)) in (0..).zip([("prime", 70), ("standard", 35), ("guest", 12)]) {
        let scopes = caller(&book, tier, key);
        let passed: usize = (0..u64::try_from(limit).unwrap() + 1)
            .map(|n| admitted(&book, &scopes, 1, at(n * 10_000 / (limit as u64 + 1))))
            .sum();
        assert_eq!(passed, limit, "{tier}");
        let refusal = take(&book, &scopes, Cost::REQUEST, at(9_999)).unwrap_err();
        assert_eq!(refusal.binding.limit.group, scopes[0].group);
        assert_eq!(book.quota(refusal.binding.limit).unwrap().name(), "minute");
        assert!(refusal.wait <= Duration::from_secs(61));
    }
}

#[test]
fn the_hour_binds_when_the_minute_does_not() {
    let book = shop();
    let scopes = caller(&book, "guest", 1);
    for batch in 0..5 {
        assert_eq!(admitted(&book, &scopes, 10, at(batch * 480_000)), 10);
    }
    // Minute 40: fifty admitted in the hour.
    let refusal = take(&book, &scopes, Cost::REQUEST, at(2_400_000)).unwrap_err();
    assert_eq!(book.quota(refusal.binding.limit).unwrap().name(), "hour");
    assert_eq!(refusal.wait, HOUR + Duration::from_secs(60) - Duration::from_secs(2_400));
}

#[test]
fn who_is_refused_a_thousand_times_spends_nobodys_allowance() {
    let book = shop();
    let abuser = caller(&book, "guest", 666);
    assert_eq!((0..1_000).map(|n| admitted(&book, &abuser, 1, at(n * 60))).sum::<usize>(), 12);
    assert_eq!(remaining(&book, &abuser, at(59_999)), [0, 38, 50_000 - 12]);
    assert_eq!(admitted(&book, &caller(&book, "guest", 7), 1, at(59_999)), 1);
}

#[test]
fn the_fifty_thousand_and_first_of_all_is_refused_and_not_charged_for_it() {
    let book = shop();
    for key in 0..50_000 {
        assert!(take(&book, &caller(&book, "standard", key), Cost::REQUEST, at(key / 1_000)).is_ok());
    }
    let unlucky = caller(&book, "standard", 50_000);
    let refusal = take(&book, &unlucky, Cost::REQUEST, at(59_000)).unwrap_err();
    assert_eq!(refusal.binding.limit.group, unlucky[1].group);
    assert_eq!(remaining(&book, &unlucky, at(59_000)), [35, 200, 0]);
    assert_eq!(book.memory().callers, 50_001, "the refused one is not kept");
}

#[test]
fn callers_who_were_refused_or_have_gone_leave_nothing_behind() {
    let book = shop();
    let guest = |key| [scope(&book, "guest", key)];
    for key in 0..10_000 {
        assert!(take(&book, &guest(key), Cost { requests: 12, tokens: 0 }, at(0)).is_ok());
        assert!(take(&book, &guest(key), Cost::REQUEST, at(1)).is_err());
    }
    assert_eq!(book.memory().callers, 10_000);
    let sweep = |millis| (0..64).map(|shard| book.sweep(shard, at(millis))).sum::<usize>();
    assert_eq!(sweep(3_659_999), 0);
    let before = book.memory().bytes;
    assert_eq!(sweep(3_660_000), 10_000);
    assert_eq!(book.memory().callers, 0);
    // Their slots are reused by the next callers.
    for key in 20_000..30_000 {
        assert!(take(&book, &guest(key), Cost::REQUEST, at(3_700_000)).is_ok());
    }
    assert!(book.memory().bytes <= before * 11 / 10, "{} after {before}", book.memory().bytes);
}
