//! Tracks whether a target's vendor accepts the gateway's credential.
//!
//! **When it acts.** After every attempt. The credential counts as rejected when the vendor rejects the first call, or
//! three calls in a row after it had accepted one. One success marks it as accepted again.
//!
//! **What it does not do.** It blocks nothing: the breaker and the retry policy decide which calls are made. It exists
//! for operators, because a target with a wrong key otherwise looks healthy.

use seawall_core::failure::{AttemptOutcome, FailureKind};
use std::sync::atomic::{AtomicU8, Ordering};

/// Whether the vendor accepts the target's credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialStatus {
    /// No call has been answered yet.
    Unknown,
    /// The vendor accepts the credential.
    Accepted,
    /// The vendor rejects the credential.
    Rejected,
}

impl CredentialStatus {
    /// The label in the admin API.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
        }
    }
}

const UNKNOWN: u8 = 0;
const ACCEPTED: u8 = 1;
/// Accepted once and rejected twice since; the next rejection marks the credential as rejected.
const SUSPECT: u8 = 3;
const REJECTED: u8 = 4;

/// The state of one target's credential; see the module documentation.
#[derive(Debug, Default)]
pub(crate) struct CredentialHealth(AtomicU8);

impl CredentialHealth {
    pub(crate) fn status(&self) -> CredentialStatus {
        match self.0.load(Ordering::Relaxed) {
            UNKNOWN => CredentialStatus::Unknown,
            ACCEPTED..=SUSPECT => CredentialStatus::Accepted,
            _ => CredentialStatus::Rejected,
        }
    }

    /// Records the outcome of an attempt. Returns the new status if it changed.
    pub(crate) fn record(&self, outcome: &AttemptOutcome) -> Option<CredentialStatus> {
        match outcome {
            // In the common case the status is already `ACCEPTED`, and no write is needed.
            AttemptOutcome::Succeeded { .. } | AttemptOutcome::SucceededUnstreamed { .. }
                if self.0.load(Ordering::Relaxed) == ACCEPTED =>
            {
                None
            }
            AttemptOutcome::Succeeded { .. } | AttemptOutcome::SucceededUnstreamed { .. } => {
                let before = self.0.swap(ACCEPTED, Ordering::Relaxed);
                (before == REJECTED).then_some(CredentialStatus::Accepted)
            }
            AttemptOutcome::Failed(failure) if failure.kind == FailureKind::Unauthorized => {
                let next = |state| match state {
                    UNKNOWN | SUSPECT.. => REJECTED,
                    state => state + 1,
                };
                let before =
                    self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| Some(next(state)));
                let before = before.unwrap_or(REJECTED);
                (before != REJECTED && next(before) == REJECTED).then_some(CredentialStatus::Rejected)
            }
            AttemptOutcome::Failed(_) | AttemptOutcome::Throttled | AttemptOutcome::Abandoned => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CredentialHealth, CredentialStatus};
    use seawall_core::failure::{AttemptOutcome, Failure, FailureKind};
    use std::time::Duration;

    const GOOD: AttemptOutcome = AttemptOutcome::Succeeded { time_to_first_content: Duration::ZERO };

    fn failed(kind: FailureKind) -> AttemptOutcome {
        AttemptOutcome::Failed(Failure::of(kind))
    }

    #[test]
    fn a_rejected_key_is_reported_once_and_so_is_its_recovery() {
        let health = CredentialHealth::default();
        let bad = failed(FailureKind::Unauthorized);
        assert_eq!(health.status(), CredentialStatus::Unknown);
        assert_eq!(health.record(&failed(FailureKind::ServerFault)), None);
        assert_eq!(health.record(&bad), Some(CredentialStatus::Rejected));
        assert_eq!((health.record(&bad), health.status()), (None, CredentialStatus::Rejected));
        assert_eq!(health.record(&failed(FailureKind::Throttled)), None);
        assert_eq!(health.record(&GOOD), Some(CredentialStatus::Accepted));
        assert_eq!((health.record(&GOOD), health.status()), (None, CredentialStatus::Accepted));
        // A single rejection may be specific to one request.
        assert_eq!([health.record(&bad), health.record(&bad), health.record(&GOOD)], [None; 3]);
        assert_eq!([health.record(&bad), health.record(&bad)], [None; 2]);
        assert_eq!(health.record(&bad), Some(CredentialStatus::Rejected));
    }
}
