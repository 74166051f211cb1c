//! Whether a target's vendor accepts our key.
//!
//! **When it acts.** With every attempt that is over. A vendor that rejects the first call, or three in a row after it had
//! accepted one, does not accept our key; one success is enough to say that it does again.
//!
//! **What it will not do.** It blocks nothing: the breaker and retries decide what is asked. It is for operators, because
//! a wrong key looks like a healthy target otherwise.

use seawall_core::failure::{FailureKind, Outcome};
use std::sync::atomic::{AtomicU8, Ordering};

/// How a vendor has answered our key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialStatus {
    /// Nobody was asked yet.
    Unknown,
    /// It was accepted.
    Accepted,
    /// It is rejected.
    Rejected,
}

impl CredentialStatus {
    /// The word for the admin API.
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
/// Accepted once, and rejected so often since that the next rejection is believed.
const DOUBTED: u8 = 3;
const REJECTED: u8 = 4;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct CredentialHealth(AtomicU8);

impl CredentialHealth {
    pub(crate) fn status(&self) -> CredentialStatus {
        match self.0.load(Ordering::Relaxed) {
            UNKNOWN => CredentialStatus::Unknown,
            ACCEPTED..=DOUBTED => CredentialStatus::Accepted,
            _ => CredentialStatus::Rejected,
        }
    }

    /// Notes how an attempt ended. Says so where that changes whether the key is accepted.
    pub(crate) fn note(&self, outcome: &Outcome) -> Option<CredentialStatus> {
        match outcome {
            // Nearly always it was accepted before: no write then.
            Outcome::Succeeded { .. } | Outcome::AnsweredWhole { .. }
                if self.0.load(Ordering::Relaxed) == ACCEPTED =>
            {
                None
            }
            Outcome::Succeeded { .. } | Outcome::AnsweredWhole { .. } => {
                let before = self.0.swap(ACCEPTED, Ordering::Relaxed);
                (before == REJECTED).then_some(CredentialStatus::Accepted)
            }
            Outcome::Failed(failure) if failure.kind == FailureKind::Unauthorized => {
                let next = |state| match state {
                    UNKNOWN | DOUBTED.. => REJECTED,
                    state => state + 1,
                };
                let before =
                    self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| Some(next(state)));
                let before = before.unwrap_or(REJECTED);
                (before != REJECTED && next(before) == REJECTED).then_some(CredentialStatus::Rejected)
            }
            Outcome::Failed(_) | Outcome::Abandoned => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CredentialHealth, CredentialStatus};
    use seawall_core::failure::{Failure, FailureKind, Outcome};
    use std::time::Duration;

    const GOOD: Outcome = Outcome::Succeeded { first_content_after: Duration::ZERO };

    fn failed(kind: FailureKind) -> Outcome {
        Outcome::Failed(Failure::of(kind))
    }

    #[test]
    fn a_rejected_key_is_reported_once_and_so_is_its_recovery() {
        let health = CredentialHealth::default();
        let bad = failed(FailureKind::Unauthorized);
        assert_eq!(health.status(), CredentialStatus::Unknown);
        assert_eq!(health.note(&failed(FailureKind::ServerFault)), None);
        assert_eq!(health.note(&bad), Some(CredentialStatus::Rejected));
        assert_eq!((health.note(&bad), health.status()), (None, CredentialStatus::Rejected));
        assert_eq!(health.note(&failed(FailureKind::Throttled)), None);
        assert_eq!(health.note(&GOOD), Some(CredentialStatus::Accepted));
        assert_eq!((health.note(&GOOD), health.status()), (None, CredentialStatus::Accepted));
        // A single rejection may be about one request.
        assert_eq!([health.note(&bad), health.note(&bad), health.note(&GOOD)], [None; 3]);
        assert_eq!([health.note(&bad), health.note(&bad)], [None; 2]);
        assert_eq!(health.note(&bad), Some(CredentialStatus::Rejected));
    }
}
