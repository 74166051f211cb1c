//! What Seawall refuses itself, in the vendor's words.

use crate::json_out::put_json;
use crate::refusal::Refusal;
use bytes::{BufMut as _, BytesMut};
use serde::Serialize;

/// The HTTP status.
#[must_use]
pub const fn status_of(refusal: Refusal) -> u16 {
    match refusal {
        Refusal::Malformed => 400,
        Refusal::Unauthenticated => 401,
        Refusal::Forbidden => 403,
        Refusal::NotFound => 404,
        Refusal::Conflict | Refusal::OutcomeUnknown => 409,
        Refusal::TooLarge | Refusal::ExceedsBudget => 413,
        Refusal::Throttled | Refusal::OutOfBudget | Refusal::BudgetHeld => 429,
        Refusal::SwitchedOff | Refusal::Overloaded => 503,
        Refusal::TimedOut => 504,
        Refusal::Internal => 500,
    }
}

/// The error's type.
#[must_use]
pub const fn error_type_of(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Malformed
        | Refusal::Unauthenticated
        | Refusal::NotFound
        | Refusal::TooLarge
        | Refusal::ExceedsBudget
        | Refusal::Conflict
        | Refusal::OutcomeUnknown => "invalid_request_error",
        Refusal::Forbidden => "permission_error",
        Refusal::Throttled | Refusal::BudgetHeld => "rate_limit_error",
        Refusal::OutOfBudget => "insufficient_quota",
        Refusal::SwitchedOff | Refusal::Overloaded | Refusal::TimedOut | Refusal::Internal => "server_error",
    }
}

/// The error's code. Each is one that a Seawall behind another reads as it was meant.
#[must_use]
pub const fn error_code_of(refusal: Refusal) -> Option<&'static str> {
    match refusal {
        Refusal::Malformed | Refusal::Forbidden | Refusal::SwitchedOff | Refusal::Internal => None,
        Refusal::Unauthenticated => Some("invalid_api_key"),
        Refusal::NotFound => Some("model_not_found"),
        Refusal::Conflict => Some("idempotency_conflict"),
        Refusal::OutcomeUnknown => Some("outcome_unknown"),
        Refusal::TooLarge => Some("context_length_exceeded"),
        Refusal::Throttled => Some("rate_limit_exceeded"),
        Refusal::OutOfBudget => Some("insufficient_quota"),
        Refusal::BudgetHeld => Some("budget_held"),
        Refusal::ExceedsBudget => Some("exceeds_remaining_budget"),
        Refusal::Overloaded => Some("server_overloaded"),
        Refusal::TimedOut => Some("timeout"),
    }
}

/// An error as it is written into a body or a stream. The request's id goes into a header in this dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorReply<'a> {
    /// The error's type.
    pub error_type: &'a str,
    /// The error's code.
    pub error_code: Option<&'a str>,
    /// Words for a person.
    pub message: &'a str,
    /// The field of the request that is to blame.
    pub param: Option<&'a str>,
}

impl<'a> ErrorReply<'a> {
    /// The error that says so.
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

/// Appends the body of an error.
pub fn write_error(out: &mut BytesMut, reply: &ErrorReply<'_>) {
    let ErrorReply { error_type, error_code, message, param } = *reply;
    put_json(out, &Body { error: Fields { message, kind: error_type, param, code: error_code } });
}

/// Appends the event that ends a stream which cannot be completed. It must not stand inside another event.
pub fn write_error_event(out: &mut BytesMut, reply: &ErrorReply<'_>) {
    out.put_slice(b"data: ");
    write_error(out, reply);
    out.put_slice(b"\n\n");
}

/// Appends the event that ends a complete stream.
pub fn write_done(out: &mut BytesMut) {
    out.put_slice(b"data: [DONE]\n\n");
}

/// Appends an event that holds this value.
pub(super) fn put_chunk(out: &mut BytesMut, chunk: &impl Serialize) {
    out.put_slice(b"data: ");
    put_json(out, chunk);
    out.put_slice(b"\n\n");
}
