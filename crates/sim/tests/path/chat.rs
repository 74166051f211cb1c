//! The chat of the reference deployment: it always answers, in time, and with the best available rung.

use crate::shop::{GUEST, Numbers, PRIME, Seen, Shop, callers, question};
use crate::target::{ScriptedReply, ScriptedTarget};
use seawall_core::money::Money;
use seawall_core::time::Timestamp;
use seawall_pipeline::{Rejection, RequestOutcome, Tier};
use seawall_sim::World;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const NOON_IN_TOKYO: Duration = Duration::from_secs(3 * 3_600);
const WORDS: &str = "こんにちは。「灯台守の猫」はいかがですか。";

struct Talk {
    shop: Shop,
    strong: Arc<ScriptedTarget>,
    fast: Arc<ScriptedTarget>,
}

impl Talk {
    fn new(strong: ScriptedReply, fast: ScriptedReply) -> Self {
        Self::with(strong, fast, &Numbers::default())
    }

    /// The clock is set to noon, because the strong model is not used at night.
    fn with(strong: ScriptedReply, fast: ScriptedReply, numbers: &Numbers) -> Self {
        let world = World::new(19);
        world.run_until(Timestamp::ZERO + NOON_IN_TOKYO);
        let (strong, fast) =
            (ScriptedTarget::new(&world, &[], strong), ScriptedTarget::new(&world, &[], fast));
        let models = [
            ("strong-model", 3_000_000_000, Arc::<ScriptedTarget>::clone(&strong) as Arc<_>),
            ("fast-model", 1_000_000_000, Arc::<ScriptedTarget>::clone(&fast) as Arc<_>),
        ];
        let known =
            callers(&[(PRIME, Tier::Prime), (GUEST, Tier::Guest), ("sk-other-0000000002", Tier::Prime)]);
        Self { shop: Shop::with_options(&world, known, models, numbers), strong, fast }
    }

    fn ask(&self, key: &str, body: &Value) -> Value {
        let seen = self.shop.ask_as(question(1, key, &body.to_string()));
        self.shop.world.run();
        match seen.lock().unwrap().take().unwrap() {
            Seen::Unstreamed(body) => serde_json::from_slice(&body).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn ask_text(&self, text: &str) -> Value {
        self.ask(PRIME, &json!({ "message": text }))
    }

    /// How long the last request took.
    fn took(&self) -> Duration {
        self.shop.records().last().unwrap().duration
    }
}

fn rung_of(answer: &Value) -> (&str, f64, bool) {
    (
        answer["rung"].as_str().unwrap(),
        answer["confidence"].as_f64().unwrap(),
        answer["degraded"].as_bool().unwrap(),
    )
}

/// The events of a stream, by name and data.
fn events(seen: Seen) -> Vec<(String, Value)> {
    let Seen::Stream(chunks) = seen else { panic!("{seen:?}") };
    let text: String = chunks.iter().map(|chunk| String::from_utf8_lossy(chunk).into_owned()).collect();
    let event = |event: &str| {
        let (name, data) = event.split_once('\n').unwrap();
        let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        (name.strip_prefix("event: ").unwrap().to_owned(), data)
    };
    text.trim_end().split("\n\n").map(event).collect()
}

#[test]
fn the_strong_model_answers_and_is_reported() {
    let talk = Talk::new(ScriptedReply::Answer, ScriptedReply::Answer);
    let answer = talk.ask(PRIME, &json!({ "message": "おすすめは？", "session": "s1", "request_id": "r1" }));
    assert_eq!(answer["answer"], WORDS);
    assert_eq!(rung_of(&answer), ("strong_model", 1.0, false));
    assert_eq!(
        (&answer["session"], &answer["request_id"], &answer["target"]),
        (&"s1".into(), &"r1".into(), &"strong".into())
    );
    assert_eq!((&answer["usage"]["output"], &answer["cost"]), (&8.into(), &"0.000180000".into()));
    assert_eq!((talk.strong.calls(), talk.fast.calls()), (1, 0));
    assert_eq!((talk.shop.ledger.open_reservations(), talk.shop.day().posted.as_nanos()), (0, 180_000));
}

#[test]
fn a_stream_is_sent_in_pieces_and_ends_with_its_details() {
    let talk = Talk::new(ScriptedReply::Answer, ScriptedReply::Answer);
    let seen = talk.shop.ask_as(question(
        1,
        PRIME,
        &json!({ "message": "おすすめは？", "stream": true }).to_string(),
    ));
    talk.shop.world.run();
    let events = events(seen.lock().unwrap().take().unwrap());
    let text: String = events.iter().filter_map(|(_, data)| data["text"].as_str()).collect();
    assert_eq!(text, WORDS);
    let (name, done) = events.last().unwrap();
    assert_eq!((name.as_str(), rung_of(done)), ("done", ("strong_model", 1.0, false)));
    assert_eq!((&done["finish"], &done["usage"]["output"]), (&"finished".into(), &8.into()));
}

#[test]
fn a_strong_model_that_hangs_is_left_in_time_for_the_fast_one() {
    for stream in [true, false] {
        let talk = Talk::new(ScriptedReply::Hang, ScriptedReply::Answer);
        let asked = talk.shop.world.now();
        let body = json!({ "message": "おすすめは？", "stream": stream }).to_string();
        let seen = talk.shop.ask_as(question(1, PRIME, &body));
        talk.shop.world.run();
        assert!(seen.lock().unwrap().is_some());
        let record = talk.shop.records().pop().unwrap();
        assert_eq!(record.target.as_deref(), Some("fast"));
        let started = talk.fast.call_log.lock().unwrap().calls[0].0 - asked;
        assert!(started <= Duration::from_millis(1_900), "{started:?}");
        assert!(record.first_content.is_none_or(|first| first <= Duration::from_secs(3)), "{record:?}");
        assert_eq!((talk.shop.ledger.open_reservations(), talk.shop.day().held), (0, Money::ZERO));
    }
}

#[test]
fn with_every_model_hanging_all_are_answered_within_three_seconds() {
    let talk = Talk::new(ScriptedReply::Hang, ScriptedReply::Hang);
    for number in 0..200 {
        let answer = talk.ask_text(&format!("question {number}"));
        assert_eq!(rung_of(&answer), ("apology", 0.1, true), "{answer}");
        assert!(answer["answer"].as_str().is_some_and(|text| !text.is_empty()));
        assert!(talk.took() <= Duration::from_secs(3), "{:?}", talk.took());
    }
    assert!(talk.shop.records().iter().all(|record| record.outcome.is_answered()));
    assert_eq!((talk.shop.ledger.open_reservations(), talk.shop.day().held), (0, Money::ZERO));
}

#[test]
fn an_answer_that_breaks_off_before_delivery_is_replaced() {
    let talk = Talk::new(ScriptedReply::CutAfter(2), ScriptedReply::Answer);
    let answer = talk.ask_text("おすすめは？");
    assert_eq!((rung_of(&answer).0, &answer["answer"]), ("fast_model", &WORDS.into()));
    assert!(answer["reasons"].as_array().unwrap().contains(&"strong:stream_interrupted".into()), "{answer}");
}

#[test]
fn an_answer_that_breaks_off_after_delivery_is_interrupted_and_nothing_follows() {
    let talk = Talk::new(ScriptedReply::CutAfter(2), ScriptedReply::Answer);
    let body = json!({ "message": "おすすめは？", "stream": true }).to_string();
    let seen = talk.shop.ask_as(question(1, PRIME, &body));
    talk.shop.world.run();
    let events = events(seen.lock().unwrap().take().unwrap());
    let names: Vec<_> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["text", "interrupted"]);
    assert_eq!(events[1].1["delivered"], 6);
    assert_eq!(talk.fast.calls(), 0);
    assert!(matches!(talk.shop.records()[0].outcome, RequestOutcome::Interrupted(_)));
}

#[test]
fn an_answer_is_kept_for_its_caller_alone_and_served_stale_when_models_fail() {
    let talk = Talk::new(ScriptedReply::Answer, ScriptedReply::Answer);
    let order = json!({ "message": "where is my order" });
    assert_eq!(rung_of(&talk.ask(PRIME, &order)).0, "strong_model");
    for target in [&talk.strong, &talk.fast] {
        target.then(ScriptedReply::Status(503));
    }
    // Another caller with the same question never sees it.
    let other = talk.ask("sk-other-0000000002", &order);
    assert_eq!(rung_of(&other).0, "apology");
    assert_ne!(other["answer"], WORDS);
    talk.shop.world.run_until(talk.shop.world.now() + Duration::from_secs(61 * 60));
    let stale = talk.ask(PRIME, &order);
    assert_eq!(
        (rung_of(&stale), &stale["stale"], &stale["answer"]),
        (("stale_cache", 0.4, true), &true.into(), &WORDS.into())
    );
    // With models available, an answer of this age is not served from the cache.
    talk.strong.then(ScriptedReply::Answer);
    talk.shop.world.run_until(talk.shop.world.now() + Duration::from_secs(120));
    assert_eq!(rung_of(&talk.ask(PRIME, &order)).0, "strong_model");
    // A day later it has expired.
    talk.strong.then(ScriptedReply::Status(503));
    talk.shop.world.run_until(talk.shop.world.now() + Duration::from_secs(24 * 3_600));
    assert_eq!(rung_of(&talk.ask(PRIME, &order)).0, "apology");
}

#[test]
fn a_guest_is_served_from_the_cache_while_it_is_fresh() {
    let talk = Talk::new(ScriptedReply::Answer, ScriptedReply::Answer);
    let ask = json!({ "message": "おすすめは？" });
    // Guests do not get the strong model.
    assert_eq!(rung_of(&talk.ask(GUEST, &ask)), ("fast_model", 0.7, true));
    let again = talk.ask(GUEST, &ask);
    assert_eq!(
        (rung_of(&again), &again["answer"], &again["cost"]),
        (("fresh_cache", 0.5, true), &WORDS.into(), &"0.000000000".into())
    );
    assert_eq!(talk.fast.calls(), 1);
    // The history is part of the cache key.
    let history = json!({ "message": "おすすめは？", "history": [{ "role": "user", "text": "猫が好き" }, { "role": "assistant", "text": "はい" }] });
    assert_eq!(rung_of(&talk.ask(GUEST, &history)).0, "fast_model");
}

#[test]
fn concurrent_equal_questions_make_one_call() {
    let talk = Talk::new(ScriptedReply::Answer, ScriptedReply::Answer);
    let body = json!({ "message": "おすすめは？" }).to_string();
    let seen: Vec<_> = (0..500).map(|id| talk.shop.ask_as(question(id, PRIME, &body))).collect();
    talk.shop.world.run();
    for seen in seen {
        let Some(Seen::Unstreamed(body)) = seen.lock().unwrap().take() else { panic!("not answered") };
        let answer: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(answer["answer"], WORDS);
    }
    assert_eq!((talk.strong.calls(), talk.fast.calls()), (1, 0));
}

#[test]
fn a_leader_that_disconnects_passes_the_lead_on() {
    let talk = Talk::new(ScriptedReply::Answer, ScriptedReply::Answer);
    let body = json!({ "message": "おすすめは？" }).to_string();
    talk.shop.send_for(Duration::from_millis(100), question(1, PRIME, &body));
    talk.shop.world.run_until(talk.shop.world.now() + Duration::from_millis(1));
    let waits = talk.shop.ask_as(question(2, PRIME, &body));
    talk.shop.world.run();
    let Some(Seen::Unstreamed(body)) = waits.lock().unwrap().take() else { panic!("not answered") };
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((rung_of(&answer).0, talk.strong.calls()), ("strong_model", 2));
    assert_eq!((talk.shop.ledger.open_reservations(), talk.shop.day().held), (0, Money::ZERO));
}

#[test]
fn a_blocked_question_needs_no_call_and_a_blocked_answer_does_not_count_as_a_failure() {
    let numbers =
        Numbers { deny: vec!["灯台守".to_owned(), "forbidden".to_owned()], ..Numbers::default() };
    let talk = Talk::with(ScriptedReply::Answer, ScriptedReply::Answer, &numbers);
    let answer = talk.ask_text("tell me the FORBIDDEN thing");
    assert_eq!((&answer["finish"], talk.strong.calls()), (&"blocked".into(), 0));
    assert!(!answer.to_string().contains("orbidden"), "{answer}");
    for _ in 0..20 {
        let answer = talk.ask_text("おすすめは？");
        assert_eq!((&answer["finish"], rung_of(&answer).0), (&"blocked".into(), "apology"), "{answer}");
        assert!(!answer["answer"].as_str().unwrap().contains("灯台守"));
    }
    // Twenty guardrail blocks, and the strong model is called each time: none was retried, none counted against it.
    assert_eq!((talk.strong.calls(), talk.fast.calls()), (20, 0));
    let body = json!({ "message": "おすすめは？", "stream": true }).to_string();
    let seen = talk.shop.ask_as(question(1, PRIME, &body));
    talk.shop.world.run();
    let events = events(seen.lock().unwrap().take().unwrap());
    assert_eq!(events.last().unwrap().0, "interrupted");
    assert!(events.iter().all(|(_, data)| !data.to_string().contains("灯台守")), "{events:?}");
    assert_eq!((talk.shop.ledger.open_reservations(), talk.shop.day().held), (0, Money::ZERO));
}

#[test]
fn a_history_is_trimmed_and_a_message_that_is_too_long_costs_nothing() {
    let talk = Talk::new(ScriptedReply::Answer, ScriptedReply::Answer);
    let turn = |role: &str| json!({ "role": role, "text": "word ".repeat(1_200) });
    let history = [turn("user"), turn("assistant"), turn("user"), turn("assistant")];
    let answer = talk.ask(PRIME, &json!({ "message": "next?", "history": history }));
    assert_eq!(rung_of(&answer).0, "strong_model");
    let sent: Value = serde_json::from_slice(&talk.strong.call_log.lock().unwrap().calls[0].1).unwrap();
    let roles: Vec<_> = sent["messages"].as_array().unwrap().iter().map(|turn| &turn["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    let seen = talk.shop.ask_as(question(1, PRIME, &json!({ "message": "漫".repeat(15_000) }).to_string()));
    talk.shop.world.run();
    let Some(Seen::Rejected(Rejection::TooLarge(words))) = seen.lock().unwrap().take() else {
        panic!("accepted")
    };
    assert!(words.contains("tokens"), "{words}");
    assert_eq!(talk.strong.calls(), 1);
}

#[test]
fn a_caller_with_a_spent_daily_budget_is_answered_without_models() {
    // Each request may cost a tenth of a cent, and the caller's daily budget covers some of them.
    let numbers = Numbers { caller_cap: Some(Money::from_nanos(5_000_000)), ..Numbers::default() };
    let talk = Talk::with(ScriptedReply::Answer, ScriptedReply::Answer, &numbers);
    let seen: Vec<_> = (0..50)
        .map(|id| {
            talk.shop.ask_as(question(id, PRIME, &json!({ "message": format!("question {id}") }).to_string()))
        })
        .collect();
    talk.shop.world.run();
    let rungs: Vec<String> = seen
        .iter()
        .map(|seen| {
            let Some(Seen::Unstreamed(body)) = seen.lock().unwrap().take() else { panic!("not answered") };
            let answer: Value = serde_json::from_slice(&body).unwrap();
            answer["rung"].as_str().unwrap().to_owned()
        })
        .collect();
    assert!(talk.shop.day().posted <= Money::from_nanos(5_000_000));
    assert!(
        rungs.iter().any(|rung| rung == "apology") && rungs.iter().any(|rung| rung == "strong_model"),
        "{rungs:?}"
    );
}
