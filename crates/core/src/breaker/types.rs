//! What is asked of a breaker, and how it answers.

use super::blame::CallerKey;
use super::machine::{BreakerPhase, TripReason};
use std::time::Duration;

/// The operator's hand on a breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakerMode {
    /// It decides by itself.
    #[default]
    Automatic,
    /// It decides by itself but blocks nothing, to learn what it would have done.
    Observing,
    /// It blocks everything until released.
    ForcedOpen,
    /// It blocks nothing until released, and keeps measuring.
    ForcedClosed,
}

/// The right to make one call. Give it back with [`Breaker::report`](super::Breaker::report) or [`Breaker::abandon`](super::Breaker::abandon).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a permit that is not given back counts as a lost probe"]
pub struct BreakerPermit {
    pub(super) generation: u64,
    pub(super) serial: u64,
    pub(super) caller: Option<CallerKey>,
    /// Whether it belongs to the trial that the caller who is to blame has for itself.
    pub(super) is_own: bool,
    pub(super) role: Role,
}

/// What a call is to a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A call, or a probe of a trial.
    Call,
    /// One that would have been blocked if the breaker did more than observe.
    Observed(RejectReason),
    /// The one probe in five seconds that passes where there is no other target.
    SingleProbe,
    /// One that passes because the target is only slow and there is no other.
    Panic,
}

impl BreakerPermit {
    /// Why this call would have been blocked, if the breaker did more than observe.
    #[must_use]
    pub const fn would_reject(&self) -> Option<RejectReason> {
        match self.role {
            Role::Observed(reason) => Some(reason),
            Role::Call | Role::SingleProbe | Role::Panic => None,
        }
    }
}

/// Why a breaker blocks a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// It is open.
    Open(TripReason),
    /// It is half-open and all probes of this stage are under way.
    ProbesTaken,
    /// The operator forced it open.
    ForcedOpen,
}

/// The answer to a call that wants to pass.
#[derive(Debug, PartialEq, Eq)]
pub enum AcquireDecision {
    /// It may.
    Permitted(BreakerPermit),
    /// It may not.
    Rejected {
        /// Why.
        reason: RejectReason,
        /// When the next probe may pass, where that is known.
        retry_after: Option<Duration>,
    },
}

/// How a breaker would answer, read without touching it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerPeek {
    /// Where it stands.
    pub phase: BreakerPhase,
    /// The operator's hand on it.
    pub mode: BreakerMode,
    /// Why it would block a call now; `None` if it would let it pass.
    pub rejects: Option<RejectReason>,
    /// When the next probe may pass, where that is known.
    pub retry_after: Option<Duration>,
    /// Whether it is open for one caller, whose failures these were, and not for others.
    pub is_open_for_one: bool,
}
