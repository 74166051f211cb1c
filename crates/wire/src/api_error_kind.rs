//! Errors that callers receive from the gateway. Each dialect maps them to its own status and error codes.

use seawall_core::failure::FailureKind;

/// The kind of an API error, as far as the caller may know why its request was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiErrorKind {
    /// The request is malformed.
    Malformed,
    /// The API key is missing or unknown.
    Unauthenticated,
    /// The key lacks permission for this request.
    Forbidden,
    /// The model does not exist.
    NotFound,
    /// The path does not exist.
    UnknownPath,
    /// The request exceeds the size limit.
    TooLarge,
    /// The prompt exceeds the model's context window.
    ContextLength,
    /// Another request uses the same idempotency key.
    Conflict,
    /// The outcome of the earlier request with the same idempotency key is unknown.
    OutcomeUnknown,
    /// The caller exceeded a rate limit.
    Throttled,
    /// The caller's budget is exhausted.
    BudgetExhausted,
    /// The caller's remaining budget is reserved by requests in flight and may be released.
    BudgetHeld,
    /// The remaining budget is smaller than the maximum cost of this request.
    ExceedsRemainingBudget,
    /// The maximum cost of this request exceeds the budget of a whole day.
    ExceedsDailyBudget,
    /// An operator has switched off models, for all callers or for this one.
    SwitchedOff,
    /// No target can serve the request now.
    Overloaded,
    /// No target answered before the deadline.
    TimedOut,
    /// An internal error of the gateway.
    Internal,
}

impl ApiErrorKind {
    /// Every kind, in a fixed order.
    pub const ALL: [Self; 18] = [
        Self::Malformed,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::UnknownPath,
        Self::TooLarge,
        Self::ContextLength,
        Self::Conflict,
        Self::OutcomeUnknown,
        Self::Throttled,
        Self::BudgetExhausted,
        Self::BudgetHeld,
        Self::ExceedsRemainingBudget,
        Self::ExceedsDailyBudget,
        Self::SwitchedOff,
        Self::Overloaded,
        Self::TimedOut,
        Self::Internal,
    ];

    /// The error for a request whose target failed in this way when no other target was left. Vendor errors about the
    /// gateway's credential or its model names are the gateway's fault and map to an internal error, not to a caller
    /// error.
    #[must_use]
    pub const fn of_failure(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Throttled => Self::Throttled,
            FailureKind::TimedOut | FailureKind::StartTimeout => Self::TimedOut,
            FailureKind::BadRequest | FailureKind::Filtered => Self::Malformed,
            FailureKind::TooLong => Self::ContextLength,
            FailureKind::ServerFault
            | FailureKind::ModelFault
            | FailureKind::Unrecognised
            | FailureKind::Unauthorized
            | FailureKind::NotFound => Self::Internal,
            FailureKind::Overloaded
            | FailureKind::QuotaExhausted
            | FailureKind::NotReady
            | FailureKind::Unreachable
            | FailureKind::StreamInterrupted => Self::Overloaded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ApiErrorKind;
    use crate::dialect::DialectId;
    use seawall_core::failure::{FailureKind, FaultOrigin};

    #[test]
    fn the_phrases_that_clients_look_for_are_there_once() {
        let key =
            DialectId::OPENAI_CHAT.client_message(ApiErrorKind::Unauthenticated, "the key is not known");
        assert_eq!(key, "Incorrect API key provided: the key is not known");
        let openai = |message| {
            DialectId::OPENAI_CHAT.client_message(ApiErrorKind::ContextLength, message).into_owned()
        };
        let own = "This model's maximum context length is 8192 tokens.";
        assert_eq!(openai(own), own);
        assert!(openai("too long").starts_with("context_length_exceeded: ") && openai("a").ends_with(": a"));
        assert_eq!(openai(&openai("a")), openai("a"));
        let vendors = "prompt is too long: 9 tokens > 8 maximum";
        assert_eq!(
            DialectId::ANTHROPIC_MESSAGES.client_message(ApiErrorKind::ContextLength, vendors),
            vendors
        );
        let others = DialectId::ANTHROPIC_MESSAGES
            .client_message(ApiErrorKind::ContextLength, "9 tokens are too many");
        assert_eq!(others, "prompt is too long: 9 tokens are too many");
        assert_eq!(DialectId::ANTHROPIC_MESSAGES.client_message(ApiErrorKind::Unauthenticated, "no"), "no");
    }

    #[test]
    fn every_failure_ends_in_a_refusal_that_blames_whose_fault_it_was() {
        for (kind, error_kind) in [
            (FailureKind::Throttled, ApiErrorKind::Throttled),
            (FailureKind::Overloaded, ApiErrorKind::Overloaded),
            (FailureKind::QuotaExhausted, ApiErrorKind::Overloaded),
            (FailureKind::NotReady, ApiErrorKind::Overloaded),
            (FailureKind::TimedOut, ApiErrorKind::TimedOut),
            (FailureKind::StartTimeout, ApiErrorKind::TimedOut),
            (FailureKind::Unreachable, ApiErrorKind::Overloaded),
            (FailureKind::StreamInterrupted, ApiErrorKind::Overloaded),
            (FailureKind::ServerFault, ApiErrorKind::Internal),
            (FailureKind::ModelFault, ApiErrorKind::Internal),
            (FailureKind::Unrecognised, ApiErrorKind::Internal),
            (FailureKind::BadRequest, ApiErrorKind::Malformed),
            (FailureKind::TooLong, ApiErrorKind::ContextLength),
            (FailureKind::Unauthorized, ApiErrorKind::Internal),
            (FailureKind::NotFound, ApiErrorKind::Internal),
            (FailureKind::Filtered, ApiErrorKind::Malformed),
        ] {
            assert_eq!(ApiErrorKind::of_failure(kind), error_kind, "{}", kind.label());
            let blames_caller = matches!(error_kind, ApiErrorKind::Malformed | ApiErrorKind::ContextLength);
            assert_eq!(blames_caller, kind.origin() == FaultOrigin::Caller, "{}", kind.label());
        }
    }
}
