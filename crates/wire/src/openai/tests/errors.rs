use crate::ApiErrorKind;
use crate::openai::{OpenAiErrorBody, error_code_of, error_type_of, read_error, status_of, write_error};
use bytes::BytesMut;
use seawall_core::failure::{FailureKind, Retryability};
use std::time::Duration;

fn no_header(_: &str) -> Option<&'static str> {
    None
}

#[test]
fn the_code_decides_then_the_type_then_the_status() {
    for (status, error, expected) in [
        (429, r#"{"type":"requests","code":"rate_limit_exceeded"}"#, FailureKind::Throttled),
        (429, r#"{"type":"requests","code":"insufficient_quota"}"#, FailureKind::QuotaExhausted),
        (429, r#"{"type":"insufficient_quota","code":"brand_new"}"#, FailureKind::QuotaExhausted),
        (429, r#"{"type":"tokens","code":null}"#, FailureKind::Throttled),
        (400, r#"{"type":"invalid_request_error","code":"context_length_exceeded"}"#, FailureKind::TooLong),
        (400, r#"{"type":"invalid_request_error","code":"content_filter"}"#, FailureKind::Filtered),
        (404, r#"{"type":"invalid_request_error","code":null}"#, FailureKind::NotFound),
        (401, r#"{"type":"invalid_request_error"}"#, FailureKind::Unauthorized),
        (500, r#"{"code":429}"#, FailureKind::ServerFault),
        (503, r#"{"type":7}"#, FailureKind::Overloaded),
        (302, "null", FailureKind::Unrecognised),
        // A numeric code in the error range replaces a success status; any other number is ignored.
        (200, r#"{"code":399}"#, FailureKind::Unrecognised),
        (200, r#"{"code":400}"#, FailureKind::BadRequest),
        (200, r#"{"code":599}"#, FailureKind::ServerFault),
        (200, r#"{"code":600}"#, FailureKind::Unrecognised),
        (200, r#"{"code":65965}"#, FailureKind::Unrecognised),
    ] {
        let body = format!(r#"{{"error":{error}}}"#);
        let failure = read_error(status, no_header, body.as_bytes());
        assert_eq!(failure.kind, expected, "{status} {body}");
        assert!(status >= 400 || !failure.not_executed, "{status} {body}");
    }
    for body in ["", "<html>busy</html>", "[]", "\"\"", "{\"error\":"] {
        assert_eq!(read_error(503, no_header, body.as_bytes()).kind, FailureKind::Overloaded, "{body}");
    }
    assert!(read_error(429, no_header, b"").not_executed);
    let hinted = read_error(429, |name| (name == "retry-after-ms").then_some("70"), b"");
    assert_eq!(hinted.retry_after, Some(Duration::from_millis(70)));
}

#[test]
fn each_refusal_means_to_the_next_seawall_what_it_meant_to_us() {
    for error_kind in ApiErrorKind::ALL {
        let mut body = BytesMut::new();
        write_error(&mut body, &OpenAiErrorBody::new(error_kind, "no"));
        let failure = read_error(status_of(error_kind), no_header, &body);
        let by_status = read_error(status_of(error_kind), no_header, b"");
        match error_kind {
            ApiErrorKind::BudgetExhausted => assert_eq!(failure.retryability, Retryability::OtherTarget),
            ApiErrorKind::ContextLength => assert_eq!(failure.kind, FailureKind::TooLong),
            ApiErrorKind::SwitchedOff => assert_eq!(failure.kind, FailureKind::ServerFault),
            _ => assert_eq!(failure.kind, by_status.kind, "{error_kind:?}"),
        }
        assert!(!error_type_of(error_kind).is_empty() && error_code_of(error_kind) != Some(""));
    }
}
