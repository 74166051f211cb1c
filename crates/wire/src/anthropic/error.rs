//! Classifies the vendor's errors.

use crate::headers::read_retry_after;
use seawall_core::failure::{ANTHROPIC, Failure, FailureKind};
use serde_json::Value;

/// Classifies an error response from its status, headers (looked up by lower-case name) and body.
///
/// A known error code decides first, then the error type, then the status. If the body cannot be parsed, the status
/// alone decides. The retry header in milliseconds takes precedence over the one in seconds, because it is more
/// precise; a value that is not a plain non-negative number, such as a date, is ignored.
///
/// ```
/// use seawall_core::failure::FailureKind;
/// use seawall_wire::anthropic::read_error;
/// use std::time::Duration;
///
/// let body = br#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#;
/// let failure = read_error(429, |name| (name == "retry-after").then_some("2"), body);
/// assert_eq!(failure.kind, FailureKind::Throttled);
/// assert_eq!(failure.retry_after, Some(Duration::from_secs(2)));
/// ```
#[must_use]
pub fn read_error<'h>(status: u16, header: impl Fn(&str) -> Option<&'h str>, body: &[u8]) -> Failure {
    let (failure, _) = read_error_body(status, body);
    match read_retry_after(header) {
        Some(wait) => failure.with_retry_after(wait),
        None => failure,
    }
}

/// The vendor's error message; empty if there is none.
#[must_use]
pub fn read_error_message(body: &[u8]) -> String {
    read_error_body(400, body).1
}

/// The classified failure and the vendor's message.
pub(super) fn read_error_body(status: u16, body: &[u8]) -> (Failure, String) {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let error = &body["error"];
    let code = error["details"]["error_code"].as_str().filter(|code| is_known(code));
    let message = error["message"].as_str().unwrap_or_default();
    let mut failure = ANTHROPIC.classify(status, code.or_else(|| error["type"].as_str()));
    // The vendor has no error type for an exceeded context window, but clients of other dialects look for theirs.
    if failure.kind == FailureKind::BadRequest && message.contains("prompt is too long") {
        failure = Failure { not_executed: failure.not_executed, ..Failure::of(FailureKind::TooLong) };
    }
    (failure, message.to_owned())
}

fn is_known(code: &str) -> bool {
    ANTHROPIC.names().iter().any(|(known, _)| known.eq_ignore_ascii_case(code))
}
