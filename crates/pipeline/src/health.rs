//! The health of a target, shared by all its calls.
//!
//! [`TargetHealth`] decides. This module keeps it out of the way of calls that succeed at a healthy target: they read one
//! atomic and take no lock.

use seawall_core::failure::AttemptOutcome;
use seawall_core::health::{HealthEvidence, HealthTransition, LastError, TargetCondition, TargetHealth};
use seawall_core::time::{Now, Timestamp};
use seawall_provider::CallError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum length of an error that is kept, in characters.
const MAX_ERROR_CHARS: usize = 200;

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

/// The health of a target, for operators.
#[derive(Clone, Debug)]
pub struct TargetHealthStatus {
    /// The condition.
    pub condition: TargetCondition,
    /// Since when; `None` before the first call has ended.
    pub since: Option<Now>,
    /// How many attempts have shown the present problem.
    pub occurrences: u64,
    /// The last error.
    pub last_error: Option<LastError>,
    /// Whether the vendor accepts the credential.
    pub credential: CredentialStatus,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct SharedHealth {
    /// Whether a good answer would change nothing.
    is_settled: AtomicBool,
    /// Whether the vendor states a problem with our account.
    is_stated: AtomicBool,
    health: Mutex<TargetHealth>,
}

impl Default for SharedHealth {
    fn default() -> Self {
        Self {
            is_settled: AtomicBool::new(false),
            is_stated: AtomicBool::new(false),
            health: Mutex::new(TargetHealth::new(Now::default())),
        }
    }
}

impl SharedHealth {
    /// Records the outcome of an attempt that was sent at `sent`. Returns the change, if the condition changed.
    pub(crate) fn record(
        &self,
        evidence: HealthEvidence,
        sent: Timestamp,
        now: Now,
        error: impl FnOnce() -> Box<str>,
    ) -> Option<HealthTransition> {
        if evidence == HealthEvidence::Answered && self.is_settled.load(Ordering::Relaxed) {
            return None;
        }
        let mut health = self.lock();
        let transition = health.record(evidence, sent, now, error);
        self.is_settled.store(health.is_settled(), Ordering::Relaxed);
        self.is_stated.store(health.condition().is_stated(), Ordering::Relaxed);
        transition
    }

    /// Whether the vendor states a problem with our account, so that other targets should be tried first.
    pub(crate) fn is_stated(&self) -> bool {
        self.is_stated.load(Ordering::Relaxed)
    }

    /// Whether such a target should be tried first all the same, to see whether the problem is over.
    pub(crate) fn claim_probe(&self, now: Timestamp) -> bool {
        self.is_stated() && self.lock().claim_probe(now)
    }

    pub(crate) fn status(&self) -> TargetHealthStatus {
        let health = self.lock();
        let condition = health.condition();
        TargetHealthStatus {
            condition,
            since: (condition != TargetCondition::Unknown).then(|| health.since()),
            occurrences: health.occurrences(),
            last_error: health.last_error().cloned(),
            credential: match condition {
                TargetCondition::CredentialRejected => CredentialStatus::Rejected,
                _ if health.has_answered() => CredentialStatus::Accepted,
                _ => CredentialStatus::Unknown,
            },
        }
    }

    fn lock(&self) -> MutexGuard<'_, TargetHealth> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An outcome in one line for operators: status, kind and the vendor's message, which contains no credential.
pub(crate) fn error_text(outcome: &AttemptOutcome, error: Option<&CallError>) -> Box<str> {
    let kind = match outcome {
        AttemptOutcome::Failed(failure) => failure.kind.label(),
        _ => "",
    };
    let status = error.and_then(|error| error.status).map(|status| format!("{status} ")).unwrap_or_default();
    let detail = error.and_then(|error| error.detail.as_deref());
    let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
    format!("{status}{kind}{detail}").chars().take(MAX_ERROR_CHARS).collect::<String>().into()
}
