//! A request with an idempotency key is processed once.

use crate::shop::{GUEST, Numbers, PRIME, Seen, Shop, body, callers, inbound};
use crate::target::{ScriptedReply, ScriptedTarget, whole};
use seawall_core::money::Money;
use seawall_core::vocabulary::Mode;
use seawall_pipeline::{IdempotencyConflict, InboundRequest, Rejection, Tier};
use seawall_sim::World;
use std::sync::Arc;
use std::time::Duration;

fn shop(replies: &[ScriptedReply]) -> (Shop, Arc<ScriptedTarget>) {
    let world = World::new(17);
    let target = ScriptedTarget::new(&world, replies, ScriptedReply::Answer);
    let models = || Arc::<ScriptedTarget>::clone(&target);
    (Shop::new(&world, models(), models(), Money::from_dollars(1)), target)
}

fn named(id: u64, key: &str, name: &str, body: &str) -> InboundRequest {
    InboundRequest { idempotency_key: Some(name.into()), ..inbound(id, key, body) }
}

#[test]
fn a_thousand_at_once_make_one_call() {
    let (shop, target) = shop(&[]);
    let seen: Vec<_> = (0..1_000).map(|id| shop.ask_as(named(id, PRIME, "order-1", &body(false)))).collect();
    shop.world.run();
    let answered =
        seen.iter().filter(|seen| *seen.lock().unwrap() == Some(Seen::Unstreamed(whole()))).count();
    let in_progress = Seen::Rejected(Rejection::Conflict(IdempotencyConflict::InProgress));
    let rejected = seen.iter().filter(|seen| seen.lock().unwrap().as_ref() == Some(&in_progress)).count();
    assert_eq!((target.calls(), answered, rejected), (1, 1, 999));
}

#[test]
fn a_completed_idempotency_key_is_neither_executed_again_nor_reused() {
    let (shop, target) = shop(&[]);
    let ask = |id, key: &str, body: &str| {
        let seen = shop.ask_as(named(id, key, "order-1", body));
        shop.world.run();
        let seen = seen.lock().unwrap().take();
        seen.unwrap()
    };
    assert_eq!(ask(1, PRIME, &body(false)), Seen::Unstreamed(whole()));
    assert_eq!(
        ask(2, PRIME, &body(false)),
        Seen::Rejected(Rejection::Conflict(IdempotencyConflict::Completed))
    );
    let other = body(false).replace("100", "101");
    assert_eq!(ask(3, PRIME, &other), Seen::Rejected(Rejection::Conflict(IdempotencyConflict::KeyReused)));
    // Keys of different callers are independent.
    assert_eq!(ask(4, GUEST, &body(false)), Seen::Unstreamed(whole()));
    assert_eq!(target.calls(), 2);
}

#[test]
fn an_unanswered_request_may_be_retried_with_its_key() {
    let (shop, target) = shop(&[ScriptedReply::Status(400)]);
    let ask = |id| {
        let seen = shop.ask_as(named(id, PRIME, "order-1", &body(false)));
        shop.world.run();
        let seen = seen.lock().unwrap().take();
        seen.unwrap()
    };
    assert!(matches!(ask(1), Seen::Rejected(Rejection::UpstreamFailed { .. })));
    assert_eq!(ask(2), Seen::Unstreamed(whole()));
    assert_eq!(target.calls(), 2);
    // An idempotency key expires.
    shop.world.run_until(shop.world.now() + Duration::from_secs(601));
    assert_eq!(ask(3), Seen::Unstreamed(whole()));
}

#[test]
fn limits_in_observe_mode_leave_idempotency_keys_in_force() {
    let world = World::new(17);
    let target = ScriptedTarget::new(&world, &[], ScriptedReply::Answer);
    let model = || Arc::<ScriptedTarget>::clone(&target) as Arc<_>;
    let models = [("strong-model", 3_000_000_000, model()), ("fast-model", 1_000_000_000, model())];
    let numbers = Numbers { limits: Mode::Observe, ..Numbers::default() };
    let shop = Shop::with_options(&world, callers(&[(GUEST, Tier::Guest)]), models, &numbers);
    // A guest has ten requests a minute and a burst of two more.
    for _ in 0..12 {
        assert_eq!(shop.ask_and_wait(GUEST, &body(false)), Seen::Unstreamed(whole()));
    }
    assert!(shop.records().iter().all(|record| !record.limit_observed));
    let ask = |id| {
        let seen = shop.ask_as(named(id, GUEST, "order-1", &body(false)));
        shop.world.run();
        let seen = seen.lock().unwrap().take();
        seen.unwrap()
    };
    assert_eq!(ask(20), Seen::Unstreamed(whole()), "it would have been refused, and is not");
    assert_eq!(ask(21), Seen::Rejected(Rejection::Conflict(IdempotencyConflict::Completed)));
    assert_eq!(target.calls(), 13);
    let would: Vec<_> = shop.records()[12..].iter().map(|record| record.limit_observed).collect();
    assert_eq!(would, [true, false], "a key in use is refused before any limit is checked");
}
