//! What Seawall refuses itself. Each dialect has its own words for it.

use seawall_core::failure::FailureKind;

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
    /// Another request has its name.
    Conflict,
    /// Nobody knows what became of the request that has its name.
    OutcomeUnknown,
    /// The caller is too fast.
    Throttled,
    /// The caller's money is spent.
    OutOfBudget,
    /// The caller's money is held by calls under way, and may come back.
    BudgetHeld,
    /// There is money, and less than this request may cost.
    ExceedsBudget,
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
    pub const ALL: [Self; 15] = [
        Self::Malformed,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::TooLarge,
        Self::Conflict,
        Self::OutcomeUnknown,
        Self::Throttled,
        Self::OutOfBudget,
        Self::BudgetHeld,
        Self::ExceedsBudget,
        Self::SwitchedOff,
        Self::Overloaded,
        Self::TimedOut,
        Self::Internal,
    ];

    /// How a request ends whose model failed in this way and no other could be asked. The vendor's complaints about
    /// our own credential and our own names are our fault, not the caller's.
    #[must_use]
    pub const fn of_failure(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Throttled => Self::Throttled,
            FailureKind::TimedOut | FailureKind::NotStarted => Self::TimedOut,
            FailureKind::BadRequest | FailureKind::Filtered => Self::Malformed,
            FailureKind::TooLong => Self::TooLarge,
            FailureKind::ServerFault
            | FailureKind::ModelFault
            | FailureKind::Unrecognised
            | FailureKind::Unauthorized
            | FailureKind::NotFound => Self::Internal,
            FailureKind::Overloaded
            | FailureKind::QuotaExhausted
            | FailureKind::NotReady
            | FailureKind::Unreachable
            | FailureKind::BrokeMidStream => Self::Overloaded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Refusal;
    use seawall_core::failure::{FailureKind, FaultOrigin};

    #[test]
    fn every_failure_ends_in_a_refusal_that_blames_whose_fault_it_was() {
        for (kind, refusal) in [
            (FailureKind::Throttled, Refusal::Throttled),
            (FailureKind::Overloaded, Refusal::Overloaded),
            (FailureKind::QuotaExhausted, Refusal::Overloaded),
            (FailureKind::NotReady, Refusal::Overloaded),
            (FailureKind::TimedOut, Refusal::TimedOut),
            (FailureKind::NotStarted, Refusal::TimedOut),
            (FailureKind::Unreachable, Refusal::Overloaded),
            (FailureKind::BrokeMidStream, Refusal::Overloaded),
            (FailureKind::ServerFault, Refusal::Internal),
            (FailureKind::ModelFault, Refusal::Internal),
            (FailureKind::Unrecognised, Refusal::Internal),
            (FailureKind::BadRequest, Refusal::Malformed),
            (FailureKind::TooLong, Refusal::TooLarge),
            (FailureKind::Unauthorized, Refusal::Internal),
            (FailureKind::NotFound, Refusal::Internal),
            (FailureKind::Filtered, Refusal::Malformed),
        ] {
            assert_eq!(Refusal::of_failure(kind), refusal, "{}", kind.label());
            let blames_caller = matches!(refusal, Refusal::Malformed | Refusal::TooLarge);
            assert_eq!(blames_caller, kind.origin() == FaultOrigin::Caller, "{}", kind.label());
        }
    }
}
