//! A vendor's guardrail, or the model itself, declines to answer, and reports that with status 200.

use crate::output::{NAME, bytes, holds, stand};
use crate::shop::{Numbers, PRIME, Seen, Shop, at_face, callers};
use bytes::{Bytes, BytesMut};
use seawall_assistant::ChatText;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::money::Money;
use seawall_core::strategy::Language;
use seawall_core::time::Timestamp;
use seawall_model::engine::Fault;
use seawall_pipeline::dialect::Face;
use seawall_pipeline::{AttemptOutcomeKind, RequestInterruption, RequestOutcome, Tier};
use seawall_provider::{ChunkStream, LocalResponse, LocalTarget};
use seawall_sim::World;
use seawall_wire::bedrock::write_event_frame;
use seawall_wire::dialect::DialectId;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

fn redirect() -> &'static str {
    ChatText::Redirect.in_language(Language::Japanese)
}

fn whole(seen: &Seen) -> Value {
    let Seen::Unstreamed(body) = seen else { panic!("{seen:?}") };
    serde_json::from_slice(body).unwrap()
}

/// The events of a stream, by name and data.
fn events(seen: &Seen) -> Vec<(String, Value)> {
    assert!(matches!(seen, Seen::Stream(_)), "{seen:?}");
    let text = String::from_utf8(bytes(seen)).unwrap();
    let event = |event: &str| {
        let (name, data) = event.split_once('\n').unwrap();
        let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        (name.strip_prefix("event: ").unwrap().to_owned(), data)
    };
    text.trim_end().split("\n\n").map(event).collect()
}

/// Asserts that the stream is our own message, with the reason.
fn is_redirected(events: &[(String, Value)]) {
    let [(text, words), (done, end)] = events else { panic!("{events:?}") };
    assert_eq!((text.as_str(), done.as_str()), ("text", "done"));
    assert_eq!(words["text"], redirect());
    assert_eq!((&end["finish"], &end["rung"]), (&"refused".into(), &"apology".into()));
    assert_eq!(end["reasons"].as_array().unwrap().last(), Some(&"guardrail:vendor".into()), "{end}");
}

/// Asserts that the stream is aborted, as by a guardrail of ours.
fn is_broken_off(events: &[(String, Value)]) {
    let (last, texts) = events.split_last().unwrap();
    assert!(!texts.is_empty() && texts.iter().all(|(name, _)| name == "text"), "{events:?}");
    let delivered: usize = texts.iter().map(|(_, text)| text["text"].as_str().unwrap().chars().count()).sum();
    assert_eq!(last.0, "interrupted");
    assert_eq!((&last.1["reason"], &last.1["message"]), (&"blocked".into(), &redirect().into()));
    assert_eq!(last.1["delivered"], delivered);
}

#[test]
fn on_the_chat_face_it_is_redirected_without_failover_and_without_blaming_the_target() {
    for dialect in DialectId::ALL {
        for (after, stream) in [(1, false), (3, false), (1, true), (3, true)] {
            let stand = stand(dialect, Some(Fault::Declined { after }), Money::from_dollars(1_000));
            let what = format!("{dialect:?} {after} {stream}");
            // More often than the failure threshold of any breaker.
            for number in 1..=20 {
                let seen = stand.ask(Face::Chat, stream);
                match (stream, after) {
                    (false, _) => {
                        let answer = whole(&seen);
                        assert_eq!(
                            (&answer["answer"], &answer["finish"]),
                            (&redirect().into(), &"refused".into())
                        );
                        assert_eq!(
                            answer["reasons"].as_array().unwrap().last(),
                            Some(&"guardrail:vendor".into())
                        );
                    }
                    (true, 1) => is_redirected(&events(&seen)),
                    (true, _) => is_broken_off(&events(&seen)),
                }
                let attempts = stand.shop.attempts();
                assert_eq!(attempts.len(), number, "{what}");
                let (target, _, status, ..) = attempts.last().unwrap().clone();
                assert_eq!((target.as_str(), status), ("strong", AttemptOutcomeKind::Succeeded), "{what}");
            }
            // What the vendor billed is posted.
            assert_eq!(stand.bill(), stand.shop.day().posted, "{what}");
            let outcome = match (stream, after) {
                (true, 3) => RequestOutcome::Interrupted(RequestInterruption::Failed(FailureKind::Filtered)),
                // A prepared text answers in place of the model.
                _ => RequestOutcome::Degraded,
            };
            assert!(stand.shop.records().iter().all(|record| record.outcome == outcome), "{what}");
            assert_eq!(
                (stand.shop.ledger.open_reservations(), stand.shop.day().held),
                (0, Money::ZERO),
                "{what}"
            );
        }
    }
}

#[test]
fn on_a_vendors_face_it_is_forwarded_unchanged() {
    for (face, word) in [
        (Face::ANTHROPIC_MESSAGES, r#""stop_reason":"refusal""#),
        (Face::OPENAI_CHAT, r#""finish_reason":"content_filter""#),
        (Face::BEDROCK_INVOKE, r#""stop_reason":"refusal""#),
        (Face::BEDROCK_CONVERSE, r#""stopReason":"content_filtered""#),
        (Face::GEMINI, r#""finishReason":"SAFETY""#),
    ] {
        for stream in [false, true] {
            let stand =
                stand(face.dialect().unwrap(), Some(Fault::Declined { after: 3 }), Money::from_dollars(1));
            let answer = bytes(&stand.ask(face, stream));
            // Frames of this face wrap their content in base64.
            let is_wrapped = stream && face == Face::BEDROCK_INVOKE;
            assert!(is_wrapped || holds(&answer, word), "{face:?}: {}", String::from_utf8_lossy(&answer));
            assert!(!holds(&answer, redirect()), "{face:?}");
            let record = &stand.shop.records()[0];
            assert_eq!((&record.outcome, record.attempts), (&RequestOutcome::Answered, 1), "{face:?}");
            assert_eq!(stand.bill(), stand.shop.day().posted, "{face:?}");
        }
    }
}

/// Events that are all available at once.
struct Ready(VecDeque<Bytes>);

impl ChunkStream for Ready {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

/// A deployment whose models always send these events, and the number of calls.
pub(crate) fn with_reply(
    dialect: DialectId,
    pieces: &[Bytes],
    numbers: &Numbers,
) -> (Shop, Arc<AtomicUsize>) {
    let world = World::new(41);
    world.run_until(Timestamp::ZERO + Duration::from_secs(3 * 3_600));
    let calls = Arc::new(AtomicUsize::new(0));
    let target = || {
        let (calls, pieces) = (Arc::clone(&calls), pieces.to_vec());
        let target = LocalTarget::new(dialect, NAME, move |path, _| {
            calls.fetch_add(1, Ordering::Relaxed);
            let chunks = Box::new(Ready(pieces.clone().into()));
            let content_type = match dialect.name() {
                "anthropic" | "openai" => "text/event-stream",
                _ if path.ends_with("stream") => "application/vnd.amazon.eventstream",
                _ => "application/json",
            };
            let headers = vec![("content-type", content_type.to_owned())];
            Box::pin(async move { Ok(LocalResponse { status: 200, headers, chunks }) })
        });
        Arc::new(target) as Arc<_>
    };
    let models = [(NAME, 3_000_000_000, target()), (NAME, 3_000_000_000, target())];
    (Shop::with_options(&world, callers(&[(PRIME, Tier::Prime)]), models, numbers), calls)
}

fn ask(shop: &Shop, stream: bool) -> Seen {
    let seen = shop.ask_face_at(shop.world.now(), PRIME, at_face(Face::Chat, stream), None);
    shop.world.run();
    let seen = seen.lock().unwrap().take();
    seen.unwrap()
}

fn chunks(chunks: &[&str]) -> Vec<Bytes> {
    chunks.iter().map(|chunk| Bytes::from(format!("data: {chunk}\n\n"))).collect()
}

const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":8,"total_tokens":28}}"#;

#[test]
fn the_models_reason_for_declining_is_not_forwarded_whatever_its_finish_reason() {
    for finish in ["stop", "content_filter"] {
        let end = format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{finish}"}}]}}"#);
        let pieces = chunks(&[
            r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"refusal":"I'm sorry,"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"refusal":" I cannot."}}]}"#,
            &end,
            USAGE,
            "[DONE]",
        ]);
        let (shop, calls) = with_reply(DialectId::OPENAI_CHAT, &pieces, &Numbers::default());
        is_redirected(&events(&ask(&shop, true)));
        let answer = whole(&ask(&shop, false));
        assert_eq!(
            (&answer["answer"], &answer["finish"]),
            (&redirect().into(), &"refused".into()),
            "{finish}"
        );
        assert_eq!(calls.load(Ordering::Relaxed), 2, "{finish}");
        // Twice twenty tokens of input and eight of output.
        assert_eq!(shop.day().posted.as_nanos(), 2 * (20 * 3_000 + 8 * 15_000), "{finish}");
    }
}

#[test]
fn a_guardrail_of_bedrock_is_not_quoted_where_nothing_was_sent() {
    let frame = |name, payload: &str| {
        let mut out = BytesMut::new();
        write_event_frame(&mut out, name, payload);
        out.freeze()
    };
    let pieces = [
        frame("messageStart", r#"{"role":"assistant"}"#),
        frame("contentBlockDelta", r#"{"delta":{"text":"The guardrail says no."},"contentBlockIndex":0}"#),
        frame("contentBlockStop", r#"{"contentBlockIndex":0}"#),
        frame("messageStop", r#"{"stopReason":"guardrail_intervened"}"#),
        frame(
            "metadata",
            r#"{"usage":{"inputTokens":20,"outputTokens":8,"totalTokens":28},"metrics":{"latencyMs":5}}"#,
        ),
    ];
    // If all arrives at once, nothing was sent before the end was known; event by event, something was.
    for (pieces, is_at_once) in [(vec![Bytes::from(pieces.concat())], true), (pieces.to_vec(), false)] {
        let (shop, calls) = with_reply(DialectId::BEDROCK_CONVERSE, &pieces, &Numbers::default());
        let seen = events(&ask(&shop, true));
        if is_at_once {
            is_redirected(&seen);
        } else {
            is_broken_off(&seen);
        }
        let answer = whole(&ask(&shop, false));
        assert_eq!((&answer["answer"], &answer["finish"]), (&redirect().into(), &"refused".into()));
        assert_eq!(calls.load(Ordering::Relaxed), 2);
        assert_eq!(shop.day().posted.as_nanos(), 2 * (20 * 3_000 + 8 * 15_000));
    }
}

#[test]
fn an_end_that_is_cut_after_its_finish_reason_is_still_a_refusal() {
    let events = [
        ("message_start", r#"{"message":{"id":"m","model":"m","usage":{"input_tokens":20}}}"#),
        ("content_block_start", r#"{"index":0,"content_block":{"type":"text","text":""}}"#),
        ("content_block_delta", r#"{"index":0,"delta":{"type":"text_delta","text":"Well"}}"#),
        ("content_block_stop", r#"{"index":0}"#),
        ("message_delta", r#"{"delta":{"stop_reason":"refusal"},"usage":{"output_tokens":8}}"#),
    ];
    let pieces: Vec<_> =
        events.iter().map(|(name, data)| Bytes::from(format!("event: {name}\ndata: {data}\n\n"))).collect();
    let (shop, calls) = with_reply(DialectId::ANTHROPIC_MESSAGES, &pieces, &Numbers::default());
    let answer = whole(&ask(&shop, false));
    assert_eq!((&answer["answer"], &answer["finish"]), (&redirect().into(), &"refused".into()));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}
