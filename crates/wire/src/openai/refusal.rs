//! Maps the gateway's own refusals to the vendor's error format.

use crate::json_out::put_json;
use crate::refusal::Refusal;
use bytes::{BufMut as _, BytesMut};
use serde::Serialize;

/// The HTTP status of a refusal.
#[must_use]
pub const fn status_of(refusal: Refusal) -> u16 {
    match refusal {
        Refusal::Malformed | Refusal::ContextLength => 400,
        Refusal::Unauthenticated => 401,
        Refusal::Forbidden => 403,
        Refusal::NotFound | Refusal::UnknownPath => 404,
        Refusal::Conflict | Refusal::OutcomeUnknown => 409,
        Refusal::TooLarge | Refusal::ExceedsBudget => 413,
        Refusal::Throttled | Refusal::OutOfBudget | Refusal::BudgetHeld => 429,
        Refusal::SwitchedOff | Refusal::Overloaded => 503,
        Refusal::TimedOut => 504,
        Refusal::Internal => 500,
    }
}

/// The vendor's error type for a refusal.
#[must_use]
pub const fn error_type_of(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Malformed
        | Refusal::Unauthenticated
        | Refusal::NotFound
        | Refusal::UnknownPath
        | Refusal::TooLarge
        | Refusal::ContextLength
        | Refusal::ExceedsBudget
        | Refusal::Conflict
        | Refusal::OutcomeUnknown => "invalid_request_error",
        Refusal::Forbidden => "permission_error",
        Refusal::Throttled | Refusal::BudgetHeld => "rate_limit_error",
        Refusal::OutOfBudget => "insufficient_quota",
        Refusal::SwitchedOff | Refusal::Overloaded | Refusal::TimedOut | Refusal::Internal => "server_error",
    }
}

/// The vendor's error code for a refusal. Another Seawall in front of this one classifies each code as intended.
#[must_use]
pub const fn error_code_of(refusal: Refusal) -> Option<&'static str> {
    match refusal {
        Refusal::Malformed
        | Refusal::Forbidden
        | Refusal::UnknownPath
        | Refusal::SwitchedOff
        | Refusal::Internal => None,
        Refusal::Unauthenticated => Some("invalid_api_key"),
        Refusal::NotFound => Some("model_not_found"),
        Refusal::Conflict => Some("idempotency_conflict"),
        Refusal::OutcomeUnknown => Some("outcome_unknown"),
        Refusal::TooLarge => Some("request_too_large"),
        Refusal::ContextLength => Some("context_length_exceeded"),
        Refusal::Throttled => Some("rate_limit_exceeded"),
        Refusal::OutOfBudget => Some("insufficient_quota"),
        Refusal::BudgetHeld => Some("budget_held"),
        Refusal::ExceedsBudget => Some("exceeds_remaining_budget"),
        Refusal::Overloaded => Some("server_overloaded"),
        Refusal::TimedOut => Some("timeout"),
    }
}

/// The fields of an error in a response body or stream. In this dialect the request id is sent in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorReply<'a> {
    /// The vendor's error type.
    pub error_type: &'a str,
    /// The vendor's error code, if it has one.
    pub error_code: Option<&'a str>,
    /// The message for people.
    pub message: &'a str,
    /// The request field that caused the error.
    pub param: Option<&'a str>,
}

impl<'a> ErrorReply<'a> {
    /// The error for a refusal.
    #[must_use]
    pub const fn new(refusal: Refusal, message: &'a str) -> Self {
        let (error_type, error_code) = (error_type_of(refusal), error_code_of(refusal));
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
pub fn write_error(out: &mut BytesMut, reply: &ErrorReply<'_>) {
    let ErrorReply { error_type, error_code, message, param } = *reply;
    put_json(out, &Body { error: Fields { message, kind: error_type, param, code: error_code } });
}

/// Appends the error event that ends a stream that cannot be completed. It must be written at an event boundary.
pub fn write_error_event(out: &mut BytesMut, reply: &ErrorReply<'_>) {
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
