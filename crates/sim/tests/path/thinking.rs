//! Models with a long reasoning phase, and requests without an output limit.

use crate::availability::{answered, play, shop};
use crate::shop::{Numbers, PRIME, Seen, Shop, at_face, body, callers, inbound, question};
use seawall_core::money::Money;
use seawall_model::engine::{Engine, ModelOptions, Pace, read_faults};
use seawall_model::shared::SharedModel;
use seawall_pipeline::dialect::Face;
use seawall_pipeline::{ApiOperation, InboundRequest, ReplyMetadata, Tier};
use seawall_provider::Target;
use seawall_sim::{ModelTarget, World};
use seawall_wire::dialect::DialectId;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const THINKS: &str = r#"{"kind": "thinking", "takes": "60s", "every": "1700ms"}"#;

#[test]
fn thinking_counts_as_first_content_at_every_api_face_and_is_relayed() {
    for dialect in DialectId::ALL {
        for face in Face::VENDORS {
            let shop = deployment(dialect, &format!(r#"[{{"fault": {THINKS}}}]"#), &Numbers::default());
            let (operation, body) = at_face(face, true);
            let body = body.replace(":100", ":1000");
            let seen = shop.ask_face_at(shop.world.now(), PRIME, (operation, body), None);
            shop.world.run();
            let record = shop.records().pop().unwrap();
            let first_content_at = record.first_content.unwrap();
            assert!(
                first_content_at < Duration::from_secs(5),
                "{face:?} of {dialect:?}: {first_content_at:?}"
            );
            assert!(record.duration > Duration::from_secs(60), "{face:?} of {dialect:?}: {record:?}");
            assert_eq!(answered(&[record]), 1);
            let Some(Seen::Stream(chunks)) = seen.lock().unwrap().take() else { panic!("{face:?}") };
            let thoughts = chunks.iter().filter(|chunk| {
                let words = b"let me see";
                chunk.windows(words.len()).any(|window| window == words)
            });
            // Frames of InvokeModel contain their content in base64.
            assert!(face == Face::BEDROCK_INVOKE || thoughts.count() > 30, "{face:?} of {dialect:?}");
        }
    }
}

#[test]
fn on_the_chat_face_thinking_neither_starts_an_answer_nor_stops_the_clock() {
    let shop = shop(2, &format!(r#"[{{"model": "sonnet", "fault": {THINKS}}}]"#));
    let noon_in_tokyo = Duration::from_secs(3 * 3_600);
    shop.world.run_until(seawall_core::time::Timestamp::ZERO + noon_in_tokyo);
    for stream in [true, false] {
        let sent_at = shop.world.now();
        let body = format!(r#"{{"message":"おすすめは？","stream":{stream}}}"#);
        shop.ask_as(question(1, PRIME, &body));
        shop.world.run();
        let record = shop.records().pop().unwrap();
        assert_eq!(record.target.as_deref(), Some("fast"), "{record:?} at {sent_at:?}");
        let first_content_at = record.first_content.unwrap_or(Duration::ZERO);
        assert!(first_content_at <= Duration::from_secs(3), "{first_content_at:?}");
    }
}

#[test]
fn a_whole_answer_may_take_minutes() {
    let slow = r#"[{"fault": {"kind": "thinking", "takes": "90s"}}]"#;
    for targets in [1, 2] {
        let records = play(&shop(targets, slow), 3, Duration::from_secs(1), false);
        assert_eq!(answered(&records), 3, "with {targets} targets");
    }
}

#[test]
fn a_first_target_that_hangs_over_a_whole_answer_is_left_when_no_model_would_take_so_long() {
    let shop = shop(2, r#"[{"model": "sonnet", "fault": {"kind": "hang"}}]"#);
    assert!(!matches!(shop.ask_and_wait(PRIME, &body(false)), Seen::Rejected(_)));
    let record = shop.records().pop().unwrap();
    assert_eq!(record.target.as_deref(), Some("fast"));
    // The start timeout, and a hundred tokens at twenty a second.
    assert!(record.duration < Duration::from_secs(40), "{:?}", record.duration);
}

#[test]
fn a_known_target_that_hangs_over_whole_answers_fails_and_opens_its_breaker() {
    let shop = shop(1, r#"[{"from": "300s", "fault": {"kind": "hang"}}]"#);
    for _ in 0..30 {
        assert!(!matches!(shop.ask_and_wait(PRIME, &body(false)), Seen::Rejected(_)));
    }
    shop.world.run_until(seawall_core::time::Timestamp::ZERO + Duration::from_secs(301));
    for _ in 0..5 {
        assert!(matches!(shop.ask_and_wait(PRIME, &body(false)), Seen::Rejected(_)));
        let took = shop.records().pop().unwrap().duration;
        assert!(took < Duration::from_secs(60), "{took:?}");
    }
    assert!(shop.pipeline.targets()[0].breaker.rejects.is_some(), "its breaker is open");
}

fn deployment(dialect: DialectId, faults: &str, numbers: &Numbers) -> Shop {
    let world = World::new(3);
    let faults = read_faults(faults.as_bytes()).unwrap();
    let engine = Engine::new(ModelOptions { seed: 1, faults, pace: Pace::Real }).unwrap();
    let model = SharedModel::new(engine, world.clone());
    let upstream = |name| Arc::new(ModelTarget::sharing(model.clone(), dialect, name)) as Arc<dyn Target>;
    let (strong, fast) = ("claude-3-sonnet-20240229", "claude-3-haiku-20240307");
    let models = [(strong, 3_000_000_000, upstream(strong)), (fast, 250_000_000, upstream(fast))];
    Shop::with_options(&world, callers(&[(PRIME, Tier::Prime)]), models, numbers)
}

/// The notes that the caller of a request without a limit receives, and the amount held for it.
fn without_limit(dialect: DialectId, numbers: &Numbers) -> (ReplyMetadata, Money) {
    let shop = deployment(dialect, "[]", numbers);
    let body = r#"{"model":"manga","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let inbound =
        InboundRequest { operation: ApiOperation::of(DialectId::OPENAI_CHAT), ..inbound(1, PRIME, body) };
    let (pipeline, metadata_slot) = (Arc::clone(&shop.pipeline), Arc::new(Mutex::new(None)));
    let sent_metadata = Arc::clone(&metadata_slot);
    shop.world.spawn(async move {
        let reply = pipeline.serve(inbound).await;
        *sent_metadata.lock().unwrap() = Some(reply.metadata);
    });
    shop.world.run_until(shop.world.now() + Duration::from_millis(1));
    let held = shop.day().held;
    shop.world.run();
    let metadata = metadata_slot.lock().unwrap().take().unwrap();
    assert_eq!((shop.day().held, shop.ledger.open_reservations()), (Money::ZERO, 0));
    (metadata, held)
}

#[test]
fn a_request_without_a_limit_reserves_the_model_s_own_and_gets_none() {
    let numbers = || Numbers { max_output: Some(64_000), ..Numbers::default() };
    for dialect in DialectId::ALL {
        let (metadata, held) = without_limit(dialect, &numbers());
        assert_eq!(metadata.max_tokens, None, "{dialect:?}");
        // 1.1 times the maximum and sixteen more, at $15 a million.
        assert!(held > Money::from_nanos(64_000 * 15_000), "{dialect:?}: {held}");
        let tight = Numbers { cap: Money::from_dollars(8), ..numbers() };
        let (metadata, held) = without_limit(dialect, &tight);
        // A tenth of the half that belongs to the prime tier.
        assert!(metadata.max_tokens.is_some_and(|limit| (20_000..27_000).contains(&limit)), "{metadata:?}");
        assert!(held <= Money::from_nanos(400_000_000), "{held}");
        let nearly_spent = Numbers { cap: Money::from_nanos(20_000_000), ..numbers() };
        let (metadata, held) = without_limit(dialect, &nearly_spent);
        assert!(metadata.max_tokens.is_some_and(|limit| (100..700).contains(&limit)), "{metadata:?}");
        assert!(held <= Money::from_nanos(10_000_000), "{held}");
    }
    let (metadata, _) = without_limit(DialectId::OPENAI_CHAT, &Numbers::default());
    assert_eq!(metadata.max_tokens, Some(4_096), "whose maximum is not known");
}
