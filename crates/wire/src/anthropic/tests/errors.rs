use crate::ApiErrorKind;
use crate::anthropic::{error_code_of, error_type_of, read_error, status_of};
use seawall_core::failure::{ANTHROPIC, FailureKind, Retryability};
use std::time::Duration;

fn no_header(_: &str) -> Option<&'static str> {
    None
}

#[test]
fn the_code_decides_then_the_type_then_the_status() {
    for (status, error, expected) in [
        (429, r#"{"type":"rate_limit_error"}"#, FailureKind::Throttled),
        (
            429,
            r#"{"type":"rate_limit_error","details":{"error_code":"enforced_spend_limit_reached"}}"#,
            FailureKind::QuotaExhausted,
        ),
        (429, r#"{"type":"rate_limit_error","details":{"error_code":"brand_new"}}"#, FailureKind::Throttled),
        (429, r#"{"type":"billing_error","details":null}"#, FailureKind::QuotaExhausted),
        (500, r#"{"type":"overloaded_error"}"#, FailureKind::Overloaded),
        (400, r#"{"type":"brand_new"}"#, FailureKind::BadRequest),
        (529, r#"{"type":7,"message":[]}"#, FailureKind::Overloaded),
        (413, "null", FailureKind::TooLong),
        (504, r#""text""#, FailureKind::TimedOut),
        (302, "[]", FailureKind::Unrecognised),
    ] {
        let body = format!(r#"{{"type":"error","error":{error}}}"#);
        assert_eq!(read_error(status, no_header, body.as_bytes()).kind, expected, "{status} {body}");
    }
    for body in ["", "<html>busy</html>", "[]", "\"\"", "{\"error\":", "\u{FEFF}"] {
        assert_eq!(read_error(503, no_header, body.as_bytes()).kind, FailureKind::Overloaded, "{body}");
    }
}

#[test]
fn hints_are_plain_numbers_and_milliseconds_come_first() {
    let millis = Duration::from_millis;
    for (in_millis, in_seconds, expected) in [
        (None, Some("3"), Some(millis(3_000))),
        (None, Some(" 0.5 "), Some(millis(500))),
        (None, Some("0"), Some(Duration::ZERO)),
        (Some("250"), Some("3"), Some(millis(250))),
        (Some("1.5"), None, Some(Duration::from_micros(1_500))),
        (Some("soon"), Some("3"), Some(millis(3_000))),
        (Some("-1"), None, None),
        (None, Some("-3"), None),
        (None, Some("+3"), None),
        (None, Some("1e3"), None),
        (None, Some("inf"), None),
        (None, Some("NaN"), None),
        (None, Some("."), None),
        (None, Some("1.2.3"), None),
        (None, Some(""), None),
        (None, Some("٣"), None),
        (None, Some("Wed, 21 Oct 2026 07:28:00 GMT"), None),
        (None, Some("99999999999999999999999999"), None),
    ] {
        let header = |name: &str| match name {
            "retry-after-ms" => in_millis,
            "retry-after" => in_seconds,
            _ => None,
        };
        assert_eq!(read_error(429, header, b"").retry_after, expected, "{in_millis:?} {in_seconds:?}");
    }
}

#[test]
fn each_refusal_means_to_the_next_seawall_what_it_meant_to_us() {
    for error_kind in ApiErrorKind::ALL {
        let name = error_code_of(error_kind).unwrap_or(error_type_of(error_kind));
        let failure = ANTHROPIC.classify(status_of(error_kind), Some(name));
        let by_status = ANTHROPIC.classify(status_of(error_kind), None);
        // Only the kind whose status alone would mislead clients has a code; an operator's kill switch is a 503
        // without a type of its own.
        match error_kind {
            ApiErrorKind::BudgetExhausted => assert_eq!(failure.retryability, Retryability::OtherTarget),
            ApiErrorKind::SwitchedOff => assert_eq!(failure.kind, FailureKind::ServerFault),
            _ => assert_eq!(failure.kind, by_status.kind, "{error_kind:?}"),
        }
    }
}
