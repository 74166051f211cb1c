use super::{DAY, account, ask, at, dollars, nanos, post, small, small_book};
use crate::budget::{
    Account, ApplyDecision, Ask, BudgetBook, BudgetOptions, BudgetRefusal, DayShortage, Entry, Reservation,
    ReservationId, SessionTokens, SourceAlarm,
};
use crate::history::TokenLimitsOptions;
use crate::money::{Money, Usage};
use crate::time::{Timestamp, UtcTime};
use crate::vocabulary::Tier;
use std::sync::Mutex;

#[test]
fn a_request_is_refused_by_the_narrowest_limit_it_does_not_fit() {
    let book = small_book();
    let fits = ask(1, Tier::Prime, 10);
    let resets = UtcTime::start_of_day(1);
    let wide = TokenLimitsOptions { request_input: u64::MAX, request_output: 100_000, ..Default::default() };
    let wide = wide.check().unwrap();
    for (ask, refusal) in [
        (Ask { output: 1_025, ..fits }, BudgetRefusal::RequestOutput { wanted: 1_025, limit: 1_024 }),
        (Ask { input: 4_001, ..fits }, BudgetRefusal::RequestInput { wanted: 4_001, limit: 4_000 }),
        (
            Ask { input: 198_200, output: 1_001, limits: wide, ..fits },
            BudgetRefusal::RequestInput { wanted: 198_200, limit: 198_199 },
        ),
        (
            Ask { session: Some(5), input: 101, ..fits },
            BudgetRefusal::SessionInput { wanted: 101, free: 100 },
        ),
        (Ask { session: Some(5), output: 51, ..fits }, BudgetRefusal::SessionOutput { wanted: 51, free: 50 }),
        (
            Ask { worst: nanos(151), ..fits },
            BudgetRefusal::MoreThanADay { wanted: nanos(151), most: nanos(150) },
        ),
    ] {
        assert_eq!(book.decide(&ask, at(5)), Err(refusal));
    }
    let just = [
        Ask { output: 1_024, input: 4_000, ..fits },
        Ask { input: 198_199, output: 1_001, limits: wide, ..fits },
        Ask { session: Some(5), input: 100, output: 50, ..fits },
        Ask { worst: nanos(150), ..fits },
    ];
    assert!(just.iter().all(|ask| book.decide(ask, at(5)).is_ok()));
    // A request that fits a whole day is refused because of earlier spend, with the ordinary refusal.
    let mut book = book;
    book.reserve(&fits, at(5)).unwrap();
    let refusal =
        BudgetRefusal::CallerDay { wanted: nanos(150), free: nanos(140), unspent: nanos(150), resets };
    assert_eq!(book.decide(&Ask { worst: nanos(150), ..fits }, at(5)), Err(refusal));
}

#[test]
fn who_may_spend_nothing_is_not_told_to_ask_for_less() {
    let refused = |options: BudgetOptions, tier, worst| {
        BudgetBook::new(options.check().unwrap()).decide(&ask(1, tier, worst), at(0)).unwrap_err()
    };
    // A share of the smallest possible amount rounds down to zero.
    let least = BudgetOptions { day: nanos(1), caller_day: nanos(1), ..BudgetOptions::default() };
    assert!(matches!(refused(least, Tier::Guest, 1), BudgetRefusal::TierDay { .. }));
    // With $5,000 a day, the standard tier's cap equals the cap per caller: $5.
    let options = BudgetOptions { shares: [99.8, 0.1, 0.1], ..BudgetOptions::default() };
    let five = Money::from_dollars(5);
    let refusal = BudgetRefusal::MoreThanADay { wanted: nanos(five.as_nanos() + 1), most: five };
    assert_eq!(refused(options, Tier::Standard, five.as_nanos() + 1), refusal);
    assert_eq!(refusal.to_string(), "the request may cost $5.000000001, and a whole day has $5.00");
}

#[test]
fn a_tier_that_is_spent_leaves_the_others_their_own() {
    let mut book = small_book();
    book.reserve(&ask(1, Tier::Guest, 150), at(0)).unwrap();
    let tier = Tier::Guest;
    let resets = UtcTime::start_of_day(1);
    let refusal =
        BudgetRefusal::TierDay { tier, wanted: nanos(1), free: Money::ZERO, unspent: nanos(150), resets };
    assert_eq!(book.reserve(&ask(2, Tier::Guest, 1), at(0)), Err(refusal));
    assert_eq!(
        refusal.to_string(),
        "callers of the tier guest have $0.00 left today and the request may cost $0.000000001"
    );
    for caller in [10, 11, 12] {
        book.reserve(&ask(caller, Tier::Prime, 150), at(0)).unwrap();
    }
    assert_eq!(book.tier(0, Tier::Prime), account(0, 450));
    assert!(book.reserve(&ask(13, Tier::Prime, 51), at(0)).is_err());
    assert!(book.reserve(&ask(13, Tier::Prime, 50), at(0)).is_ok());
    assert_eq!(book.all(0), account(0, 650));
}

#[test]
fn the_whole_day_binds_when_its_cap_is_lowered_below_what_is_committed() {
    let mut book = small_book();
    book.reserve(&ask(1, Tier::Prime, 150), at(0)).unwrap();
    let lower = BudgetOptions { day: nanos(200), caller_day: nanos(150), ..BudgetOptions::default() };
    book.set_limits(BudgetOptions { shares: [100.0 - 2e-4, 1e-4, 1e-4], ..lower }.check().unwrap());
    let resets = UtcTime::start_of_day(1);
    // The tier has 199 of the 200, of which 150 are held.
    assert!(matches!(book.reserve(&ask(2, Tier::Prime, 50), at(0)), Err(BudgetRefusal::TierDay { .. })));
    assert!(book.reserve(&ask(2, Tier::Prime, 49), at(0)).is_ok());
    book.set_limits(small().scaled(crate::setting::Factor::new("budget", 0.15).unwrap()));
    // 199 of the global cap of 150 are committed: the guest tier has room (22), but the global budget has none.
    let refusal =
        BudgetRefusal::GlobalDay { wanted: nanos(1), free: Money::ZERO, unspent: nanos(150), resets };
    assert_eq!(book.reserve(&ask(3, Tier::Guest, 1), at(0)), Err(refusal));
}

#[test]
fn money_that_is_only_held_is_told_apart_from_money_that_is_spent() {
    let mut book = small_book();
    let first = book.reserve(&ask(1, Tier::Guest, 100), at(0)).unwrap();
    let shortage = |book: &BudgetBook, worst| {
        book.decide(&ask(1, Tier::Guest, worst), at(0)).unwrap_err().shortage().unwrap()
    };
    let resets = UtcTime::start_of_day(1);
    // All of the 150 become available once the call has settled.
    assert_eq!(shortage(&book, 51), DayShortage { free: nanos(50), unspent: nanos(150), resets });
    let _ = book.apply(&post(first, 100));
    assert_eq!(shortage(&book, 51), DayShortage { free: nanos(50), unspent: nanos(50), resets });
    // The caller's own budget is only held, while the tier's is spent: the tier's refusal takes precedence.
    let mut book = small_book();
    let other = book.reserve(&ask(2, Tier::Guest, 60), at(0)).unwrap();
    let _ = book.apply(&post(other, 60));
    book.reserve(&ask(1, Tier::Guest, 80), at(0)).unwrap();
    let refusal = book.decide(&ask(1, Tier::Guest, 100), at(0)).unwrap_err();
    assert!(matches!(refusal, BudgetRefusal::TierDay { .. }), "{refusal:?}");
    assert_eq!(refusal.shortage(), Some(DayShortage { free: nanos(10), unspent: nanos(90), resets }));
}

#[test]
fn a_reservation_ends_once_and_belongs_to_its_day() {
    let mut book = small_book();
    let id = book.reserve(&ask(1, Tier::Standard, 100), at(DAY - 1)).unwrap();
    assert_eq!((book.caller(0, 1), book.open()), (account(0, 100), 1));
    assert_eq!(book.apply(&post(id, 40)), ApplyDecision::Applied);
    assert_eq!((book.caller(0, 1), book.open()), (account(40, 0), 0));
    for late in [post(id, 99), Entry::Voided(id), Entry::Expired(id), post(ReservationId(77), 1)] {
        assert_eq!(book.apply(&late), ApplyDecision::Known);
    }
    assert_eq!(book.all(0), account(40, 0));

    let evening = book.reserve(&ask(1, Tier::Standard, 100), at(DAY - 1)).unwrap();
    let morning = book.reserve(&ask(1, Tier::Standard, 150), at(DAY)).unwrap();
    let _ = book.apply(&post(evening, 60));
    let _ = book.apply(&Entry::Voided(morning));
    assert_eq!((book.all(0), book.all(1)), (account(100, 0), account(0, 0)));
}

#[test]
fn what_cost_more_than_was_reserved_is_debt() {
    let mut book = small_book();
    let id = book.reserve(&ask(1, Tier::Guest, 10), at(0)).unwrap();
    let _ = book.apply(&post(id, 170));
    assert_eq!(book.tier(0, Tier::Guest), account(170, 0));
    assert_eq!(book.tier(0, Tier::Guest).debt(nanos(150)), nanos(20));
    assert_eq!(book.caller(0, 1).debt(nanos(150)), nanos(20));
    assert!(matches!(book.reserve(&ask(2, Tier::Guest, 1), at(0)), Err(BudgetRefusal::TierDay { .. })));
    assert!(book.reserve(&ask(2, Tier::Guest, 1), at(DAY)).is_ok());
}

#[test]
fn what_expires_is_charged_at_its_worst_and_not_before_its_time() {
    let mut book = small_book();
    let expires = at(130).monotonic;
    let first = Ask { expires, session: Some(4), ..ask(1, Tier::Prime, 70) };
    let id = book.reserve(&first, at(0)).unwrap();
    book.reserve(&Ask { expires: at(200).monotonic, ..ask(2, Tier::Prime, 1) }, at(0)).unwrap();
    assert_eq!(book.next_expiry(), Some(expires));
    assert_eq!(book.expire(Timestamp::from_nanos(expires.as_nanos() - 1)), []);
    assert_eq!(book.expire(expires), [(Entry::Expired(id), ApplyDecision::Applied)]);
    assert_eq!((book.caller(0, 1), book.open()), (account(70, 0), 1));
    let used = SessionTokens { input: 10, output: 10, ..SessionTokens::default() };
    assert_eq!(book.session(4), used);
}

#[test]
fn a_conversation_counts_what_was_used_and_what_is_under_way() {
    let mut book = small_book();
    let in_session = |input, output| Ask { session: Some(9), input, output, ..ask(1, Tier::Prime, 1) };
    let first = book.reserve(&in_session(60, 30), at(0)).unwrap();
    let refusal = BudgetRefusal::SessionInput { wanted: 41, free: 40 };
    assert_eq!(book.reserve(&in_session(41, 1), at(0)), Err(refusal));
    assert!(refusal.to_string().ends_with("begin a new one"));
    let refusal = BudgetRefusal::SessionOutput { wanted: 21, free: 20 };
    assert_eq!(book.reserve(&in_session(40, 21), at(0)), Err(refusal));
    let usage = Usage { input: 20, cache_read: 30, cache_write: 5, output: 12, ..Usage::default() };
    let _ = book.apply(&Entry::Posted { id: first, usage, cost: nanos(1) });
    let session = book.session(9);
    assert_eq!((session.input, session.output), (55, 12));
    assert_eq!((session.free_input(100), session.free_output(50)), (45, 38));
    assert!(book.reserve(&in_session(45, 38), at(0)).is_ok());
    // Another session of the same caller has limits of its own.
    assert!(book.reserve(&Ask { session: Some(10), ..in_session(100, 50) }, at(0)).is_ok());
}

#[test]
fn one_caller_above_a_tenth_of_the_day_is_told_once() {
    let options = BudgetOptions { caller_day: dollars(600), ..BudgetOptions::default() };
    let mut book = BudgetBook::new(options.check().unwrap());
    let mut spend = |caller, dollars| {
        let worst = Money::from_dollars(dollars);
        let id = book.reserve(&Ask { worst, ..ask(caller, Tier::Prime, 0) }, at(0)).unwrap();
        book.apply(&Entry::Posted { id, usage: Usage::default(), cost: worst })
    };
    assert_eq!(spend(1, 500), ApplyDecision::Applied);
    let alarm = SourceAlarm { caller: 1, spent: dollars(501), cap: dollars(5_000) };
    assert_eq!(spend(1, 1), ApplyDecision::SingleSource(alarm));
    assert_eq!(spend(1, 1), ApplyDecision::Applied);
    assert_eq!(spend(2, 30), ApplyDecision::Applied);
    assert_eq!(spend(3, 30), ApplyDecision::Applied);
    assert_eq!(book.top_spenders(0, 2), [(1, dollars(502)), (2, dollars(30))]);
    assert_eq!(book.top_spenders(1, 2), []);
}

#[test]
fn fifty_requests_at_once_of_a_caller_with_a_cent_left_spend_at_most_the_cent() {
    let book = Mutex::new(BudgetBook::new(BudgetOptions::default().check().unwrap()));
    let worst = nanos(27_360_000);
    let cent = nanos(10_000_000);
    let first = Ask { worst: nanos(4_990_000_000), ..ask(1, Tier::Standard, 0) };
    let id = book.lock().unwrap().reserve(&first, at(0)).unwrap();
    let _ = book.lock().unwrap().apply(&Entry::Posted { id, usage: Usage::default(), cost: first.worst });
    std::thread::scope(|scope| {
        for session in 0..50 {
            let book = &book;
            scope.spawn(move || {
                let cheap = if session % 2 == 0 { worst } else { nanos(3_000_000) };
                let ask = Ask { session: Some(session), worst: cheap, ..ask(1, Tier::Standard, 0) };
                let reserved = book.lock().unwrap().reserve(&ask, at(0));
                if let Ok(id) = reserved {
                    let entry = Entry::Posted { id, usage: Usage::default(), cost: cheap };
                    let _ = book.lock().unwrap().apply(&entry);
                }
            });
        }
    });
    let spent = book.lock().unwrap().caller(0, 1);
    assert_eq!(spent, Account { posted: nanos(4_999_000_000), held: Money::ZERO });
    assert!(spent.posted.checked_sub(first.worst).unwrap() <= cent);
}

#[test]
fn a_thousand_settlements_at_once_are_exact() {
    let book = Mutex::new(BudgetBook::new(BudgetOptions::default().check().unwrap()));
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let book = &book;
            scope.spawn(move || {
                for turn in 0..125 {
                    let ask = Ask { session: Some(1), ..ask(thread, Tier::Prime, 20) };
                    let id = book.lock().unwrap().reserve(&ask, at(0)).unwrap();
                    let _ = book.lock().unwrap().apply(&post(id, turn % 20));
                }
            });
        }
    });
    let book = book.into_inner().unwrap();
    let each: u64 = (0..125).map(|turn| turn % 20).sum();
    assert_eq!(book.all(0), account(8 * each, 0));
    assert_eq!((book.session(1).input, book.session(1).output), (7_000, 3_000));
    assert_eq!(book.open(), 0);
}

#[test]
fn a_caller_who_stands_out_after_a_cap_was_lowered_is_told_of() {
    let options = BudgetOptions { caller_day: dollars(600), ..BudgetOptions::default() };
    let mut book = BudgetBook::new(options.check().unwrap());
    let spend = |book: &mut BudgetBook, dollars| {
        let worst = Money::from_dollars(dollars);
        let id = book.reserve(&Ask { worst, ..ask(1, Tier::Prime, 0) }, at(0)).unwrap();
        book.apply(&Entry::Posted { id, usage: Usage::default(), cost: worst })
    };
    assert_eq!(spend(&mut book, 400), ApplyDecision::Applied);
    book.set_limits(BudgetOptions { day: dollars(2_000), ..options }.check().unwrap());
    let alarm = SourceAlarm { caller: 1, spent: dollars(401), cap: dollars(2_000) };
    assert_eq!(spend(&mut book, 1), ApplyDecision::SingleSource(alarm));
    assert_eq!(spend(&mut book, 1), ApplyDecision::Applied);
}

#[test]
fn the_truth_takes_the_place_of_the_worst_once_however_late() {
    let mut book = small_book();
    let asked = Ask { session: Some(4), input: 40, output: 20, ..ask(1, Tier::Prime, 70) };
    let ids = [0, 1, 2]
        .map(|_| book.reserve(&Ask { worst: nanos(30), input: 30, output: 10, ..asked }, at(0)).unwrap());
    assert_eq!(book.recover().len(), 3);
    assert_eq!((book.caller(0, 1), book.session(4).input, book.session(4).output), (account(90, 0), 90, 30));
    let usage = Usage { input: 5, cache_read: 2, output: 3, ..Usage::default() };
    // Below the worst case, above it, and never called.
    let cheap = Entry::Posted { id: ids[0], usage, cost: nanos(4) };
    let dear = Entry::Posted { id: ids[1], usage, cost: nanos(50) };
    for (late, posted, input, output) in
        [(cheap, 64, 67, 23), (dear, 84, 44, 16), (Entry::Voided(ids[2]), 54, 14, 6)]
    {
        assert_eq!(book.apply(&late), ApplyDecision::Applied);
        for again in [late, Entry::Expired(ids[0]), Entry::Voided(ids[0])] {
            assert_eq!(book.apply(&again), ApplyDecision::Known);
        }
        assert_eq!((book.all(0), book.tier(0, Tier::Prime)), (account(posted, 0), account(posted, 0)));
        assert_eq!((book.session(4).input, book.session(4).output), (input, output));
    }
}

#[test]
fn a_late_truth_can_raise_the_alarm() {
    let mut book = small_book();
    let id = book.reserve(&ask(1, Tier::Prime, 10), at(0)).unwrap();
    book.recover();
    let alarm = SourceAlarm { caller: 1, spent: nanos(101), cap: nanos(1_000) };
    assert_eq!(book.apply(&post(id, 101)), ApplyDecision::SingleSource(alarm));
}

#[test]
fn an_entry_with_a_number_that_no_book_reaches_is_not_believed() {
    let mut book = small_book();
    let Ok(Entry::Reserved(first)) = book.decide(&ask(1, Tier::Prime, 1), at(0)) else { panic!() };
    for wrong in [u64::MAX, 1 << 63] {
        let entry = Entry::Reserved(Reservation { id: ReservationId(wrong), ..first });
        assert_eq!(book.apply(&entry), ApplyDecision::Known);
    }
    let highest = Entry::Reserved(Reservation { id: ReservationId((1 << 63) - 2), ..first });
    assert_eq!(book.apply(&highest), ApplyDecision::Applied);
    assert_eq!(book.reserve(&ask(1, Tier::Prime, 1), at(0)), Ok(ReservationId((1 << 63) - 1)));
    assert_eq!(book.open(), 2);
}
