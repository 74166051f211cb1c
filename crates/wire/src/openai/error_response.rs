//! Maps the gateway's own errors to the vendor's error format.

use crate::api_error_kind::ApiErrorKind;
use crate::json_out::put_json;
use bytes::{BufMut as _, BytesMut};
use serde::Serialize;

/// The HTTP status of an error.
#[must_use]
pub const fn status_of(error_kind: ApiErrorKind) -> u16 {
    match error_kind {
        ApiErrorKind::Malformed | ApiErrorKind::ContextLength => 400,
        ApiErrorKind::Unauthenticated => 401,
        ApiErrorKind::Forbidden => 403,
        ApiErrorKind::NotFound | ApiErrorKind::UnknownPath => 404,
        ApiErrorKind::Conflict | ApiErrorKind::OutcomeUnknown => 409,
        ApiErrorKind::TooLarge | ApiErrorKind::ExceedsRemainingBudget | ApiErrorKind::ExceedsDailyBudget => {
            413
        }
        ApiErrorKind::Throttled | ApiErrorKind::BudgetExhausted | ApiErrorKind::BudgetHeld => 429,
        ApiErrorKind::SwitchedOff | ApiErrorKind::Overloaded => 503,
        ApiErrorKind::TimedOut => 504,
        ApiErrorKind::Internal => 500,
    }
}

/// The vendor's error type for this kind.
#[must_use]
pub const fn error_type_of(error_kind: ApiErrorKind) -> &'static str {
    match error_kind {
        ApiErrorKind::Malformed
        | ApiErrorKind::Unauthenticated
        | ApiErrorKind::NotFound
        | ApiErrorKind::UnknownPath
        | ApiErrorKind::TooLarge
        | ApiErrorKind::ContextLength
        | ApiErrorKind::ExceedsRemainingBudget
        | ApiErrorKind::ExceedsDailyBudget
        | ApiErrorKind::Conflict
        | ApiErrorKind::OutcomeUnknown => "invalid_request_error",
        ApiErrorKind::Forbidden => "permission_error",
        ApiErrorKind::Throttled | ApiErrorKind::BudgetHeld => "rate_limit_error",
        ApiErrorKind::BudgetExhausted => "insufficient_quota",
        ApiErrorKind::SwitchedOff
        | ApiErrorKind::Overloaded
        | ApiErrorKind::TimedOut
        | ApiErrorKind::Internal => "server_error",
    }
}

/// The vendor's error code for this kind. Another Seawall in front of this one classifies each code as intended.
#[must_use]
pub const fn error_code_of(error_kind: ApiErrorKind) -> Option<&'static str> {
    match error_kind {
        ApiErrorKind::Malformed
        | ApiErrorKind::Forbidden
        | ApiErrorKind::UnknownPath
        | ApiErrorKind::SwitchedOff
        | ApiErrorKind::Internal => None,
        ApiErrorKind::Unauthenticated => Some("invalid_api_key"),
        ApiErrorKind::NotFound => Some("model_not_found"),
        ApiErrorKind::Conflict => Some("idempotency_conflict"),
        ApiErrorKind::OutcomeUnknown => Some("outcome_unknown"),
        ApiErrorKind::TooLarge => Some("request_too_large"),
        ApiErrorKind::ContextLength => Some("context_length_exceeded"),
        ApiErrorKind::Throttled => Some("rate_limit_exceeded"),
        ApiErrorKind::BudgetExhausted => Some("insufficient_quota"),
        ApiErrorKind::BudgetHeld => Some("budget_held"),
        ApiErrorKind::ExceedsRemainingBudget => Some("exceeds_remaining_budget"),
        ApiErrorKind::ExceedsDailyBudget => Some("exceeds_daily_budget"),
        ApiErrorKind::Overloaded => Some("server_overloaded"),
        ApiErrorKind::TimedOut => Some("timeout"),
    }
}

/// The fields of an error in a response body or stream. In this dialect the request id is sent in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenAiErrorBody<'a> {
    /// The vendor's error type.
    pub error_type: &'a str,
    /// The vendor's error code, if it has one.
    pub error_code: Option<&'a str>,
    /// The message for people.
    pub message: &'a str,
    /// The request field that caused the error.
    pub param: Option<&'a str>,
}

impl<'a> OpenAiErrorBody<'a> {
    /// An error of this kind.
    #[must_use]
    pub const fn new(error_kind: ApiErrorKind, message: &'a str) -> Self {
        let (error_type, error_code) = (error_type_of(error_kind), error_code_of(error_kind));
        Self { error_type, error_code, message, param: None }
    }
}

#[derive(Serialize)]
struct Body<'a> {
    error: Fields<'a>,
}

#[derive(Serialize)]
struct Fields<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    param: Option<&'a str>,
    code: Option<&'a str>,
}

/// Appends the body of an error response.
pub fn write_error(out: &mut BytesMut, reply: &OpenAiErrorBody<'_>) {
    let OpenAiErrorBody { error_type, error_code, message, param } = *reply;
    put_json(out, &Body { error: Fields { message, kind: error_type, param, code: error_code } });
}

/// Appends the error event that ends a stream that cannot be completed. It must be written at an event boundary.
pub fn write_error_event(out: &mut BytesMut, reply: &OpenAiErrorBody<'_>) {
    out.put_slice(b"data: ");
    write_error(out, reply);
    out.put_slice(b"\n\n");
}

/// Appends the `[DONE]` event, which ends a complete stream.
pub fn write_done(out: &mut BytesMut) {
    out.put_slice(b"data: [DONE]\n\n");
}

/// Appends an event with this value as data.
pub(super) fn put_chunk(out: &mut BytesMut, chunk: &impl Serialize) {
    out.put_slice(b"data: ");
    put_json(out, chunk);
    out.put_slice(b"\n\n");
}
