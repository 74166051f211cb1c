//! Maps the gateway's own refusals to the vendor's error format.

use crate::refusal::Refusal;

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
        Refusal::SwitchedOff => 503,
        Refusal::Overloaded => 529,
        Refusal::TimedOut => 504,
        Refusal::Internal => 500,
    }
}

/// The vendor's error type for a refusal.
#[must_use]
pub const fn error_type_of(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Malformed | Refusal::ContextLength | Refusal::Conflict | Refusal::OutcomeUnknown => {
            "invalid_request_error"
        }
        Refusal::Unauthenticated => "authentication_error",
        Refusal::Forbidden => "permission_error",
        Refusal::NotFound | Refusal::UnknownPath => "not_found_error",
        Refusal::TooLarge | Refusal::ExceedsBudget => "request_too_large",
        Refusal::Throttled | Refusal::OutOfBudget | Refusal::BudgetHeld => "rate_limit_error",
        Refusal::SwitchedOff | Refusal::Internal => "api_error",
        Refusal::Overloaded => "overloaded_error",
        Refusal::TimedOut => "timeout_error",
    }
}

/// The vendor's error code for a refusal. The code for an exhausted budget is the one that the vendor uses for the
/// spend limits of its organisations: clients raise a dedicated error for it, and another Seawall in front of this one
/// recognises that waiting does not help.
#[must_use]
pub const fn error_code_of(refusal: Refusal) -> Option<&'static str> {
    match refusal {
        Refusal::OutOfBudget => Some("enforced_spend_limit_reached"),
        Refusal::BudgetHeld => Some("budget_held"),
        Refusal::OutcomeUnknown => Some("outcome_unknown"),
        Refusal::ExceedsBudget => Some("exceeds_remaining_budget"),
        _ => None,
    }
}

/// The fields of an error in a response body or stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorReply<'a> {
    /// The vendor's error type.
    pub error_type: &'a str,
    /// The vendor's error code, if it has one.
    pub error_code: Option<&'a str>,
    /// The message for people.
    pub message: &'a str,
    /// The request id, as it appears in the logs.
    pub request_id: Option<&'a str>,
}

impl<'a> ErrorReply<'a> {
    /// The error for a refusal.
    #[must_use]
    pub const fn new(refusal: Refusal, message: &'a str, request_id: Option<&'a str>) -> Self {
        Self { error_type: error_type_of(refusal), error_code: error_code_of(refusal), message, request_id }
    }
}
