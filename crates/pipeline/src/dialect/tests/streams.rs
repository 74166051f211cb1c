//! Streamed answers without faults.

use super::judge::{ParsedStream, listen};
use super::unstreamed::word;
use super::{ALIAS, DEFAULTS, PLAIN, Question, STREAM, answered, dialect, every_pair, play, request_for};
use crate::dialect::{DialectStreamEnd, Face, UnstreamedAnswer};
use bytes::Bytes;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use proptest::sample::Index;
use seawall_core::failure::FailureKind;
use seawall_wire::chat::{FinishReason, StreamEvent, Usage};
use seawall_wire::dialect::DialectId;
use seawall_wire::{anthropic, chat::AnswerPart};
use std::time::Duration;

const QUESTIONS: [(Question, FinishReason); 3] = [
    (STREAM, FinishReason::EndTurn),
    (Question { max_output: Some(9), ..STREAM }, FinishReason::MaxTokens),
    (Question { needs_tool: true, ..STREAM }, FinishReason::ToolUse),
];

/// The text, the tool input and the usage of the complete answer to the same question.
fn expected(question: &Question) -> (String, String, Usage) {
    let request = request_for(Face::ANTHROPIC_MESSAGES, &Question { stream: false, ..*question });
    let target = DialectId::ANTHROPIC_MESSAGES;
    let body = Bytes::from(answered(&request, target).concat());
    let answer = UnstreamedAnswer::read(&request, target, body.clone(), None, &DEFAULTS).unwrap();
    let (mut text, mut input) = (String::new(), String::new());
    for part in anthropic::read_chat_answer(&body).unwrap().parts {
        match part {
            AnswerPart::Text(words) => text += &words,
            AnswerPart::ToolCall(call) => input += call.input.get(),
        }
    }
    (text, input, answer.usage)
}

fn check(parsed: &ParsedStream, face: Face, question: &Question, finish: FinishReason, context: &str) {
    let (text, input, usage) = expected(question);
    assert!(parsed.is_complete && parsed.failure.is_none(), "{context}");
    assert_eq!((&parsed.text, parsed.finish.as_str()), (&text, word(face, finish)), "{context}");
    assert_eq!(parsed.usage, question.wants_usage.then_some(usage), "{context}");
    let calls: Vec<_> = parsed.calls.iter().map(|(name, _, input)| (name.as_str(), input.as_str())).collect();
    let wanted = [("find", input.as_str())];
    assert_eq!(calls, &wanted[usize::from(!question.needs_tool)..], "{context}");
}

#[test]
fn every_face_gets_the_same_stream_from_every_target_however_it_is_split() {
    for (question, finish) in QUESTIONS {
        let usage = expected(&question).2;
        for (face, target) in every_pair() {
            let request = request_for(face, &question);
            let frames = answered(&request, target);
            let joined = frames.concat();
            let context = format!("{face:?} {target:?}");
            let by_frame = play(&request, target, frames.iter().map(|frame| &frame[..]));
            for played in
                [play(&request, target, joined.chunks(1)), play(&request, target, [&joined[..]]), by_frame]
            {
                assert!(played.is_complete(), "{context}");
                check(&listen(face, &played.sent).unwrap(), face, &question, finish, &context);
                assert_eq!(played.stream.final_usage(), Some(usage), "{context}");
                assert_eq!(played.stream.finish(), Some(finish), "{context}");
                assert_eq!(played.stream.received(), joined.len() as u64, "{context}");
                let finished = played.events.iter().filter(|event| **event == StreamEvent::Finished).count();
                assert_eq!((finished, played.events.last()), (1, Some(&StreamEvent::Finished)), "{context}");
                let first = |wanted: fn(&StreamEvent) -> bool| played.events.iter().position(wanted).unwrap();
                let begun = first(|event| matches!(event, StreamEvent::Started(_)));
                assert!(begun < first(|event| *event == StreamEvent::Content), "{context}");
            }
        }
    }
}

#[test]
fn a_short_stream_may_be_split_in_two_at_any_byte() {
    let question = Question { max_output: Some(3), ..STREAM };
    for (face, target) in every_pair() {
        let request = request_for(face, &question);
        let joined = answered(&request, target).concat();
        for place in 0..=joined.len() {
            let (first, second) = joined.split_at(place);
            let played = play(&request, target, [first, second]);
            assert!(played.is_complete(), "{face:?} {target:?} {place}");
            let parsed = listen(face, &played.sent).unwrap();
            check(&parsed, face, &question, FinishReason::MaxTokens, &format!("{face:?} {target:?} {place}"));
        }
    }
}

#[test]
fn usage_is_sent_only_on_request_but_always_recorded() {
    let question = Question { wants_usage: false, ..STREAM };
    let usage = expected(&question).2;
    for target in DialectId::ALL {
        let request = request_for(Face::OPENAI_CHAT, &question);
        assert!(!request.wants_usage());
        let joined = answered(&request, target).concat();
        for size in [1, 50, joined.len()] {
            let played = play(&request, target, joined.chunks(size));
            let parsed = listen(Face::OPENAI_CHAT, &played.sent).unwrap();
            check(&parsed, Face::OPENAI_CHAT, &question, FinishReason::EndTurn, "");
            assert_eq!(played.stream.final_usage(), Some(usage), "{target:?}");
        }
    }
}

#[test]
fn a_translated_stream_has_an_id_and_the_callers_model_name() {
    for face in [Face::ANTHROPIC_MESSAGES, Face::OPENAI_CHAT, Face::BEDROCK_INVOKE, Face::GEMINI] {
        for target in DialectId::ALL {
            let request = request_for(face, &STREAM);
            let played = play(&request, target, [&answered(&request, target).concat()[..]]);
            let parsed = listen(face, &played.sent).unwrap();
            let is_anew = dialect(face) != target
                && !(super::has_anthropic_bodies(dialect(face)) && super::has_anthropic_bodies(target));
            assert_eq!(parsed.model == ALIAS, is_anew, "{face:?} {target:?}");
            assert!(!parsed.id.is_empty());
            assert_eq!(
                parsed.id == DEFAULTS.id,
                target == DialectId::BEDROCK_CONVERSE,
                "{face:?} {target:?}"
            );
        }
    }
}

#[test]
fn the_end_reports_the_elapsed_time() {
    for face in [Face::BEDROCK_CONVERSE, Face::BEDROCK_INVOKE] {
        let request = request_for(face, &STREAM);
        for target in [DialectId::ANTHROPIC_MESSAGES, DialectId::OPENAI_CHAT] {
            let mut stream = super::EncodedStream::new(&request, target, &DEFAULTS);
            stream.encoder.set_elapsed(Duration::from_millis(123_456));
            let mut sent = Vec::new();
            for frame in answered(&request, target) {
                stream.feed(&frame, &mut |bytes| sent.extend_from_slice(&bytes), &mut |_| ()).unwrap();
            }
            if face == Face::BEDROCK_CONVERSE {
                assert!(String::from_utf8_lossy(&sent).contains("\"latencyMs\":123456"));
            } else {
                listen(face, &sent).unwrap();
            }
        }
    }
}

#[test]
fn data_after_a_complete_answer_is_ignored() {
    for (face, target) in every_pair() {
        let request = request_for(face, &STREAM);
        let mut frames = answered(&request, target);
        let alone = play(&request, target, frames.iter().map(|frame| &frame[..]));
        frames.push(Bytes::from_static(b"data: garbage\n\n and more of it"));
        let played = play(&request, target, frames.iter().map(|frame| &frame[..]));
        if target == DialectId::GEMINI {
            // Its streams have no end marker, so more may belong to the answer.
            let kind = played.outcome.map_err(|failure| failure.kind);
            assert_eq!(kind, Err(FailureKind::Unrecognised), "{face:?}");
            assert!(
                alone.is_complete() && !listen(face, &played.sent).is_ok_and(|parsed| parsed.is_complete)
            );
            continue;
        }
        assert!(played.is_complete() && played.sent == alone.sent, "{face:?} {target:?}");
        assert_eq!((played.stream.received(), &played.events), (alone.stream.received(), &alone.events));
    }
}

#[test]
fn a_stream_without_usage_has_no_final_usage() {
    for (face, target) in every_pair() {
        let request = request_for(face, &STREAM);
        let silent = seawall_model::engine::Fault::Usage { percent: 0 };
        let frames = super::frames(&super::script(&request, target, Some(silent)));
        let played = play(&request, target, frames.iter().map(|frame| &frame[..]));
        // An answer without usage is still an answer.
        assert!(played.is_complete(), "{face:?} {target:?}");
        assert_eq!(played.stream.final_usage(), None, "{face:?} {target:?}");
        // A passed-through stream lacks what the vendor omitted, and this client requires it.
        let is_passed_on = [Face::ANTHROPIC_MESSAGES, Face::BEDROCK_INVOKE].contains(&face)
            && target == DialectId::ANTHROPIC_MESSAGES;
        if !is_passed_on {
            assert!(listen(face, &played.sent).unwrap().is_complete, "{face:?} {target:?}");
        }
    }
}

#[test]
fn a_whole_answer_is_no_stream() {
    for (face, target) in every_pair() {
        let request = request_for(face, &STREAM);
        let body = answered(&request_for(face, &PLAIN), target).concat();
        let played = play(&request, target, [&body[..]]);
        assert_ne!(played.outcome, Ok(DialectStreamEnd::Complete));
        assert!(listen(face, &played.sent).unwrap().failure.is_some());
    }
}

proptest! {
    #[test]
    fn pieces_do_not_change_what_is_heard(pair in 0..every_pair().count(), which in 0_usize..3, places: Vec<Index>) {
        let (face, target) = every_pair().nth(pair).unwrap();
        let request = request_for(face, &QUESTIONS[which].0);
        let joined = answered(&request, target).concat();
        let mut places: Vec<usize> = places.iter().map(|place| place.index(joined.len())).collect();
        places.extend([0, joined.len()]);
        places.sort_unstable();
        let pieces = places.windows(2).map(|pair| &joined[pair[0]..pair[1]]);
        let (split, whole) = (play(&request, target, pieces), play(&request, target, [&joined[..]]));
        prop_assert!(split.is_complete());
        prop_assert_eq!(listen(face, &split.sent).unwrap(), listen(face, &whole.sent).unwrap());
        prop_assert_eq!(split.events, whole.events);
    }
}
