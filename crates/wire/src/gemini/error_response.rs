//! Maps the gateway's own errors to the vendor's error format.
//!
//! The vendor's client libraries do not retry unless a program asks them to, and then by status alone (408, 429 and
//! 5xx); they ignore both headers and details. Programs such as the vendor's command line client read the details: they
//! wait for `RetryInfo`, and give up at a quota of a whole day.

use crate::api_error_kind::ApiErrorKind;
use crate::json_out::put_json;
use bytes::{BufMut as _, BytesMut};
use serde::Serialize;
use std::borrow::Cow;
use std::time::Duration;

/// The phrase of the vendor's own error for an exceeded context window, which programs search for.
const TOO_LONG: &str = "The input token count exceeds the maximum number of tokens allowed";

/// The HTTP status of an error.
#[must_use]
pub const fn status_of(error_kind: ApiErrorKind) -> u16 {
    match error_kind {
        // The vendor reports a body that is too large as an invalid argument.
        ApiErrorKind::Malformed
        | ApiErrorKind::TooLarge
        | ApiErrorKind::ContextLength
        | ApiErrorKind::ExceedsRemainingBudget
        | ApiErrorKind::ExceedsDailyBudget => 400,
        ApiErrorKind::Unauthenticated => 401,
        ApiErrorKind::Forbidden => 403,
        ApiErrorKind::NotFound | ApiErrorKind::UnknownPath => 404,
        ApiErrorKind::Conflict | ApiErrorKind::OutcomeUnknown => 409,
        ApiErrorKind::Throttled | ApiErrorKind::BudgetExhausted | ApiErrorKind::BudgetHeld => 429,
        ApiErrorKind::Internal => 500,
        ApiErrorKind::SwitchedOff | ApiErrorKind::Overloaded => 503,
        ApiErrorKind::TimedOut => 504,
    }
}

/// The vendor's status name of an error.
#[must_use]
pub const fn status_name_of(error_kind: ApiErrorKind) -> &'static str {
    match error_kind {
        ApiErrorKind::Malformed | ApiErrorKind::TooLarge | ApiErrorKind::ContextLength => "INVALID_ARGUMENT",
        ApiErrorKind::ExceedsRemainingBudget | ApiErrorKind::ExceedsDailyBudget => "FAILED_PRECONDITION",
        ApiErrorKind::Unauthenticated => "UNAUTHENTICATED",
        ApiErrorKind::Forbidden => "PERMISSION_DENIED",
        ApiErrorKind::NotFound | ApiErrorKind::UnknownPath => "NOT_FOUND",
        ApiErrorKind::Conflict | ApiErrorKind::OutcomeUnknown => "ABORTED",
        ApiErrorKind::Throttled | ApiErrorKind::BudgetExhausted | ApiErrorKind::BudgetHeld => {
            "RESOURCE_EXHAUSTED"
        }
        ApiErrorKind::Internal => "INTERNAL",
        ApiErrorKind::SwitchedOff | ApiErrorKind::Overloaded => "UNAVAILABLE",
        ApiErrorKind::TimedOut => "DEADLINE_EXCEEDED",
    }
}

/// The message of an error, including the phrase that the vendor's own errors contain. Client frameworks search the text
/// for that phrase.
pub(super) fn message_of(error_kind: ApiErrorKind, message: &str) -> Cow<'_, str> {
    match error_kind {
        ApiErrorKind::ContextLength if !message.contains("exceeds the maximum number of tokens") => {
            format!("{TOO_LONG}: {message}").into()
        }
        _ => message.into(),
    }
}

/// Appends the body of an error response.
pub fn write_error(out: &mut BytesMut, error_kind: ApiErrorKind, message: &str) {
    write_error_with_retry(out, error_kind, message, None);
}

/// Like [`write_error`], with the delay after which a retry can help. This dialect sends it in the body.
pub fn write_error_with_retry(
    out: &mut BytesMut,
    error_kind: ApiErrorKind,
    message: &str,
    wait: Option<Duration>,
) {
    let quota = (error_kind == ApiErrorKind::BudgetExhausted).then_some(Detail::QuotaFailure {
        violations: [Violation { description: "The budget is exhausted", quota_id: "SeawallBudgetPerDay" }],
    });
    let retry = wait.map(|wait| {
        // Rounded up, so that no client retries too early.
        let millis = wait.as_nanos().div_ceil(1_000_000);
        Detail::RetryInfo { retry_delay: format!("{}.{:03}s", millis / 1_000, millis % 1_000) }
    });
    let message = &message_of(error_kind, message);
    let (code, status) = (status_of(error_kind), status_name_of(error_kind));
    let details = quota.into_iter().chain(retry).collect();
    put_json(out, &Body { error: Fields { code, message, status, details } });
}

/// Appends the body of an error with this HTTP status; by default with the vendor's usual name for it.
pub(super) fn write_error_of_status(out: &mut BytesMut, code: u16, name: Option<&str>, message: &str) {
    let usual = match code {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ABORTED",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        503 | 529 => "UNAVAILABLE",
        408 | 504 => "DEADLINE_EXCEEDED",
        400..=498 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    };
    let status = name.unwrap_or(usual);
    put_json(out, &Body { error: Fields { code, message, status, details: Vec::new() } });
}

/// Appends the error that ends a stream that cannot be completed. It must be written at an event boundary, and nothing
/// may follow it.
///
/// The error is written twice. The client libraries for Python and JavaScript raise it from an event; the one for Go
/// and older versions ignore errors in events, and fail only at a line that is not `data:`, which the others do not
/// reach. A reader of server-sent events ignores that line.
pub fn write_error_event(out: &mut BytesMut, error_kind: ApiErrorKind, message: &str) {
    out.put_slice(b"data: ");
    write_error(out, error_kind, message);
    out.put_slice(b"\n\n");
    write_error(out, error_kind, message);
    out.put_slice(b"\n\n");
}

/// The client library for Python recognises an error in a stream by `error` as the first field.
#[derive(Serialize)]
struct Body<'a> {
    error: Fields<'a>,
}

#[derive(Serialize)]
struct Fields<'a> {
    code: u16,
    message: &'a str,
    status: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<Detail>,
}

#[derive(Serialize)]
#[serde(tag = "@type", rename_all_fields = "camelCase")]
enum Detail {
    #[serde(rename = "type.googleapis.com/google.rpc.QuotaFailure")]
    QuotaFailure { violations: [Violation; 1] },
    #[serde(rename = "type.googleapis.com/google.rpc.RetryInfo")]
    RetryInfo { retry_delay: String },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Violation {
    description: &'static str,
    quota_id: &'static str,
}
