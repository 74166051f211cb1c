//! Classifies the vendor's errors.

use crate::headers::read_retry_after;
use seawall_core::failure::{Failure, FailureKind, OPENAI, Retryability};
use serde_json::Value;

/// How compatible servers say that a prompt does not fit, where they have no name for it. vLLM, OpenRouter, Together and
/// Mistral name the model's "maximum context length", newer versions of vLLM say that it "is only" so long, SGLang has both,
/// and Ollama and llama.cpp say that the input or the request exceeds it.
const CONTEXT_MESSAGES: [&str; 5] = [
    "maximum context length",
    "context length is only",
    "exceeds the context length",
    "exceeds the model's context",
    "exceeds the available context size",
];

/// Classifies an error response from its status, headers (looked up by lower-case name) and body.
///
/// A known error code decides first, then the error type, then the status. If the body cannot be parsed, the status
/// alone decides.
///
/// ```
/// use seawall_core::failure::FailureKind;
/// use seawall_wire::openai::read_error;
///
/// let body = br#"{"error":{"message":"pay","type":"requests","param":null,"code":"insufficient_quota"}}"#;
/// assert_eq!(read_error(429, |_| None, body).kind, FailureKind::QuotaExhausted);
/// ```
#[must_use]
pub fn read_error<'h>(status: u16, header: impl Fn(&str) -> Option<&'h str>, body: &[u8]) -> Failure {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    // Some compatible servers send the error object itself, or only its message.
    let error = match &body["error"] {
        Value::Null if body["message"].is_string() => &body,
        error => error,
    };
    let (failure, _) = failure_of(status, error);
    match read_retry_after(header) {
        Some(wait) => failure.with_retry_after(wait),
        None => failure,
    }
}

/// The vendor's error message; empty if there is none. Compatible servers differ: some put it in the error object, some
/// next to it, and some in `detail`.
///
/// ```
/// use seawall_wire::openai::read_error_message;
///
/// assert_eq!(read_error_message(br#"{"error":{"message":"no such role"}}"#), "no such role");
/// assert_eq!(read_error_message(br#"{"error":"no such role"}"#), "no such role");
/// assert_eq!(read_error_message(br#"{"object":"error","message":"no such role"}"#), "no such role");
/// assert_eq!(read_error_message(br#"{"detail":[{"msg":"no such role"}]}"#), "no such role");
/// assert_eq!(read_error_message(b"<html>"), "");
/// ```
#[must_use]
pub fn read_error_message(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let candidates = [
        &body["error"]["message"],
        &body["error"],
        &body["message"],
        &body["detail"],
        &body["detail"][0]["msg"],
    ];
    candidates.into_iter().find_map(Value::as_str).unwrap_or_default().to_owned()
}

/// The classified failure and the vendor's message. Inside a stream the HTTP status was a success; there, a numeric
/// code in the range of error statuses is used instead, or 400 if the type is `invalid_request_error`.
pub(super) fn failure_of(status: u16, error: &Value) -> (Failure, String) {
    let known = |field: &str| error[field].as_str().filter(|name| is_known(name));
    let code = error["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let error_status = match code.filter(|code| (400..600).contains(code)) {
        _ if status >= 400 => status,
        Some(code) => code,
        None if error["type"] == "invalid_request_error" => 400,
        None => status,
    };
    let message = error["message"].as_str().or_else(|| error.as_str()).unwrap_or_default();
    let mut failure = OPENAI.classify(error_status, known("code").or_else(|| known("type")));
    if error_status == 413 && failure.kind == FailureKind::Throttled {
        // Groq: this one request exceeds what its account may send in a minute. No wait helps, another target may.
        failure = Failure { retryability: Retryability::OtherTarget, ..Failure::of(FailureKind::TooLong) };
    } else if failure.kind == FailureKind::BadRequest && says_too_long(message) {
        failure = Failure::of(FailureKind::TooLong);
    } else if error_status == 403 && is_flagged(error) {
        failure = Failure::of(FailureKind::Filtered);
    }
    // An error after the stream began does not prove that the request was not executed.
    failure.not_executed &= status >= 400;
    (failure, message.to_owned())
}

fn says_too_long(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    CONTEXT_MESSAGES.iter().any(|part| message.contains(part))
}

/// OpenRouter sends 403 for input that its moderation flagged, too. Without this check, one caller's input would look like
/// a rejected key.
fn is_flagged(error: &Value) -> bool {
    let metadata = &error["metadata"];
    metadata["flagged_input"].is_string() || metadata["reasons"].is_array()
}

fn is_known(name: &str) -> bool {
    OPENAI.names().iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
}
