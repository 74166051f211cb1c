//! Error responses of the chat face.

use super::event::seconds;
use super::json::JsonObject;
use crate::dialect::ErrorResponse;
use crate::{ApiErrorKind, RetryAdvice, openai};
use bytes::Bytes;

/// The response header with the request ID.
pub const REQUEST_ID_HEADER: &str = "x-request-id";

/// An error response of the chat face. Use it only for errors that the caller can fix: everything else is answered, if
/// only with an apology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChatErrorResponse<'a> {
    /// The kind of API error.
    pub error_kind: ApiErrorKind,
    /// The message for the end user, in the user's language.
    pub message: &'a str,
    /// Technical details for the developer of the client, in English.
    pub detail: Option<&'a str>,
    /// The name of the exhausted limit.
    pub limit: Option<&'a str>,
    /// The request ID.
    pub request_id: &'a str,
    /// The retry advice.
    pub advice: RetryAdvice,
}

impl ChatErrorResponse<'_> {
    /// Renders the response.
    #[must_use]
    pub fn reply(&self) -> ErrorResponse {
        let Self { error_kind, message, detail, limit, request_id, advice } = *self;
        let body = JsonObject::new()
            .text("code", error_code(error_kind))
            .text("message", message)
            .optional(detail, |object, detail| object.text("detail", detail))
            .optional(limit, |object, limit| object.text("limit", limit))
            .text("request_id", request_id)
            .optional(advice.wait, |object, wait| object.number("retry_after", seconds(wait)))
            .optional(advice.should_retry, |object, should| object.boolean("should_retry", should));
        let mut headers =
            vec![("content-type", "application/json".to_owned()), (REQUEST_ID_HEADER, request_id.to_owned())];
        // The dialect is irrelevant here: all client libraries read these headers.
        headers.extend(advice.headers(None));
        ErrorResponse { status: openai::status_of(error_kind), headers, body: Bytes::from(body.finish()) }
    }
}

/// The machine-readable error code.
#[must_use]
pub const fn error_code(error_kind: ApiErrorKind) -> &'static str {
    match error_kind {
        ApiErrorKind::Malformed => "INVALID_REQUEST",
        ApiErrorKind::Unauthenticated => "UNAUTHENTICATED",
        ApiErrorKind::Forbidden => "FORBIDDEN",
        ApiErrorKind::NotFound | ApiErrorKind::UnknownPath => "NOT_FOUND",
        ApiErrorKind::TooLarge | ApiErrorKind::ContextLength => "INPUT_TOO_LARGE",
        ApiErrorKind::Conflict => "CONFLICT",
        ApiErrorKind::OutcomeUnknown => "OUTCOME_UNKNOWN",
        ApiErrorKind::Throttled => "RATE_LIMITED",
        ApiErrorKind::BudgetExhausted => "BUDGET_EXHAUSTED",
        ApiErrorKind::BudgetHeld => "BUDGET_HELD",
        ApiErrorKind::ExceedsRemainingBudget => "EXCEEDS_REMAINING_BUDGET",
        ApiErrorKind::ExceedsDailyBudget => "EXCEEDS_DAILY_BUDGET",
        ApiErrorKind::SwitchedOff => "SWITCHED_OFF",
        ApiErrorKind::Overloaded => "OVERLOADED",
        ApiErrorKind::TimedOut => "TIMED_OUT",
        ApiErrorKind::Internal => "INTERNAL",
    }
}
