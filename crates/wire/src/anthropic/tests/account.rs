use crate::AnswerError;
use crate::anthropic::read_answer;
use crate::chat::{FinishReason, Usage, UsageReport};
use seawall_core::money::{PriceDimension, ServiceTier, Surcharge, UsageExtras};

#[test]
fn usage_and_finish_are_read_and_the_rest_is_not_looked_at() {
    let body = br#"{"id":"m","type":"message","content":[{"type":"new","x":[1]}],"stop_reason":"tool_use",
        "usage":{"input_tokens":3,"cache_creation_input_tokens":5,"cache_read_input_tokens":7,"output_tokens":11,
        "service_tier":"standard","server_tool_use":{"web_search_requests":0}}}"#;
    let service = ServiceTier::default().with(PriceDimension::Tier, None);
    let extras = UsageExtras { service, ..UsageExtras::NONE };
    let usage = Usage { input: 3, cache_write: 5, cache_read: 7, output: 11, extras };
    assert_eq!(read_answer(body), Ok((UsageReport { usage, output_reported: true }, FinishReason::ToolUse)));
    assert_eq!(usage.total_input(), 15);
}

#[test]
fn what_changes_the_price_is_read_with_the_usage() {
    let body = br#"{"type":"message","stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":4,
        "cache_creation_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":7},
        "server_tool_use":{"web_search_requests":2},"service_tier":"priority","speed":"fast","inference_geo":"global"}}"#;
    let (UsageReport { usage, .. }, _) = read_answer(body).unwrap();
    let service = ServiceTier::default()
        .with(PriceDimension::Tier, Some(Surcharge::Priority))
        .with(PriceDimension::Speed, Some(Surcharge::Fast))
        .with(PriceDimension::Geography, None);
    assert_eq!(usage.extras, UsageExtras { cache_write_1h: Some(7), tool_uses: 2, service });
}

#[test]
fn the_sum_over_all_passes_is_used_if_it_exceeds_the_reported_total() {
    let pass = |kind: &str, input: u64, output: u64| {
        format!(
            r#"{{"type":"{kind}","input_tokens":{input},"output_tokens":{output},"cache_read_input_tokens":1,
            "cache_creation_input_tokens":4,"cache_creation":{{"ephemeral_1h_input_tokens":2}}}}"#
        )
    };
    let passes = [pass("compaction", 180_000, 3_500), pass("message", 23_000, 1_000)].join(",");
    let counts = |top: &str, passes: &str| {
        let body = format!(
            r#"{{"type":"message","stop_reason":"end_turn","usage":{{{top},"iterations":{passes}}}}}"#
        );
        let (UsageReport { usage, output_reported }, _) = read_answer(body.as_bytes()).unwrap();
        let hour = usage.extras.cache_write_1h;
        (usage.input, usage.cache_read, usage.cache_write, hour, usage.output, output_reported)
    };
    let small = r#""input_tokens":23000,"output_tokens":1000"#;
    assert_eq!(counts(small, &format!("[{passes}]")), (203_000, 2, 8, Some(4), 4_500, true));
    let large = r#""input_tokens":900000,"output_tokens":9000"#;
    assert_eq!(counts(large, &format!("[{passes}]")), (900_000, 2, 8, Some(4), 9_000, true));
    for nothing in ["null", "[]"] {
        assert_eq!(counts(small, nothing), (23_000, 0, 0, None, 1_000, true), "{nothing}");
    }
    // Unreadable iterations may have been billed.
    for garbage in [r#""many""#, "[7]", r#"[{"input_tokens":-1,"output_tokens":5}]"#] {
        assert_eq!(counts(small, garbage), (0, 0, 0, None, 1_000, true), "{garbage}");
    }
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
    for body in ["", "<html>", "[]", r#"{"usage":{}}"#] {
        assert!(matches!(read_answer(body.as_bytes()), Err(AnswerError::Unreadable { .. })), "{body}");
    }
}
