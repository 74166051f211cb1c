//! Classifies the vendor's errors.

use crate::headers::read_retry_after;
use seawall_core::failure::{Failure, FailureKind, GEMINI};
use serde_json::Value;
use std::time::Duration;

/// Classifies an error response from its status, headers (looked up by lower-case name) and body.
///
/// A known reason in the details decides first (`ErrorInfo`), then the error's status name, then the HTTP status. An
/// exhausted quota of a whole day is not a throttle, because waiting does not help. The delay in the details
/// (`RetryInfo`) takes precedence over the headers. A body that reports a blocked prompt is a filtered request.
///
/// ```
/// use seawall_core::failure::FailureKind;
/// use seawall_wire::gemini::read_error;
/// use std::time::Duration;
///
/// let body = br#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"slow down","details":[
///     {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1.5s"}]}}"#;
/// let failure = read_error(429, |_| None, body);
/// assert_eq!((failure.kind, failure.retry_after), (FailureKind::Throttled, Some(Duration::from_millis(1_500))));
/// ```
#[must_use]
pub fn read_error<'h>(status: u16, header: impl Fn(&str) -> Option<&'h str>, body: &[u8]) -> Failure {
    let body = unwrapped(body);
    if body["promptFeedback"]["blockReason"].is_string() {
        return Failure::of(FailureKind::Filtered);
    }
    let (failure, _) = failure_of(status, &body["error"]);
    match failure.retry_after.or_else(|| read_retry_after(header)) {
        Some(wait) => failure.with_retry_after(wait),
        None => failure,
    }
}

/// The vendor's error message; empty if there is none.
#[must_use]
pub fn read_error_message(body: &[u8]) -> String {
    let body = unwrapped(body);
    let candidates = [&body["error"]["message"], &body["error"], &body["promptFeedback"]["blockReason"]];
    candidates.into_iter().find_map(Value::as_str).unwrap_or_default().to_owned()
}

/// The body, without the list of one item in which the vendor wraps the errors of some endpoints.
fn unwrapped(body: &[u8]) -> Value {
    match serde_json::from_slice(body).unwrap_or_default() {
        Value::Array(mut list) if list.len() == 1 => list.swap_remove(0),
        body => body,
    }
}

/// The classified failure and the vendor's message. Inside a stream the HTTP status was a success; there, the code of
/// the error is used instead if it is an error status.
pub(super) fn failure_of(status: u16, error: &Value) -> (Failure, String) {
    let message = error["message"].as_str().unwrap_or_default().to_owned();
    let code = error["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let error_status = match code.filter(|code| (400..600).contains(code)) {
        Some(code) if status < 400 => code,
        _ => status,
    };
    let details = error["details"].as_array().map(Vec::as_slice).unwrap_or_default();
    let reason =
        details.iter().find_map(|detail| detail["reason"].as_str().filter(|reason| is_known(reason)));
    let mut failure = GEMINI.classify(error_status, reason.or_else(|| error["status"].as_str()));
    let kind = match failure.kind {
        FailureKind::Throttled if details.iter().any(exhausts_day) => FailureKind::QuotaExhausted,
        // The vendor has no status for an exceeded context window, but clients of other dialects look for theirs.
        FailureKind::BadRequest if is_too_long(&message) => FailureKind::TooLong,
        kind => kind,
    };
    if kind != failure.kind {
        failure = Failure { no_output: failure.no_output, ..Failure::of(kind) };
    }
    // An error after the stream began does not prove that the request was not executed.
    failure.not_executed &= status >= 400;
    failure.retry_after = details.iter().find_map(|detail| retry_delay(detail["retryDelay"].as_str()?));
    (failure, message)
}

fn is_known(name: &str) -> bool {
    GEMINI.names().iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// Whether a detail reports a quota of a whole day, which the id of the quota shows.
fn exhausts_day(detail: &Value) -> bool {
    let violations = detail["violations"].as_array().map(Vec::as_slice).unwrap_or_default();
    violations.iter().filter_map(|violation| violation["quotaId"].as_str()).any(|id| id.contains("PerDay"))
}

fn is_too_long(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("input token count") && message.contains("exceeds the maximum number of tokens")
}

/// Parses a duration such as `19s` or `0.5s`.
fn retry_delay(text: &str) -> Option<Duration> {
    let number = text.strip_suffix('s')?;
    let is_plain = number.starts_with(|first: char| first.is_ascii_digit())
        && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds = number.parse().ok().filter(|_| is_plain)?;
    Duration::try_from_secs_f64(seconds).ok()
}
