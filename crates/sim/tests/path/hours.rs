//! The hour decides which model a chat message reaches, and the answer says so.

use crate::shop::{GUEST, Numbers, PRIME, Seen, Shop, callers, question};
use crate::target::{ScriptedReply, ScriptedTarget};
use seawall_core::time::Timestamp;
use seawall_pipeline::Tier;
use seawall_provider::Target;
use seawall_sim::World;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const STANDARD: &str = "sk-standard-0000000003";

/// The answer to a message of this caller at this hour in Japan, where the world begins at nine.
fn answer_at(hour: u64, key: &str) -> Value {
    let world = World::new(19);
    world.run_until(Timestamp::ZERO + Duration::from_secs((hour - 9) * 3_600));
    let target = || -> Arc<dyn Target> { ScriptedTarget::new(&world, &[], ScriptedReply::Answer) };
    let models = [("strong-model", 3_000_000_000, target()), ("fast-model", 1_000_000_000, target())];
    let known = callers(&[(PRIME, Tier::Prime), (STANDARD, Tier::Standard), (GUEST, Tier::Guest)]);
    let shop = Shop::with_options(&world, known, models, &Numbers::default());
    let seen = shop.ask_as(question(1, key, &json!({ "message": "おすすめは？" }).to_string()));
    world.run();
    match seen.lock().unwrap().take().unwrap() {
        Seen::Unstreamed(body) => serde_json::from_slice(&body).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn in_the_evening_and_at_night_the_strong_model_is_for_fewer_callers() {
    let (noon, evening, night) = (12, 20, 23);
    for (hour, key, rung, reasons) in [
        (noon, PRIME, "strong_model", &[][..]),
        (noon, STANDARD, "strong_model", &["router:standard=strong"]),
        (noon, GUEST, "fast_model", &["router:guest_fast=fast"]),
        (evening, PRIME, "strong_model", &[]),
        (evening, STANDARD, "fast_model", &["router:standard_in_peak=fast"]),
        (evening, GUEST, "fast_model", &["router:guest_fast=fast"]),
        (night, PRIME, "fast_model", &["off_peak=fast"]),
        (night, STANDARD, "fast_model", &["off_peak=fast", "router:standard=strong"]),
        (night, GUEST, "fast_model", &["off_peak=fast", "router:guest_fast=fast"]),
    ] {
        let answer = answer_at(hour, key);
        assert_eq!((&answer["rung"], &answer["reasons"]), (&json!(rung), &json!(reasons)), "{hour} {answer}");
    }
}
