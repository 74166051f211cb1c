//! What Seawall refuses itself, in the vendor's words.

/// Why a request is refused, as far as the caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request cannot be understood.
    Malformed,
    /// There is no key, or nobody knows it.
    Unauthenticated,
    /// The key may not do this.
    Forbidden,
    /// There is no such model or path.
    NotFound,
    /// The request is too large.
    TooLarge,
    /// The caller is too fast.
    Throttled,
    /// The caller's money is spent.
    OutOfBudget,
    /// An operator has switched this off.
    SwitchedOff,
    /// No model can answer now.
    Overloaded,
    /// No model answered in time.
    TimedOut,
    /// It is our fault.
    Internal,
}

impl Refusal {
    /// Every refusal, in a fixed order.
    pub const ALL: [Self; 11] = [
        Self::Malformed,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::TooLarge,
        Self::Throttled,
        Self::OutOfBudget,
        Self::SwitchedOff,
        Self::Overloaded,
        Self::TimedOut,
        Self::Internal,
    ];

    /// The HTTP status.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::TooLarge => 413,
            Self::Throttled | Self::OutOfBudget => 429,
            Self::SwitchedOff => 503,
            Self::Overloaded => 529,
            Self::TimedOut => 504,
            Self::Internal => 500,
        }
    }

    /// The error's type.
    #[must_use]
    pub const fn error_type(self) -> &'static str {
        match self {
            Self::Malformed => "invalid_request_error",
            Self::Unauthenticated => "authentication_error",
            Self::Forbidden => "permission_error",
            Self::NotFound => "not_found_error",
            Self::TooLarge => "request_too_large",
            Self::Throttled | Self::OutOfBudget => "rate_limit_error",
            Self::SwitchedOff | Self::Internal => "api_error",
            Self::Overloaded => "overloaded_error",
            Self::TimedOut => "timeout_error",
        }
    }

    /// The error's code. The vendor uses the one for spent money for its own organisations' limits; it is used
    /// again here because clients raise an error of its own for it, and because a Seawall behind another then
    /// knows that waiting does not help.
    #[must_use]
    pub const fn error_code(self) -> Option<&'static str> {
        match self {
            Self::OutOfBudget => Some("enforced_spend_limit_reached"),
            _ => None,
        }
    }

    /// The error that says so.
    #[must_use]
    pub const fn reply<'a>(self, message: &'a str, request_id: Option<&'a str>) -> ErrorReply<'a> {
        ErrorReply { error_type: self.error_type(), error_code: self.error_code(), message, request_id }
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
