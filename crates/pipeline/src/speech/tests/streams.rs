//! Streamed answers without faults.

use super::judge::{Heard, listen};
use super::whole::word;
use super::{ALIAS, OCCASION, PLAIN, Question, STREAM, answered, asked, dialect, every_pair, play};
use crate::speech::{Ending, Face, SpokenStream, WholeAnswer, has_anthropic_bodies};
use bytes::Bytes;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use proptest::sample::Index;
use seawall_provider::TargetDialect;
use seawall_wire::chat::{FinishReason, StreamEvent, Usage};
use seawall_wire::{anthropic, chat::AnswerPart};
use std::time::Duration;

const QUESTIONS: [(Question, FinishReason); 3] = [
    (STREAM, FinishReason::EndTurn),
    (Question { max_output: Some(9), ..STREAM }, FinishReason::MaxTokens),
    (Question { needs_tool: true, ..STREAM }, FinishReason::ToolUse),
];

/// The text, the tool input and the usage of the complete answer to the same question.
fn expected(question: &Question) -> (String, String, Usage) {
    let request = asked(Face::AnthropicMessages, &Question { stream: false, ..*question });
    let target = TargetDialect::AnthropicMessages;
    let body = Bytes::from(answered(&request, target).concat());
    let answer = WholeAnswer::read(&request, target, body.clone(), None, &OCCASION).unwrap();
    let (mut text, mut input) = (String::new(), String::new());
    for part in anthropic::read_chat_answer(&body).unwrap().parts {
        match part {
            AnswerPart::Text(words) => text += &words,
            AnswerPart::ToolCall(call) => input += call.input.get(),
        }
    }
    (text, input, answer.usage)
}

fn check(heard: &Heard, face: Face, question: &Question, finish: FinishReason, context: &str) {
    let (text, input, usage) = expected(question);
    assert!(heard.is_complete && heard.failure.is_none(), "{context}");
    assert_eq!((&heard.text, heard.finish.as_str()), (&text, word(face, finish)), "{context}");
    assert_eq!(heard.usage, question.wants_usage.then_some(usage), "{context}");
    let calls: Vec<_> = heard.calls.iter().map(|(name, _, input)| (name.as_str(), input.as_str())).collect();
    let wanted = [("find", input.as_str())];
    assert_eq!(calls, &wanted[usize::from(!question.needs_tool)..], "{context}");
}

#[test]
fn every_face_hears_the_same_stream_from_every_target_however_it_is_split() {
    for (question, finish) in QUESTIONS {
        let usage = expected(&question).2;
        for (face, target) in every_pair() {
            let request = asked(face, &question);
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
        let request = asked(face, &question);
        let joined = answered(&request, target).concat();
        for place in 0..=joined.len() {
            let (first, second) = joined.split_at(place);
            let played = play(&request, target, [first, second]);
            assert!(played.is_complete(), "{face:?} {target:?} {place}");
            let heard = listen(face, &played.sent).unwrap();
            check(&heard, face, &question, FinishReason::MaxTokens, &format!("{face:?} {target:?} {place}"));
        }
    }
}

#[test]
fn usage_is_told_only_to_who_asked_and_known_all_the_same() {
    let question = Question { wants_usage: false, ..STREAM };
    let usage = expected(&question).2;
    for target in TargetDialect::ALL {
        let request = asked(Face::OpenAiChat, &question);
        assert!(!request.wants_usage());
        let joined = answered(&request, target).concat();
        for size in [1, 50, joined.len()] {
            let played = play(&request, target, joined.chunks(size));
            let heard = listen(Face::OpenAiChat, &played.sent).unwrap();
            check(&heard, Face::OpenAiChat, &question, FinishReason::EndTurn, "");
            assert_eq!(played.stream.final_usage(), Some(usage), "{target:?}");
        }
    }
}

#[test]
fn a_stream_in_other_words_has_a_name_and_the_model_that_the_caller_named() {
    for face in [Face::AnthropicMessages, Face::OpenAiChat, Face::BedrockInvoke] {
        for target in TargetDialect::ALL {
            let request = asked(face, &STREAM);
            let played = play(&request, target, [&answered(&request, target).concat()[..]]);
            let heard = listen(face, &played.sent).unwrap();
            let is_anew = dialect(face) != target
                && !(has_anthropic_bodies(dialect(face)) && has_anthropic_bodies(target));
            assert_eq!(heard.model == ALIAS, is_anew, "{face:?} {target:?}");
            assert!(!heard.id.is_empty());
            assert_eq!(
                heard.id == OCCASION.id,
                target == TargetDialect::BedrockConverse,
                "{face:?} {target:?}"
            );
        }
    }
}

#[test]
fn the_end_tells_how_long_it_took() {
    for face in [Face::BedrockConverse, Face::BedrockInvoke] {
        let request = asked(face, &STREAM);
        for target in [TargetDialect::AnthropicMessages, TargetDialect::OpenAiChat] {
            let mut stream = SpokenStream::new(&request, target, &OCCASION);
            stream.set_took(Duration::from_millis(123_456));
            let mut sent = Vec::new();
            for frame in answered(&request, target) {
                stream.feed(&frame, &mut |bytes| sent.extend_from_slice(&bytes), &mut |_| ()).unwrap();
            }
            if face == Face::BedrockConverse {
                assert!(String::from_utf8_lossy(&sent).contains("\"latencyMs\":123456"));
            } else {
                listen(face, &sent).unwrap();
            }
        }
    }
}

#[test]
fn what_comes_behind_a_complete_answer_is_nobodys_business() {
    for (face, target) in every_pair() {
        let request = asked(face, &STREAM);
        let mut frames = answered(&request, target);
        let alone = play(&request, target, frames.iter().map(|frame| &frame[..]));
        frames.push(Bytes::from_static(b"data: garbage\n\n and more of it"));
        let played = play(&request, target, frames.iter().map(|frame| &frame[..]));
        assert!(played.is_complete() && played.sent == alone.sent, "{face:?} {target:?}");
        assert_eq!((played.stream.received(), &played.events), (alone.stream.received(), &alone.events));
    }
}

#[test]
fn a_stream_that_does_not_tell_what_it_used_leaves_that_open() {
    for (face, target) in every_pair() {
        let request = asked(face, &STREAM);
        let silent = seawall_model::engine::Fault::Usage { percent: 0 };
        let frames = super::frames(&super::script(&request, target, Some(silent)));
        let played = play(&request, target, frames.iter().map(|frame| &frame[..]));
        // An answer without usage is still an answer.
        assert!(played.is_complete(), "{face:?} {target:?}");
        assert_eq!(played.stream.final_usage(), None, "{face:?} {target:?}");
        // A passed-through stream lacks what the vendor omitted, and this client requires it.
        let is_passed_on = matches!(face, Face::AnthropicMessages | Face::BedrockInvoke)
            && target == TargetDialect::AnthropicMessages;
        if !is_passed_on {
            assert!(listen(face, &played.sent).unwrap().is_complete, "{face:?} {target:?}");
        }
    }
}

#[test]
fn a_whole_answer_is_no_stream() {
    for (face, target) in every_pair() {
        let request = asked(face, &STREAM);
        let body = answered(&asked(face, &PLAIN), target).concat();
        let played = play(&request, target, [&body[..]]);
        assert_ne!(played.outcome, Ok(Ending::Complete));
        assert!(listen(face, &played.sent).unwrap().failure.is_some());
    }
}

proptest! {
    #[test]
    fn pieces_do_not_change_what_is_heard(pair in 0_usize..16, which in 0_usize..3, places: Vec<Index>) {
        let (face, target) = every_pair().nth(pair).unwrap();
        let request = asked(face, &QUESTIONS[which].0);
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
