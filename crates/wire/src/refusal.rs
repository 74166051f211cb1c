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
