//! Complete streams of every target, and what the guardrail does with them.

use super::{ALIAS, DEFAULTS, answered, model_of, play, request_for, uninspected};
use bytes::Bytes;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use proptest::sample::Index;
use seawall_pipeline::dialect::{DialectId, DialectRequest, Face, UnstreamedAnswer};
use seawall_pipeline::guardrail::{DenyList, Guardrail as _};
use seawall_wire::chat::{AnswerPart, ChatRequest, FinishReason, StreamEvent};
use seawall_wire::reply::AnswerContent;
use serde_json::{Value, json};

fn whole(target: DialectId, max_output: Option<u32>) -> UnstreamedAnswer {
    let request = request_for(false, max_output);
    let body = Bytes::from(answered(&request, target).concat());
    UnstreamedAnswer::read(&request, target, body, None, &DEFAULTS).unwrap()
}

fn text_of(answer: &UnstreamedAnswer) -> String {
    let AnswerContent::Parsed(parsed) = &answer.content else { panic!("{answer:?}") };
    let texts = parsed.answer.parts.iter().map(|part| match part {
        AnswerPart::Text(text) => text.as_str(),
        AnswerPart::ToolCall(_) => panic!("{part:?}"),
    });
    texts.collect()
}

#[test]
fn a_question_is_written_completely_for_every_target() {
    for stream in [false, true] {
        let request = request_for(stream, Some(77));
        assert_eq!((request.face(), request.model(), request.stream()), (Face::Chat, ALIAS, stream));
        assert_eq!((request.max_output(), request.wants_usage()), (Some(77), true));
        assert!(request.betas().is_empty());
        for target in DialectId::ALL {
            let body = request.body_for(target, model_of(target)).unwrap();
            let text = String::from_utf8(body.to_vec()).unwrap();
            for words in ["Be kind.", "やあ", "こんにちは。", "次に何を読めばいい？", "77"]
            {
                assert!(text.contains(words), "{target:?} {text}");
            }
            let body: Value = serde_json::from_slice(&body).unwrap();
            if target == DialectId::OPENAI_CHAT {
                let usage = if stream { json!({"include_usage": true}) } else { Value::Null };
                assert_eq!((&body["stream_options"], &body["model"]), (&usage, &json!("gpt-4o-mini")));
            }
        }
    }
    assert_eq!(request_for(true, None).max_output(), None);
    let empty = DialectRequest::neutral(ChatRequest { stream: true, ..ChatRequest::default() }, Bytes::new());
    assert!(DialectId::ALL.into_iter().all(|target| empty.body_for(target, "m").is_err()));
}

#[test]
fn a_whole_answer_is_its_text_its_end_and_its_usage() {
    for (max_output, finish) in [(None, FinishReason::EndTurn), (Some(9), FinishReason::MaxTokens)] {
        let first = whole(DialectId::ANTHROPIC_MESSAGES, max_output);
        assert!(!text_of(&first).is_empty());
        assert_eq!(first.finish, finish);
        assert!(first.usage.input > 0 && first.usage.output > 0);
        for target in DialectId::ALL {
            let answer = whole(target, max_output);
            assert!(answer.headers.is_empty());
            assert_eq!((text_of(&answer), answer.usage), (text_of(&first), first.usage), "{target:?}");
        }
    }
}

#[test]
fn a_stream_is_its_text_and_one_end_whatever_the_target_and_the_split() {
    for target in DialectId::ALL {
        let expected = whole(target, None);
        let joined = answered(&request_for(true, None), target).concat();
        for size in [1, 2, 7, 50, joined.len()] {
            let played = play(target, uninspected(), joined.chunks(size));
            assert_eq!(played.text, text_of(&expected), "{target:?} {size}");
            assert!(played.is_done() && played.finish == Some(FinishReason::EndTurn), "{target:?} {size}");
            assert_eq!(played.stream.final_usage(), Some(expected.usage));
            assert_eq!(played.events.last(), Some(&StreamEvent::Finished));
        }
    }
}

/// A deny list with one part of the answer, given by its character range.
fn part_of(text: &str, from: usize, to: usize) -> (String, DenyList) {
    let part: String = text.chars().skip(from).take(to - from).collect();
    (part.clone(), DenyList::new(&[part]).unwrap())
}

proptest! {
    #[test]
    fn what_is_denied_is_never_sent_however_the_stream_is_split(
        target in 0..DialectId::ALL.len(), from: Index, length in 1_usize..12, places: Vec<Index>,
    ) {
        let target = DialectId::ALL[target];
        let text = text_of(&whole(target, None));
        let count = text.chars().count();
        let from = from.index(count);
        let to = (from + length).min(count);
        if text.chars().skip(from).take(to - from).all(char::is_whitespace) {
            return Ok(());
        }
        let (part, list) = part_of(&text, from, to);
        let joined = answered(&request_for(true, None), target).concat();
        let mut places: Vec<usize> = places.iter().map(|place| place.index(joined.len())).collect();
        places.extend([0, joined.len()]);
        places.sort_unstable();
        let pieces = places.windows(2).map(|pair| &joined[pair[0]..pair[1]]);
        let played = play(target, list.inspect_answer(), pieces);
        prop_assert!(!played.text.contains(&part) && text.starts_with(&played.text));
        prop_assert_eq!(played.blocked_by.as_deref(), Some("deny_list.1"));
        prop_assert!(!played.is_done());
    }
}

#[test]
fn text_that_is_blocked_at_the_end_is_not_sent() {
    for target in DialectId::ALL {
        let text = text_of(&whole(target, None));
        let count = text.chars().count();
        // The last words, which nothing follows; and a longer pattern, whose partial match must be released at the end.
        let (part, list) = part_of(&text, count - 3, count);
        let frames = answered(&request_for(true, None), target);
        let played = play(target, list.inspect_answer(), frames.iter().map(|frame| &frame[..]));
        assert!(text.starts_with(&played.text) && !played.text.ends_with(&part));
        assert!(played.blocked_by.is_some() && !played.is_done());
        let longer = DenyList::new(&[format!("{part}!!")]).unwrap();
        let played = play(target, longer.inspect_answer(), frames.iter().map(|frame| &frame[..]));
        assert_eq!((played.is_done(), played.text), (true, text), "{target:?}");
    }
}
