//! Streams that fail midway.

use super::judge::listen;
use super::{MESSAGE, Played, Question, STREAM, answered, every_pair, frames, play, request_for, script};
use crate::dialect::{DialectStreamEnd, Face};
use bytes::Bytes;
use seawall_core::failure::FailureKind;
use seawall_model::engine::Fault;
use seawall_wire::chat::StreamEvent;
use seawall_wire::dialect::DialectId;

const SHORT: Question = Question { max_output: Some(9), ..STREAM };

/// Asserts that the caller received an interruption in its own dialect, and returns the message.
fn failure_message(face: Face, played: &Played, context: &str) -> String {
    assert!(!played.is_complete(), "{context}");
    let parsed = listen(face, &played.sent).unwrap_or_else(|problem| panic!("{context}: {problem}"));
    assert!(!parsed.is_complete, "{context}");
    assert!(!played.events.contains(&StreamEvent::Finished), "{context}");
    assert_eq!(played.stream.final_usage(), None, "{context}");
    parsed.failure.unwrap_or_else(|| panic!("{context}: nobody said that it failed"))
}

/// Plays a fault with pieces as sent and byte by byte.
fn spoiled(face: Face, target: DialectId, fault: &Fault) -> [Played; 2] {
    let request = request_for(face, &SHORT);
    let frames = frames(&script(&request, target, Some(fault.clone())));
    let joined = frames.concat();
    [play(&request, target, frames.iter().map(|frame| &frame[..])), play(&request, target, joined.chunks(1))]
}

/// The number of pieces of the short answer.
fn pieces(target: DialectId) -> usize {
    answered(&request_for(Face::ANTHROPIC_MESSAGES, &SHORT), target).len()
}

#[test]
fn a_truncated_stream_is_reported_as_broken_off() {
    for (face, target) in every_pair() {
        for after in 1..pieces(target) {
            for fault in [Fault::cut(after), Fault::EndEarly { after }, Fault::Truncate { after }] {
                for played in spoiled(face, target, &fault) {
                    let context = format!("{face:?} {target:?} {fault:?}");
                    assert_eq!(played.outcome, Ok(DialectStreamEnd::Interrupted), "{context}");
                    assert_eq!(failure_message(face, &played, &context), MESSAGE, "{context}");
                }
            }
        }
    }
}

#[test]
fn the_targets_failure_message_reaches_the_caller() {
    for (face, target) in every_pair() {
        for after in 1..pieces(target) {
            for played in spoiled(face, target, &Fault::Error { after }) {
                let context = format!("{face:?} {target:?} {after}");
                let kind = played.outcome.map_err(|failure| failure.kind);
                assert_eq!(kind, Err(FailureKind::Overloaded), "{context}");
                assert_eq!(
                    failure_message(face, &played, &context),
                    "the simulated model is overloaded",
                    "{context}"
                );
                assert!(matches!(played.events.last(), Some(StreamEvent::Failed { .. })), "{context}");
            }
        }
    }
}

#[test]
fn a_failure_that_contains_a_credential_is_reported_with_the_gateways_message() {
    let written = "the simulated model is overloaded";
    let quoted = "the key sk-0123456789abcdef is bad";
    for (face, target) in every_pair() {
        if target.content_type(true) != "text/event-stream" {
            continue;
        }
        let request = request_for(face, &SHORT);
        let whole = frames(&script(&request, target, Some(Fault::Error { after: 2 }))).concat();
        let whole = String::from_utf8(whole).unwrap().replace(written, quoted);
        assert!(whole.contains(quoted));
        for played in
            [play(&request, target, [whole.as_bytes()]), play(&request, target, whole.as_bytes().chunks(1))]
        {
            let context = format!("{face:?} {target:?}");
            assert_eq!(failure_message(face, &played, &context), MESSAGE, "{context}");
            assert!(!String::from_utf8_lossy(&played.sent).contains("sk-0123"), "{context}");
        }
    }
}

#[test]
fn half_a_surrogate_pair_passes_where_nobody_needs_the_text_and_never_breaks_anything_else() {
    for (face, target) in every_pair() {
        let start = match target.name() {
            "anthropic" => r#""text_delta","text":""#,
            "openai" => r#""content":""#,
            "openai_responses" => r#""delta":""#,
            "gemini" => r#""text":""#,
            "bedrock_invoke" | "bedrock_converse" => continue,
            other => panic!("{other:?}"),
        };
        let request = request_for(face, &SHORT);
        let whole = String::from_utf8(answered(&request, target).concat()).unwrap();
        // The last occurrence, because the first may be empty.
        let at = whole.rfind(start).unwrap_or_else(|| panic!("{target:?}: {whole}")) + start.len();
        let (before, after) = whole.split_at(at);
        let broken = format!(r"{before}\ud83d{after}");
        for played in
            [play(&request, target, [broken.as_bytes()]), play(&request, target, broken.as_bytes().chunks(1))]
        {
            let context = format!("{face:?} {target:?}");
            assert!(played.is_complete(), "{context}: {:?}", played.outcome);
            let sent = String::from_utf8_lossy(&played.sent);
            match (face.name(), target.name()) {
                _ if face.dialect() == Some(target) => assert!(sent.contains(r"\ud83d"), "{context}"),
                // The same events in frames, whose content is not inspected.
                ("bedrock_invoke", "anthropic") => {}
                _ => assert!(listen(face, &played.sent).is_ok_and(|parsed| parsed.is_complete), "{context}"),
            }
        }
    }
}

#[test]
fn garbage_is_reported_as_broken_off() {
    for (face, target) in every_pair() {
        for after in 0..pieces(target) {
            for played in spoiled(face, target, &Fault::Malformed { after }) {
                let context = format!("{face:?} {target:?} {after}");
                let kind = played.outcome.map_err(|failure| failure.kind);
                assert_eq!(kind, Err(FailureKind::Unrecognised), "{context}");
                assert_eq!(failure_message(face, &played, &context), MESSAGE, "{context}");
            }
        }
    }
}

#[test]
fn a_stream_is_complete_only_with_its_last_byte() {
    let question = Question { max_output: Some(3), ..STREAM };
    for (face, target) in every_pair() {
        let request = request_for(face, &question);
        let joined = answered(&request, target).concat();
        for length in 0..joined.len() {
            let played = play(&request, target, [&joined[..length]]);
            let context = format!("{face:?} {target:?} {length}");
            if played.is_complete() {
                // Converse reports usage after the end of the answer.
                assert_eq!(target, DialectId::BEDROCK_CONVERSE, "{context}");
                assert_eq!(played.stream.final_usage(), None, "{context}");
                assert!(listen(face, &played.sent).unwrap().is_complete, "{context}");
                assert_eq!(played.events.last(), Some(&StreamEvent::Finished));
            } else {
                assert_eq!(failure_message(face, &played, &context), MESSAGE, "{context}");
            }
        }
    }
}

#[test]
fn converse_is_complete_without_its_usage_only_between_two_frames() {
    let request = request_for(Face::OPENAI_CHAT, &SHORT);
    let target = DialectId::BEDROCK_CONVERSE;
    let joined = answered(&request, target).concat();
    let complete =
        (0..joined.len()).filter(|length| play(&request, target, [&joined[..*length]]).is_complete());
    assert_eq!(complete.count(), 1);
}

#[test]
fn an_interruption_is_in_the_callers_dialect_and_nothing_follows() {
    for (face, target) in every_pair() {
        let request = request_for(face, &SHORT);
        let joined = answered(&request, target).concat();
        let mut stream = super::EncodedStream::new(&request, target, &super::DEFAULTS);
        let mut sent = Vec::new();
        // In the middle of an event.
        let (half, rest) = joined.split_at(joined.len() / 2);
        let mut feed = |stream: &mut super::EncodedStream, bytes: &[u8]| {
            stream.feed(
                &Bytes::copy_from_slice(bytes),
                &mut |bytes| sent.extend_from_slice(&bytes),
                &mut |_| (),
            )
        };
        feed(&mut stream, half).unwrap();
        let last = stream.interrupt(FailureKind::TimedOut, "too slow");
        let failure = feed(&mut stream, rest).unwrap_err();
        assert_eq!(failure.kind, FailureKind::TimedOut);
        assert_eq!(
            stream.end(&mut |_| panic!("more came"), &mut |_| panic!("more came")),
            DialectStreamEnd::Interrupted
        );
        sent.extend_from_slice(&last);
        let parsed = listen(face, &sent).unwrap();
        assert_eq!((parsed.failure.as_deref(), parsed.is_complete), (Some("too slow"), false));
        assert!(stream.interrupt(FailureKind::TimedOut, "too slow").is_empty());
    }
}

#[test]
fn a_stream_is_typed_by_why_it_broke_off() {
    for (face, kind, name) in [
        (Face::ANTHROPIC_MESSAGES, FailureKind::TimedOut, "timeout_error"),
        (Face::ANTHROPIC_MESSAGES, FailureKind::StreamInterrupted, "overloaded_error"),
        (Face::OPENAI_CHAT, FailureKind::TimedOut, "\"code\":\"timeout\""),
        (Face::OPENAI_CHAT, FailureKind::StreamInterrupted, "server_overloaded"),
        (Face::RESPONSES, FailureKind::TimedOut, "\"code\":\"timeout\""),
        (Face::RESPONSES, FailureKind::StreamInterrupted, "server_overloaded"),
        (Face::BEDROCK_INVOKE, FailureKind::TimedOut, "modelTimeoutException"),
        (Face::BEDROCK_CONVERSE, FailureKind::TimedOut, "modelStreamErrorException"),
        (Face::BEDROCK_CONVERSE, FailureKind::Throttled, "throttlingException"),
        (Face::GEMINI, FailureKind::TimedOut, "DEADLINE_EXCEEDED"),
        (Face::GEMINI, FailureKind::StreamInterrupted, "UNAVAILABLE"),
    ] {
        let mut stream =
            super::EncodedStream::new(&request_for(face, &SHORT), DialectId::OPENAI_CHAT, &super::DEFAULTS);
        let last = stream.interrupt(kind, MESSAGE);
        assert!(String::from_utf8_lossy(&last).contains(name), "{face:?} {last:?}");
    }
}

#[test]
fn a_failure_after_unreadable_data_is_reported_with_the_gateways_message() {
    // A watcher that does not parse the content takes it for an object.
    let bytes = concat!(
        "event: content_block_delta\ndata: {x}\n\n",
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n",
    );
    let (face, target) = (Face::BEDROCK_INVOKE, DialectId::ANTHROPIC_MESSAGES);
    let played = play(&request_for(face, &SHORT), target, [bytes.as_bytes()]);
    assert_eq!(played.outcome.map_err(|failure| failure.kind), Err(FailureKind::Overloaded));
    assert_eq!(failure_message(face, &played, ""), MESSAGE);
}

#[test]
fn of_an_end_and_a_failure_the_first_counts() {
    let (done, error) =
        ("data: [DONE]\n\n", "data: {\"error\":{\"message\":\"no\",\"type\":\"server_error\"}}\n\n");
    for face in Face::VENDORS {
        let request = request_for(face, &SHORT);
        let mut bytes = answered(&request, DialectId::OPENAI_CHAT).concat();
        bytes.extend_from_slice(error.as_bytes());
        let finished = play(&request, DialectId::OPENAI_CHAT, [&bytes[..]]);
        assert!(finished.is_complete(), "{face:?}");
        assert_eq!(finished.events.last(), Some(&StreamEvent::Finished));
        let failed = play(&request, DialectId::OPENAI_CHAT, [[error, done].concat().as_bytes()]);
        assert!(failed.outcome.is_err() && failed.events.len() == 1, "{face:?} {:?}", failed.events);
    }
}
