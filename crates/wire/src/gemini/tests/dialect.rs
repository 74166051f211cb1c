use super::sse;
use crate::chat::{ChatEvent, FinishReason};
use crate::dialect::{DialectId, UrlParameters, VendorError};
use crate::{ApiErrorKind, RetryAdvice};
use seawall_core::failure::FailureKind;
use serde_json::{Value, json};
use std::time::Duration;

const GEMINI: DialectId = DialectId::GEMINI;

fn read(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

#[test]
fn only_streams_of_events_are_served() {
    let url = |stream| UrlParameters::new("m".to_owned(), stream);
    assert_eq!(GEMINI.check_query(&url(true), "alt=sse"), Ok(()));
    assert_eq!(GEMINI.check_query(&url(false), ""), Ok(()));
    assert!(GEMINI.check_query(&url(true), "").unwrap_err().contains("alt=sse"));
    assert_eq!(DialectId::ANTHROPIC_MESSAGES.check_query(&url(true), ""), Ok(()));
}

#[test]
fn the_end_is_reported_when_the_connection_ends() {
    let stream = sse(&[r#"{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}]}"#]);
    let (mut monitor, mut reader) = (GEMINI.monitor_stream(false), GEMINI.read_stream("id", "m"));
    let mut events = Vec::new();
    monitor.feed(stream.as_bytes(), &mut |_| {}).unwrap();
    reader.feed(stream.as_bytes(), &mut |event| events.push(event)).unwrap();
    assert!(monitor.is_complete());
    assert_eq!(events.last(), Some(&ChatEvent::Text("hi".to_owned())));
    reader.end(&mut |event| events.push(event));
    assert_eq!(events.last(), Some(&ChatEvent::Finished(FinishReason::EndTurn)));

    // Cut before the finish reason.
    let stream = sse(&[r#"{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}"#]);
    let (mut monitor, mut reader) = (GEMINI.monitor_stream(false), GEMINI.read_stream("id", "m"));
    monitor.feed(stream.as_bytes(), &mut |_| {}).unwrap();
    reader.feed(stream.as_bytes(), &mut |_| {}).unwrap();
    assert!(!monitor.is_complete());
    reader.end(&mut |event| panic!("{event:?}"));
}

#[test]
fn errors_carry_the_delay_in_the_body_unless_a_retry_is_advised_against() {
    let error = |should_retry| {
        let advice = RetryAdvice { wait: Some(Duration::from_millis(1_500)), should_retry };
        GEMINI.write_error(ApiErrorKind::Throttled, "slow down", "req_1", advice)
    };
    let throttled = error(None);
    let delay = json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.500s"}]);
    assert_eq!((throttled.status, &read(&throttled.body)["error"]["details"]), (429, &delay));
    assert!(throttled.headers.contains(&("x-request-id", "req_1".to_owned())));
    assert!(throttled.headers.contains(&("retry-after", "2".to_owned())));
    assert_eq!(read(&error(Some(false)).body)["error"].get("details"), None);
}

#[test]
fn vendor_errors_have_the_usual_name_of_their_status() {
    let error = |status, name| {
        let error = GEMINI.write_vendor_error(&VendorError { status, name, message: "m", request_id: "r" });
        assert_eq!(error.status, status);
        read(&error.body)
    };
    let usual = json!({"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}});
    assert_eq!(error(429, None), usual);
    assert_eq!(error(500, Some("DATA_LOSS"))["error"]["status"], "DATA_LOSS");
    for (status, name) in [(400, "INVALID_ARGUMENT"), (503, "UNAVAILABLE"), (504, "DEADLINE_EXCEEDED")] {
        assert_eq!(error(status, None)["error"]["status"], name);
    }
}

#[test]
fn an_interruption_has_no_line_that_clients_cannot_read() {
    let bytes = GEMINI.write_interruption(FailureKind::Overloaded, "the connection broke");
    let text = std::str::from_utf8(&bytes).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(read(lines[0].strip_prefix("data: ").unwrap().as_bytes()), read(lines[1].as_bytes()));
    assert_eq!(read(lines[1].as_bytes())["error"]["status"], "UNAVAILABLE");
}
