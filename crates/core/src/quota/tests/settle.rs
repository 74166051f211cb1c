//! Reservations that turn out to cost less, or more.

use super::super::{Cost, Quota, QuotaBook, Unit};
use super::{HOUR, MINUTE, admitted, at, book, rate, remaining, scope, sliding, take};

fn tokens_book() -> QuotaBook {
    let tokens = Quota::sliding("tokens", Unit::Token, 1_000, MINUTE, 0).unwrap();
    book(vec![sliding("minute", 10, MINUTE, 0), tokens])
}

#[test]
fn what_was_not_used_goes_back_to_its_window() {
    let book = tokens_book();
    let scopes = [scope(&book, "caller", 1)];
    let held = take(&book, &scopes, Cost::tokens(800), at(0)).unwrap();
    assert_eq!(remaining(&book, &scopes, at(0)), [9, 200]);
    book.settle(held, Cost::tokens(300), at(5_000));
    assert_eq!(remaining(&book, &scopes, at(5_000)), [9, 700]);
    let held = take(&book, &scopes, Cost::tokens(700), at(10_000)).unwrap();
    book.refund(held, at(10_000));
    assert_eq!(remaining(&book, &scopes, at(10_000)), [9, 700]);
}

#[test]
fn a_window_that_has_passed_takes_nothing_back() {
    let book = tokens_book();
    let scopes = [scope(&book, "caller", 1)];
    let held = take(&book, &scopes, Cost::tokens(800), at(0)).unwrap();
    assert!(take(&book, &scopes, Cost::tokens(600), at(61_000)).is_ok());
    book.refund(held, at(61_000));
    assert_eq!(remaining(&book, &scopes, at(61_000)), [9, 400]);
}

#[test]
fn what_went_beyond_becomes_debt() {
    let book = tokens_book();
    let scopes = [scope(&book, "caller", 1)];
    let held = take(&book, &scopes, Cost::tokens(400), at(0)).unwrap();
    book.settle(held, Cost::tokens(1_900), at(30_000));
    assert_eq!(remaining(&book, &scopes, at(30_000)), [9, 0]);
    // The 400 expire after a minute; the 1,500 that were booked later expire later.
    assert!(take(&book, &scopes, Cost::tokens(1), at(90_999)).is_err());
    assert!(take(&book, &scopes, Cost::tokens(1_000), at(91_000)).is_ok());
}

#[test]
fn debt_is_booked_even_for_a_caller_who_was_forgotten() {
    let book = tokens_book();
    let scopes = [scope(&book, "caller", 1)];
    let (held, same) =
        (take(&book, &scopes, Cost::tokens(10), at(0)), take(&book, &scopes, Cost::tokens(10), at(0)));
    for shard in 0..64 {
        book.sweep(shard, at(100_000));
    }
    assert_eq!(book.memory().callers, 0);
    book.settle(same.unwrap(), Cost::tokens(10), at(100_000));
    assert_eq!(book.memory().callers, 0, "nothing to book, nobody to remember");
    book.settle(held.unwrap(), Cost::tokens(510), at(100_000));
    assert_eq!(remaining(&book, &scopes, at(100_000)), [10, 500]);
}

#[test]
fn several_groups_are_settled_each_at_its_own() {
    let groups = ["one", "two"]
        .map(|name| super::group(name, vec![rate(1, HOUR, 10), sliding("minute", 20, MINUTE, 0)]));
    let book = QuotaBook::new(groups.into(), 3).unwrap();
    // In another order than the book's.
    let scopes = [scope(&book, "two", 9), scope(&book, "one", 4)];
    let units = |requests| Cost { requests, tokens: 0 };
    let held = take(&book, &scopes, units(8), at(0)).unwrap();
    assert_eq!(remaining(&book, &scopes, at(0)), [2, 12, 2, 12]);
    assert_eq!(admitted(&book, &scopes[..1], 1, at(0)), 1);
    book.settle(held, units(5), at(0));
    assert_eq!(remaining(&book, &scopes, at(0)), [5, 15, 4, 14]);
    let held = take(&book, &scopes, units(1), at(0)).unwrap();
    book.settle(held, units(3), at(0));
    assert_eq!(remaining(&book, &scopes, at(0)), [2, 12, 1, 11]);
}

#[test]
fn a_reservation_that_is_dropped_stays_charged() {
    let book = tokens_book();
    let scopes = [scope(&book, "caller", 1)];
    drop(take(&book, &scopes, Cost::tokens(800), at(0)));
    assert_eq!(remaining(&book, &scopes, at(0)), [9, 200]);
    assert_eq!(Cost::tokens(5), Cost { requests: 1, tokens: 5 });
}
