//! Requests that are refused: no call, no cost, nothing held.

use crate::shop::{GUEST, PRIME, Seen, Shop, body, inbound};
use crate::target::{ScriptedReply, ScriptedTarget};
use seawall_core::money::Money;
use seawall_pipeline::{Rejection, RequestOutcome};
use seawall_sim::World;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn shop(cap: Money, reply: ScriptedReply) -> (Shop, Arc<ScriptedTarget>) {
    let world = World::new(5);
    let target = ScriptedTarget::new(&world, &[], reply);
    (
        Shop::new(&world, Arc::<ScriptedTarget>::clone(&target), Arc::<ScriptedTarget>::clone(&target), cap),
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
fn malformed_and_forbidden_requests_cost_nothing() {
    let (shop, target) = shop(Money::from_dollars(1), ScriptedReply::Answer);
    assert!(matches!(rejected(shop.ask_and_wait(PRIME, "{")), Rejection::Malformed(_)));
    assert_eq!(rejected(shop.ask_and_wait("sk-nobody", &body(false))), Rejection::UnknownCaller);
    let other = body(false).replace("manga", "novel");
    assert_eq!(rejected(shop.ask_and_wait(PRIME, &other)), Rejection::UnknownModel("novel".to_owned()));
    assert_eq!((target.calls(), shop.day().posted, shop.ledger.open_reservations()), (0, Money::ZERO, 0));
    let outcomes: Vec<_> = shop.records().into_iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, ["malformed", "unknown_caller", "unknown_model"].map(RequestOutcome::Rejected));
}

#[test]
fn requests_without_a_model_count_against_the_same_limits() {
    let (shop, target) = shop(Money::from_dollars(1), ScriptedReply::Answer);
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let (pipeline, recorded) = (Arc::clone(&shop.pipeline), Arc::clone(&outcomes));
    shop.world.spawn(async move {
        for _ in 0..13 {
            let caller = pipeline.find_caller(&inbound(0, GUEST, "").identity).await.unwrap();
            let outcome = pipeline.admit_without_model(&caller).await;
            recorded.lock().unwrap().push(outcome);
        }
    });
    shop.world.run();
    let outcomes = outcomes.lock().unwrap();
    assert!(outcomes[..12].iter().all(Result::is_ok), "{outcomes:?}");
    assert!(matches!(&outcomes[12], Err(Rejection::RateLimited { limit, .. }) if &*limit.name == "minute"));
    assert!(matches!(rejected(shop.ask_and_wait(GUEST, &body(false))), Rejection::RateLimited { .. }));
    assert_eq!(target.calls(), 0);
}

#[test]
fn a_guest_gets_its_twelve_requests_and_then_a_retry_after() {
    let (shop, target) = shop(Money::from_dollars(1), ScriptedReply::Answer);
    let seen: Vec<_> = (0..13).map(|_| shop.ask(GUEST, &body(false), None)).collect();
    shop.world.run();
    let refused: Vec<_> = seen
        .iter()
        .filter_map(|seen| match seen.lock().unwrap().take().unwrap() {
            Seen::Rejected(Rejection::RateLimited { limit, retry_after }) => Some((limit, retry_after)),
            Seen::Unstreamed(_) => None,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((refused.len(), target.calls()), (1, 12));
    let (limit, retry_after) = &refused[0];
    assert_eq!(limit.to_string(), "12 requests per minute (per caller, tier guest)");
    assert!(retry_after.delay > Duration::from_secs(60) && !retry_after.should_retry);
}

#[test]
fn two_hundred_at_once_never_pass_a_tiny_budget() {
    for reply in [ScriptedReply::Answer, ScriptedReply::CutAfter(2), ScriptedReply::Hang] {
        let cap = Money::from_nanos(20_000_000);
        let (shop, _) = shop(cap, reply);
        let seen: Vec<_> =
            (0..200_usize).map(|n| shop.ask(PRIME, &body(true), (n % 3 == 0).then_some(2))).collect();
        let end = seawall_core::time::Timestamp::ZERO + Duration::from_secs(3_600);
        let mut moment = seawall_core::time::Timestamp::ZERO;
        while moment < end {
            moment = moment + Duration::from_millis(500);
            shop.world.run_until(moment);
            let ledger = shop.day();
            assert!(ledger.posted.saturating_add(ledger.held) <= cap, "{ledger:?}");
        }
        assert_eq!((shop.day().held, shop.ledger.open_reservations()), (Money::ZERO, 0), "{reply:?}");
        assert_eq!(shop.records().len(), 200, "every request is settled once");
        let spent = seen.iter().filter(|seen| {
            matches!(
                seen.lock().unwrap().as_ref(),
                Some(Seen::Rejected(
                    Rejection::BudgetExhausted { .. }
                        | Rejection::BudgetHeld { .. }
                        | Rejection::ExceedsRemainingBudget { .. }
                ))
            )
        });
        assert!(spent.count() > 0, "{reply:?}");
    }
}

#[test]
fn a_request_above_the_daily_budget_is_rejected_without_a_call() {
    let (shop, target) = shop(Money::from_nanos(1_000), ScriptedReply::Answer);
    let rejection = rejected(shop.ask_and_wait(PRIME, &body(false)));
    assert!(
        matches!(rejection, Rejection::ExceedsDailyBudget { max_cost } if max_cost > Money::from_nanos(1_000)),
        "{rejection:?}"
    );
    assert_eq!((target.calls(), shop.day().posted, shop.ledger.open_reservations()), (0, Money::ZERO, 0));
}

#[test]
fn with_every_target_down_requests_are_rejected_soon_without_calls() {
    let (shop, target) = shop(Money::from_dollars(1), ScriptedReply::Status(500));
    let first = rejected(shop.ask_and_wait(PRIME, &body(false)));
    assert!(matches!(first, Rejection::UpstreamFailed { attempts: 2.., .. }), "{first:?}");
    while !matches!(rejected(shop.ask_and_wait(PRIME, &body(false))), Rejection::Unavailable { .. }) {
        assert!(target.calls() < 100);
    }
    let calls = target.calls();
    let again = rejected(shop.ask_and_wait(PRIME, &body(false)));
    assert!(matches!(again, Rejection::Unavailable { retry_after: Some(_), .. }), "{again:?}");
    assert_eq!((target.calls(), shop.day().posted, shop.ledger.open_reservations()), (calls, Money::ZERO, 0));
}

/// The max_cost-case cost of a request to the first target.
fn max_cost() -> Money {
    let (shop, _) = shop(Money::from_dollars(1), ScriptedReply::Hang);
    shop.ask(PRIME, &body(false), None);
    shop.world.run_until(seawall_core::time::Timestamp::ZERO + Duration::from_millis(50));
    shop.day().held
}

#[test]
fn a_request_that_finds_the_budget_held_may_retry_and_succeeds_after_release() {
    // Enough for one at a time.
    let cap = Money::from_nanos(max_cost().as_nanos() * 5 / 4 * 2);
    let (shop, target) = shop(cap, ScriptedReply::Answer);
    let first = shop.ask(PRIME, &body(false), None);
    shop.world.run_until(seawall_core::time::Timestamp::ZERO + Duration::from_millis(50));
    let rejection = shop.ask(PRIME, &body(false), None);
    shop.world.run();
    let rejection = rejected(rejection.lock().unwrap().take().unwrap());
    assert!(
        matches!(rejection, Rejection::BudgetHeld { retry_after, .. } if retry_after.should_retry),
        "with money that is only held: {rejection:?}"
    );
    assert!(matches!(first.lock().unwrap().take(), Some(Seen::Unstreamed(_))));
    assert!(matches!(shop.ask_and_wait(PRIME, &body(false)), Seen::Unstreamed(_)));
    assert_eq!(target.calls(), 2);
    let rejection = shop
        .records()
        .into_iter()
        .map(|record| record.outcome)
        .find(|outcome| *outcome != RequestOutcome::Answered);
    assert_eq!(rejection, Some(RequestOutcome::Rejected("budget_held")));
}

#[test]
fn a_request_above_the_remaining_budget_is_told_the_output_that_fits() {
    let cap = Money::from_nanos(max_cost().as_nanos() * 5 / 4 * 2);
    let (shop, _) = shop(cap, ScriptedReply::Answer);
    let (mut max_tokens, mut offers) = (100, 0);
    for _ in 0..60 {
        match shop.ask_and_wait(PRIME, &body(false).replace("100", &max_tokens.to_string())) {
            Seen::Rejected(Rejection::ExceedsRemainingBudget { max_tokens: fits, remaining, .. }) => {
                assert!(fits < max_tokens && remaining > Money::ZERO, "{fits} {remaining}");
                (max_tokens, offers) = (fits, offers + 1);
            }
            Seen::Rejected(rejection) => {
                assert!(matches!(rejection, Rejection::BudgetExhausted { .. }), "{rejection:?}");
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
    let (broke, target) = shop(Money::from_nanos(1_000), ScriptedReply::Answer);
    for _ in 0..40 {
        let rejection = rejected(broke.ask_and_wait(GUEST, &body(false)));
        assert!(matches!(rejection, Rejection::ExceedsDailyBudget { .. }), "{rejection:?}");
    }
    assert_eq!(target.calls(), 0);
    let (down, target) = shop(Money::from_dollars(1), ScriptedReply::Status(500));
    while !matches!(rejected(down.ask_and_wait(PRIME, &body(false))), Rejection::Unavailable { .. }) {}
    // So far the breaker is open for that caller only. The first request of another caller is a probe.
    let probe = rejected(down.ask_and_wait(GUEST, &body(false)));
    assert!(matches!(probe, Rejection::UpstreamFailed { .. }), "{probe:?}");
    let calls = target.calls();
    for _ in 0..40 {
        let rejection = rejected(down.ask_and_wait(GUEST, &body(false)));
        assert!(matches!(rejection, Rejection::Unavailable { .. }), "{rejection:?}");
    }
    assert_eq!(target.calls(), calls);
}

#[test]
fn a_request_that_reached_a_vendor_counts_even_if_it_failed() {
    let (shop, target) = shop(Money::from_dollars(1), ScriptedReply::Status(400));
    for _ in 0..12 {
        let rejection = rejected(shop.ask_and_wait(GUEST, &body(false)));
        assert!(matches!(rejection, Rejection::UpstreamFailed { .. }), "{rejection:?}");
    }
    assert!(matches!(rejected(shop.ask_and_wait(GUEST, &body(false))), Rejection::RateLimited { .. }));
    assert_eq!(target.calls(), 12);
}
