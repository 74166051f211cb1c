//! Maps the gateway's own errors to the vendor's error format.

use crate::api_error_kind::ApiErrorKind;

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
        ApiErrorKind::SwitchedOff => 503,
        ApiErrorKind::Overloaded => 529,
        ApiErrorKind::TimedOut => 504,
        ApiErrorKind::Internal => 500,
    }
}

/// The vendor's error type for this kind.
#[must_use]
pub const fn error_type_of(error_kind: ApiErrorKind) -> &'static str {
    match error_kind {
        ApiErrorKind::Malformed
        | ApiErrorKind::ContextLength
        | ApiErrorKind::Conflict
        | ApiErrorKind::OutcomeUnknown => "invalid_request_error",
        ApiErrorKind::Unauthenticated => "authentication_error",
        ApiErrorKind::Forbidden => "permission_error",
        ApiErrorKind::NotFound | ApiErrorKind::UnknownPath => "not_found_error",
        ApiErrorKind::TooLarge | ApiErrorKind::ExceedsRemainingBudget | ApiErrorKind::ExceedsDailyBudget => {
            "request_too_large"
        }
        ApiErrorKind::Throttled | ApiErrorKind::BudgetExhausted | ApiErrorKind::BudgetHeld => {
            "rate_limit_error"
        }
        ApiErrorKind::SwitchedOff | ApiErrorKind::Internal => "api_error",
        ApiErrorKind::Overloaded => "overloaded_error",
        ApiErrorKind::TimedOut => "timeout_error",
    }
}

/// The vendor's error code for this kind. The code for an exhausted budget is the one that the vendor uses for the
/// spend limits of its organisations: clients raise a dedicated error for it, and another Seawall in front of this one
/// recognises that waiting does not help.
#[must_use]
pub const fn error_code_of(error_kind: ApiErrorKind) -> Option<&'static str> {
    match error_kind {
        ApiErrorKind::BudgetExhausted => Some("enforced_spend_limit_reached"),
        ApiErrorKind::BudgetHeld => Some("budget_held"),
        ApiErrorKind::OutcomeUnknown => Some("outcome_unknown"),
        ApiErrorKind::ExceedsRemainingBudget => Some("exceeds_remaining_budget"),
        ApiErrorKind::ExceedsDailyBudget => Some("exceeds_daily_budget"),
        _ => None,
    }
}

/// The fields of an error in a response body or stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnthropicErrorBody<'a> {
    /// The vendor's error type.
    pub error_type: &'a str,
    /// The vendor's error code, if it has one.
    pub error_code: Option<&'a str>,
    /// The message for people.
    pub message: &'a str,
    /// The request id, as it appears in the logs.
    pub request_id: Option<&'a str>,
}

impl<'a> AnthropicErrorBody<'a> {
    /// An error of this kind.
    #[must_use]
    pub const fn new(error_kind: ApiErrorKind, message: &'a str, request_id: Option<&'a str>) -> Self {
        Self {
            error_type: error_type_of(error_kind),
            error_code: error_code_of(error_kind),
            message,
            request_id,
        }
    }
}
