//! A target at its concurrency limit: which requests queue, for how long, and which is served next.

use crate::shop::{GUEST, Numbers, PRIME, Seen, Shop, body, callers, inbound};
use crate::target::{ScriptedReply, ScriptedTarget, pieces, whole};
use seawall_core::money::Money;
use seawall_core::time::Timestamp;
use seawall_pipeline::{Rejection, Tier};
use seawall_sim::World;
use std::sync::Arc;
use std::time::Duration;

fn shop(
    concurrency: u32,
    strong: ScriptedReply,
    fast: ScriptedReply,
) -> (Shop, Arc<ScriptedTarget>, Arc<ScriptedTarget>) {
    let world = World::new(11);
    let (strong, fast) = (ScriptedTarget::new(&world, &[], strong), ScriptedTarget::new(&world, &[], fast));
    let models = [
        ("strong-model", 3_000_000_000, Arc::<ScriptedTarget>::clone(&strong) as Arc<_>),
        ("fast-model", 1_000_000_000, Arc::<ScriptedTarget>::clone(&fast) as Arc<_>),
    ];
    let numbers = Numbers { concurrency, ..Numbers::default() };
    let known = callers(&[(PRIME, Tier::Prime), (GUEST, Tier::Guest)]);
    (Shop::with_options(&world, known, models, &numbers), strong, fast)
}

#[test]
fn one_caller_cannot_fill_the_queue_for_all_others() {
    const OTHER: &str = "sk-other-0000000002";
    let world = World::new(11);
    let (strong, fast) = [(); 2].map(|()| ScriptedTarget::new(&world, &[], ScriptedReply::Answer)).into();
    let models =
        [("strong-model", 3_000_000_000, strong as Arc<_>), ("fast-model", 1_000_000_000, fast as _)];
    let numbers = Numbers { concurrency: 1, targets: 1, ..Numbers::default() };
    let known = callers(&[(PRIME, Tier::Prime), (OTHER, Tier::Prime)]);
    let shop = Shop::with_options(&world, known, models, &numbers);
    // There is room for one call and a queue of a thousand.
    let flood: Vec<_> = (0..1_100).map(|_| shop.ask(PRIME, &body(false), None)).collect();
    shop.world.run_until(Timestamp::ZERO + Duration::from_millis(1));
    let refused = || {
        let is_refused = |seen: &&Arc<std::sync::Mutex<Option<Seen>>>| {
            let seen = seen.lock().unwrap();
            let Some(Seen::Rejected(rejection)) = &*seen else { return false };
            assert!(
                matches!(rejection, Rejection::Unavailable { retry_after: Some(_), cause: "busy", .. }),
                "{rejection:?}"
            );
            true
        };
        flood.iter().filter(is_refused).count()
    };
    assert_eq!(refused(), 99);
    let others: Vec<_> = (0..3).map(|_| shop.ask(OTHER, &body(false), None)).collect();
    shop.world.run_until(Timestamp::ZERO + Duration::from_millis(2));
    assert_eq!(
        refused(),
        102,
        "three requests of the flood are evicted and rejected at once with a Retry-After"
    );
    shop.world.run_until(Timestamp::ZERO + Duration::from_secs(3));
    assert!(others.iter().all(|seen| *seen.lock().unwrap() == Some(Seen::Unstreamed(whole()))));
    shop.world.run();
    assert_eq!((shop.ledger.open_reservations(), shop.day().held), (0, Money::ZERO));
}

#[test]
fn a_request_without_a_slot_waits_and_the_limit_holds() {
    let (shop, strong, fast) = shop(2, ScriptedReply::Answer, ScriptedReply::Answer);
    let seen: Vec<_> = (0..9).map(|_| shop.ask(PRIME, &body(false), None)).collect();
    shop.world.run();
    assert!(seen.iter().all(|seen| *seen.lock().unwrap() == Some(Seen::Unstreamed(whole()))));
    assert_eq!((strong.calls(), fast.calls()), (9, 0), "nobody is sent to another model for want of a place");
    // Each answer takes 300 ms, and two are in flight at a time.
    let at = |call: usize| strong.call_log.lock().unwrap().calls[call].0 - Timestamp::ZERO;
    assert_eq!([0, 1, 2, 3, 4, 8].map(|call| at(call).as_millis()), [0, 0, 300, 300, 600, 1_200]);
    assert_eq!((shop.ledger.open_reservations(), shop.day().held), (0, Money::ZERO));
}

#[test]
fn a_stream_holds_its_slot_to_its_last_frame() {
    let (shop, strong, _) = shop(1, ScriptedReply::Answer, ScriptedReply::Answer);
    let first = shop.ask(PRIME, &body(true), None);
    let second = shop.ask(PRIME, &body(true), None);
    shop.world.run();
    for seen in [first, second] {
        assert_eq!(*seen.lock().unwrap(), Some(Seen::Stream(pieces())));
    }
    let calls: Vec<_> = strong.call_log.lock().unwrap().calls.iter().map(|call| call.0).collect();
    assert!(calls[1] - calls[0] >= Duration::from_millis(450), "{calls:?}");
}

#[test]
fn higher_classes_go_first() {
    let (shop, strong, _) = shop(1, ScriptedReply::Answer, ScriptedReply::Answer);
    let mut replies = vec![shop.ask(PRIME, &body(false), None)];
    shop.world.run_until(Timestamp::ZERO + Duration::from_millis(1));
    replies.extend((0..3).map(|_| shop.ask(GUEST, &body(false), None)));
    shop.world.run_until(Timestamp::ZERO + Duration::from_millis(2));
    replies.push(shop.ask(PRIME, &body(false).replace("おすすめは？", "あとから"), None));
    shop.world.run();
    assert!(replies.iter().all(|seen| *seen.lock().unwrap() == Some(Seen::Unstreamed(whole()))));
    let second = strong.call_log.lock().unwrap().calls[1].1.clone();
    assert!(
        String::from_utf8_lossy(&second).contains("あとから"),
        "the prime caller came last and went first"
    );
}

#[test]
fn a_waiter_that_times_out_is_answered_by_the_next_target_or_rejected() {
    // The strong model hangs; requests queued behind it reach their start timeout and fall back to the fast one.
    let (shop, strong, fast) = shop(1, ScriptedReply::Hang, ScriptedReply::Answer);
    let seen: Vec<_> = (0..2).map(|_| shop.ask(PRIME, &body(true), None)).collect();
    shop.world.run();
    assert!(seen.iter().all(|seen| *seen.lock().unwrap() == Some(Seen::Stream(pieces()))));
    assert_eq!(fast.calls(), 2);
    assert!(strong.calls() <= 2);

    // With both permanently full, queued requests are refused, and everything that was held is released.
    let (shop, _, _) = self::shop(1, ScriptedReply::Hang, ScriptedReply::Hang);
    let seen: Vec<_> = (0..6).map(|_| shop.ask(PRIME, &body(false), None)).collect();
    shop.world.run();
    let refused = seen.iter().filter(|seen| {
        matches!(
            seen.lock().unwrap().as_ref(),
            Some(Seen::Rejected(Rejection::Unavailable { .. } | Rejection::UpstreamFailed { .. }))
        )
    });
    assert_eq!(refused.count(), 6);
    assert_eq!((shop.ledger.open_reservations(), shop.day().held), (0, Money::ZERO));
}

#[test]
fn a_waiter_that_disconnects_leaves_the_queue_and_costs_nothing() {
    let (shop, strong, _) = shop(1, ScriptedReply::Answer, ScriptedReply::Answer);
    let first = shop.ask(PRIME, &body(false), None);
    shop.world.run_until(Timestamp::ZERO + Duration::from_millis(1));
    shop.ask_for(Duration::from_millis(100), PRIME, &body(false));
    shop.world.run_until(Timestamp::ZERO + Duration::from_millis(2));
    let third = shop.ask(PRIME, &body(false), None);
    shop.world.run();
    for seen in [first, third] {
        assert_eq!(*seen.lock().unwrap(), Some(Seen::Unstreamed(whole())));
    }
    assert_eq!((strong.calls(), shop.ledger.open_reservations()), (2, 0));
    // The third call began when the first had ended.
    let calls: Vec<_> = strong.call_log.lock().unwrap().calls.iter().map(|call| call.0).collect();
    assert_eq!(calls[1] - calls[0], Duration::from_millis(300));
}

#[test]
fn no_slot_leaks_when_many_waiters_come_and_go() {
    let (shop, _, _) = shop(3, ScriptedReply::Answer, ScriptedReply::Answer);
    for round in 0_u64..200 {
        shop.ask_as(inbound(round, PRIME, &body(round % 2 == 0)));
        shop.ask_for(Duration::from_millis(round * 7 % 400), PRIME, &body(round % 3 == 0));
        shop.world.run_until(shop.world.now() + Duration::from_millis(round * 13 % 150));
    }
    assert_eq!(shop.world.run(), 0, "nobody waits for ever");
    assert_eq!((shop.ledger.open_reservations(), shop.day().held), (0, Money::ZERO));
    let targets = shop.pipeline.targets();
    assert!(targets.iter().all(|target| target.in_flight.0 == 0 && target.queue.size == 0), "{targets:?}");
    assert!(targets.iter().all(|target| target.in_flight.2 <= 3));
}
