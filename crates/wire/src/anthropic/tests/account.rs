use crate::AnswerError;
use crate::anthropic::read_answer;
use crate::chat::{FinishReason, Usage, UsageReport};
use seawall_core::money::{PriceDimension, ServiceLevel, Surcharge, UsageExtras};

#[test]
fn usage_and_finish_are_read_and_the_rest_is_not_looked_at() {
    let body = br#"{"id":"m","type":"message","content":[{"type":"new","x":[1]}],"stop_reason":"tool_use",
        "usage":{"input_tokens":3,"cache_creation_input_tokens":5,"cache_read_input_tokens":7,"output_tokens":11,
        "service_tier":"standard","server_tool_use":{"web_search_requests":0}}}"#;
    let service = ServiceLevel::default().with(PriceDimension::Tier, None);
    let extras = UsageExtras { service, ..UsageExtras::NONE };
    let usage = Usage { input: 3, cache_write: 5, cache_read: 7, output: 11, extras };
    assert_eq!(read_answer(body), Ok((UsageReport { usage, has_output: true }, FinishReason::ToolUse)));
    assert_eq!(usage.total_input(), 15);
}

#[test]
fn what_changes_the_price_is_read_with_the_usage() {
    let body = br#"{"type":"message","stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":4,
        "cache_creation_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":7},
        "server_tool_use":{"web_search_requests":2},"service_tier":"priority","speed":"fast","inference_geo":"global"}}"#;
    let (UsageReport { usage, .. }, _) = read_answer(body).unwrap();
    let service = ServiceLevel::default()
        .with(PriceDimension::Tier, Some(Surcharge::Priority))
        .with(PriceDimension::Speed, Some(Surcharge::Fast))
        .with(PriceDimension::Geography, None);
    assert_eq!(usage.extras, UsageExtras { cache_write_1h: Some(7), tool_uses: 2, service });
}

#[test]
fn every_finish_reason_is_known_and_a_new_one_is_no_fault() {
    for (name, finish) in [
        (r#""end_turn""#, FinishReason::EndTurn),
        (r#""max_tokens""#, FinishReason::MaxTokens),
        (r#""stop_sequence""#, FinishReason::StopSequence),
        (r#""tool_use""#, FinishReason::ToolUse),
        (r#""pause_turn""#, FinishReason::PauseTurn),
        (r#""refusal""#, FinishReason::Refusal),
        (r#""model_context_window_exceeded""#, FinishReason::ContextWindowExceeded),
        (r#""tired""#, FinishReason::Other),
        ("null", FinishReason::Other),
    ] {
        let body = format!(r#"{{"type":"message","stop_reason":{name},"usage":{{"output_tokens":null}}}}"#);
        assert_eq!(read_answer(body.as_bytes()), Ok((UsageReport::default(), finish)), "{name}");
    }
}

#[test]
fn an_answer_without_usage_is_an_answer() {
    for body in [r#"{"type":"message"}"#, r#"{"type":"message","usage":null}"#] {
        assert_eq!(read_answer(body.as_bytes()), Ok((UsageReport::default(), FinishReason::Other)));
    }
}

#[test]
fn an_answer_that_cannot_be_accounted_for_is_an_error() {
    let error = read_answer(br#"{"type":"error","usage":{}}"#).unwrap_err();
    assert_eq!(error, AnswerError::NotAMessage { kind: "error".into() });
    for body in [
        "",
        "<html>",
        "[]",
        r#"{"usage":{}}"#,
        r#"{"type":"message","usage":{"input_tokens":-1}}"#,
        r#"{"type":"message","usage":{"output_tokens":1.5}}"#,
        r#"{"type":"message","usage":{"output_tokens":99999999999999999999}}"#,
        r#"{"type":"message","usage":{"output_tokens":"1"}}"#,
    ] {
        assert!(matches!(read_answer(body.as_bytes()), Err(AnswerError::Unreadable { .. })), "{body}");
    }
}
