//! Changing the limits while requests are in flight.

use super::super::{CalendarPeriod, Cost, CountsDecision, LimitId, Quota, QuotaBook, ScopeError, Unit};
use super::{HOUR, MINUTE, admitted, at, book, group, rate, remaining, scope, sliding, take};
use std::time::Duration;

fn units(requests: u32) -> Cost {
    Cost { requests, tokens: 0 }
}

/// Replaces the limits of the only group and returns what happened to each.
fn change(book: &QuotaBook, quotas: Vec<Quota>, millis: u64) -> Vec<CountsDecision> {
    let changes = book.change(vec![group("caller", quotas)], at(millis)).unwrap();
    changes.iter().map(|change| change.counts).collect()
}

fn day(limit: u32) -> Quota {
    Quota::calendar("minute", Unit::Request, limit, CalendarPeriod::Day).unwrap()
}

fn smooth(limit: u32, per: Duration, burst: u32) -> Quota {
    Quota::rate("minute", Unit::Request, limit, per, burst).unwrap()
}

#[test]
fn other_numbers_judge_the_same_counts() {
    let book = book(vec![sliding("minute", 10, MINUTE, 2)]);
    let scopes = [scope(&book, "caller", 1)];
    assert_eq!(admitted(&book, &scopes, 20, at(0)), 12);
    assert_eq!(change(&book, vec![sliding("minute", 15, MINUTE, 0)], 1_000), [CountsDecision::Kept]);
    assert_eq!(admitted(&book, &scopes, 20, at(1_000)), 3);
    assert_eq!(change(&book, vec![sliding("minute", 5, MINUTE, 0)], 2_000), [CountsDecision::Kept]);
    assert_eq!(admitted(&book, &scopes, 20, at(60_999)), 0);
    // The twelve have expired, the three have not.
    assert_eq!(remaining(&book, &scopes, at(61_000)), [2]);
}

#[test]
fn another_period_or_kind_counts_what_is_in_use_as_used_now() {
    for (before, used_at) in [(sliding("minute", 10, MINUTE, 0), 0), (day(10), 0), (smooth(1, HOUR, 10), 0)] {
        for after in [sliding("minute", 10, HOUR, 0), day(10), smooth(10, MINUTE * 10, 10)] {
            if after == before {
                continue;
            }
            let book = book(vec![before.clone()]);
            let scopes = [scope(&book, "caller", 1)];
            assert!(take(&book, &scopes, units(4), at(used_at)).is_ok());
            assert_eq!(change(&book, vec![after.clone()], 10_000), [CountsDecision::CountedAsCurrent]);
            assert_eq!(remaining(&book, &scopes, at(10_000)), [6], "{before:?} to {after:?}");
            assert_eq!(remaining(&book, &[scope(&book, "caller", 2)], at(10_000)), [10]);
        }
    }
}

#[test]
fn what_was_over_before_the_change_does_not_come_back() {
    let book = book(vec![sliding("minute", 10, MINUTE, 0)]);
    let scopes = [scope(&book, "caller", 1)];
    assert!(take(&book, &scopes, units(4), at(0)).is_ok());
    assert!(take(&book, &scopes, units(3), at(30_000)).is_ok());
    change(&book, vec![sliding("minute", 10, HOUR, 0)], 61_000);
    assert_eq!(remaining(&book, &scopes, at(61_000)), [7]);
    // Counted from the change on: the hour's slices are a minute long, and the first began at the first minute.
    assert_eq!(remaining(&book, &scopes, at(60_000 + 3_660_000 - 1)), [7]);
    assert_eq!(remaining(&book, &scopes, at(60_000 + 3_660_000)), [10]);
}

#[test]
fn a_rate_that_changes_keeps_its_units_and_not_its_time() {
    let second = Duration::from_secs(1);
    let book = book(vec![rate(10, second, 10)]);
    let scopes = [scope(&book, "caller", 1)];
    assert_eq!(admitted(&book, &scopes, 20, at(0)), 10);
    // Five have drained; the other five now take a second each.
    assert_eq!(change(&book, vec![rate(1, second, 10)], 500), [CountsDecision::Kept]);
    assert_eq!(remaining(&book, &scopes, at(500)), [5]);
    assert_eq!(remaining(&book, &scopes, at(1_499)), [5]);
    assert_eq!(remaining(&book, &scopes, at(1_500)), [6]);
    // Four are outstanding, a tenth of a second each.
    assert_eq!(change(&book, vec![rate(10, second, 10)], 1_500), [CountsDecision::Kept]);
    assert_eq!(
        (remaining(&book, &scopes, at(1_500)), remaining(&book, &scopes, at(1_900))),
        (vec![6], vec![10])
    );
}

#[test]
fn limits_may_come_go_and_change_places() {
    let book = book(vec![sliding("minute", 10, MINUTE, 0), sliding("hour", 50, HOUR, 0)]);
    let scopes = [scope(&book, "caller", 1)];
    let number = |quota| LimitId { group: scopes[0].group, quota };
    assert!(take(&book, &scopes, units(4), at(0)).is_ok());
    let changes = book
        .change(vec![group("caller", vec![rate(1, MINUTE, 9), sliding("hour", 60, HOUR, 0)])], at(0))
        .unwrap();
    let told: Vec<String> = changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "caller/rate: new and empty, at most 9",
            "caller/hour: kept, at most 50 before and 60 now",
            "caller/minute: gone and forgotten, at most 10 before",
        ]
    );
    let views: Vec<_> =
        book.view(&scopes, at(0)).unwrap().iter().map(|view| (view.limit, view.remaining)).collect();
    assert_eq!(views, [(number(2), 9), (number(1), 56)], "a name keeps its number");
    assert_eq!(book.quota(number(1)).unwrap().name(), "hour");
    assert_eq!(book.quota(number(0)), None);

    let back = vec![sliding("hour", 60, HOUR, 0), sliding("minute", 10, MINUTE, 0), rate(1, MINUTE, 9)];
    assert_eq!(change(&book, back, 0), [CountsDecision::Kept, CountsDecision::New, CountsDecision::Kept]);
    assert_eq!(remaining(&book, &scopes, at(0)), [56, 10, 9]);
    assert_eq!(book.view(&scopes, at(0)).unwrap()[1].limit, number(0));
}

#[test]
fn a_limit_of_another_unit_begins_empty() {
    let book = book(vec![sliding("minute", 10, MINUTE, 0)]);
    let scopes = [scope(&book, "caller", 1)];
    assert!(take(&book, &scopes, Cost::tokens(50), at(0)).is_ok());
    let tokens = Quota::sliding("minute", Unit::Token, 100, MINUTE, 0).unwrap();
    let changes = book.change(vec![group("caller", vec![tokens])], at(0)).unwrap();
    assert_eq!(changes[0].to_string(), "caller/minute: counts another unit and begins empty, at most 100");
    assert_eq!((changes[0].counts, changes[0].is_unchanged()), (CountsDecision::OtherUnit, false));
    assert_eq!(remaining(&book, &scopes, at(0)), [100]);
}

#[test]
fn ids_of_groups_that_stay_stay_good_and_those_that_go_are_unknown() {
    let limited = |name: &str| group(name, vec![sliding("minute", 10, MINUTE, 0)]);
    let book = QuotaBook::new(vec![limited("one"), limited("two")], 1).unwrap();
    let (one, two) = (scope(&book, "one", 1), scope(&book, "two", 1));
    assert_eq!(admitted(&book, &[one, two], 4, at(0)), 4);
    let held = take(&book, &[one, two], units(2), at(0)).unwrap();

    book.change(vec![limited("three"), limited("two")], at(0)).unwrap();
    let three = scope(&book, "three", 1);
    assert!(three.group != one.group && three.group != two.group);
    assert_eq!((book.group("one"), book.group("two")), (None, Some(two.group)));
    assert_eq!(book.reserve(&[one, two], Cost::REQUEST, at(0)), Err(ScopeError::Unknown(one.group)));
    assert_eq!(book.view(&[one], at(0)), Err(ScopeError::Unknown(one.group)));
    assert_eq!(remaining(&book, &[two, three], at(0)), [4, 10]);
    assert_eq!(book.quota(LimitId { group: one.group, quota: 0 }), None);
    // The part in the removed group is dropped, the other is settled.
    book.settle(held, units(1), at(0));
    assert_eq!(remaining(&book, &[two], at(0)), [5]);
    assert_eq!(book.memory().callers, 1);

    // A group that returns has its old id, with nothing used.
    let changes = book.change(vec![limited("one"), limited("four")], at(0)).unwrap();
    let told: Vec<String> = changes.iter().map(ToString::to_string).collect();
    let gone = |name: &str| format!("{name}/minute: gone and forgotten, at most 10 before");
    assert_eq!(
        told[..2],
        ["one/minute: new and empty, at most 10", "four/minute: new and empty, at most 10"]
    );
    assert_eq!(told[2..], [gone("two"), gone("three")]);
    assert_eq!(book.group("one"), Some(one.group));
    assert_eq!(remaining(&book, &[one, scope(&book, "four", 1)], at(0)), [10, 10]);
}

#[test]
fn a_change_that_is_refused_changes_nothing() {
    let limited = |name: &str, limit| group(name, vec![sliding("minute", limit, MINUTE, 0)]);
    let book = book(vec![sliding("minute", 10, MINUTE, 0)]);
    let refused = |groups| book.change(groups, at(0)).unwrap_err().to_string();
    assert_eq!(refused(vec![]), "groups: 0 is not between 1 and 65535");
    assert_eq!(refused(vec![limited("one", 1), limited("one", 1)]), "groups: two groups are named one");
    assert_eq!(remaining(&book, &[scope(&book, "caller", 1)], at(0)), [10]);
    let unchanged = book.change(vec![limited("caller", 10)], at(0)).unwrap();
    assert_eq!(unchanged[0].to_string(), "caller/minute: unchanged, at most 10");
    assert!(unchanged[0].is_unchanged());
}

#[test]
fn a_reservation_is_refunded_where_its_limit_kept_its_counts_and_only_there() {
    let limits = |hour| vec![sliding("minute", 20, MINUTE, 0), sliding("hour", 50, hour, 0)];
    let book = book(limits(HOUR));
    let scopes = [scope(&book, "caller", 1)];
    let (one, two, three) = (
        take(&book, &scopes, units(6), at(0)),
        take(&book, &scopes, units(6), at(0)),
        take(&book, &scopes, units(1), at(0)),
    );
    let mut other = limits(HOUR * 2);
    other.reverse();
    other.push(rate(1, HOUR, 30));
    change(&book, other, 0);
    assert_eq!(remaining(&book, &scopes, at(0)), [37, 7, 30]);
    book.settle(one.unwrap(), units(2), at(0));
    assert_eq!(remaining(&book, &scopes, at(0)), [37, 11, 30]);
    // Also after another change that keeps what the first kept and restores the old period.
    change(&book, limits(HOUR), 0);
    book.refund(two.unwrap(), at(0));
    assert_eq!(remaining(&book, &scopes, at(0)), [17, 37]);
    // An excess is booked under every limit.
    book.settle(three.unwrap(), units(6), at(0));
    assert_eq!(remaining(&book, &scopes, at(0)), [12, 32]);
}

#[test]
fn debt_from_before_the_change_is_booked_on_limits_of_every_kind_that_are_there_now() {
    let book = book(vec![sliding("hour", 50, HOUR, 0)]);
    let scopes = [scope(&book, "caller", 1)];
    let held = take(&book, &scopes, units(1), at(0)).unwrap();
    change(&book, vec![day(20), rate(1, HOUR, 30), sliding("new", 40, MINUTE, 0)], 0);
    assert_eq!(book.memory().callers, 1);
    book.settle(held, units(5), at(0));
    assert_eq!(remaining(&book, &scopes, at(0)), [16, 26, 36]);
}

#[test]
fn a_reservation_of_a_rate_gives_back_as_many_units_at_another_rate() {
    let second = Duration::from_secs(1);
    for (faster, left) in [(true, 10), (false, 10)] {
        let limit = |now: bool| rate(if now == faster { 100 } else { 10 }, second, 10);
        let book = book(vec![limit(false)]);
        let scopes = [scope(&book, "caller", 1)];
        let held = take(&book, &scopes, units(8), at(0)).unwrap();
        change(&book, vec![limit(true)], 0);
        assert_eq!(remaining(&book, &scopes, at(0)), [2]);
        book.refund(held, at(0));
        assert_eq!(remaining(&book, &scopes, at(0)), [left]);
    }
    // What has drained before or after the change is not refunded again.
    let book = book(vec![rate(10, second, 10)]);
    let scopes = [scope(&book, "caller", 1)];
    let held = take(&book, &scopes, units(10), at(0)).unwrap();
    change(&book, vec![rate(20, second, 10)], 500);
    assert!(take(&book, &scopes, units(5), at(500)).is_ok());
    // Five of the ten were outstanding at the change; two have drained since.
    book.refund(held, at(600));
    assert_eq!(remaining(&book, &scopes, at(600)), [5]);
}

#[test]
fn who_outlives_sixteen_changes_is_not_refunded_and_still_owes() {
    let book = book(vec![sliding("minute", 100, MINUTE, 0)]);
    let scopes = [scope(&book, "caller", 1)];
    let held: Vec<_> = (0..3).map(|_| take(&book, &scopes, units(10), at(0)).unwrap()).collect();
    let mut held = held.into_iter();
    for limit in 101..=116 {
        change(&book, vec![sliding("minute", limit, MINUTE, 0)], 0);
    }
    book.refund(held.next().unwrap(), at(0));
    assert_eq!(remaining(&book, &scopes, at(0)), [96]);
    change(&book, vec![sliding("minute", 100, MINUTE, 0)], 0);
    book.refund(held.next().unwrap(), at(0));
    assert_eq!(remaining(&book, &scopes, at(0)), [80]);
    book.settle(held.next().unwrap(), units(15), at(0));
    assert_eq!(remaining(&book, &scopes, at(0)), [75]);
}

#[test]
fn a_group_that_went_and_came_back_refunds_nothing_from_before() {
    let limited = |name: &str| group(name, vec![sliding("minute", 10, MINUTE, 0)]);
    let book = QuotaBook::new(vec![limited("one"), limited("two")], 1).unwrap();
    let scopes = [scope(&book, "one", 1)];
    let held = take(&book, &scopes, units(5), at(0)).unwrap();
    book.change(vec![limited("two")], at(0)).unwrap();
    book.change(vec![limited("one"), limited("two")], at(0)).unwrap();
    assert!(take(&book, &scopes, units(8), at(0)).is_ok());
    book.refund(held, at(0));
    assert_eq!(remaining(&book, &scopes, at(0)), [2]);
}

#[test]
fn who_is_active_in_many_slices_keeps_them_and_rings_that_are_not_needed_are_used_again() {
    let book = book(vec![sliding("minute", 100, MINUTE, 0), sliding("hour", 500, HOUR, 0)]);
    let keys = 0..200_u64;
    let busy = |from: u64| {
        for key in keys.clone() {
            for second in 0..20 {
                assert!(
                    take(&book, &[scope(&book, "caller", key)], Cost::REQUEST, at(from + second * 1_000))
                        .is_ok()
                );
            }
        }
    };
    busy(0);
    let first = book.memory().bytes;
    // The minute's usage stays in its rings, at another position in the record.
    change(&book, vec![sliding("hour", 500, HOUR, 0), sliding("minute", 90, MINUTE, 0)], 20_000);
    for key in keys.clone() {
        let scopes = [scope(&book, "caller", key)];
        assert_eq!(remaining(&book, &scopes, at(20_000)), [480, 70]);
        assert_eq!(remaining(&book, &scopes, at(61_000)), [480, 71]);
    }
    let tokens = Quota::sliding("minute", Unit::Token, 90, MINUTE, 0).unwrap();
    // Rings of a limit that is removed or counts another way are freed and reused by the next.
    for (limit, left) in [(sliding("other", 90, MINUTE, 0), 90), (tokens, 90), (day(90), 70)] {
        change(&book, vec![limit, sliding("hour", 500, HOUR, 0)], 20_000);
        assert_eq!(remaining(&book, &[scope(&book, "caller", 7)], at(20_000))[0], left);
        change(&book, vec![sliding("minute", 100, MINUTE, 0), sliding("hour", 500, HOUR, 0)], 20_000);
        for shard in 0..64 {
            book.sweep(shard, at(9_000_000));
        }
        assert_eq!(book.memory().callers, 0);
        busy(0);
        assert!(book.memory().bytes <= first + 1_024, "{} after {first}", book.memory().bytes);
    }
}

#[test]
fn callers_are_forgotten_by_the_limits_they_have_now() {
    let book = book(vec![sliding("minute", 10, HOUR, 0)]);
    for key in 0..500 {
        assert!(take(&book, &[scope(&book, "caller", key)], Cost::REQUEST, at(0)).is_ok());
    }
    change(&book, vec![sliding("minute", 10, MINUTE, 0)], 10_000);
    let sweep = |millis| (0..64).map(|shard| book.sweep(shard, at(millis))).sum::<usize>();
    assert_eq!((sweep(70_999), sweep(71_000)), (0, 500));
    // Slots are reused by callers with longer records.
    change(&book, vec![sliding("minute", 10, MINUTE, 0), sliding("hour", 50, HOUR, 0)], 71_000);
    for key in 0..500 {
        let scopes = [scope(&book, "caller", key)];
        assert!(take(&book, &scopes, units(3), at(71_000)).is_ok());
        assert_eq!(remaining(&book, &scopes, at(71_000)), [7, 47]);
    }
}
