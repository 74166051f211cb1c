//! Limits that one process saves and the next restores.

use super::{MINUTE, at, group, limiter, scope, sliding};
use crate::invariant::window_within_limit;
use crate::quota::{
    CalendarPeriod, Quota, QuotaDecision, QuotaGroup, QuotaScope, QuotaUnit, QuotaUnits, RateLimiter,
    SavedGroup, group_tag,
};
use crate::time::{Now, Timestamp, UtcTime};
use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use std::time::Duration;

fn limits() -> Vec<Quota> {
    vec![
        sliding("minute", 7, MINUTE, 2),
        Quota::rate("smooth", QuotaUnit::Request, 30, MINUTE, 8).unwrap(),
        Quota::calendar("day", QuotaUnit::Request, 40, CalendarPeriod::Day).unwrap(),
        Quota::sliding("tokens", QuotaUnit::Token, 900, MINUTE, 0).unwrap(),
    ]
}

/// The same instant on the clock of another process, which has another origin.
fn of_process(moment: Now, process: u64) -> Now {
    let origin =
        Duration::from_secs(1_000_000 + 7_919 * process) + Duration::from_nanos(process * 123_456_789);
    Now::new(Timestamp::from_nanos(moment.monotonic.as_nanos()) + origin, moment.utc)
}

/// The limiter that the next process restores from what this one saved.
fn handed_over(old: &RateLimiter, groups: &[QuotaGroup], saved: Now, now: Now) -> RateLimiter {
    let groups: Vec<_> =
        groups.iter().map(|group| SavedGroup::from_group(group).to_group().unwrap()).collect();
    let new = RateLimiter::new(groups.clone(), 99).unwrap();
    for group in &groups {
        let (from, to) = (old.group(group.name()).unwrap(), new.group(group.name()).unwrap());
        old.for_each_usage(from, saved, |key, numbers| {
            assert!(new.restore(QuotaScope { group: to, key }, numbers, saved, now));
        });
    }
    new
}

proptest! {
    /// Over any number of restarts no window holds more than its limit, and after a long enough wait all of it is free
    /// again.
    #[test]
    fn limits_hold_over_restarts_and_nobody_is_refused_for_ever(
        steps in vec((0_u64..9_000, 0_u8..8, 1_u32..90), 1..150),
    ) {
        let groups = || vec![group("caller", limits())];
        let mut limiter = limiter(limits());
        let (mut process, mut millis) = (0, 0);
        let (mut admitted, mut tokens) = (Vec::new(), Vec::new());
        for (passes, step, size) in steps {
            millis += passes;
            if step == 0 {
                let saved = of_process(at(millis), process);
                process += 1;
                millis += u64::from(size);
                limiter = handed_over(&limiter, &groups(), saved, of_process(at(millis), process));
            }
            let now = of_process(at(millis), process);
            let scopes = [scope(&limiter, "caller", 1)];
            if let Ok(QuotaDecision::Granted { reservation, .. }) =
                limiter.reserve(&scopes, QuotaUnits::tokens(size), now)
            {
                drop(reservation);
                admitted.push((at(millis).monotonic, 1));
                tokens.push((at(millis).monotonic, u64::from(size)));
            }
        }
        prop_assert_eq!(window_within_limit(&admitted, 9, MINUTE), Ok(()));
        prop_assert_eq!(window_within_limit(&tokens, 900, MINUTE), Ok(()));
        prop_assert!(admitted.len() <= 40);
        let tomorrow = of_process(at(millis + 86_400_000), process);
        let scopes = [scope(&limiter, "caller", 1)];
        let left: Vec<_> =
            limiter.view(&scopes, tomorrow).unwrap().iter().map(|view| view.remaining).collect();
        prop_assert_eq!(left, [9, 8, 40, 900]);
    }

    /// Replaying a journal by UTC admits no more than the limiter it was written from.
    #[test]
    fn what_is_charged_again_counts_as_what_was_taken(
        steps in vec((0_u64..4_000, 1_u32..90, 0_u8..3), 1..60),
    ) {
        let (live, replayed) = (limiter(limits()), limiter(limits()));
        let mut millis = 0;
        for (passes, size, end) in steps {
            millis += passes;
            let now = at(millis);
            let scopes = [scope(&live, "caller", 1)];
            let Ok(QuotaDecision::Granted { reservation, .. }) = live.reserve(&scopes, QuotaUnits::tokens(size), now)
            else { continue };
            prop_assert_eq!(live.tag(scopes[0].group), Some(group_tag("caller")));
            let scope = reservation.scopes().next().unwrap();
            prop_assert_eq!(replayed.group_with_tag(group_tag("caller")), Some(scope.group));
            replayed.charge(scope, reservation.cost(), now);
            // Left as charged, corrected, or refunded.
            let actual = match end {
                0 => continue,
                1 => QuotaUnits::tokens(size / 2),
                _ => QuotaUnits::NOTHING,
            };
            let (reserved, later) = (reservation.cost(), at(millis + 700));
            live.settle(reservation, actual, later);
            replayed.correct(scope, now, (reserved, actual), later);
            let [one, other] =
                [&live, &replayed].map(|limiter| limiter.view(&[scope], at(millis + 700)).unwrap().to_vec());
            prop_assert_eq!(one, other);
        }
    }
}

#[test]
fn what_lies_ahead_because_the_calendar_was_set_back_was_used_just_now() {
    let old = limiter(limits());
    let scopes = [scope(&old, "caller", 1)];
    for _ in 0..8 {
        assert!(matches!(
            old.reserve(&scopes, QuotaUnits::REQUEST, at(50_000)),
            Ok(QuotaDecision::Granted { .. })
        ));
    }
    let hour_before = Now::new(Timestamp::from_nanos(5), UtcTime::from_civil(2026, 11, 14));
    let new = handed_over(&old, &[group("caller", limits())], at(50_000), hour_before);
    let scopes = [scope(&new, "caller", 1)];
    assert_eq!(new.view(&scopes, hour_before).unwrap()[0].remaining, 1);
    let minute_later =
        Now::new(hour_before.monotonic + Duration::from_secs(62), hour_before.utc + Duration::from_secs(62));
    assert_eq!(new.view(&scopes, minute_later).unwrap()[0].remaining, 9);
}

#[test]
fn numbers_of_other_limits_are_refused() {
    let new = limiter(limits());
    let scope = scope(&new, "caller", 1);
    for numbers in [&[][..], &[1], &[0, 0, 0, 0], &[2, 1, 1], &[1, 61, 1, 0, 0, 0, 0], &[0, 0, 0, 0, 0, 0]] {
        assert!(!new.restore(scope, numbers, at(0), at(0)), "{numbers:?}");
    }
    assert!(new.restore(scope, &[0, 0, 0, 0, 0], at(0), at(0)));
}
