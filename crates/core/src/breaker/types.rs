//! The types of a breaker's requests and decisions.

use super::attribution::CallerKey;
use super::machine::{BreakerPhase, TripReason};
use std::time::Duration;

/// The operator's mode for a breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakerMode {
    /// The breaker decides by itself.
    #[default]
    Automatic,
    /// The breaker decides but blocks nothing, to show what it would have done.
    Observing,
    /// The breaker blocks every call until the mode changes.
    ForcedOpen,
    /// The breaker blocks nothing until the mode changes, and keeps measuring.
    ForcedClosed,
}

/// A permit for one call. Return it with [`Breaker::report`](super::Breaker::report) or
/// [`Breaker::abandon`](super::Breaker::abandon).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a permit that is not given back counts as a lost probe"]
pub struct BreakerPermit {
    pub(super) generation: u64,
    pub(super) serial: u64,
    pub(super) caller: Option<CallerKey>,
    /// Whether the permit belongs to a quarantined caller's own trial.
    pub(super) is_quarantined: bool,
    pub(super) kind: PermitKind,
}

/// Why a call was let through, which decides how its result counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PermitKind {
    /// A normal call, or a probe of a trial.
    Call,
    /// A call that would have been rejected, had the breaker not been in observing mode.
    Observed(RejectReason),
    /// The one probe in five seconds that passes when there is no other target.
    SingleProbe,
    /// A call that passes because the target is only slow and there is no other.
    Panic,
}

impl BreakerPermit {
    /// Why the call would have been rejected, had the breaker not been in observing mode.
    #[must_use]
    pub const fn would_reject(&self) -> Option<RejectReason> {
        match self.kind {
            PermitKind::Observed(reason) => Some(reason),
            PermitKind::Call | PermitKind::SingleProbe | PermitKind::Panic => None,
        }
    }
}

/// Why a breaker rejects a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// The breaker is open, for the reason given.
    Open(TripReason),
    /// The breaker is half-open and all probes of this stage are in flight.
    ProbesInFlight,
    /// The operator forced the breaker open.
    ForcedOpen,
}

/// The decision on a request for a permit.
#[derive(Debug, PartialEq, Eq)]
pub enum BreakerDecision {
    /// The call may be made with this permit.
    Permitted(BreakerPermit),
    /// The call must not be made.
    Rejected {
        /// Why the call is rejected.
        reason: RejectReason,
        /// The time until the next probe may pass, if known.
        retry_after: Option<Duration>,
    },
}

/// A snapshot of a breaker and of the decision it would make now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerPeek {
    /// The current phase.
    pub phase: BreakerPhase,
    /// The operator's mode.
    pub mode: BreakerMode,
    /// Why a call would be rejected now; `None` if it would pass.
    pub rejects: Option<RejectReason>,
    /// The time until the next probe may pass, if known.
    pub retry_after: Option<Duration>,
    /// Whether the breaker is open for one quarantined caller and not for others.
    pub is_open_for_one_caller: bool,
}
