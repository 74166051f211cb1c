use super::super::{CalendarPeriod, Quota, QuotaDecision, QuotaUnit, QuotaUnits};
use super::{HOUR, admitted, limiter, remaining, scope, take};
use crate::time::{Now, Timestamp, UtcTime};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

fn on(year: i64, month: u32, day: u32) -> Now {
    Now::new(Timestamp::ZERO, UtcTime::from_civil(year, month, day))
}

fn quota(limit: u32, period: CalendarPeriod) -> Quota {
    Quota::calendar("calendar", QuotaUnit::Request, limit, period).unwrap()
}

#[test]
fn a_day_ends_at_midnight_utc() {
    let limiter = limiter(vec![quota(3, CalendarPeriod::Day)]);
    let scopes = [scope(&limiter, "caller", 1)];
    let morning = on(2026, 11, 15) + HOUR * 8;
    assert_eq!(admitted(&limiter, &scopes, 5, morning), 3);
    let refusal = take(&limiter, &scopes, QuotaUnits::REQUEST, morning).unwrap_err();
    assert_eq!((refusal.wait, refusal.binding.remaining, refusal.binding.capacity), (HOUR * 16, 0, 3));
    assert_eq!(admitted(&limiter, &scopes, 5, morning + (refusal.wait - Duration::from_nanos(1))), 0);
    assert_eq!(admitted(&limiter, &scopes, 5, morning + refusal.wait), 3);
    let never = limiter.reserve(&scopes, QuotaUnits { requests: 4, tokens: 0 }, morning).unwrap();
    assert!(matches!(never, QuotaDecision::TooLarge { capacity: 3, .. }));
}

#[test]
fn a_month_ends_on_the_first() {
    for (today, days_left) in
        [((2026, 11, 15), 16), ((2026, 12, 31), 1), ((2028, 2, 1), 29), ((2027, 2, 1), 28)]
    {
        let limiter = limiter(vec![quota(1, CalendarPeriod::Month)]);
        let scopes = [scope(&limiter, "caller", 1)];
        let now = on(today.0, today.1, today.2);
        assert_eq!(admitted(&limiter, &scopes, 2, now), 1);
        let refusal = take(&limiter, &scopes, QuotaUnits::REQUEST, now).unwrap_err();
        assert_eq!(refusal.wait, DAY * days_left, "{today:?}");
        assert_eq!(admitted(&limiter, &scopes, 2, now + refusal.wait), 1);
    }
}

#[test]
fn a_clock_that_is_set_back_renews_nothing() {
    let limiter = limiter(vec![quota(3, CalendarPeriod::Day)]);
    let scopes = [scope(&limiter, "caller", 1)];
    assert_eq!(admitted(&limiter, &scopes, 2, on(2026, 11, 16)), 2);
    assert_eq!(admitted(&limiter, &scopes, 2, on(2026, 11, 15)), 1);
    assert_eq!(admitted(&limiter, &scopes, 2, on(2026, 11, 16)), 0);
    // Seen from the day before, the next allowance is two midnights away.
    let refusal = take(&limiter, &scopes, QuotaUnits::REQUEST, on(2026, 11, 15)).unwrap_err();
    assert_eq!(refusal.wait, DAY * 2);
}

#[test]
fn debt_is_booked_on_its_day_even_for_a_caller_who_was_forgotten() {
    let tokens = Quota::calendar("tokens", QuotaUnit::Token, 1_000, CalendarPeriod::Day).unwrap();
    let limiter = limiter(vec![super::sliding("minute", 10, super::MINUTE, 0), tokens]);
    let scopes = [scope(&limiter, "caller", 1)];
    let morning = on(2026, 11, 15) + HOUR;
    let held = take(&limiter, &scopes, QuotaUnits::REQUEST, morning).unwrap();
    for shard in 0..64 {
        limiter.sweep(shard, morning + HOUR);
    }
    assert_eq!(limiter.memory().callers, 0);
    limiter.settle(held, QuotaUnits::tokens(900), morning + HOUR);
    assert_eq!(remaining(&limiter, &scopes, morning + HOUR), [10, 100]);
}

#[test]
fn a_reservation_is_settled_on_its_own_day_only() {
    let limiter = limiter(vec![quota(10, CalendarPeriod::Day)]);
    let scopes = [scope(&limiter, "caller", 1)];
    let units = |requests| QuotaUnits { requests, tokens: 0 };
    let evening = on(2026, 11, 15) + HOUR * 23;
    let same_day = take(&limiter, &scopes, units(5), evening).unwrap();
    limiter.settle(same_day, units(2), evening);
    assert_eq!(remaining(&limiter, &scopes, evening), [8]);
    let overrun = take(&limiter, &scopes, units(1), evening).unwrap();
    limiter.settle(overrun, units(3), evening);
    assert_eq!(remaining(&limiter, &scopes, evening), [5]);
    let (refunded, over) =
        (take(&limiter, &scopes, units(2), evening), take(&limiter, &scopes, units(2), evening));
    let morning = evening + HOUR * 2;
    assert_eq!(admitted(&limiter, &scopes, 4, morning), 4);
    limiter.refund(refunded.unwrap(), morning);
    limiter.settle(over.unwrap(), units(9), morning);
    assert_eq!(remaining(&limiter, &scopes, morning), [6]);
}
