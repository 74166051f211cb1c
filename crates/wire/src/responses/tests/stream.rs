use super::strategies::{read as read_chat, write};
use crate::StreamError;
use crate::chat::{ChatEvent, FinishReason, StreamEvent, Usage};
use crate::responses::ResponsesStream;
use crate::sse::{SseError, SseLimits};
use bytes::BytesMut;
use seawall_core::failure::FailureKind;
use seawall_core::money::{PriceDimension, ServiceTier, Surcharge};
use serde_json::{Value, json};

/// A stream as the vendor sends it, with its padding, its echo of the request and fields unknown here.
const COMPLETE: &str = include_str!("vendor_stream.txt");

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<StreamEvent>, ResponsesStream) {
    let mut stream = ResponsesStream::new(SseLimits::default());
    let mut events = Vec::new();
    for piece in pieces {
        stream.feed(piece, |event| events.push(event)).unwrap();
    }
    (events, stream)
}

fn read_events(data: &[Value]) -> (Vec<StreamEvent>, ResponsesStream) {
    let bytes: String = data.iter().map(|event| format!("data: {event}\n\n")).collect();
    read([bytes.as_bytes()])
}

#[test]
fn a_complete_stream_is_read_for_its_usage_and_its_end() {
    let (events, mut stream) = read([COMPLETE.as_bytes()]);
    let mut usage = Usage { input: 25, cache_read: 4, cache_write: 3, output: 90, ..Usage::default() };
    usage.extras.tool_uses = 2;
    usage.extras.service = ServiceTier::default().with(PriceDimension::Tier, Some(Surcharge::Priority));
    let finish = Some(FinishReason::ToolUse);
    let shown: Vec<_> = events.iter().filter(|event| **event != StreamEvent::Other).collect();
    assert_eq!(
        shown,
        [
            &StreamEvent::Started(Usage::default()),
            &StreamEvent::Thinking,
            &StreamEvent::Content,
            &StreamEvent::Content,
            &StreamEvent::Content,
            &StreamEvent::Content,
            &StreamEvent::Progress { usage, finish },
            &StreamEvent::Finished,
        ]
    );
    assert_eq!((stream.usage(), stream.finish_reason()), (usage, finish));
    assert!(stream.is_complete() && stream.is_between_events() && stream.report().output_reported);
    assert!(stream.meter().has_hidden_output());
    assert_eq!(read(COMPLETE.as_bytes().chunks(1)).0, events);
}

#[test]
fn a_stream_that_stops_anywhere_before_its_end_is_not_complete() {
    for cut in 0..COMPLETE.len() {
        let (_, stream) = read([&COMPLETE.as_bytes()[..cut]]);
        assert!(!stream.is_complete(), "cut at {cut}");
        let is_between = cut == 0 || COMPLETE.as_bytes()[..cut].ends_with(b"\n\n");
        assert_eq!(stream.is_between_events(), is_between, "cut at {cut}");
        assert!(!is_between || stream.unfinished() == 0, "cut at {cut}");
    }
}

#[test]
fn text_reasoning_and_arguments_are_metered() {
    let delta = |name: &str, delta: &str| json!({"type": format!("response.{name}.delta"), "delta": delta, "obfuscation": "abcdef"});
    for (event, bytes, meaning) in [
        (delta("output_text", "日本"), 6, StreamEvent::Content),
        (delta("refusal", "no"), 2, StreamEvent::Content),
        (delta("reasoning_text", "hm"), 2, StreamEvent::Thinking),
        (delta("reasoning_summary_text", "hm"), 2, StreamEvent::Thinking),
        (delta("function_call_arguments", "{\"a\":"), 5, StreamEvent::Content),
        (delta("custom_tool_call_input", "ls"), 2, StreamEvent::Content),
        (delta("mcp_call_arguments", "{}"), 2, StreamEvent::Content),
        (delta("output_text", ""), 0, StreamEvent::Other),
        (json!({"type": "response.output_text.done", "text": "whole"}), 0, StreamEvent::Other),
        (json!({"type": "response.brand_new", "delta": 7}), 0, StreamEvent::Other),
    ] {
        let (events, mut stream) = read_events(std::slice::from_ref(&event));
        assert_eq!((events.last(), stream.meter().upper()), (Some(&meaning), bytes), "{event}");
    }
    // Servers that send no deltas.
    let item = json!({"type": "message", "content": [{"type": "output_text", "text": "four"}]});
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    let (events, mut stream) = read_events(&[done]);
    assert_eq!((events.last(), stream.meter().upper()), (Some(&StreamEvent::Content), 4));
    let item = json!({"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"});
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    assert_eq!(read_events(&[done]).1.meter().upper(), 3);
}

#[test]
fn how_a_response_ended_is_read_from_its_last_object() {
    let message = |kind: &str| json!([{"type": "message", "content": [{"type": kind}]}]);
    for (response, finish) in [
        (json!({"status": "completed", "output": message("output_text")}), FinishReason::EndTurn),
        (json!({"status": "completed", "output": message("refusal")}), FinishReason::Refusal),
        (json!({"status": "completed", "output": [{"type": "function_call"}]}), FinishReason::ToolUse),
        (json!({"status": "completed", "output": [{"type": "custom_tool_call"}]}), FinishReason::ToolUse),
        (json!({"status": "completed", "output": [{"type": "web_search_call"}]}), FinishReason::EndTurn),
        (json!({"status": "completed", "output": 7}), FinishReason::EndTurn),
        (
            json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}),
            FinishReason::MaxTokens,
        ),
        (
            json!({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}),
            FinishReason::Refusal,
        ),
        (json!({"status": "incomplete", "incomplete_details": {"reason": "steered"}}), FinishReason::Other),
        (json!({"status": "incomplete", "incomplete_details": null}), FinishReason::Other),
        (json!({}), FinishReason::Other),
    ] {
        let (_, stream) = read_events(&[json!({"type": "response.completed", "response": response})]);
        assert_eq!(stream.finish_reason(), Some(finish), "{response}");
        assert!(stream.is_complete() && !stream.report().output_reported);
    }
}

#[test]
fn failures_inside_the_stream_are_read_in_all_their_forms() {
    let failed = json!({"type": "response.failed", "response": {"status": "failed", "usage": {"input_tokens": 3, "output_tokens": 2},
        "error": {"code": "rate_limit_exceeded", "message": "slow down"}}});
    for (event, kind, message) in [
        (failed.clone(), FailureKind::Throttled, "slow down"),
        (
            json!({"type": "error", "code": "server_error", "message": "oops", "param": null}),
            FailureKind::ServerFault,
            "oops",
        ),
        (
            json!({"type": "error", "error": {"code": "insufficient_quota", "message": "pay"}}),
            FailureKind::QuotaExhausted,
            "pay",
        ),
        (json!({"error": {"code": 503, "message": "busy"}}), FailureKind::Overloaded, "busy"),
        (json!({"type": "response.failed", "response": {"error": null}}), FailureKind::Unrecognised, ""),
        (json!({"type": "response.failed"}), FailureKind::Unrecognised, ""),
        (
            json!({"type": "response.failed", "response": {"status": 7, "error": {"code": "server_error", "message": "x"}}}),
            FailureKind::ServerFault,
            "x",
        ),
    ] {
        let (events, stream) =
            read_events(&[json!({"type": "response.created", "response": {"id": "r"}}), event.clone()]);
        let Some(StreamEvent::Failed { failure, message: told }) = events.last() else {
            panic!("{events:?}")
        };
        assert_eq!((failure.kind, failure.not_executed, told.as_str()), (kind, false, message), "{event}");
        assert!(!stream.is_complete() && stream.finish_reason().is_none());
    }
    assert_eq!(read_events(&[failed]).1.usage(), Usage { input: 3, output: 2, ..Usage::default() });
}

#[test]
fn an_error_is_final() {
    for broken in [
        "data: {\n\n",
        "data: 7\n\n",
        "data: {\"type\":7}\n\n",
        "data: {\"type\":\"response.completed\"}\n\n",
    ] {
        let mut stream = ResponsesStream::new(SseLimits::default());
        let mut seen = Vec::new();
        let error = stream.feed(broken.as_bytes(), |event| seen.push(event)).unwrap_err();
        assert!(matches!(error, StreamError::Unreadable { event: "response", .. }), "{broken}");
        assert!(!seen.contains(&StreamEvent::Finished) && !stream.is_complete());
        assert_eq!(stream.feed(b"data: [DONE]\n\n", |_| panic!("read on")), Err(error));
    }
    let mut stream = ResponsesStream::new(SseLimits { max_line_bytes: 30, max_event_bytes: 30 });
    let too_long = StreamError::Sse(SseError::LineTooLong { limit: 30 });
    assert_eq!(stream.feed(&[b'x'; 31], |_| ()), Err(too_long));
}

#[test]
fn a_stream_can_be_ended_between_any_two_events() {
    let usage = Usage { input: 7, output: 5, ..Usage::default() };
    let (whole, ..) = read_chat([COMPLETE.as_bytes()]);
    for (end, _) in COMPLETE.match_indices("\n\n").filter(|(end, _)| !COMPLETE[end + 2..].is_empty()) {
        let part = &COMPLETE.as_bytes()[..end + 2];
        let (_, stream) = read([part]);
        let mut ended = BytesMut::from(part);
        stream.write_end(&mut ended, usage);
        let (events, again) = read([&ended[..]]);
        assert!(again.is_complete() && events.last() == Some(&StreamEvent::Finished));
        assert_eq!((again.usage(), again.finish_reason()), (usage, Some(FinishReason::MaxTokens)));
        let (events, outcome, is_over) = read_chat([&ended[..]]);
        assert!(outcome.is_ok() && is_over);
        let (content, end) = events.split_at(events.len() - 2);
        assert_eq!(content, &whole[..content.len()]);
        assert_eq!(end, [ChatEvent::Usage(usage), ChatEvent::Finished(FinishReason::MaxTokens)]);
    }
}

#[test]
fn the_end_at_the_limit_repeats_what_has_arrived() {
    let started = ChatEvent::Started { id: "resp_1".into(), model: "m".into(), usage: Usage::default() };
    let call = ChatEvent::ToolCallStarted { id: "c".into(), name: "f".into() };
    let bytes =
        write(&[started, ChatEvent::Text("日\n本".into()), call, ChatEvent::ToolInput("{\"a".into())]);
    let (_, stream) = read([&bytes[..]]);
    let mut end = BytesMut::new();
    stream.write_end(&mut end, Usage { output: 5, ..Usage::default() });
    let end = String::from_utf8(end.to_vec()).unwrap();
    let data: Vec<Value> = end
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let item = json!({"type": "function_call", "id": "fc_resp1_1", "status": "incomplete", "call_id": "c", "name": "f", "arguments": "{\"a"});
    let text = json!([{"type": "output_text", "text": "日\n本", "annotations": [], "logprobs": []}]);
    let message = json!({"type": "message", "id": "msg_resp1_0", "status": "completed", "role": "assistant", "content": text});
    let first = 2 + 6 + 2;
    assert_eq!(
        data[..2],
        [
            json!({"type": "response.function_call_arguments.done", "sequence_number": first, "item_id": "fc_resp1_1", "output_index": 1, "arguments": "{\"a"}),
            json!({"type": "response.output_item.done", "sequence_number": first + 1, "output_index": 1, "item": item}),
        ]
    );
    let response = &data[2]["response"];
    assert_eq!(
        (&data[2]["type"], &data[2]["sequence_number"]),
        (&json!("response.incomplete"), &json!(first + 2))
    );
    assert_eq!(
        (&response["id"], &response["model"], &response["created_at"]),
        (&json!("resp_1"), &json!("m"), &json!(1_700_000_000))
    );
    assert_eq!(
        (&response["status"], &response["incomplete_details"]),
        (&json!("incomplete"), &json!({"reason": "max_output_tokens"}))
    );
    assert_eq!(response["output"], json!([message, item]));
}

#[test]
fn an_answer_of_any_length_is_ended_without_keeping_all_of_it() {
    let mut stream = ResponsesStream::new(SseLimits::default());
    let piece = "x".repeat(1 << 16);
    let item = json!({"type": "message", "id": "msg_1"});
    let mut feed = |event: Value| stream.feed(format!("data: {event}\n\n").as_bytes(), |_| ()).unwrap();
    feed(json!({"type": "response.created", "response": {"id": "r"}}));
    feed(json!({"type": "response.output_item.added", "output_index": 0, "item": item}));
    for _ in 0..40 {
        feed(json!({"type": "response.output_text.delta", "output_index": 0, "delta": piece}));
    }
    let mut end = BytesMut::new();
    stream.write_end(&mut end, Usage::default());
    assert!(end.len() < 8 << 10, "{}", end.len());
    assert_eq!(stream.meter().upper(), 40 << 16 | 16);
}
