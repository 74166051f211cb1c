//! Bytes that are not translated are not modified.

use super::{ALIAS, DEFAULTS, PLAIN, Question, STREAM, answered, body, dialect, model_of, play, request_for};
use crate::dialect::{DialectStreamEnd, Face};
use bytes::Bytes;
use seawall_core::vocabulary::OutputLimitField;
use serde_json::{Value, json};

/// A hand-written request, with extra whitespace and unknown fields.
fn by_hand(face: Face, question: &Question) -> String {
    let mut value = body(face, question);
    value["future_field"] = json!({"nested": [1, "漫画", null]});
    format!(" {}\n", serde_json::to_string_pretty(&value).unwrap())
}

#[test]
fn a_request_in_the_same_dialect_changes_in_its_model_alone() {
    for face in Face::VENDORS {
        for question in [PLAIN, STREAM] {
            let text = by_hand(face, &question);
            let body = Bytes::from(text.clone());
            let request = super::read(face, question.stream, body).unwrap();
            let model = model_of(dialect(face));
            let sent = request.body_for(dialect(face), model).unwrap();
            assert_eq!(sent, text.replace(&format!("\"{ALIAS}\""), &format!("\"{model}\"")), "{face:?}");
            // For a target with the same model name nothing changes, and nothing is copied.
            let sent = request.body_for(dialect(face), ALIAS).unwrap();
            assert_eq!(sent.as_ptr(), request.body().as_ptr(), "{face:?}");
        }
    }
}

#[test]
fn a_vendor_is_asked_for_usage_and_nothing_else_changes() {
    let text = by_hand(Face::OPENAI_CHAT, &Question { wants_usage: false, ..STREAM });
    let body = Bytes::from(text.clone());
    let request = super::read(Face::OPENAI_CHAT, false, body).unwrap();
    let sent = request.body_for(dialect(Face::OPENAI_CHAT), ALIAS).unwrap();
    assert_eq!(sent, text.replace("\"include_usage\": false", "\"include_usage\": true"));
}

#[test]
fn the_reserved_output_is_the_limit_that_is_sent() {
    for (face, limits, limit_at, other_at) in [
        (
            Face::OPENAI_CHAT,
            json!({"max_completion_tokens": 1, "max_tokens": 100_000}),
            "/max_tokens",
            "/max_completion_tokens",
        ),
        (
            Face::BEDROCK_CONVERSE,
            json!({
                "inferenceConfig": {"maxTokens": 1},
                "additionalModelRequestFields": {"max_tokens": 100_000},
            }),
            "/inferenceConfig/maxTokens",
            "/additionalModelRequestFields/max_tokens",
        ),
    ] {
        let mut wanted = body(face, &PLAIN);
        limits.as_object().unwrap().iter().for_each(|(name, value)| wanted[name] = value.clone());
        let text = Bytes::from(wanted.to_string());
        let request = super::read(face, false, text).unwrap();
        assert_eq!(request.max_output(), Some(1), "{face:?}");
        let sent = request.body_with_limit(
            None,
            OutputLimitField::MaxTokens,
            dialect(face),
            model_of(dialect(face)),
        );
        let sent: Value = serde_json::from_slice(&sent.unwrap()).unwrap();
        assert_eq!((sent.pointer(limit_at), sent.pointer(other_at)), (Some(&json!(1)), None), "{face:?}");
    }
}

#[test]
fn a_frame_in_the_same_dialect_is_forwarded_without_copying() {
    for face in Face::VENDORS {
        let request = request_for(face, &STREAM);
        let mut stream = super::EncodedStream::new(&request, dialect(face), &DEFAULTS);
        for frame in answered(&request, dialect(face)) {
            let mut got = Vec::new();
            stream.feed(&frame, &mut |bytes| got.push(bytes), &mut |_| ()).unwrap();
            let places: Vec<_> = got.iter().map(|bytes| (bytes.as_ptr(), bytes.len())).collect();
            assert_eq!(places, [(frame.as_ptr(), frame.len())], "{face:?}");
        }
        if face == Face::GEMINI {
            assert!(!stream.is_finished(), "its streams have no end marker");
            let end = stream.end(&mut |_| panic!("nothing was held back"), &mut |_| ());
            assert_eq!(end, DialectStreamEnd::Complete);
        }
        assert!(stream.is_finished());
    }
}

#[test]
fn frames_are_forwarded_without_copying_except_for_the_usage_chunk() {
    let request = request_for(Face::OPENAI_CHAT, &Question { wants_usage: false, ..STREAM });
    let mut stream = super::EncodedStream::new(&request, dialect(Face::OPENAI_CHAT), &DEFAULTS);
    let (mut all, mut sent) = (Vec::new(), Vec::new());
    let frames = answered(&request, dialect(Face::OPENAI_CHAT));
    for (at, frame) in frames.iter().enumerate() {
        all.extend_from_slice(frame);
        let mut got = Vec::new();
        stream.feed(frame, &mut |bytes| got.push(bytes), &mut |_| ()).unwrap();
        assert_eq!(got[0].as_ptr(), frame.as_ptr());
        assert_eq!(got.len(), if at + 1 == frames.len() { 2 } else { 1 });
        sent.extend(got.concat());
    }
    let all = String::from_utf8(all).unwrap();
    let is_usage = |event: &&str| {
        let chunk = event.strip_prefix("data: ").and_then(|data| serde_json::from_str::<Value>(data).ok());
        chunk.is_some_and(|chunk| chunk["usage"].is_object())
    };
    assert_eq!(all.split_terminator("\n\n").filter(is_usage).count(), 1);
    let kept: String = all
        .split_terminator("\n\n")
        .filter(|event| !is_usage(event))
        .map(|event| format!("{event}\n\n"))
        .collect();
    assert_eq!(String::from_utf8(sent).unwrap(), kept);
}

#[test]
fn a_stream_in_the_same_dialect_is_byte_for_byte_the_same_however_it_comes() {
    for face in Face::VENDORS {
        let request = request_for(face, &STREAM);
        let joined = answered(&request, dialect(face)).concat();
        for size in [1, 2, 7, 100, joined.len()] {
            assert_eq!(play(&request, dialect(face), joined.chunks(size)).sent, joined, "{face:?} {size}");
        }
    }
}

#[test]
fn events_with_other_line_ends_and_comments_are_passed_on_too() {
    let request = request_for(Face::ANTHROPIC_MESSAGES, &STREAM);
    let joined = String::from_utf8(answered(&request, dialect(Face::ANTHROPIC_MESSAGES)).concat()).unwrap();
    for (line_end, comment) in [("\r\n", ""), ("\n", ": still there\n\n"), ("\r\n", ":\r\n\r\n"), ("\r", "")]
    {
        let bytes = format!("{comment}{}", joined.replace('\n', line_end));
        for size in [1, 3, 64, bytes.len()] {
            let played = play(&request, dialect(Face::ANTHROPIC_MESSAGES), bytes.as_bytes().chunks(size));
            assert!(played.is_complete());
            // The final line feed comes after the end, which is recognized without it.
            let sent = String::from_utf8(played.sent).unwrap();
            assert_eq!(sent.trim_end_matches('\n'), bytes.trim_end_matches('\n'), "{line_end:?} {size}");
        }
    }
}

#[test]
fn a_stream_of_comments_that_never_ends_an_event_is_given_up() {
    for face in [Face::ANTHROPIC_MESSAGES, Face::OPENAI_CHAT] {
        let wants_usage = face == Face::ANTHROPIC_MESSAGES;
        let request = request_for(face, &Question { wants_usage, ..STREAM });
        let mut stream = super::EncodedStream::new(&request, dialect(face), &DEFAULTS);
        let line = Bytes::from(format!(":{}\n", "x".repeat(65_534)));
        let fed = (0..200).try_for_each(|_| stream.feed(&line, &mut |_| panic!("sent"), &mut |_| ()));
        assert!(fed.is_err());
        assert!(stream.received() <= (5 << 20) + 65_536, "{}", stream.received());
    }
}

#[test]
fn the_largest_event_that_is_parsed_is_forwarded() {
    // A name and data of maximum size; the line prefixes come on top.
    let line = |before: &str, behind: &str, less: usize| {
        format!("data: {before}{}{behind}\n\n", "x".repeat((4 << 20) - before.len() - behind.len() - less))
    };
    let name = "content_block_delta";
    let messages = format!("event: {name}\n{}", line(r#"{"text":""#, r#""}"#, name.len()));
    let chunk = line(r#"{"choices":[{"delta":{"content":""#, r#""}}]}"#, "data: ".len());
    for (face, event) in [(Face::ANTHROPIC_MESSAGES, messages), (Face::OPENAI_CHAT, chunk)] {
        for wants_usage in [false, true] {
            let request = request_for(face, &Question { wants_usage, ..STREAM });
            let mut stream = super::EncodedStream::new(&request, dialect(face), &DEFAULTS);
            let mut sent = 0;
            for piece in event.as_bytes().chunks(1 << 16) {
                let piece = Bytes::copy_from_slice(piece);
                stream.feed(&piece, &mut |bytes| sent += bytes.len(), &mut |_| ()).unwrap();
            }
            assert_eq!(sent, event.len());
        }
    }
}
