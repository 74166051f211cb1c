use super::stream::{read, watch};
use crate::ApiErrorKind;
use crate::chat::{ChatEvent, StreamEvent};
use crate::gemini::{
    read_error, read_error_message, status_name_of, status_of, write_error, write_error_event,
    write_error_with_retry,
};
use bytes::BytesMut;
use proptest::prelude::{any, proptest};
use seawall_core::failure::FailureKind;
use serde_json::{Value, json};
use std::time::Duration;

fn no_header(_: &str) -> Option<&'static str> {
    None
}

#[test]
fn the_reason_decides_then_the_name_then_the_status() {
    let info =
        |reason: &str| json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]);
    let quota = |id: &str| json!([{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id}]}]);
    let too_long = "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).";
    for (status, name, message, details, expected) in [
        (429, "RESOURCE_EXHAUSTED", "", json!([]), FailureKind::Throttled),
        (
            429,
            "RESOURCE_EXHAUSTED",
            "",
            quota("GenerateRequestsPerMinutePerProjectPerModel"),
            FailureKind::Throttled,
        ),
        (
            429,
            "RESOURCE_EXHAUSTED",
            "",
            quota("GenerateRequestsPerDayPerProjectPerModel"),
            FailureKind::QuotaExhausted,
        ),
        (503, "UNAVAILABLE", "", Value::Null, FailureKind::Overloaded),
        (500, "INTERNAL", "", Value::Null, FailureKind::ServerFault),
        (504, "DEADLINE_EXCEEDED", "", Value::Null, FailureKind::TimedOut),
        (400, "INVALID_ARGUMENT", "", Value::Null, FailureKind::BadRequest),
        (400, "INVALID_ARGUMENT", too_long, Value::Null, FailureKind::TooLong),
        (400, "INVALID_ARGUMENT", "API key not valid", info("API_KEY_INVALID"), FailureKind::Unauthorized),
        (400, "INVALID_ARGUMENT", "", info("BRAND_NEW"), FailureKind::BadRequest),
        (
            400,
            "FAILED_PRECONDITION",
            "User location is not supported",
            Value::Null,
            FailureKind::Unauthorized,
        ),
        (403, "PERMISSION_DENIED", "", Value::Null, FailureKind::Unauthorized),
        (404, "NOT_FOUND", "", Value::Null, FailureKind::NotFound),
        (418, "BRAND_NEW", "", Value::Null, FailureKind::BadRequest),
    ] {
        let error =
            json!({"error": {"code": status, "status": name, "message": message, "details": details}});
        for body in [error.to_string(), json!([error]).to_string()] {
            let failure = read_error(status, no_header, body.as_bytes());
            assert_eq!(failure.kind, expected, "{body}");
            assert_eq!(read_error_message(body.as_bytes()), message);
        }
    }
    for body in ["", "<html>busy</html>", "[]", "\"\"", "{\"error\":"] {
        assert_eq!(read_error(503, no_header, body.as_bytes()).kind, FailureKind::Overloaded, "{body}");
        assert_eq!(read_error_message(body.as_bytes()), "");
    }
    let blocked = br#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}"#;
    assert_eq!(read_error(200, no_header, blocked).kind, FailureKind::Filtered);
    assert_eq!(read_error_message(blocked), "PROHIBITED_CONTENT");
}

#[test]
fn the_delay_in_the_details_comes_before_the_header() {
    let header = |name: &str| (name == "retry-after").then_some("7");
    for (delay, millis) in [
        (json!("19s"), 19_000),
        (json!("0.5s"), 500),
        (json!("52758s"), 52_758_000),
        (json!("s"), 7_000),
        (json!("-1s"), 7_000),
        (json!("infs"), 7_000),
        (json!("3"), 7_000),
        (json!(3), 7_000),
    ] {
        let body = json!({"error": {"status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": delay}]}})
            .to_string();
        let failure = read_error(429, header, body.as_bytes());
        assert_eq!(failure.retry_after, Some(Duration::from_millis(millis)), "{body}");
    }
    assert_eq!(read_error(429, no_header, b"").retry_after, None);
}

#[test]
fn each_refusal_means_to_the_next_seawall_what_it_meant_to_us() {
    for error_kind in ApiErrorKind::ALL {
        let mut body = BytesMut::new();
        let wait = Some(Duration::from_micros(1_500_001));
        write_error_with_retry(&mut body, error_kind, "no", wait);
        let failure = read_error(status_of(error_kind), no_header, &body);
        let expected = match error_kind {
            ApiErrorKind::Malformed | ApiErrorKind::TooLarge => FailureKind::BadRequest,
            ApiErrorKind::ContextLength => FailureKind::TooLong,
            ApiErrorKind::Unauthenticated
            | ApiErrorKind::Forbidden
            | ApiErrorKind::ExceedsRemainingBudget
            | ApiErrorKind::ExceedsDailyBudget => FailureKind::Unauthorized,
            ApiErrorKind::NotFound | ApiErrorKind::UnknownPath => FailureKind::NotFound,
            ApiErrorKind::Conflict | ApiErrorKind::OutcomeUnknown | ApiErrorKind::Internal => {
                FailureKind::ServerFault
            }
            ApiErrorKind::Throttled | ApiErrorKind::BudgetHeld => FailureKind::Throttled,
            ApiErrorKind::BudgetExhausted => FailureKind::QuotaExhausted,
            ApiErrorKind::SwitchedOff | ApiErrorKind::Overloaded => FailureKind::Overloaded,
            ApiErrorKind::TimedOut => FailureKind::TimedOut,
        };
        assert_eq!(failure.kind, expected, "{error_kind:?}");
        assert_eq!(failure.retry_after, Some(Duration::from_millis(1_501)));
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"]["code"], status_of(error_kind));
        assert_eq!(body["error"]["status"], status_name_of(error_kind));
    }
    let mut body = BytesMut::new();
    write_error(&mut body, ApiErrorKind::Overloaded, "no \"model\"");
    assert_eq!(body, r#"{"error":{"code":503,"message":"no \"model\"","status":"UNAVAILABLE"}}"#);
}

#[test]
fn an_interrupted_stream_ends_with_an_error_for_every_client() {
    let mut out = BytesMut::new();
    write_error_event(&mut out, ApiErrorKind::Overloaded, "lost");
    let document = r#"{"error":{"code":503,"message":"lost","status":"UNAVAILABLE"}}"#;
    assert_eq!(out, format!("data: {document}\n\n{document}\n\n"));
    let (events, stream) = watch([&out[..]]);
    assert!(matches!(&events[..], [StreamEvent::Failed { failure, message }]
        if failure.kind == FailureKind::Overloaded && message == "lost"));
    assert!(stream.is_between_events() && !stream.is_complete());
    assert!(matches!(&read([&out[..]]).0[..], [ChatEvent::Failed { .. }]));
}

proptest! {
    #[test]
    fn any_error_is_classified(status: u16, bytes: Vec<u8>, text in any::<String>()) {
        for body in [&bytes[..], text.as_bytes(), json!({"error": {"details": [{"retryDelay": text}]}}).to_string().as_bytes()] {
            let _ = (read_error(status, no_header, body), read_error_message(body));
        }
    }
}
