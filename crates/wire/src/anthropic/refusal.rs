//! What Seawall refuses itself, in the vendor's words.

use crate::refusal::Refusal;

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
        Refusal::SwitchedOff => 503,
        Refusal::Overloaded => 529,
        Refusal::TimedOut => 504,
        Refusal::Internal => 500,
    }
}

/// The error's type.
#[must_use]
pub const fn error_type_of(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Malformed | Refusal::Conflict | Refusal::OutcomeUnknown => "invalid_request_error",
        Refusal::Unauthenticated => "authentication_error",
        Refusal::Forbidden => "permission_error",
        Refusal::NotFound => "not_found_error",
        Refusal::TooLarge | Refusal::ExceedsBudget => "request_too_large",
        Refusal::Throttled | Refusal::OutOfBudget | Refusal::BudgetHeld => "rate_limit_error",
        Refusal::SwitchedOff | Refusal::Internal => "api_error",
        Refusal::Overloaded => "overloaded_error",
        Refusal::TimedOut => "timeout_error",
    }
}

/// The error's code. The vendor uses the one for spent money for its own organisations' limits; it is used
/// again here because clients raise an error of its own for it, and because a Seawall behind another then
/// knows that waiting does not help.
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

/// An error as it is written into a body or a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorReply<'a> {
    /// The error's type.
    pub error_type: &'a str,
    /// The error's code.
    pub error_code: Option<&'a str>,
    /// Words for a person.
    pub message: &'a str,
    /// What the request is called in the logs.
    pub request_id: Option<&'a str>,
}

impl<'a> ErrorReply<'a> {
    /// The error that says so.
    #[must_use]
    pub const fn new(refusal: Refusal, message: &'a str, request_id: Option<&'a str>) -> Self {
        Self { error_type: error_type_of(refusal), error_code: error_code_of(refusal), message, request_id }
    }
}
