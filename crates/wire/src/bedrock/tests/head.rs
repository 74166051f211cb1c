//! Tests of Converse heads, and of Anthropic's events extracted from frames.

use super::{event, exception};
use crate::bedrock::{
    ConverseHead, FrameLimits, FrameReader, InvokeToSse, SseToInvoke, converse_with_limit,
    read_converse_request,
};
use crate::sse::SseLimits;
use crate::{RequestError, RequestLimits};
use base64_simd::STANDARD as BASE64;
use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};
use std::time::Duration;

fn read(body: &str) -> Result<ConverseHead, RequestError> {
    read_converse_request(body.as_bytes(), &RequestLimits::default())
}

fn with(fields: &str) -> String {
    format!(r#" {{ {fields}"messages":[{{"role":"user","content":[{{"text":"hi"}}]}}]}}"#)
}

#[test]
fn a_limit_is_put_in_where_the_caller_named_none() {
    for (fields, expected) in [
        ("", json!({"maxTokens": 9})),
        (r#""inferenceConfig":null,"#, json!({"maxTokens": 9})),
        (r#""inferenceConfig":{},"#, json!({"maxTokens": 9})),
        (r#""inferenceConfig": { "maxTokens" : null },"#, json!({"maxTokens": 9})),
        (r#""inferenceConfig":{ "topP":0.5},"#, json!({"topP": 0.5, "maxTokens": 9})),
        (r#""inferenceConfig":{"maxTokens":1},"#, json!({"maxTokens": 1})),
    ] {
        let body = Bytes::from(with(fields));
        let head = read(&with(fields)).unwrap();
        let sent = converse_with_limit(&body, &head, Some(9)).unwrap();
        let mut wanted: Value = serde_json::from_slice(&body).unwrap();
        wanted["inferenceConfig"] = expected;
        assert_eq!(serde_json::from_slice::<Value>(&sent).unwrap(), wanted, "{fields}");
        assert_eq!(head.max_output.is_some(), sent.as_ptr() == body.as_ptr(), "{fields}");
    }
}

#[test]
fn a_limit_among_the_fields_of_the_model_becomes_the_one_limit_where_it_is_smaller() {
    for (fields, smaller, rest) in [
        (
            r#""inferenceConfig":{"maxTokens":1,"topP":0.5},"additionalModelRequestFields":{"max_tokens":100000,"top_k":5},"#,
            1,
            json!({"top_k": 5}),
        ),
        (
            r#""inferenceConfig":{"maxTokens":100000},"additionalModelRequestFields":{"max_tokens":2},"#,
            2,
            json!({}),
        ),
        (r#""additionalModelRequestFields":{"max_new_tokens":100,"max\u005fgen_len":3},"#, 3, json!({})),
    ] {
        let body = Bytes::from(with(fields));
        let head = read(&with(fields)).unwrap();
        assert_eq!(head.max_output, Some(smaller), "{fields}");
        let sent: Value =
            serde_json::from_slice(&converse_with_limit(&body, &head, Some(9)).unwrap()).unwrap();
        assert_eq!(sent["inferenceConfig"]["maxTokens"], json!(smaller), "{fields}");
        assert_eq!(sent["additionalModelRequestFields"], rest, "{fields}");
        assert_eq!(sent["messages"], json!([{"role": "user", "content": [{"text": "hi"}]}]));
    }
    // Model-specific fields that set no limit are forwarded unchanged.
    let fields = r#""inferenceConfig":{"maxTokens":1},"additionalModelRequestFields":{"thinking":{"type":"enabled"}},"#;
    let body = Bytes::from(with(fields));
    assert_eq!(
        converse_with_limit(&body, &read(&with(fields)).unwrap(), Some(9)).unwrap().as_ptr(),
        body.as_ptr()
    );
    let nested = with(r#""additionalModelRequestFields":{"inferenceConfig":{"max_new_tokens":100000}},"#);
    assert_eq!(
        read(&nested).unwrap_err().to_string(),
        "additionalModelRequestFields.inferenceConfig.max_new_tokens: Output limits are not permitted here; use \
         inferenceConfig.maxTokens"
    );
}

#[test]
fn an_invalid_request_is_refused_with_the_path_of_the_error() {
    for (body, problem) in [
        ("{}".to_owned(), "messages: Field required"),
        (r#"{"messages":[]}"#.into(), "messages: at least one message is required"),
        (r#"{"messages":[{"role":""}]}"#.into(), "messages.0.role: Input should be a non-empty string"),
        (with(r#""inferenceConfig":7,"#), "inferenceConfig: Input should be an object"),
        (
            with(r#""inferenceConfig":{"maxTokens":0},"#),
            "inferenceConfig.maxTokens: Input should be an integer between 1 and 2147483648",
        ),
        (
            with(r#""inferenceConfig":{"maxTokens":1,"maxTokens":2},"#),
            "inferenceConfig.maxTokens: Duplicate field",
        ),
    ] {
        assert_eq!(read(&body).unwrap_err().to_string(), problem, "{body}");
    }
}

fn chunk(json: &str) -> Vec<u8> {
    event("chunk", &json!({"bytes": BASE64.encode_to_string(json)}).to_string())
}

#[test]
fn events_are_taken_out_of_their_frames_without_what_the_service_adds() {
    let stop = r#"{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":1}}"#;
    let bytes = [
        chunk(r#"{"type":"ping"}"#),
        chunk(r#"{"a":1}"#),
        chunk(stop),
        exception("throttlingException", "{}"),
    ];
    let mut out = BytesMut::new();
    let mut words = InvokeToSse::new(FrameLimits::default());
    for piece in bytes.concat().chunks(7) {
        words.feed(piece, &mut out).unwrap();
    }
    let expected = concat!(
        "event: ping\ndata: {\"type\":\"ping\"}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"\"},",
        "\"request_id\":null}\n\n",
    );
    assert_eq!(str::from_utf8(&out).unwrap(), expected);
    assert!(words.feed(&[b'x'; 16], &mut out).is_err());
}

#[test]
fn content_that_is_no_json_gets_no_frame() {
    let mut frames = SseToInvoke::new(SseLimits::default());
    let mut out = BytesMut::new();
    let events = "event: a\ndata: {}\n\nevent: content_block_delta\ndata: <}\n\nevent: b\ndata: {}\n\n";
    assert!(frames.feed(events.as_bytes(), Duration::ZERO, &mut out).is_err());
    let mut seen = 0;
    FrameReader::new(FrameLimits::default()).feed(&out, |_| seen += 1).unwrap();
    assert_eq!(seen, 1);
}

#[test]
fn what_has_come_of_a_frame_is_counted() {
    let frame = event("x", "{}");
    let mut reader = FrameReader::new(FrameLimits::default());
    for (at, byte) in frame.iter().enumerate() {
        assert_eq!(reader.unfinished(), at);
        reader.feed(&[*byte], |_| ()).unwrap();
    }
    assert_eq!(reader.unfinished(), 0);
}
