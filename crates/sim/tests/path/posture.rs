//! The posture: a request keeps the one in force when it arrived, and the next request gets the new one.

use crate::hedging::slow_shop;
use crate::shop::{PRIME, Seen, Shop, body};
use crate::target::{ScriptedReply, pieces};
use seawall_core::evaluator::Posture;
use seawall_core::vocabulary::{Ceiling, Level};
use seawall_pipeline::Rejection;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Publishes a posture after this long.
fn publish_after(shop: &Shop, wait: Duration, posture: Posture) {
    let (pipeline, world) = (Arc::clone(&shop.pipeline), shop.world.clone());
    shop.world.spawn(async move {
        world.sleep(wait).await;
        pipeline.publish_posture(posture);
    });
}

/// The level that the reply to a request reports.
fn reported_level(shop: &Shop, id: u64) -> Arc<Mutex<Option<Level>>> {
    let (reported, pipeline) = (Arc::new(Mutex::new(None)), Arc::clone(&shop.pipeline));
    let (level, inbound) = (Arc::clone(&reported), crate::shop::inbound(id, PRIME, &body(true)));
    shop.world.spawn(async move {
        let reply = pipeline.serve(inbound).await;
        *level.lock().unwrap() = reply.metadata.level;
    });
    reported
}

#[test]
fn a_new_posture_applies_to_the_next_request_and_not_to_one_in_progress() {
    let (shop, _, fast) = slow_shop(true, 40, ScriptedReply::Hang);
    for _ in 0..40 {
        assert_eq!(shop.ask_and_wait(PRIME, &body(true)), Seen::Stream(pieces()));
    }
    // A level above normal bars hedges. The request in progress is hedged all the same, 250 ms after the change.
    publish_after(
        &shop,
        Duration::from_millis(100),
        Posture { level: Level::Elevated, ..Posture::default() },
    );
    let sent_at = shop.world.now();
    assert_eq!(shop.ask_and_wait(PRIME, &body(true)), Seen::Stream(pieces()));
    let hedged = fast.call_log.lock().unwrap().calls[0].0 - sent_at;
    assert!((Duration::from_millis(350)..Duration::from_millis(450)).contains(&hedged), "{hedged:?}");
    // The next one is not hedged: it fails over at its start timeout.
    let sent_at = shop.world.now();
    assert_eq!(shop.ask_and_wait(PRIME, &body(true)), Seen::Stream(pieces()));
    let failed_over = fast.call_log.lock().unwrap().calls[1].0 - sent_at;
    assert_eq!(failed_over, Duration::from_secs(5));
}

#[test]
fn a_reply_reports_the_level_that_its_request_arrived_under() {
    let (shop, ..) = slow_shop(false, 2, ScriptedReply::Answer);
    let high_load = Posture { level: Level::HighLoad, ..Posture::default() };
    publish_after(&shop, Duration::from_millis(1), high_load.clone());
    let before = reported_level(&shop, 1);
    shop.world.run();
    assert_eq!((&*shop.pipeline.posture(), shop.pipeline.level()), (&high_load, Level::HighLoad));
    let after = reported_level(&shop, 2);
    shop.world.run();
    assert_eq!(
        (*before.lock().unwrap(), *after.lock().unwrap()),
        (Some(Level::Normal), Some(Level::HighLoad))
    );
}

#[test]
fn an_order_against_all_models_rejects_the_next_request() {
    let (shop, strong, fast) = slow_shop(false, 2, ScriptedReply::Answer);
    let blocked = Posture { ceiling_override: Some(Ceiling::None), ..Posture::default() };
    publish_after(&shop, Duration::from_millis(1), blocked);
    assert_eq!(shop.ask_and_wait(PRIME, &body(true)), Seen::Stream(pieces()));
    assert_eq!(shop.ask_and_wait(PRIME, &body(true)), Seen::Rejected(Rejection::SwitchedOff));
    assert_eq!((strong.calls(), fast.calls()), (1, 0));
    shop.pipeline.publish_posture(Posture::default());
    assert_eq!(shop.ask_and_wait(PRIME, &body(true)), Seen::Stream(pieces()));
}
