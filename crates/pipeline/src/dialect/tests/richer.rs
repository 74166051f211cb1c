//! Answers richer than the simulated model's: text with several tool calls, and cache usage.

use super::judge::listen;
use super::{DEFAULTS, PLAIN, STREAM, dialect, every_pair, play, request_for};
use crate::dialect::{Face, UnstreamedAnswer};
use bytes::BytesMut;
use seawall_wire::chat::{
    AnswerPart, ChatAnswer, ChatEvent, FinishReason, JsonText, StreamEvent, ToolCall, Usage,
};
use seawall_wire::dialect::DialectId;
use serde_json::Value;
use std::time::Duration;

const USAGE: Usage = Usage { input: 11, cache_read: 7, cache_write: 5, output: 3, ..Usage::NONE };

/// The usage that a target of this dialect reports, and what remains of it at a face. Gemini has no count of tokens that
/// are written to a cache: they are input like any other.
fn usage_at(target: DialectId, face: Option<Face>) -> Usage {
    let has_gemini = target == DialectId::GEMINI || face == Some(Face::GEMINI);
    let Usage { input, cache_write, .. } = USAGE;
    if has_gemini { Usage { input: input + cache_write, cache_write: 0, ..USAGE } } else { USAGE }
}

fn events() -> Vec<ChatEvent> {
    let call = |id: &str, name: &str| ChatEvent::ToolCallStarted { id: id.to_owned(), name: name.to_owned() };
    vec![
        ChatEvent::Started { id: "a".to_owned(), model: "m".to_owned(), usage: Usage::default() },
        ChatEvent::Text("See\n\ndata: \"".to_owned()),
        ChatEvent::Text("漫画 🚂".to_owned()),
        call("call_1", "find"),
        ChatEvent::ToolInput(r#"{"query":"ro"#.to_owned()),
        ChatEvent::ToolInput(r#"ad\n"}"#.to_owned()),
        call("call_2", "ring"),
        ChatEvent::Usage(USAGE),
        ChatEvent::Finished(FinishReason::ToolUse),
    ]
}

/// The stream in a target's dialect.
fn written(target: DialectId, events: &[ChatEvent]) -> BytesMut {
    let mut out = BytesMut::new();
    let mut writer = target.write_stream(1, true);
    for event in events {
        writer.write(&mut out, event, Duration::ZERO);
    }
    out
}

#[test]
fn text_tool_calls_and_cached_tokens_survive_every_pair() {
    for (face, target) in every_pair() {
        let request = request_for(face, &STREAM);
        let bytes = written(target, &events());
        for size in [1, 13, bytes.len()] {
            let played = play(&request, target, bytes.chunks(size));
            let parsed = listen(face, &played.sent).unwrap();
            assert!(parsed.is_complete, "{face:?} {target:?}");
            assert_eq!(parsed.text, "See\n\ndata: \"漫画 🚂", "{face:?} {target:?}");
            assert_eq!(
                (parsed.usage, played.stream.final_usage()),
                (Some(usage_at(target, Some(face))), Some(usage_at(target, None))),
                "{face:?} {target:?}"
            );
            let find = ("find".to_owned(), "call_1".to_owned(), r#"{"query":"road\n"}"#.to_owned());
            assert_eq!(parsed.calls[0], find, "{face:?} {target:?}");
            // A call without input is written with no input or with an empty object.
            let [_, (name, id, input)] = &parsed.calls[..] else { panic!("{:?}", parsed.calls) };
            assert_eq!((name.as_str(), id.as_str()), ("ring", "call_2"));
            assert!(matches!(input.as_str(), "" | "{}"), "{face:?} {target:?} {input}");
        }
    }
}

#[test]
fn a_stream_without_text_is_complete_too() {
    let all = events();
    let silent = [all[0].clone(), ChatEvent::Usage(USAGE), ChatEvent::Finished(FinishReason::EndTurn)];
    for (face, target) in every_pair() {
        let played = play(&request_for(face, &STREAM), target, [&written(target, &silent)[..]]);
        let parsed = listen(face, &played.sent).unwrap();
        assert!(
            parsed.is_complete && parsed.text.is_empty() && parsed.calls.is_empty(),
            "{face:?} {target:?}"
        );
        assert_eq!(played.stream.final_usage(), Some(usage_at(target, None)));
    }
}

/// Complete events of a target that omits every optional field.
fn chunks(choices: &[&str]) -> Vec<u8> {
    let chunks = choices.iter().map(|choice| format!("data: {{\"choices\":[{choice}]}}\n\n"));
    format!("{}data: [DONE]\n\n", chunks.collect::<String>()).into_bytes()
}

#[test]
fn an_answer_without_an_id_gets_one() {
    let bytes = chunks(&[r#"{"delta":{"content":"hi"}}"#, r#"{"finish_reason":"stop"}"#]);
    let played = play(&request_for(Face::ANTHROPIC_MESSAGES, &STREAM), DialectId::OPENAI_CHAT, [&bytes[..]]);
    let parsed = listen(Face::ANTHROPIC_MESSAGES, &played.sent).unwrap();
    assert_eq!((parsed.id.as_str(), parsed.text.as_str(), parsed.is_complete), (DEFAULTS.id, "hi", true));
    assert_eq!(played.stream.final_usage(), None);
}

#[test]
fn an_end_after_unreadable_data_does_not_count() {
    // A watcher does not inspect the content; a translation must.
    let bytes =
        chunks(&[r#"{"delta":{"content":"hi"}}"#, r#"{"delta":{"content":7},"finish_reason":"stop"}"#]);
    for face in [Face::ANTHROPIC_MESSAGES, Face::BEDROCK_INVOKE, Face::BEDROCK_CONVERSE, Face::GEMINI] {
        let played = play(&request_for(face, &STREAM), DialectId::OPENAI_CHAT, [&bytes[..]]);
        assert!(!played.is_complete() && !played.events.contains(&StreamEvent::Finished));
        let parsed = listen(face, &played.sent).unwrap();
        assert!(!parsed.is_complete && parsed.failure.is_some(), "{face:?}");
    }
}

#[test]
fn whole_answers_keep_text_tool_calls_and_cached_tokens() {
    let input = JsonText::new(r#"{"query":"road\n"}"#.to_owned()).unwrap();
    let call = ToolCall { id: "call_1".to_owned(), name: "find".to_owned(), input };
    let parts = vec![AnswerPart::Text("漫画 🚂".to_owned()), AnswerPart::ToolCall(call)];
    let answer = ChatAnswer {
        id: "a".to_owned(),
        model: "m".to_owned(),
        parts: parts.clone(),
        finish: FinishReason::ToolUse,
        usage: USAGE,
    };
    for (face, target) in every_pair() {
        let body = target.write_chat_answer(&answer, &DEFAULTS);
        let whole =
            UnstreamedAnswer::read(&request_for(face, &PLAIN), target, body, None, &DEFAULTS).unwrap();
        let usage = usage_at(target, None);
        assert_eq!((whole.usage, whole.finish), (usage, FinishReason::ToolUse), "{face:?} {target:?}");
        let parsed = dialect(face).read_chat_answer(&super::written(&whole, face), "a", "m").unwrap();
        let usage = usage_at(target, Some(face));
        assert_eq!((parsed.parts, parsed.usage), (parts.clone(), usage), "{face:?} {target:?}");
        let failure_message: Value = serde_json::from_slice(&super::written(&whole, face)).unwrap();
        assert!(failure_message.is_object());
    }
}
