//! Changing the limits while requests are in flight.

use super::super::{
    CalendarPeriod, CountsDecision, LimitId, Quota, QuotaUnit, QuotaUnits, RateLimiter, ScopeError,
};
use super::{HOUR, MINUTE, admitted, at, group, limiter, rate, remaining, scope, sliding, take};
use std::time::Duration;

fn units(requests: u32) -> QuotaUnits {
    QuotaUnits { requests, tokens: 0 }
}

/// Replaces the limits of the only group and returns what happened to each.
fn change_limits(limiter: &RateLimiter, quotas: Vec<Quota>, millis: u64) -> Vec<CountsDecision> {
    let changes = limiter.change_limits(vec![group("caller", quotas)], at(millis)).unwrap();
    changes.iter().map(|change| change.counts).collect()
}

fn day(limit: u32) -> Quota {
    Quota::calendar("minute", QuotaUnit::Request, limit, CalendarPeriod::Day).unwrap()
}

fn smooth(limit: u32, per: Duration, burst: u32) -> Quota {
    Quota::rate("minute", QuotaUnit::Request, limit, per, burst).unwrap()
}

#[test]
fn other_numbers_judge_the_same_counts() {
    let limiter = limiter(vec![sliding("minute", 10, MINUTE, 2)]);
    let scopes = [scope(&limiter, "caller", 1)];
    assert_eq!(admitted(&limiter, &scopes, 20, at(0)), 12);
    assert_eq!(
        change_limits(&limiter, vec![sliding("minute", 15, MINUTE, 0)], 1_000),
        [CountsDecision::Kept]
    );
    assert_eq!(admitted(&limiter, &scopes, 20, at(1_000)), 3);
    assert_eq!(change_limits(&limiter, vec![sliding("minute", 5, MINUTE, 0)], 2_000), [CountsDecision::Kept]);
    assert_eq!(admitted(&limiter, &scopes, 20, at(60_999)), 0);
    // The twelve have expired, the three have not.
    assert_eq!(remaining(&limiter, &scopes, at(61_000)), [2]);
}

#[test]
fn another_period_or_kind_counts_what_is_in_use_as_used_now() {
    for (before, used_at) in [(sliding("minute", 10, MINUTE, 0), 0), (day(10), 0), (smooth(1, HOUR, 10), 0)] {
        for after in [sliding("minute", 10, HOUR, 0), day(10), smooth(10, MINUTE * 10, 10)] {
            if after == before {
                continue;
            }
            let limiter = limiter(vec![before.clone()]);
            let scopes = [scope(&limiter, "caller", 1)];
            assert!(take(&limiter, &scopes, units(4), at(used_at)).is_ok());
            assert_eq!(
                change_limits(&limiter, vec![after.clone()], 10_000),
                [CountsDecision::CountedAsCurrent]
            );
            assert_eq!(remaining(&limiter, &scopes, at(10_000)), [6], "{before:?} to {after:?}");
            assert_eq!(remaining(&limiter, &[scope(&limiter, "caller", 2)], at(10_000)), [10]);
        }
    }
}

#[test]
fn what_was_over_before_the_change_does_not_come_back() {
    let limiter = limiter(vec![sliding("minute", 10, MINUTE, 0)]);
    let scopes = [scope(&limiter, "caller", 1)];
    assert!(take(&limiter, &scopes, units(4), at(0)).is_ok());
    assert!(take(&limiter, &scopes, units(3), at(30_000)).is_ok());
    change_limits(&limiter, vec![sliding("minute", 10, HOUR, 0)], 61_000);
    assert_eq!(remaining(&limiter, &scopes, at(61_000)), [7]);
    // Counted from the change on: the hour's slices are a minute long, and the first began at the first minute.
    assert_eq!(remaining(&limiter, &scopes, at(60_000 + 3_660_000 - 1)), [7]);
    assert_eq!(remaining(&limiter, &scopes, at(60_000 + 3_660_000)), [10]);
}

#[test]
fn a_rate_that_changes_keeps_its_units_and_not_its_time() {
    let second = Duration::from_secs(1);
    let limiter = limiter(vec![rate(10, second, 10)]);
    let scopes = [scope(&limiter, "caller", 1)];
    assert_eq!(admitted(&limiter, &scopes, 20, at(0)), 10);
    // Five have drained; the other five now take a second each.
    assert_eq!(change_limits(&limiter, vec![rate(1, second, 10)], 500), [CountsDecision::Kept]);
    assert_eq!(remaining(&limiter, &scopes, at(500)), [5]);
    assert_eq!(remaining(&limiter, &scopes, at(1_499)), [5]);
    assert_eq!(remaining(&limiter, &scopes, at(1_500)), [6]);
    // Four are outstanding, a tenth of a second each.
    assert_eq!(change_limits(&limiter, vec![rate(10, second, 10)], 1_500), [CountsDecision::Kept]);
    assert_eq!(
        (remaining(&limiter, &scopes, at(1_500)), remaining(&limiter, &scopes, at(1_900))),
        (vec![6], vec![10])
    );
}

#[test]
fn limits_may_come_go_and_change_places() {
    let limiter = limiter(vec![sliding("minute", 10, MINUTE, 0), sliding("hour", 50, HOUR, 0)]);
    let scopes = [scope(&limiter, "caller", 1)];
    let number = |quota| LimitId { group: scopes[0].group, quota };
    assert!(take(&limiter, &scopes, units(4), at(0)).is_ok());
    let changes = limiter
        .change_limits(vec![group("caller", vec![rate(1, MINUTE, 9), sliding("hour", 60, HOUR, 0)])], at(0))
        .unwrap();
    let messages: Vec<String> = changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "caller/rate: added; usage starts at zero, limit 9",
            "caller/hour: usage kept, limit 50 -> 60",
            "caller/minute: removed with its usage, limit was 10",
        ]
    );
    let views: Vec<_> =
        limiter.view(&scopes, at(0)).unwrap().iter().map(|view| (view.limit, view.remaining)).collect();
    assert_eq!(views, [(number(2), 9), (number(1), 56)], "a name keeps its number");
    assert_eq!(limiter.quota(number(1)).unwrap().name(), "hour");
    assert_eq!(limiter.quota(number(0)), None);

    let back = vec![sliding("hour", 60, HOUR, 0), sliding("minute", 10, MINUTE, 0), rate(1, MINUTE, 9)];
    assert_eq!(
        change_limits(&limiter, back, 0),
        [CountsDecision::Kept, CountsDecision::New, CountsDecision::Kept]
    );
    assert_eq!(remaining(&limiter, &scopes, at(0)), [56, 10, 9]);
    assert_eq!(limiter.view(&scopes, at(0)).unwrap()[1].limit, number(0));
}

#[test]
fn a_limit_of_another_unit_begins_empty() {
    let limiter = limiter(vec![sliding("minute", 10, MINUTE, 0)]);
    let scopes = [scope(&limiter, "caller", 1)];
    assert!(take(&limiter, &scopes, QuotaUnits::tokens(50), at(0)).is_ok());
    let tokens = Quota::sliding("minute", QuotaUnit::Token, 100, MINUTE, 0).unwrap();
    let changes = limiter.change_limits(vec![group("caller", vec![tokens])], at(0)).unwrap();
    assert_eq!(changes[0].to_string(), "caller/minute: unit changed; usage starts at zero, limit 100");
    assert_eq!((changes[0].counts, changes[0].is_unchanged()), (CountsDecision::UnitChanged, false));
    assert_eq!(remaining(&limiter, &scopes, at(0)), [100]);
}

#[test]
fn ids_of_groups_that_stay_stay_good_and_those_that_go_are_unknown() {
    let limited = |name: &str| group(name, vec![sliding("minute", 10, MINUTE, 0)]);
    let limiter = RateLimiter::new(vec![limited("one"), limited("two")], 1).unwrap();
    let (one, two) = (scope(&limiter, "one", 1), scope(&limiter, "two", 1));
    assert_eq!(admitted(&limiter, &[one, two], 4, at(0)), 4);
    let held = take(&limiter, &[one, two], units(2), at(0)).unwrap();

    limiter.change_limits(vec![limited("three"), limited("two")], at(0)).unwrap();
    let three = scope(&limiter, "three", 1);
    assert!(three.group != one.group && three.group != two.group);
    assert_eq!((limiter.group("one"), limiter.group("two")), (None, Some(two.group)));
    assert_eq!(limiter.reserve(&[one, two], QuotaUnits::REQUEST, at(0)), Err(ScopeError::Unknown(one.group)));
    assert_eq!(limiter.view(&[one], at(0)), Err(ScopeError::Unknown(one.group)));
    assert_eq!(remaining(&limiter, &[two, three], at(0)), [4, 10]);
    assert_eq!(limiter.quota(LimitId { group: one.group, quota: 0 }), None);
    // The part in the removed group is dropped, the other is settled.
    limiter.settle(held, units(1), at(0));
    assert_eq!(remaining(&limiter, &[two], at(0)), [5]);
    assert_eq!(limiter.memory().callers, 1);

    // A group that returns has its old id, with nothing used.
    let changes = limiter.change_limits(vec![limited("one"), limited("four")], at(0)).unwrap();
    let messages: Vec<String> = changes.iter().map(ToString::to_string).collect();
    let removed = |name: &str| format!("{name}/minute: removed with its usage, limit was 10");
    assert_eq!(
        messages[..2],
        [
            "one/minute: added; usage starts at zero, limit 10",
            "four/minute: added; usage starts at zero, limit 10"
        ]
    );
    assert_eq!(messages[2..], [removed("two"), removed("three")]);
    assert_eq!(limiter.group("one"), Some(one.group));
    assert_eq!(remaining(&limiter, &[one, scope(&limiter, "four", 1)], at(0)), [10, 10]);
}

#[test]
fn a_change_that_is_refused_changes_nothing() {
    let limited = |name: &str, limit| group(name, vec![sliding("minute", limit, MINUTE, 0)]);
    let limiter = limiter(vec![sliding("minute", 10, MINUTE, 0)]);
    let refused = |groups| limiter.change_limits(groups, at(0)).unwrap_err().to_string();
    assert_eq!(refused(vec![]), "groups: 0 is not between 1 and 65535");
    assert_eq!(refused(vec![limited("one", 1), limited("one", 1)]), "groups: two groups are named one");
    assert_eq!(remaining(&limiter, &[scope(&limiter, "caller", 1)], at(0)), [10]);
    let unchanged = limiter.change_limits(vec![limited("caller", 10)], at(0)).unwrap();
    assert_eq!(unchanged[0].to_string(), "caller/minute: unchanged, limit 10");
    assert!(unchanged[0].is_unchanged());
}

#[test]
fn a_reservation_is_refunded_where_its_limit_kept_its_counts_and_only_there() {
    let limits = |hour| vec![sliding("minute", 20, MINUTE, 0), sliding("hour", 50, hour, 0)];
    let limiter = limiter(limits(HOUR));
    let scopes = [scope(&limiter, "caller", 1)];
    let (one, two, three) = (
        take(&limiter, &scopes, units(6), at(0)),
        take(&limiter, &scopes, units(6), at(0)),
        take(&limiter, &scopes, units(1), at(0)),
    );
    let mut other = limits(HOUR * 2);
    other.reverse();
    other.push(rate(1, HOUR, 30));
    change_limits(&limiter, other, 0);
    assert_eq!(remaining(&limiter, &scopes, at(0)), [37, 7, 30]);
    limiter.settle(one.unwrap(), units(2), at(0));
    assert_eq!(remaining(&limiter, &scopes, at(0)), [37, 11, 30]);
    // Also after another change that keeps what the first kept and restores the old period.
    change_limits(&limiter, limits(HOUR), 0);
    limiter.refund(two.unwrap(), at(0));
    assert_eq!(remaining(&limiter, &scopes, at(0)), [17, 37]);
    // An excess is charged under every limit.
    limiter.settle(three.unwrap(), units(6), at(0));
    assert_eq!(remaining(&limiter, &scopes, at(0)), [12, 32]);
}

#[test]
fn debt_from_before_the_change_is_booked_on_limits_of_every_kind_that_are_there_now() {
    let limiter = limiter(vec![sliding("hour", 50, HOUR, 0)]);
    let scopes = [scope(&limiter, "caller", 1)];
    let held = take(&limiter, &scopes, units(1), at(0)).unwrap();
    change_limits(&limiter, vec![day(20), rate(1, HOUR, 30), sliding("new", 40, MINUTE, 0)], 0);
    assert_eq!(limiter.memory().callers, 1);
    limiter.settle(held, units(5), at(0));
    assert_eq!(remaining(&limiter, &scopes, at(0)), [16, 26, 36]);
}

#[test]
fn a_reservation_of_a_rate_gives_back_as_many_units_at_another_rate() {
    let second = Duration::from_secs(1);
    for (faster, left) in [(true, 10), (false, 10)] {
        let limit = |now: bool| rate(if now == faster { 100 } else { 10 }, second, 10);
        let limiter = limiter(vec![limit(false)]);
        let scopes = [scope(&limiter, "caller", 1)];
        let held = take(&limiter, &scopes, units(8), at(0)).unwrap();
        change_limits(&limiter, vec![limit(true)], 0);
        assert_eq!(remaining(&limiter, &scopes, at(0)), [2]);
        limiter.refund(held, at(0));
        assert_eq!(remaining(&limiter, &scopes, at(0)), [left]);
    }
    // What has drained before or after the change is not refunded again.
    let limiter = limiter(vec![rate(10, second, 10)]);
    let scopes = [scope(&limiter, "caller", 1)];
    let held = take(&limiter, &scopes, units(10), at(0)).unwrap();
    change_limits(&limiter, vec![rate(20, second, 10)], 500);
    assert!(take(&limiter, &scopes, units(5), at(500)).is_ok());
    // Five of the ten were outstanding at the change; two have drained since.
    limiter.refund(held, at(600));
    assert_eq!(remaining(&limiter, &scopes, at(600)), [5]);
}

#[test]
fn a_reservation_older_than_sixteen_changes_is_not_refunded_and_still_owes() {
    let limiter = limiter(vec![sliding("minute", 100, MINUTE, 0)]);
    let scopes = [scope(&limiter, "caller", 1)];
    let held: Vec<_> = (0..3).map(|_| take(&limiter, &scopes, units(10), at(0)).unwrap()).collect();
    let mut held = held.into_iter();
    for limit in 101..=116 {
        change_limits(&limiter, vec![sliding("minute", limit, MINUTE, 0)], 0);
    }
    limiter.refund(held.next().unwrap(), at(0));
    assert_eq!(remaining(&limiter, &scopes, at(0)), [96]);
    change_limits(&limiter, vec![sliding("minute", 100, MINUTE, 0)], 0);
    limiter.refund(held.next().unwrap(), at(0));
    assert_eq!(remaining(&limiter, &scopes, at(0)), [80]);
    limiter.settle(held.next().unwrap(), units(15), at(0));
    assert_eq!(remaining(&limiter, &scopes, at(0)), [75]);
}

#[test]
fn a_group_that_went_and_came_back_refunds_nothing_from_before() {
    let limited = |name: &str| group(name, vec![sliding("minute", 10, MINUTE, 0)]);
    let limiter = RateLimiter::new(vec![limited("one"), limited("two")], 1).unwrap();
    let scopes = [scope(&limiter, "one", 1)];
    let held = take(&limiter, &scopes, units(5), at(0)).unwrap();
    limiter.change_limits(vec![limited("two")], at(0)).unwrap();
    limiter.change_limits(vec![limited("one"), limited("two")], at(0)).unwrap();
    assert!(take(&limiter, &scopes, units(8), at(0)).is_ok());
    limiter.refund(held, at(0));
    assert_eq!(remaining(&limiter, &scopes, at(0)), [2]);
}

#[test]
fn a_caller_active_in_many_slices_gets_a_ring_and_free_rings_are_reused() {
    let limiter = limiter(vec![sliding("minute", 100, MINUTE, 0), sliding("hour", 500, HOUR, 0)]);
    let keys = 0..200_u64;
    let busy = |from: u64| {
        for key in keys.clone() {
            for second in 0..20 {
                assert!(
                    take(
                        &limiter,
                        &[scope(&limiter, "caller", key)],
                        QuotaUnits::REQUEST,
                        at(from + second * 1_000)
                    )
                    .is_ok()
                );
            }
        }
    };
    busy(0);
    let first = limiter.memory().bytes;
    // The minute's usage stays in its rings, at another position in the record.
    change_limits(&limiter, vec![sliding("hour", 500, HOUR, 0), sliding("minute", 90, MINUTE, 0)], 20_000);
    for key in keys.clone() {
        let scopes = [scope(&limiter, "caller", key)];
        assert_eq!(remaining(&limiter, &scopes, at(20_000)), [480, 70]);
        assert_eq!(remaining(&limiter, &scopes, at(61_000)), [480, 71]);
    }
    let tokens = Quota::sliding("minute", QuotaUnit::Token, 90, MINUTE, 0).unwrap();
    // Rings of a limit that is removed or counts another way are freed and reused by the next.
    for (limit, left) in [(sliding("other", 90, MINUTE, 0), 90), (tokens, 90), (day(90), 70)] {
        change_limits(&limiter, vec![limit, sliding("hour", 500, HOUR, 0)], 20_000);
        assert_eq!(remaining(&limiter, &[scope(&limiter, "caller", 7)], at(20_000))[0], left);
        change_limits(
            &limiter,
            vec![sliding("minute", 100, MINUTE, 0), sliding("hour", 500, HOUR, 0)],
            20_000,
        );
        for shard in 0..64 {
            limiter.sweep(shard, at(9_000_000));
        }
        assert_eq!(limiter.memory().callers, 0);
        busy(0);
        assert!(limiter.memory().bytes <= first + 1_024, "{} after {first}", limiter.memory().bytes);
    }
}

#[test]
fn callers_are_forgotten_by_the_limits_they_have_now() {
    let limiter = limiter(vec![sliding("minute", 10, HOUR, 0)]);
    for key in 0..500 {
        assert!(take(&limiter, &[scope(&limiter, "caller", key)], QuotaUnits::REQUEST, at(0)).is_ok());
    }
    change_limits(&limiter, vec![sliding("minute", 10, MINUTE, 0)], 10_000);
    let sweep = |millis| (0..64).map(|shard| limiter.sweep(shard, at(millis))).sum::<usize>();
    assert_eq!((sweep(70_999), sweep(71_000)), (0, 500));
    // Slots are reused by callers with longer records.
    change_limits(&limiter, vec![sliding("minute", 10, MINUTE, 0), sliding("hour", 50, HOUR, 0)], 71_000);
    for key in 0..500 {
        let scopes = [scope(&limiter, "caller", key)];
        assert!(take(&limiter, &scopes, units(3), at(71_000)).is_ok());
        assert_eq!(remaining(&limiter, &scopes, at(71_000)), [7, 47]);
    }
}
