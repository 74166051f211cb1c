use super::{DAY, account, ask, at, dollars, nanos, post, small, small_ledger};
use crate::budget::{
    ApplyDecision, BudgetAccount, BudgetEntry, BudgetLedger, BudgetOptions, BudgetPeriod, BudgetRefusal,
    BudgetReservation, CalendarOffset, DayShortage, PeriodCaps, ReservationId, ReservationRequest,
    SessionTokens, SingleSourceAlarm, WindowCaps,
};
use crate::history::TokenLimitsOptions;
use crate::invariant::Invariant;
use crate::money::{Money, Usage};
use crate::time::{Now, Timestamp, UtcTime};
use crate::vocabulary::Tier;
use std::sync::Mutex;
use std::time::Duration;

#[test]
fn a_request_is_refused_by_the_narrowest_limit_it_does_not_fit() {
    let ledger = small_ledger();
    let fits = ask(1, Tier::Prime, 10);
    let resets = UtcTime::start_of_day(1);
    let wide = TokenLimitsOptions { max_input: u64::MAX, max_output: 100_000, ..Default::default() };
    let wide = wide.check().unwrap();
    for (ask, refusal) in [
        (
            ReservationRequest { output: 1_025, ..fits },
            BudgetRefusal::RequestOutput { wanted: 1_025, limit: 1_024 },
        ),
        (
            ReservationRequest { input: 4_001, ..fits },
            BudgetRefusal::RequestInput { wanted: 4_001, limit: 4_000 },
        ),
        (
            ReservationRequest { input: 198_200, output: 1_001, limits: wide, ..fits },
            BudgetRefusal::RequestInput { wanted: 198_200, limit: 198_199 },
        ),
        (
            ReservationRequest { session: Some(5), input: 101, ..fits },
            BudgetRefusal::SessionInput { wanted: 101, available: 100 },
        ),
        (
            ReservationRequest { session: Some(5), output: 51, ..fits },
            BudgetRefusal::SessionOutput { wanted: 51, available: 50 },
        ),
        (
            ReservationRequest { max_cost: nanos(151), ..fits },
            BudgetRefusal::ExceedsDailyBudget { wanted: nanos(151), max: nanos(150) },
        ),
    ] {
        assert_eq!(ledger.decide(&ask, at(5)), Err(refusal));
    }
    let just = [
        ReservationRequest { output: 1_024, input: 4_000, ..fits },
        ReservationRequest { input: 198_199, output: 1_001, limits: wide, ..fits },
        ReservationRequest { session: Some(5), input: 100, output: 50, ..fits },
        ReservationRequest { max_cost: nanos(150), ..fits },
    ];
    assert!(just.iter().all(|ask| ledger.decide(ask, at(5)).is_ok()));
    // A request that fits a whole day is refused because of earlier spend, with the ordinary refusal.
    let mut ledger = ledger;
    ledger.reserve(&fits, at(5)).unwrap();
    let refusal =
        BudgetRefusal::CallerDay { wanted: nanos(150), available: nanos(140), unspent: nanos(150), resets };
    assert_eq!(ledger.decide(&ReservationRequest { max_cost: nanos(150), ..fits }, at(5)), Err(refusal));
}

#[test]
fn with_a_zero_cap_the_refusal_is_the_exhausted_budget() {
    let refused = |options: BudgetOptions, tier, max_cost| {
        BudgetLedger::new(options.check().unwrap()).decide(&ask(1, tier, max_cost), at(0)).unwrap_err()
    };
    // A share of the smallest possible amount rounds down to zero.
    let least = BudgetOptions { day: nanos(1), caller_day: nanos(1), ..BudgetOptions::default() };
    assert!(matches!(refused(least, Tier::Guest, 1), BudgetRefusal::TierDay { .. }));
    // With $5,000 a day, the standard tier's cap equals the cap per caller: $5.
    let options = BudgetOptions { shares: [99.8, 0.1, 0.1], ..BudgetOptions::default() };
    let five = Money::from_dollars(5);
    let refusal = BudgetRefusal::ExceedsDailyBudget { wanted: nanos(five.as_nanos() + 1), max: five };
    assert_eq!(refused(options, Tier::Standard, five.as_nanos() + 1), refusal);
    assert_eq!(
        refusal.to_string(),
        "the request may cost $5.000000001, more than a whole daily budget ($5.00)"
    );
}

#[test]
fn a_tier_that_is_spent_leaves_the_others_their_own() {
    let mut ledger = small_ledger();
    ledger.reserve(&ask(1, Tier::Guest, 150), at(0)).unwrap();
    let tier = Tier::Guest;
    let resets = UtcTime::start_of_day(1);
    let refusal = BudgetRefusal::TierDay {
        tier,
        wanted: nanos(1),
        available: Money::ZERO,
        unspent: nanos(150),
        resets,
    };
    assert_eq!(ledger.reserve(&ask(2, Tier::Guest, 1), at(0)), Err(refusal));
    assert_eq!(
        refusal.to_string(),
        "daily budget of tier guest exhausted: $0.00 left, the request may cost $0.000000001"
    );
    for caller in [10, 11, 12] {
        ledger.reserve(&ask(caller, Tier::Prime, 150), at(0)).unwrap();
    }
    assert_eq!(ledger.tier(0, Tier::Prime), account(0, 450));
    assert!(ledger.reserve(&ask(13, Tier::Prime, 51), at(0)).is_err());
    assert!(ledger.reserve(&ask(13, Tier::Prime, 50), at(0)).is_ok());
    assert_eq!(ledger.all(0), account(0, 650));
}

#[test]
fn the_whole_day_binds_when_its_cap_is_lowered_below_what_is_committed() {
    let mut ledger = small_ledger();
    ledger.reserve(&ask(1, Tier::Prime, 150), at(0)).unwrap();
    let lower = BudgetOptions { day: nanos(200), caller_day: nanos(150), ..BudgetOptions::default() };
    ledger.set_limits(BudgetOptions { shares: [100.0 - 2e-4, 1e-4, 1e-4], ..lower }.check().unwrap());
    let resets = UtcTime::start_of_day(1);
    // The tier has 199 of the 200, of which 150 are held.
    assert!(matches!(ledger.reserve(&ask(2, Tier::Prime, 50), at(0)), Err(BudgetRefusal::TierDay { .. })));
    assert!(ledger.reserve(&ask(2, Tier::Prime, 49), at(0)).is_ok());
    ledger.set_limits(small().scaled(crate::setting::Factor::new("budget", 0.15).unwrap()));
    // 199 of the global cap of 150 are committed: the guest tier has room (22), but the global budget has none.
    let refusal =
        BudgetRefusal::GlobalDay { wanted: nanos(1), available: Money::ZERO, unspent: nanos(150), resets };
    assert_eq!(ledger.reserve(&ask(3, Tier::Guest, 1), at(0)), Err(refusal));
}

#[test]
fn held_money_is_distinguished_from_spent_money() {
    let mut ledger = small_ledger();
    let first = ledger.reserve(&ask(1, Tier::Guest, 100), at(0)).unwrap();
    let shortage = |ledger: &BudgetLedger, max_cost| {
        ledger.decide(&ask(1, Tier::Guest, max_cost), at(0)).unwrap_err().shortage().unwrap()
    };
    let resets = UtcTime::start_of_day(1);
    // All of the 150 become available once the call has settled.
    assert_eq!(
        shortage(&ledger, 51),
        DayShortage { available: nanos(50), unspent: nanos(150), resets, window: None }
    );
    let _ = ledger.apply(&post(first, 100));
    assert_eq!(
        shortage(&ledger, 51),
        DayShortage { available: nanos(50), unspent: nanos(50), resets, window: None }
    );
    // The caller's own budget is only held, while the tier's is spent: the tier's refusal takes precedence.
    let mut ledger = small_ledger();
    let other = ledger.reserve(&ask(2, Tier::Guest, 60), at(0)).unwrap();
    let _ = ledger.apply(&post(other, 60));
    ledger.reserve(&ask(1, Tier::Guest, 80), at(0)).unwrap();
    let refusal = ledger.decide(&ask(1, Tier::Guest, 100), at(0)).unwrap_err();
    assert!(matches!(refusal, BudgetRefusal::TierDay { .. }), "{refusal:?}");
    assert_eq!(
        refusal.shortage(),
        Some(DayShortage { available: nanos(10), unspent: nanos(90), resets, window: None })
    );
}

#[test]
fn a_reservation_ends_once_and_belongs_to_its_day() {
    let mut ledger = small_ledger();
    let id = ledger.reserve(&ask(1, Tier::Standard, 100), at(DAY - 1)).unwrap();
    assert_eq!((ledger.caller(0, 1), ledger.open()), (account(0, 100), 1));
    assert_eq!(ledger.apply(&post(id, 40)), ApplyDecision::Applied);
    assert_eq!((ledger.caller(0, 1), ledger.open()), (account(40, 0), 0));
    for late in [post(id, 99), BudgetEntry::Voided(id), BudgetEntry::Expired(id), post(ReservationId(77), 1)]
    {
        assert_eq!(ledger.apply(&late), ApplyDecision::Unchanged);
    }
    assert_eq!(ledger.all(0), account(40, 0));

    let evening = ledger.reserve(&ask(1, Tier::Standard, 100), at(DAY - 1)).unwrap();
    let morning = ledger.reserve(&ask(1, Tier::Standard, 150), at(DAY)).unwrap();
    let _ = ledger.apply(&post(evening, 60));
    let _ = ledger.apply(&BudgetEntry::Voided(morning));
    assert_eq!((ledger.all(0), ledger.all(1)), (account(100, 0), account(0, 0)));
}

#[test]
fn cost_above_the_reservation_is_debt() {
    let mut ledger = small_ledger();
    let id = ledger.reserve(&ask(1, Tier::Guest, 10), at(0)).unwrap();
    let _ = ledger.apply(&post(id, 170));
    assert_eq!(ledger.tier(0, Tier::Guest), account(170, 0));
    assert_eq!(ledger.tier(0, Tier::Guest).debt(nanos(150)), nanos(20));
    assert_eq!(ledger.caller(0, 1).debt(nanos(150)), nanos(20));
    assert!(matches!(ledger.reserve(&ask(2, Tier::Guest, 1), at(0)), Err(BudgetRefusal::TierDay { .. })));
    assert!(ledger.reserve(&ask(2, Tier::Guest, 1), at(DAY)).is_ok());
}

#[test]
fn expired_reservations_are_charged_at_maximum_cost_and_not_early() {
    let mut ledger = small_ledger();
    let expires = at(130).monotonic;
    let first = ReservationRequest { expires, session: Some(4), ..ask(1, Tier::Prime, 70) };
    let id = ledger.reserve(&first, at(0)).unwrap();
    ledger
        .reserve(&ReservationRequest { expires: at(200).monotonic, ..ask(2, Tier::Prime, 1) }, at(0))
        .unwrap();
    assert_eq!(ledger.next_expiry(), Some(expires));
    assert_eq!(ledger.expire(Timestamp::from_nanos(expires.as_nanos() - 1)), []);
    assert_eq!(ledger.expire(expires), [(BudgetEntry::Expired(id), ApplyDecision::Applied)]);
    assert_eq!((ledger.caller(0, 1), ledger.open()), (account(70, 0), 1));
    let used = SessionTokens { input: 10, output: 10, ..SessionTokens::default() };
    assert_eq!(ledger.session(4), used);
}

#[test]
fn a_session_counts_used_and_held_tokens() {
    let mut ledger = small_ledger();
    let in_session =
        |input, output| ReservationRequest { session: Some(9), input, output, ..ask(1, Tier::Prime, 1) };
    let first = ledger.reserve(&in_session(60, 30), at(0)).unwrap();
    let refusal = BudgetRefusal::SessionInput { wanted: 41, available: 40 };
    assert_eq!(ledger.reserve(&in_session(41, 1), at(0)), Err(refusal));
    assert!(refusal.to_string().ends_with("start a new session"));
    let refusal = BudgetRefusal::SessionOutput { wanted: 21, available: 20 };
    assert_eq!(ledger.reserve(&in_session(40, 21), at(0)), Err(refusal));
    let usage = Usage { input: 20, cache_read: 30, cache_write: 5, output: 12, ..Usage::default() };
    let _ = ledger.apply(&BudgetEntry::Posted { id: first, usage, cost: nanos(1) });
    let session = ledger.session(9);
    assert_eq!((session.input, session.output), (55, 12));
    assert_eq!((session.free_input(100), session.free_output(50)), (45, 38));
    assert!(ledger.reserve(&in_session(45, 38), at(0)).is_ok());
    // Another session of the same caller has limits of its own.
    assert!(ledger.reserve(&ReservationRequest { session: Some(10), ..in_session(100, 50) }, at(0)).is_ok());
}

#[test]
fn one_caller_above_ten_percent_of_the_day_raises_one_alarm() {
    let options = BudgetOptions { caller_day: dollars(600), ..BudgetOptions::default() };
    let mut ledger = BudgetLedger::new(options.check().unwrap());
    let mut spend = |caller, dollars| {
        let max_cost = Money::from_dollars(dollars);
        let id =
            ledger.reserve(&ReservationRequest { max_cost, ..ask(caller, Tier::Prime, 0) }, at(0)).unwrap();
        ledger.apply(&BudgetEntry::Posted { id, usage: Usage::default(), cost: max_cost })
    };
    assert_eq!(spend(1, 500), ApplyDecision::Applied);
    let alarm = SingleSourceAlarm { caller: 1, spent: dollars(501), cap: dollars(5_000) };
    assert_eq!(spend(1, 1), ApplyDecision::SingleSource(alarm));
    assert_eq!(spend(1, 1), ApplyDecision::Applied);
    assert_eq!(spend(2, 30), ApplyDecision::Applied);
    assert_eq!(spend(3, 30), ApplyDecision::Applied);
    assert_eq!(ledger.top_spenders(0, 2), [(1, dollars(502)), (2, dollars(30))]);
    assert_eq!(ledger.top_spenders(1, 2), []);
}

#[test]
fn fifty_requests_at_once_of_a_caller_with_a_cent_left_spend_at_most_the_cent() {
    let ledger = Mutex::new(BudgetLedger::new(BudgetOptions::default().check().unwrap()));
    let max_cost = nanos(27_360_000);
    let cent = nanos(10_000_000);
    let first = ReservationRequest { max_cost: nanos(4_990_000_000), ..ask(1, Tier::Standard, 0) };
    let id = ledger.lock().unwrap().reserve(&first, at(0)).unwrap();
    let _ = ledger.lock().unwrap().apply(&BudgetEntry::Posted {
        id,
        usage: Usage::default(),
        cost: first.max_cost,
    });
    std::thread::scope(|scope| {
        for session in 0..50 {
            let ledger = &ledger;
            scope.spawn(move || {
                let cheap = if session % 2 == 0 { max_cost } else { nanos(3_000_000) };
                let ask = ReservationRequest {
                    session: Some(session),
                    max_cost: cheap,
                    ..ask(1, Tier::Standard, 0)
                };
                let reserved = ledger.lock().unwrap().reserve(&ask, at(0));
                if let Ok(id) = reserved {
                    let entry = BudgetEntry::Posted { id, usage: Usage::default(), cost: cheap };
                    let _ = ledger.lock().unwrap().apply(&entry);
                }
            });
        }
    });
    let spent = ledger.lock().unwrap().caller(0, 1);
    assert_eq!(spent, BudgetAccount { posted: nanos(4_999_000_000), held: Money::ZERO });
    assert!(spent.posted.checked_sub(first.max_cost).unwrap() <= cent);
}

#[test]
fn a_thousand_settlements_at_once_are_exact() {
    let ledger = Mutex::new(BudgetLedger::new(BudgetOptions::default().check().unwrap()));
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let ledger = &ledger;
            scope.spawn(move || {
                for turn in 0..125 {
                    let ask = ReservationRequest { session: Some(1), ..ask(thread, Tier::Prime, 20) };
                    let id = ledger.lock().unwrap().reserve(&ask, at(0)).unwrap();
                    let _ = ledger.lock().unwrap().apply(&post(id, turn % 20));
                }
            });
        }
    });
    let ledger = ledger.into_inner().unwrap();
    let each: u64 = (0..125).map(|turn| turn % 20).sum();
    assert_eq!(ledger.all(0), account(8 * each, 0));
    assert_eq!((ledger.session(1).input, ledger.session(1).output), (7_000, 3_000));
    assert_eq!(ledger.open(), 0);
}

#[test]
fn lowering_the_cap_can_raise_the_single_source_alarm() {
    let options = BudgetOptions { caller_day: dollars(600), ..BudgetOptions::default() };
    let mut ledger = BudgetLedger::new(options.check().unwrap());
    let spend = |ledger: &mut BudgetLedger, dollars| {
        let max_cost = Money::from_dollars(dollars);
        let id = ledger.reserve(&ReservationRequest { max_cost, ..ask(1, Tier::Prime, 0) }, at(0)).unwrap();
        ledger.apply(&BudgetEntry::Posted { id, usage: Usage::default(), cost: max_cost })
    };
    assert_eq!(spend(&mut ledger, 400), ApplyDecision::Applied);
    ledger.set_limits(BudgetOptions { day: dollars(2_000), ..options }.check().unwrap());
    let alarm = SingleSourceAlarm { caller: 1, spent: dollars(401), cap: dollars(2_000) };
    assert_eq!(spend(&mut ledger, 1), ApplyDecision::SingleSource(alarm));
    assert_eq!(spend(&mut ledger, 1), ApplyDecision::Applied);
}

#[test]
fn the_actual_cost_replaces_the_maximum_once_however_late() {
    let mut ledger = small_ledger();
    let request = ReservationRequest { session: Some(4), input: 40, output: 20, ..ask(1, Tier::Prime, 70) };
    let ids = [0, 1, 2].map(|_| {
        ledger
            .reserve(&ReservationRequest { max_cost: nanos(30), input: 30, output: 10, ..request }, at(0))
            .unwrap()
    });
    assert_eq!(ledger.recover().len(), 3);
    assert_eq!(
        (ledger.caller(0, 1), ledger.session(4).input, ledger.session(4).output),
        (account(90, 0), 90, 30)
    );
    let usage = Usage { input: 5, cache_read: 2, output: 3, ..Usage::default() };
    // Below the maximum cost, above it, and never called.
    let cheap = BudgetEntry::Posted { id: ids[0], usage, cost: nanos(4) };
    let dear = BudgetEntry::Posted { id: ids[1], usage, cost: nanos(50) };
    for (late, posted, input, output) in
        [(cheap, 64, 67, 23), (dear, 84, 44, 16), (BudgetEntry::Voided(ids[2]), 54, 14, 6)]
    {
        assert_eq!(ledger.apply(&late), ApplyDecision::Applied);
        for again in [late, BudgetEntry::Expired(ids[0]), BudgetEntry::Voided(ids[0])] {
            assert_eq!(ledger.apply(&again), ApplyDecision::Unchanged);
        }
        assert_eq!((ledger.all(0), ledger.tier(0, Tier::Prime)), (account(posted, 0), account(posted, 0)));
        assert_eq!((ledger.session(4).input, ledger.session(4).output), (input, output));
    }
}

#[test]
fn a_late_actual_cost_can_raise_the_alarm() {
    let mut ledger = small_ledger();
    let id = ledger.reserve(&ask(1, Tier::Prime, 10), at(0)).unwrap();
    ledger.recover();
    let alarm = SingleSourceAlarm { caller: 1, spent: nanos(101), cap: nanos(1_000) };
    assert_eq!(ledger.apply(&post(id, 101)), ApplyDecision::SingleSource(alarm));
}

#[test]
fn an_entry_with_an_impossible_number_is_ignored() {
    let mut ledger = small_ledger();
    let Ok(BudgetEntry::Reserved(first)) = ledger.decide(&ask(1, Tier::Prime, 1), at(0)) else { panic!() };
    for wrong in [u64::MAX, 1 << 63] {
        let entry = BudgetEntry::Reserved(BudgetReservation { id: ReservationId(wrong), ..first });
        assert_eq!(ledger.apply(&entry), ApplyDecision::Unchanged);
    }
    let highest = BudgetEntry::Reserved(BudgetReservation { id: ReservationId((1 << 63) - 2), ..first });
    assert_eq!(ledger.apply(&highest), ApplyDecision::Applied);
    assert_eq!(ledger.reserve(&ask(1, Tier::Prime, 1), at(0)), Ok(ReservationId((1 << 63) - 1)));
    assert_eq!(ledger.open(), 2);
}

/// A key with $60 a month that asks for one of its cents every six hours, over a leap year in a calendar of Japan.
#[test]
fn a_month_budget_is_new_in_every_month_of_a_year_and_in_no_other_moment() {
    let unlimited = BudgetOptions { caller_day: Money::MAX, day: Money::MAX, ..BudgetOptions::default() };
    let mut ledger = BudgetLedger::new(unlimited.check().unwrap());
    let (cap, offset) = (60, CalendarOffset { minutes: 540 });
    let caps = PeriodCaps::from_iter([(BudgetPeriod::Month, nanos(cap))]);
    let windows =
        WindowCaps { offset, caps: [caps, PeriodCaps::NONE, PeriodCaps::NONE], ..WindowCaps::default() };
    let start = UtcTime::from_civil(2028, 1, 1);
    let mut spent = std::collections::BTreeMap::new();
    for step in 0..366 * 4_u32 {
        let passed = Duration::from_secs(6 * 3_600) * step;
        let now = Now::new(Timestamp::ZERO + passed, start + passed);
        let (year, month, _) = (now.utc + Duration::from_secs(9 * 3_600)).civil();
        let of_month: &mut u64 = spent.entry((year, month)).or_default();
        let request = ReservationRequest { windows, ..ask(1, Tier::Prime, 1) };
        match ledger.reserve(&request, now) {
            Ok(id) => {
                let _ = ledger.apply(&post(id, 1));
                *of_month += 1;
                assert!(*of_month <= cap, "{month}");
            }
            Err(BudgetRefusal::Window { unspent, resets, .. }) => {
                assert_eq!((*of_month, unspent), (cap, Money::ZERO), "{month}");
                let next = UtcTime::from_civil(year + i64::from(month == 12), month % 12 + 1, 1);
                assert_eq!(resets + Duration::from_secs(9 * 3_600), next);
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(spent.len(), 13, "January 2029 begins nine hours early in Japan");
    let full: Vec<u64> = spent.values().copied().take(12).collect();
    assert_eq!(full, [cap; 12]);
    // The accounts of past months are evicted.
    assert!(ledger.entries_kept() < 10, "{}", ledger.entries_kept());
}

#[test]
fn a_reservation_beyond_a_cap_is_a_violation() {
    let mut ledger = small_ledger();
    assert_eq!(ledger.check_spend(&ask(1, Tier::Prime, 150), at(0)), Ok(()));
    for (caller, max_cost) in [(1, 151), (2, u64::MAX)] {
        let violation = ledger.check_spend(&ask(caller, Tier::Prime, max_cost), at(0)).unwrap_err();
        assert_eq!(violation.invariant, Invariant::SpendWithinCap);
    }
    // Four callers within their own caps use the tier's cap up.
    for caller in 1..=4 {
        ledger.reserve(&ask(caller, Tier::Prime, 120), at(0)).unwrap();
    }
    assert_eq!(ledger.check_spend(&ask(5, Tier::Prime, 20), at(0)), Ok(()));
    let violation = ledger.check_spend(&ask(5, Tier::Prime, 21), at(0)).unwrap_err();
    assert_eq!(violation.invariant, Invariant::SpendWithinCap);
    assert_eq!(ledger.check_spend(&ask(5, Tier::Prime, 0), at(0)), Ok(()));
}
