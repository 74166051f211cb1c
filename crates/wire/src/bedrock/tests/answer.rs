use super::event;
use crate::AnswerError;
use crate::bedrock::{ConverseStream, FrameLimits, read_chat_answer, read_converse_usage, write_chat_answer};
use crate::chat::{AnswerPart, ChatAnswer, FinishReason, JsonText, ToolCall, Usage, UsageReport};
use seawall_core::money::{PriceDimension, ServiceTier, Surcharge, UsageExtras};
use std::time::Duration;

const GOLDEN: &str = include_str!("../../../tests/golden/bedrock/converse_answer.json");

fn answer() -> ChatAnswer {
    let input = JsonText::new(r#"{"volume":3}"#.to_owned()).unwrap();
    ChatAnswer {
        id: "r1".to_owned(),
        model: "haiku".to_owned(),
        parts: vec![
            AnswerPart::Text("Hello \"漫画\"\n".to_owned()),
            AnswerPart::ToolCall(ToolCall { id: "t1".to_owned(), name: "find".to_owned(), input }),
        ],
        finish: FinishReason::ToolUse,
        usage: Usage { input: 25, cache_read: 4, cache_write: 3, output: 15, ..Usage::default() },
    }
}

#[test]
fn a_whole_answer_is_written_as_the_service_writes_it_and_read_back() {
    let body = write_chat_answer(&answer(), Duration::from_millis(412));
    assert_eq!(str::from_utf8(&body).unwrap(), GOLDEN.trim_end());
    assert_eq!(read_chat_answer(&body, "r1", "haiku"), Ok(answer()));
    let report = UsageReport { usage: answer().usage, output_reported: true };
    assert_eq!(read_converse_usage(&body), Ok((report, FinishReason::ToolUse)));
}

#[test]
fn every_reason_to_stop_is_read() {
    for (name, finish, written) in [
        ("end_turn", FinishReason::EndTurn, "end_turn"),
        ("max_tokens", FinishReason::MaxTokens, "max_tokens"),
        ("stop_sequence", FinishReason::StopSequence, "stop_sequence"),
        ("tool_use", FinishReason::ToolUse, "tool_use"),
        ("content_filtered", FinishReason::Refusal, "content_filtered"),
        ("guardrail_intervened", FinishReason::Refusal, "content_filtered"),
        (
            "model_context_window_exceeded",
            FinishReason::ContextWindowExceeded,
            "model_context_window_exceeded",
        ),
        ("malformed_tool_use", FinishReason::Other, "end_turn"),
        ("brand_new", FinishReason::Other, "end_turn"),
    ] {
        let body = format!(
            r#"{{"stopReason":"{name}","usage":{{"inputTokens":1,"outputTokens":2,"totalTokens":3}}}}"#
        );
        let usage = Usage { input: 1, output: 2, ..Usage::default() };
        let report = UsageReport { usage, output_reported: true };
        assert_eq!(read_converse_usage(body.as_bytes()), Ok((report, finish)), "{name}");
        let body = write_chat_answer(&ChatAnswer { finish, ..answer() }, Duration::ZERO);
        assert!(str::from_utf8(&body).unwrap().contains(&format!(r#""stopReason":"{written}""#)), "{name}");
    }
    let body = write_chat_answer(&ChatAnswer { finish: FinishReason::PauseTurn, ..answer() }, Duration::ZERO);
    assert_eq!(read_converse_usage(&body).unwrap().1, FinishReason::EndTurn);
}

#[test]
fn content_without_a_neutral_form_is_dropped() {
    let body = r#"{"output":{"message":{"role":"assistant","content":[
        {"reasoningContent":{"reasoningText":{"text":"hm"}}},
        {"citationsContent":{"content":[{"text":"a"},{"text":"b"}],"citations":[]}},
        {"toolUse":{"toolUseId":"s","name":"nova","input":{},"type":"server_tool_use"}},
        {"image":{"format":"png","source":{"bytes":"aGk="}}},
        {"brandNew":{}},
        {"text":"c"}
    ]}},"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3},"metrics":{"latencyMs":1}}"#;
    let parts = read_chat_answer(body.as_bytes(), "", "").unwrap().parts;
    assert_eq!(parts, [AnswerPart::Text("ab".to_owned()), AnswerPart::Text("c".to_owned())]);
}

#[test]
fn usage_that_is_incomplete_is_read_on_the_safe_side() {
    for (usage, input, output, output_reported) in [
        (r#"{"inputTokens":3,"outputTokens":null}"#, 3, 0, false),
        (r#"{"outputTokens":2}"#, 0, 2, true),
        // The excess of the total over its parts counts as output.
        (r#"{"inputTokens":3,"outputTokens":2,"totalTokens":9}"#, 3, 6, true),
        ("null", 0, 0, false),
        (r#"{"inputTokens":-1,"outputTokens":2}"#, 0, 2, true),
        (r#"{"inputTokens":3,"outputTokens":"2"}"#, 3, 0, false),
        (r#"{"inputTokens":3,"cacheWriteInputTokens":{},"outputTokens":2}"#, 0, 2, true),
        (r#""none""#, 0, 0, false),
    ] {
        let body = format!(r#"{{"stopReason":"end_turn","usage":{usage}}}"#);
        let usage = Usage { input, output, ..Usage::default() };
        let report = UsageReport { usage, output_reported };
        assert_eq!(read_converse_usage(body.as_bytes()), Ok((report, FinishReason::EndTurn)), "{body}");
    }
}

#[test]
fn how_it_was_served_and_how_long_the_cache_lives_are_read_with_the_usage() {
    let usage = r#"{"inputTokens":3,"outputTokens":4,"totalTokens":21,"cacheReadInputTokens":5,"cacheWriteInputTokens":9,
        "cacheDetails":[{"ttl":"1h","inputTokens":7},{"ttl":"5m","inputTokens":2}]}"#;
    let served = r#""serviceTier":{"type":"priority"},"performanceConfig":{"latency":"optimized"}"#;
    let service = ServiceTier::default()
        .with(PriceDimension::Tier, Some(Surcharge::Priority))
        .with(PriceDimension::Latency, Some(Surcharge::Optimized));
    let extras = UsageExtras { cache_write_1h: Some(7), tool_uses: 0, service };
    let usage_told = Usage { input: 3, cache_read: 5, cache_write: 9, output: 4, extras };
    let body = format!(r#"{{"stopReason":"end_turn","usage":{usage},{served}}}"#);
    let report = UsageReport { usage: usage_told, output_reported: true };
    assert_eq!(read_converse_usage(body.as_bytes()), Ok((report, FinishReason::EndTurn)));
    let mut stream = ConverseStream::new(FrameLimits::default());
    for (name, payload) in [
        ("messageStart", r#"{"role":"assistant"}"#.to_owned()),
        ("messageStop", r#"{"stopReason":"end_turn"}"#.to_owned()),
        ("metadata", format!(r#"{{"usage":{usage},"metrics":{{"latencyMs":1}},{served}}}"#)),
    ] {
        stream.feed(&event(name, &payload), |_| ()).unwrap();
    }
    assert_eq!((stream.report(), stream.is_complete()), (report, true));
    // If the details exceed the sum, the details count; an unknown time to live counts as a long one.
    let body = r#"{"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":1,"cacheDetails":[{"ttl":"1d","inputTokens":8}]}}"#;
    let (UsageReport { usage, .. }, _) = read_converse_usage(body.as_bytes()).unwrap();
    assert_eq!((usage.cache_write, usage.extras.cache_write_1h), (8, Some(8)));
    // Writing the answer in this dialect keeps the usage.
    let again = write_chat_answer(&ChatAnswer { usage: usage_told, ..answer() }, Duration::ZERO);
    assert_eq!(read_chat_answer(&again, "", "").unwrap().usage.extras.cache_write_1h, Some(7));
}

#[test]
fn an_answer_that_cannot_be_read_is_an_error() {
    for body in ["", "{}", "<html>", r#"{"stopReason":7,"usage":{}}"#] {
        assert!(
            matches!(read_converse_usage(body.as_bytes()), Err(AnswerError::Unreadable { .. })),
            "{body}"
        );
        assert!(read_chat_answer(body.as_bytes(), "", "").is_err());
    }
    let body = GOLDEN.replace(r#"{"text":"Hello \"漫画\"\n"}"#, "[]");
    let AnswerError::Unreadable { problem } = read_chat_answer(body.as_bytes(), "", "").unwrap_err() else {
        panic!("{body}")
    };
    assert_eq!(problem, "invalid content block: []");
}
