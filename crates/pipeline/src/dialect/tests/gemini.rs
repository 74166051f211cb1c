//! Streams of Gemini, which have no end marker and no place for anything but chunks.

use super::judge::listen;
use super::{DEFAULTS, STREAM, answered, play, request_for};
use crate::dialect::{DialectStreamEnd, Face};
use bytes::Bytes;
use seawall_core::failure::FailureKind;
use seawall_wire::chat::FinishReason;
use seawall_wire::dialect::DialectId;

fn chunk(text: &str, more: &str) -> String {
    format!(
        "data: {{\"candidates\":[{{\"content\":{{\"role\":\"model\",\"parts\":[{{\"text\":\"{text}\"}}]}}{more}}}],\
         \"responseId\":\"r\",\"modelVersion\":\"m\"}}\n\n"
    )
}

#[test]
fn the_answer_is_complete_when_the_connection_ends_behind_a_finish_reason() {
    for face in Face::VENDORS {
        let request = request_for(face, &STREAM);
        let whole = [chunk("one", ""), chunk("two", r#","finishReason":"STOP""#)].concat();
        let played = play(&request, DialectId::GEMINI, [whole.as_bytes()]);
        assert!(played.is_complete(), "{face:?}");
        // Some models send a finish reason with every chunk.
        let every = [chunk("one", r#","finishReason":"STOP""#), whole.clone()].concat();
        let played = play(&request, DialectId::GEMINI, [every.as_bytes()]);
        assert!(played.is_complete() && played.stream.finish() == Some(FinishReason::EndTurn), "{face:?}");
        let played = play(&request, DialectId::GEMINI, [chunk("one", "").as_bytes()]);
        assert_eq!(played.outcome, Ok(DialectStreamEnd::Interrupted), "{face:?}");
        assert!(listen(face, &played.sent).unwrap().failure.is_some(), "{face:?}");
    }
}

#[test]
fn a_malformed_function_call_is_an_end_at_gemini_and_a_failure_elsewhere() {
    let bytes = [chunk("one", ""), chunk("", r#","finishReason":"MALFORMED_FUNCTION_CALL""#)].concat();
    for face in Face::VENDORS {
        let played = play(&request_for(face, &STREAM), DialectId::GEMINI, [bytes.as_bytes()]);
        let parsed = listen(face, &played.sent).unwrap();
        if face == Face::GEMINI {
            assert!(played.is_complete() && parsed.finish == "MALFORMED_FUNCTION_CALL");
        } else {
            let kind = played.outcome.map_err(|failure| failure.kind);
            assert_eq!(kind, Err(FailureKind::ModelFault), "{face:?}");
            assert!(parsed.failure.is_some() && !parsed.is_complete, "{face:?}");
        }
    }
}

#[test]
fn keep_alives_of_a_target_do_not_reach_a_caller() {
    let request = request_for(Face::GEMINI, &STREAM);
    for (target, keep_alive) in [
        (DialectId::ANTHROPIC_MESSAGES, "event: ping\ndata: {\"type\":\"ping\"}\n\n"),
        (DialectId::ANTHROPIC_MESSAGES, ": still there\n\n"),
        (DialectId::OPENAI_CHAT, ": OPENROUTER PROCESSING\n\n"),
    ] {
        let frames = answered(&request, target);
        let alone = play(&request, target, frames.iter().map(|frame| &frame[..]));
        let pieces = frames.iter().flat_map(|frame| [keep_alive.as_bytes(), &frame[..]]);
        let played = play(&request, target, pieces);
        assert!(played.is_complete() && played.sent == alone.sent, "{target:?}");
    }
}

#[test]
fn a_stream_that_exceeds_its_limit_ends_as_the_vendor_ends_it() {
    let request = request_for(Face::GEMINI, &STREAM);
    for target in DialectId::ALL {
        let frames = answered(&request, target);
        let mut stream = super::EncodedStream::new(&request, target, &DEFAULTS);
        let mut sent = Vec::new();
        let mut into = |bytes: Bytes| sent.extend_from_slice(&bytes);
        for frame in &frames[..4] {
            stream.feed(frame, &mut into, &mut |_| ()).unwrap();
        }
        stream.cut_at_limit(&frames[3], 7, &mut into);
        assert!(stream.is_cut_at_limit() && stream.is_finished(), "{target:?}");
        let parsed = listen(Face::GEMINI, &sent).unwrap();
        assert!(parsed.is_complete && !parsed.text.is_empty(), "{target:?}");
        assert_eq!((parsed.finish.as_str(), parsed.usage.unwrap().output), ("MAX_TOKENS", 7), "{target:?}");
    }
}
