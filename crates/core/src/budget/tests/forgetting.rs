//! Retention and eviction, and their cost per request.

use super::{DAY, account, ask, at, nanos, on, post, small_book};
use crate::budget::{ApplyDecision, Ask, BudgetBook, BudgetOptions, BudgetRefusal, Entry, SessionTokens};
use crate::money::Money;
use crate::time::Timestamp;
use crate::vocabulary::Tier;
use std::time::Duration;

const HOUR: u64 = 3_600;

/// A book with room for many callers.
fn large_book() -> BudgetBook {
    BudgetBook::new(
        BudgetOptions { caller_day: Money::from_dollars(5_000), ..BudgetOptions::default() }.check().unwrap(),
    )
}

/// Advances time until eviction has finished.
fn settle(book: &mut BudgetBook, seconds: u64) {
    for _ in 0..10 {
        book.expire(at(seconds).monotonic);
    }
}

#[test]
fn what_nobody_has_used_for_two_days_is_forgotten_but_not_what_is_open() {
    let mut book = small_book();
    let start = 1_000 * DAY; // the clock had run for long before
    let in_session = |session| Ask { session: Some(session), ..ask(1, Tier::Prime, 10) };
    let open = book.reserve(&in_session(1), at(start)).unwrap();
    let second = book.reserve(&Ask { caller: 2, ..in_session(2) }, at(start)).unwrap();
    let _ = book.apply(&post(second, 5));
    let next = book.reserve(&ask(1, Tier::Prime, 10), at(start + DAY)).unwrap();
    let _ = book.apply(&post(next, 5));
    settle(&mut book, start + 48 * HOUR - 1);
    assert_eq!((book.all(1_000), book.session(2).input), (account(5, 10), 7));
    settle(&mut book, start + 49 * HOUR);
    // An open reservation retains its day and its session.
    assert_eq!((book.all(1_000), book.session(2)), (account(5, 10), SessionTokens::default()));
    assert_eq!(book.session(1).input_held, 10);
    // A settlement counts as a use and extends the retention by two days.
    let _ = book.apply(&post(open, 5));
    settle(&mut book, start + 72 * HOUR - 1);
    assert_eq!((book.all(1_000), book.all(1_001)), (account(10, 0), account(5, 0)));
    settle(&mut book, start + 74 * HOUR);
    assert_eq!((book.all(1_000), book.all(1_001)), (account(10, 0), account(0, 0)));
    settle(&mut book, start + 98 * HOUR);
    assert_eq!((book.all(1_000), book.entries_kept()), (account(0, 0), 0));
}

#[test]
fn a_calendar_makes_no_spent_day_new_however_it_is_set() {
    let mut book = small_book();
    let id = book.reserve(&ask(1, Tier::Prime, 150), on(10, 0)).unwrap();
    let _ = book.apply(&post(id, 150));
    for day in [400, 401, 402, 403, 9, 3] {
        let id = book.reserve(&ask(1, Tier::Prime, 1), on(day, 1)).unwrap();
        let _ = book.apply(&post(id, 1));
    }
    settle(&mut book, 47 * HOUR);
    assert!(matches!(
        book.reserve(&ask(1, Tier::Prime, 1), on(10, 47 * HOUR)),
        Err(BudgetRefusal::CallerDay { .. })
    ));
}

#[test]
fn books_that_were_read_back_are_as_old_as_the_reading() {
    let before = small_book();
    let entry = before.decide(&ask(1, Tier::Prime, 150), at(5)).unwrap();
    let mut book = small_book();
    let _ = book.apply(&entry);
    book.recover();
    // This process's clock has been running for a year.
    settle(&mut book, 365 * DAY);
    settle(&mut book, 365 * DAY + 47 * HOUR);
    assert_eq!(book.all(0), account(150, 0));
    settle(&mut book, 365 * DAY + 49 * HOUR);
    assert_eq!((book.all(0), book.entries_kept()), (account(0, 0), 0));
}

#[test]
fn calls_that_were_never_made_leave_nothing_behind() {
    let mut book = large_book();
    for number in 0..1_000 {
        let asked = Ask { session: Some(number), ..ask(number, Tier::Prime, 1) };
        let id = book.reserve(&asked, at(0)).unwrap();
        let _ = book.apply(&Entry::Voided(id));
    }
    assert_eq!(book.entries_kept(), 0);
    // A caller with another call in flight is retained.
    let asked = Ask { session: Some(1), ..ask(1, Tier::Prime, 1) };
    let [first, _] = [0, 1].map(|_| book.reserve(&asked, at(0)).unwrap());
    let _ = book.apply(&Entry::Voided(first));
    assert_eq!((book.entries_kept(), book.caller(0, 1), book.session(1).input_held), (3, account(0, 1), 10));
    // A caller with a raised alarm is retained, so that the alarm is not raised twice.
    let mut book = small_book();
    let id = book.reserve(&ask(1, Tier::Prime, 110), at(0)).unwrap();
    assert!(matches!(book.recover()[..], [(_, ApplyDecision::SingleSource(_))]));
    assert_eq!(book.apply(&Entry::Voided(id)), ApplyDecision::Applied);
    let id = book.reserve(&ask(1, Tier::Prime, 110), at(0)).unwrap();
    assert_eq!(book.apply(&post(id, 110)), ApplyDecision::Applied);
}

#[test]
fn no_request_pays_for_all_of_yesterday() {
    let mut book = large_book();
    for number in 0..1_000 {
        let asked = Ask { session: Some(number), ..ask(number, Tier::Prime, 1) };
        let id = book.reserve(&asked, at(0)).unwrap();
        let _ = book.apply(&if number % 10 == 0 { Entry::Expired(id) } else { post(id, 1) });
    }
    let mut kept = book.entries_kept();
    assert_eq!(kept, 2_100);
    let mut calls = 0;
    while kept > 1 {
        let id = book.reserve(&ask(9_999, Tier::Prime, 0), on(9, 50 * HOUR)).unwrap();
        let left = book.entries_kept() - 2;
        let _ = book.apply(&Entry::Voided(id));
        assert!(kept - left <= 128, "{} at once", kept - left);
        (kept, calls) = (left, calls + 1);
        assert!(calls < 100);
        if left == 0 {
            break;
        }
    }
    assert_eq!(book.all(0), account(0, 0));
}

#[test]
fn what_comes_after_its_day_was_forgotten_changes_no_other_day_of_that_name() {
    let mut book = small_book();
    let id = book.reserve(&ask(1, Tier::Prime, 50), at(0)).unwrap();
    book.recover();
    book.expire(at(0).monotonic);
    // One scan removes the day, and the wall clock returns to it before it has been freed.
    book.expire(Timestamp::ZERO + Duration::from_secs(49 * HOUR));
    let new = book.reserve(&ask(2, Tier::Prime, 50), on(0, 49 * HOUR)).unwrap();
    let _ = book.apply(&post(new, 50));
    assert_eq!(book.apply(&post(id, 1)), ApplyDecision::Known);
    assert_eq!(book.all(0).posted, nanos(50));
}
