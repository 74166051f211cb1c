//! Requests that are refused: no call, no cost, nothing held.

use crate::shop::{GUEST, PRIME, Seen, Shop, body, inbound};
use crate::target::{Deed, ObedientTarget};
use seawall_core::money::Money;
use seawall_pipeline::{Rejection, Verdict};
use seawall_sim::World;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn shop(cap: Money, deed: Deed) -> (Shop, Arc<ObedientTarget>) {
    let world = World::new(5);
    let target = ObedientTarget::new(&world, &[], deed);
    (
        Shop::new(&world, Arc::<ObedientTarget>::clone(&target), Arc::<ObedientTarget>::clone(&target), cap),
        target,
    )
}

fn rejected(seen: Seen) -> Rejection {
    match seen {
        Seen::Rejected(rejection) => rejection,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_understood_or_is_not_allowed_costs_nothing() {
    let (shop, target) = shop(Money::from_dollars(1), Deed::Answer);
    assert!(matches!(rejected(shop.ask_and_wait(PRIME, "{")), Rejection::Malformed(_)));
    assert_eq!(rejected(shop.ask_and_wait("sk-nobody", &body(false))), Rejection::UnknownCaller);
    let other = body(false).replace("manga", "novel");
    assert_eq!(rejected(shop.ask_and_wait(PRIME, &other)), Rejection::UnknownModel("novel".to_owned()));
    assert_eq!((target.calls(), shop.day().posted, shop.books.open()), (0, Money::ZERO, 0));
    let verdicts: Vec<_> = shop.records().into_iter().map(|record| record.verdict).collect();
    assert_eq!(verdicts, ["malformed", "unknown_caller", "unknown_model"].map(Verdict::Rejected));
}

#[test]
fn what_no_model_answers_counts_against_the_same_limits() {
    let (shop, target) = shop(Money::from_dollars(1), Deed::Answer);
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let (path, noted) = (Arc::clone(&shop.path), Arc::clone(&outcomes));
    shop.world.spawn(async move {
        for _ in 0..13 {
            let caller = path.find_caller(&inbound(0, GUEST, "").proven).await.unwrap();
            let outcome = path.admit_without_model(&caller).await;
            noted.lock().unwrap().push(outcome);
        }
    });
    shop.world.run();
    let outcomes = outcomes.lock().unwrap();
    assert!(outcomes[..12].iter().all(Result::is_ok), "{outcomes:?}");
    assert!(matches!(&outcomes[12], Err(Rejection::Limited { limit, .. }) if &*limit.name == "minute"));
    assert!(matches!(rejected(shop.ask_and_wait(GUEST, &body(false))), Rejection::Limited { .. }));
    assert_eq!(target.calls(), 0);
}

#[test]
fn a_guest_gets_its_twelve_and_is_told_when_to_come_back() {
    let (shop, target) = shop(Money::from_dollars(1), Deed::Answer);
    let seen: Vec<_> = (0..13).map(|_| shop.ask(GUEST, &body(false), None)).collect();
    shop.world.run();
    let refused: Vec<_> = seen
        .iter()
        .filter_map(|seen| match seen.lock().unwrap().take().unwrap() {
            Seen::Rejected(Rejection::Limited { limit, come_back }) => Some((limit, come_back)),
            Seen::Whole(_) => None,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((refused.len(), target.calls()), (1, 12));
    let (limit, come_back) = &refused[0];
    assert_eq!(limit.to_string(), "12 requests per minute (tier guest)");
    assert!(come_back.after > Duration::from_secs(60) && !come_back.worth_waiting);
}

#[test]
fn two_hundred_at_once_never_pass_a_tiny_budget() {
    for deed in [Deed::Answer, Deed::CutAfter(2), Deed::Hang] {
        let cap = Money::from_nanos(20_000_000);
        let (shop, _) = shop(cap, deed);
        let seen: Vec<_> =
            (0..200_usize).map(|n| shop.ask(PRIME, &body(true), (n % 3 == 0).then_some(2))).collect();
        let end = seawall_core::time::Timestamp::ZERO + Duration::from_secs(3_600);
        let mut moment = seawall_core::time::Timestamp::ZERO;
        while moment < end {
            moment = moment + Duration::from_millis(500);
            shop.world.run_until(moment);
            let books = shop.day();
            assert!(books.posted.saturating_add(books.held) <= cap, "{books:?}");
        }
        assert_eq!((shop.day().held, shop.books.open()), (Money::ZERO, 0), "{deed:?}");
        assert_eq!(shop.records().len(), 200, "every request is settled once");
        let spent = seen.iter().filter(|seen| {
            matches!(
                seen.lock().unwrap().as_ref(),
                Some(Seen::Rejected(
                    Rejection::BudgetSpent { .. }
                        | Rejection::BudgetHeld { .. }
                        | Rejection::ExceedsRemainingBudget { .. }
                ))
            )
        });
        assert!(spent.count() > 0, "{deed:?}");
    }
}

#[test]
fn a_request_that_no_day_can_pay_for_is_told_so_and_asks_nobody() {
    let (shop, target) = shop(Money::from_nanos(1_000), Deed::Answer);
    let told = rejected(shop.ask_and_wait(PRIME, &body(false)));
    assert!(
        matches!(told, Rejection::MoreThanADay { worst } if worst > Money::from_nanos(1_000)),
        "{told:?}"
    );
    assert_eq!((target.calls(), shop.day().posted, shop.books.open()), (0, Money::ZERO, 0));
}

#[test]
fn with_every_target_down_it_says_so_and_soon_without_asking() {
    let (shop, target) = shop(Money::from_dollars(1), Deed::Status(500));
    let first = rejected(shop.ask_and_wait(PRIME, &body(false)));
    assert!(matches!(first, Rejection::Exhausted { attempts: 2.., .. }), "{first:?}");
    while !matches!(rejected(shop.ask_and_wait(PRIME, &body(false))), Rejection::Unavailable { .. }) {
        assert!(target.calls() < 100);
    }
    let calls = target.calls();
    let again = rejected(shop.ask_and_wait(PRIME, &body(false)));
    assert!(matches!(again, Rejection::Unavailable { retry_after: Some(_), .. }), "{again:?}");
    assert_eq!((target.calls(), shop.day().posted, shop.books.open()), (calls, Money::ZERO, 0));
}

/// The worst-case cost of a request to the first target.
fn worst() -> Money {
    let (shop, _) = shop(Money::from_dollars(1), Deed::Hang);
    shop.ask(PRIME, &body(false), None);
    shop.world.run_until(seawall_core::time::Timestamp::ZERO + Duration::from_millis(50));
    shop.day().held
}

#[test]
fn who_finds_all_money_held_is_told_to_wait_and_gets_it_when_it_is_back() {
    // Enough for one at a time.
    let cap = Money::from_nanos(worst().as_nanos() * 5 / 4 * 2);
    let (shop, target) = shop(cap, Deed::Answer);
    let first = shop.ask(PRIME, &body(false), None);
    shop.world.run_until(seawall_core::time::Timestamp::ZERO + Duration::from_millis(50));
    let told = shop.ask(PRIME, &body(false), None);
    shop.world.run();
    let told = rejected(told.lock().unwrap().take().unwrap());
    assert!(
        matches!(told, Rejection::BudgetHeld { come_back } if come_back.worth_waiting),
        "with money that is only held: {told:?}"
    );
    assert!(matches!(first.lock().unwrap().take(), Some(Seen::Whole(_))));
    assert!(matches!(shop.ask_and_wait(PRIME, &body(false)), Seen::Whole(_)));
    assert_eq!(target.calls(), 2);
    let told =
        shop.records().into_iter().map(|record| record.verdict).find(|verdict| *verdict != Verdict::Answered);
    assert_eq!(told, Some(Verdict::Rejected("budget_held")));
}

#[test]
fn who_asks_for_more_than_is_left_is_told_what_would_fit_until_nothing_does() {
    let cap = Money::from_nanos(worst().as_nanos() * 5 / 4 * 2);
    let (shop, _) = shop(cap, Deed::Answer);
    let (mut max_tokens, mut offers) = (100, 0);
    for _ in 0..60 {
        match shop.ask_and_wait(PRIME, &body(false).replace("100", &max_tokens.to_string())) {
            Seen::Rejected(Rejection::ExceedsRemainingBudget { max_tokens: fits, left }) => {
                assert!(fits < max_tokens && left > Money::ZERO, "{fits} {left}");
                (max_tokens, offers) = (fits, offers + 1);
            }
            Seen::Rejected(told) => {
                assert!(matches!(told, Rejection::BudgetSpent { .. }), "{told:?}");
                assert!(offers > 0, "the day is spent before anybody was offered less");
                return;
            }
            // The offered `max_tokens` was admitted.
            _ => {}
        }
    }
    panic!("the day is never spent");
}

#[test]
fn a_refusal_costs_none_of_the_limits_whatever_it_was_for() {
    // A guest has twelve requests a minute. Refusals for lack of budget, model or concurrency do not use them up.
    let (broke, target) = shop(Money::from_nanos(1_000), Deed::Answer);
    for _ in 0..40 {
        let told = rejected(broke.ask_and_wait(GUEST, &body(false)));
        assert!(matches!(told, Rejection::MoreThanADay { .. }), "{told:?}");
    }
    assert_eq!(target.calls(), 0);
    let (down, target) = shop(Money::from_dollars(1), Deed::Status(500));
    while !matches!(rejected(down.ask_and_wait(PRIME, &body(false))), Rejection::Unavailable { .. }) {}
    // So far the breaker is open for that caller only. The first request of another caller is a probe.
    let probe = rejected(down.ask_and_wait(GUEST, &body(false)));
    assert!(matches!(probe, Rejection::Exhausted { .. }), "{probe:?}");
    let calls = target.calls();
    for _ in 0..40 {
        let told = rejected(down.ask_and_wait(GUEST, &body(false)));
        assert!(matches!(told, Rejection::Unavailable { .. }), "{told:?}");
    }
    assert_eq!(target.calls(), calls);
}

#[test]
fn a_request_that_a_vendor_was_asked_for_counts_even_if_it_failed() {
    let (shop, target) = shop(Money::from_dollars(1), Deed::Status(400));
    for _ in 0..12 {
        let told = rejected(shop.ask_and_wait(GUEST, &body(false)));
        assert!(matches!(told, Rejection::Exhausted { .. }), "{told:?}");
    }
    assert!(matches!(rejected(shop.ask_and_wait(GUEST, &body(false))), Rejection::Limited { .. }));
    assert_eq!(target.calls(), 12);
}
