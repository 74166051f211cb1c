//! Input that a request only refers to, surcharges, and the daily budget.

use crate::declined::with_reply;
use crate::shop::{Numbers, PRIME, Seen, Shop, at_face, callers};
use bytes::{Bytes, BytesMut};
use seawall_core::money::{Money, PriceMultiplier, PriceTable, Surcharge};
use seawall_core::time::Timestamp;
use seawall_model::engine::{Engine, ModelOptions, Pace};
use seawall_model::shared::SharedModel;
use seawall_pipeline::dialect::Face;
use seawall_pipeline::{Rejection, Tier};
use seawall_provider::Target;
use seawall_sim::{ModelTarget, World};
use seawall_wire::bedrock::write_event_frame;
use seawall_wire::dialect::DialectId;
use std::sync::Arc;
use std::time::Duration;

const STRONG: &str = "claude-3-sonnet-20240229";
const FAST: &str = "claude-3-haiku-20240307";

fn shop(cap: Money) -> (Shop, ModelTarget) {
    let world = World::new(1);
    let engine = Engine::new(ModelOptions { seed: 1, faults: Vec::new(), pace: Pace::Real }).unwrap();
    let model = SharedModel::new(engine, world.clone());
    let target = ModelTarget::sharing(model, DialectId::ANTHROPIC_MESSAGES, "");
    let upstream = || Arc::new(target.clone()) as Arc<dyn Target>;
    let models = [(STRONG, 3_000_000_000, upstream()), (FAST, 250_000_000, upstream())];
    let numbers = Numbers { cap, window: Some(200_000), ..Numbers::default() };
    (Shop::with_options(&world, callers(&[(PRIME, Tier::Prime)]), models, &numbers), target)
}

fn asking(fields: &str, part: &str) -> String {
    format!(
        r#"{{"model":"manga","max_tokens":64,{fields}"messages":[{{"role":"user","content":[{part}{{"type":"text","text":"hi"}}]}}]}}"#
    )
}

const DOCUMENT: &str = r#"{"type":"document","source":{"type":"url","url":"https://example.com/a.pdf"}},"#;

#[test]
fn sixty_documents_by_url_at_once_never_pass_the_budget() {
    let cap = Money::from_dollars(1);
    let (shop, model) = shop(cap);
    let seen: Vec<_> = (0..60).map(|_| shop.ask(PRIME, &asking("", DOCUMENT), None)).collect();
    let mut moment = Timestamp::ZERO;
    for _ in 0..1_000 {
        moment = moment + Duration::from_millis(100);
        shop.world.run_until(moment);
        let ledger = shop.day();
        assert!(ledger.posted.saturating_add(ledger.held) <= cap, "{ledger:?}");
    }
    let answered =
        seen.iter().filter(|seen| matches!(seen.lock().unwrap().as_ref(), Some(Seen::Unstreamed(_)))).count();
    assert!((1..60).contains(&answered), "{answered}");
    let (posted, bill) = (shop.day().posted, Money::from_nanos(model.bill().nano_dollars()));
    assert!(bill <= posted && posted <= cap, "billed {bill}, posted {posted}");
    // Each document was billed as one.
    assert!(bill >= Money::from_nanos(37_500_000).saturating_add(Money::ZERO), "{bill}");
    assert_eq!((shop.day().held, shop.ledger.open_reservations()), (Money::ZERO, 0));
}

#[test]
fn a_bound_above_the_daily_budget_names_the_feature_and_the_setting() {
    let (shop, model) = shop(Money::from_nanos(40_000_000));
    let Seen::Rejected(Rejection::UntrackedInput(message)) = shop.ask_and_wait(PRIME, &asking("", DOCUMENT))
    else {
        panic!("not refused as it should be")
    };
    for part in ["200000 tokens", "(document)", "limits.untracked_input.document"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!((model.bill().nano_dollars(), shop.day().posted), (0, Money::ZERO));
    // The same question with its text inline is answered.
    assert!(matches!(shop.ask_and_wait(PRIME, &asking("", "")), Seen::Unstreamed(_)));
}

#[test]
fn a_feature_without_a_price_is_rejected_before_any_call() {
    let (shop, model) = shop(Money::from_dollars(1));
    for (fields, part, setting) in [
        (r#""speed":"fast","#, "", "models.NAME.surcharges.fast"),
        (r#""service_tier":"gold","#, "", "service_tier: gold"),
        (
            "",
            r#"{"type":"text","text":"t","cache_control":{"type":"ephemeral","ttl":"1h"}},"#,
            "models.NAME.cache_write_1h",
        ),
    ] {
        let Seen::Rejected(Rejection::UntrackedInput(message)) =
            shop.ask_and_wait(PRIME, &asking(fields, part))
        else {
            panic!("{fields}{part} was not refused as it should be")
        };
        assert!(message.contains(setting), "{message}");
    }
    assert_eq!(model.bill().nano_dollars(), 0);
    for fields in ["", r#""service_tier":"auto","#, r#""service_tier":"standard_only","#] {
        assert!(matches!(shop.ask_and_wait(PRIME, &asking(fields, "")), Seen::Unstreamed(_)), "{fields}");
    }
}

#[test]
fn an_image_reserves_its_token_bound_and_not_its_bytes() {
    // Counted as text, 3 MB of base64 would be reserved at $9.
    let (shop, _) = shop(Money::from_dollars(1));
    let mut file = vec![0x89, b'P', b'N', b'G', 13, 10, 26, 10, 0, 0, 0, 13, b'I', b'H', b'D', b'R'];
    file.extend([0, 0, 4, 0, 0, 0, 4, 0]);
    file.resize(2_250_000, 0);
    let data = base64(&file);
    let part = format!(
        r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}},"#
    );
    assert!(matches!(shop.ask_and_wait(PRIME, &asking("", &part)), Seen::Unstreamed(_)));
}

fn base64(file: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    file.chunks(3)
        .flat_map(|three| {
            let number = three.iter().fold(0_usize, |number, byte| number << 8 | usize::from(*byte));
            [18, 12, 6, 0].map(|shift| char::from(DIGITS[number >> shift & 63]))
        })
        .collect()
}

/// Priority service costs twice as much here, and a one-hour cache write three times the price of input.
fn surcharges(price: PriceTable) -> PriceTable {
    price
        .with_multiplier(Surcharge::Priority, PriceMultiplier { input: 2_000, output: 2_000 })
        .with_cache_write_1h(Some(Money::from_dollars(9)))
}

#[test]
fn an_answer_of_converse_is_posted_as_it_says_it_was_served_and_cached() {
    let usage = r#"{"inputTokens":100,"outputTokens":10,"totalTokens":150,"cacheReadInputTokens":0,
        "cacheWriteInputTokens":40,"cacheDetails":[{"ttl":"1h","inputTokens":30},{"ttl":"5m","inputTokens":10}]}"#;
    // 100 of input, 10 of output, 10 and 30 written to the cache for five minutes and for an hour.
    let base = 100 * 3_000 + 10 * 15_000 + 10 * 3_000 + 30 * 9_000;
    for (served, posted) in [
        (r#","serviceTier":{"type":"priority"}"#, 2 * base),
        (r#","serviceTier":{"type":"default"}"#, base),
        (r#","serviceTier":"?""#, base),
        ("", base),
    ] {
        let numbers = Numbers { surcharges, ..Numbers::default() };
        let ask = |stream: bool, pieces: Vec<Bytes>| {
            let (shop, _) = with_reply(DialectId::BEDROCK_CONVERSE, &pieces, &numbers);
            shop.ask_face_at(shop.world.now(), PRIME, at_face(Face::BEDROCK_CONVERSE, stream), None);
            shop.world.run();
            assert_eq!(
                shop.records()[0].outcome,
                seawall_pipeline::RequestOutcome::Answered,
                "{stream} {served}"
            );
            shop.day().posted.as_nanos()
        };
        let whole = format!(
            r#"{{"output":{{"message":{{"role":"assistant","content":[{{"text":"hi"}}]}}}},"stopReason":"end_turn",
            "usage":{usage},"metrics":{{"latencyMs":1}}{served}}}"#
        );
        assert_eq!(ask(false, vec![whole.into()]), posted, "{served}");
        let mut frames = BytesMut::new();
        write_event_frame(&mut frames, "messageStart", r#"{"role":"assistant"}"#);
        write_event_frame(
            &mut frames,
            "contentBlockDelta",
            r#"{"delta":{"text":"hi"},"contentBlockIndex":0}"#,
        );
        write_event_frame(&mut frames, "contentBlockStop", r#"{"contentBlockIndex":0}"#);
        write_event_frame(&mut frames, "messageStop", r#"{"stopReason":"end_turn"}"#);
        let metadata = format!(r#"{{"usage":{usage},"metrics":{{"latencyMs":1}}{served}}}"#);
        write_event_frame(&mut frames, "metadata", metadata);
        assert_eq!(ask(true, vec![frames.freeze()]), posted, "{served}");
    }
}

#[test]
fn a_surcharge_that_a_request_asks_for_is_billed_and_posted() {
    for (fields, is_dearer) in [("", false), (r#""service_tier":"priority","#, true)] {
        let world = World::new(1);
        let engine = Engine::new(ModelOptions { seed: 1, faults: Vec::new(), pace: Pace::Real }).unwrap();
        let model = SharedModel::new(engine, world.clone());
        let target = ModelTarget::sharing(model, DialectId::ANTHROPIC_MESSAGES, "");
        let upstream = || Arc::new(target.clone()) as Arc<dyn Target>;
        let models = [(STRONG, 3_000_000_000, upstream()), (FAST, 250_000_000, upstream())];
        let numbers = Numbers { surcharges, ..Numbers::default() };
        let shop = Shop::with_options(&world, callers(&[(PRIME, Tier::Prime)]), models, &numbers);
        assert!(matches!(shop.ask_and_wait(PRIME, &asking(fields, "")), Seen::Unstreamed(_)), "{fields}");
        let bill = Money::from_nanos(target.bill().nano_dollars());
        assert_eq!(bill, shop.day().posted, "{fields}");
        let line = target.bill().line("sonnet");
        let base = line.input_tokens * 3_000 + line.output_tokens * 15_000;
        assert_eq!(bill.as_nanos(), if is_dearer { 2 * base } else { base }, "{fields}");
    }
}
