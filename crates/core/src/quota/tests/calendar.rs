use super::super::{CalendarPeriod, Cost, Quota, QuotaDecision, Unit};
use super::{HOUR, admitted, book, remaining, scope, take};
use crate::time::{Now, Timestamp, UtcTime};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

fn on(year: i64, month: u32, day: u32) -> Now {
    Now::new(Timestamp::ZERO, UtcTime::from_civil(year, month, day))
}

fn quota(limit: u32, period: CalendarPeriod) -> Quota {
    Quota::calendar("calendar", Unit::Request, limit, period).unwrap()
}

#[test]
fn a_day_ends_at_midnight_utc() {
    let book = book(vec![quota(3, CalendarPeriod::Day)]);
    let scopes = [scope(&book, "caller", 1)];
    let morning = on(2026, 11, 15) + HOUR * 8;
    assert_eq!(admitted(&book, &scopes, 5, morning), 3);
    let refusal = take(&book, &scopes, Cost::REQUEST, morning).unwrap_err();
    assert_eq!((refusal.wait, refusal.binding.remaining, refusal.binding.capacity), (HOUR * 16, 0, 3));
    assert_eq!(admitted(&book, &scopes, 5, morning + (refusal.wait - Duration::from_nanos(1))), 0);
    assert_eq!(admitted(&book, &scopes, 5, morning + refusal.wait), 3);
    let never = book.reserve(&scopes, Cost { requests: 4, tokens: 0 }, morning).unwrap();
    assert!(matches!(never, QuotaDecision::TooLarge { capacity: 3, .. }));
}

#[test]
fn a_month_ends_on_the_first() {
    for (today, days_left) in
        [((2026, 11, 15), 16), ((2026, 12, 31), 1), ((2028, 2, 1), 29), ((2027, 2, 1), 28)]
    {
        let book = book(vec![quota(1, CalendarPeriod::Month)]);
        let scopes = [scope(&book, "caller", 1)];
        let now = on(today.0, today.1, today.2);
        assert_eq!(admitted(&book, &scopes, 2, now), 1);
        let refusal = take(&book, &scopes, Cost::REQUEST, now).unwrap_err();
        assert_eq!(refusal.wait, DAY * days_left, "{today:?}");
        assert_eq!(admitted(&book, &scopes, 2, now + refusal.wait), 1);
    }
}

#[test]
fn a_clock_that_is_set_back_renews_nothing() {
    let book = book(vec![quota(3, CalendarPeriod::Day)]);
    let scopes = [scope(&book, "caller", 1)];
    assert_eq!(admitted(&book, &scopes, 2, on(2026, 11, 16)), 2);
    assert_eq!(admitted(&book, &scopes, 2, on(2026, 11, 15)), 1);
    assert_eq!(admitted(&book, &scopes, 2, on(2026, 11, 16)), 0);
    // Seen from the day before, the next allowance is two midnights away.
    let refusal = take(&book, &scopes, Cost::REQUEST, on(2026, 11, 15)).unwrap_err();
    assert_eq!(refusal.wait, DAY * 2);
}

#[test]
fn debt_is_booked_on_its_day_even_for_a_caller_who_was_forgotten() {
    let tokens = Quota::calendar("tokens", Unit::Token, 1_000, CalendarPeriod::Day).unwrap();
    let book = book(vec![super::sliding("minute", 10, super::MINUTE, 0), tokens]);
    let scopes = [scope(&book, "caller", 1)];
    let morning = on(2026, 11, 15) + HOUR;
    let held = take(&book, &scopes, Cost::REQUEST, morning).unwrap();
    for shard in 0..64 {
        book.sweep(shard, morning + HOUR);
    }
    assert_eq!(book.memory().callers, 0);
    book.settle(held, Cost::tokens(900), morning + HOUR);
    assert_eq!(remaining(&book, &scopes, morning + HOUR), [10, 100]);
}

#[test]
fn a_reservation_is_settled_on_its_own_day_only() {
    let book = book(vec![quota(10, CalendarPeriod::Day)]);
    let scopes = [scope(&book, "caller", 1)];
    let units = |requests| Cost { requests, tokens: 0 };
    let evening = on(2026, 11, 15) + HOUR * 23;
    let same_day = take(&book, &scopes, units(5), evening).unwrap();
    book.settle(same_day, units(2), evening);
    assert_eq!(remaining(&book, &scopes, evening), [8]);
    let overrun = take(&book, &scopes, units(1), evening).unwrap();
    book.settle(overrun, units(3), evening);
    assert_eq!(remaining(&book, &scopes, evening), [5]);
    let (refunded, over) = (take(&book, &scopes, units(2), evening), take(&book, &scopes, units(2), evening));
    let morning = evening + HOUR * 2;
    assert_eq!(admitted(&book, &scopes, 4, morning), 4);
    book.refund(refunded.unwrap(), morning);
    book.settle(over.unwrap(), units(9), morning);
    assert_eq!(remaining(&book, &scopes, morning), [6]);
}
