//! Retention and eviction, and their cost per request.

use super::{DAY, account, ask, at, nanos, on, post, small_ledger};
use crate::budget::{
    ApplyDecision, BudgetEntry, BudgetLedger, BudgetOptions, BudgetRefusal, ReservationRequest, SessionTokens,
};
use crate::money::Money;
use crate::time::Timestamp;
use crate::vocabulary::Tier;
use std::time::Duration;

const HOUR: u64 = 3_600;

/// A ledger with room for many callers.
fn large_book() -> BudgetLedger {
    BudgetLedger::new(
        BudgetOptions { caller_day: Money::from_dollars(5_000), ..BudgetOptions::default() }.check().unwrap(),
    )
}

/// Advances time until eviction has finished.
fn settle(ledger: &mut BudgetLedger, seconds: u64) {
    for _ in 0..10 {
        ledger.expire(at(seconds).monotonic);
    }
}

#[test]
fn entries_idle_for_two_days_are_evicted_unless_open() {
    let mut ledger = small_ledger();
    let start = 1_000 * DAY; // the clock had run for long before
    let in_session = |session| ReservationRequest { session: Some(session), ..ask(1, Tier::Prime, 10) };
    let open = ledger.reserve(&in_session(1), at(start)).unwrap();
    let second = ledger.reserve(&ReservationRequest { caller: 2, ..in_session(2) }, at(start)).unwrap();
    let _ = ledger.apply(&post(second, 5));
    let next = ledger.reserve(&ask(1, Tier::Prime, 10), at(start + DAY)).unwrap();
    let _ = ledger.apply(&post(next, 5));
    settle(&mut ledger, start + 48 * HOUR - 1);
    assert_eq!((ledger.all(1_000), ledger.session(2).input), (account(5, 10), 7));
    settle(&mut ledger, start + 49 * HOUR);
    // An open reservation retains its day and its session.
    assert_eq!((ledger.all(1_000), ledger.session(2)), (account(5, 10), SessionTokens::default()));
    assert_eq!(ledger.session(1).input_held, 10);
    // A settlement counts as a use and extends the retention by two days.
    let _ = ledger.apply(&post(open, 5));
    settle(&mut ledger, start + 72 * HOUR - 1);
    assert_eq!((ledger.all(1_000), ledger.all(1_001)), (account(10, 0), account(5, 0)));
    settle(&mut ledger, start + 74 * HOUR);
    assert_eq!((ledger.all(1_000), ledger.all(1_001)), (account(10, 0), account(0, 0)));
    settle(&mut ledger, start + 98 * HOUR);
    assert_eq!((ledger.all(1_000), ledger.entries_kept()), (account(0, 0), 0));
}

#[test]
fn setting_the_wall_clock_does_not_reset_a_spent_day() {
    let mut ledger = small_ledger();
    let id = ledger.reserve(&ask(1, Tier::Prime, 150), on(10, 0)).unwrap();
    let _ = ledger.apply(&post(id, 150));
    for day in [400, 401, 402, 403, 9, 3] {
        let id = ledger.reserve(&ask(1, Tier::Prime, 1), on(day, 1)).unwrap();
        let _ = ledger.apply(&post(id, 1));
    }
    settle(&mut ledger, 47 * HOUR);
    assert!(matches!(
        ledger.reserve(&ask(1, Tier::Prime, 1), on(10, 47 * HOUR)),
        Err(BudgetRefusal::CallerDay { .. })
    ));
}

#[test]
fn restored_entries_are_as_old_as_the_restore() {
    let before = small_ledger();
    let entry = before.decide(&ask(1, Tier::Prime, 150), at(5)).unwrap();
    let mut ledger = small_ledger();
    let _ = ledger.apply(&entry);
    ledger.recover();
    // This process's clock has been running for a year.
    settle(&mut ledger, 365 * DAY);
    settle(&mut ledger, 365 * DAY + 47 * HOUR);
    assert_eq!(ledger.all(0), account(150, 0));
    settle(&mut ledger, 365 * DAY + 49 * HOUR);
    assert_eq!((ledger.all(0), ledger.entries_kept()), (account(0, 0), 0));
}

#[test]
fn calls_that_were_never_made_leave_nothing_behind() {
    let mut ledger = large_book();
    for number in 0..1_000 {
        let request = ReservationRequest { session: Some(number), ..ask(number, Tier::Prime, 1) };
        let id = ledger.reserve(&request, at(0)).unwrap();
        let _ = ledger.apply(&BudgetEntry::Voided(id));
    }
    assert_eq!(ledger.entries_kept(), 0);
    // A caller with another call in flight is retained.
    let request = ReservationRequest { session: Some(1), ..ask(1, Tier::Prime, 1) };
    let [first, _] = [0, 1].map(|_| ledger.reserve(&request, at(0)).unwrap());
    let _ = ledger.apply(&BudgetEntry::Voided(first));
    assert_eq!(
        (ledger.entries_kept(), ledger.caller(0, 1), ledger.session(1).input_held),
        (3, account(0, 1), 10)
    );
    // A caller with a raised alarm is retained, so that the alarm is not raised twice.
    let mut ledger = small_ledger();
    let id = ledger.reserve(&ask(1, Tier::Prime, 110), at(0)).unwrap();
    assert!(matches!(ledger.recover()[..], [(_, ApplyDecision::SingleSource(_))]));
    assert_eq!(ledger.apply(&BudgetEntry::Voided(id)), ApplyDecision::Applied);
    let id = ledger.reserve(&ask(1, Tier::Prime, 110), at(0)).unwrap();
    assert_eq!(ledger.apply(&post(id, 110)), ApplyDecision::Applied);
}

#[test]
fn eviction_is_spread_over_many_requests() {
    let mut ledger = large_book();
    for number in 0..1_000 {
        let request = ReservationRequest { session: Some(number), ..ask(number, Tier::Prime, 1) };
        let id = ledger.reserve(&request, at(0)).unwrap();
        let _ = ledger.apply(&if number % 10 == 0 { BudgetEntry::Expired(id) } else { post(id, 1) });
    }
    let mut kept = ledger.entries_kept();
    assert_eq!(kept, 2_100);
    let mut calls = 0;
    while kept > 1 {
        let id = ledger.reserve(&ask(9_999, Tier::Prime, 0), on(9, 50 * HOUR)).unwrap();
        let left = ledger.entries_kept() - 2;
        let _ = ledger.apply(&BudgetEntry::Voided(id));
        assert!(kept - left <= 128, "{} at once", kept - left);
        (kept, calls) = (left, calls + 1);
        assert!(calls < 100);
        if left == 0 {
            break;
        }
    }
    assert_eq!(ledger.all(0), account(0, 0));
}

#[test]
fn a_settlement_after_eviction_changes_no_later_day() {
    let mut ledger = small_ledger();
    let id = ledger.reserve(&ask(1, Tier::Prime, 50), at(0)).unwrap();
    ledger.recover();
    ledger.expire(at(0).monotonic);
    // One scan removes the day, and the wall clock returns to it before it has been freed.
    ledger.expire(Timestamp::ZERO + Duration::from_secs(49 * HOUR));
    let new = ledger.reserve(&ask(2, Tier::Prime, 50), on(0, 49 * HOUR)).unwrap();
    let _ = ledger.apply(&post(new, 50));
    assert_eq!(ledger.apply(&post(id, 1)), ApplyDecision::Unchanged);
    assert_eq!(ledger.all(0).posted, nanos(50));
}
