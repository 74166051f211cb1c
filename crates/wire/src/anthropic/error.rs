//! The vendor's errors, read into failures.

use crate::headers::retry_hint;
use seawall_core::failure::{ANTHROPIC, Failure};
use serde_json::Value;

/// Reads the failure out of an answer that is no success: its status, its headers (asked for by lower-case
/// name) and its body.
///
/// The error's code decides where it is known, then its type, then the status. A body that cannot be read leaves
/// the status. Of the two headers that say when to try again the one in milliseconds is the more exact; what is
/// not a plain number of at least 0, such as a date, is ignored.
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
    match retry_hint(header) {
        Some(wait) => failure.with_retry_after(wait),
        None => failure,
    }
}

/// The vendor's words about an error; empty when there are none.
#[must_use]
pub fn read_error_message(body: &[u8]) -> String {
    read_error_body(400, body).1
}

/// The failure and the vendor's words.
pub(super) fn read_error_body(status: u16, body: &[u8]) -> (Failure, String) {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let error = &body["error"];
    let code = error["details"]["error_code"].as_str().filter(|code| is_known(code));
    let failure = ANTHROPIC.classify(status, code.or_else(|| error["type"].as_str()));
    (failure, error["message"].as_str().unwrap_or_default().to_owned())
}

fn is_known(code: &str) -> bool {
    ANTHROPIC.names().iter().any(|(known, _)| known.eq_ignore_ascii_case(code))
}
