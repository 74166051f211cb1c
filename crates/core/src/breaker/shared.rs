//! A breaker that many threads ask.

use super::{AcquireDecision, Breaker, BreakerPermit, RejectReason};
use crate::deadline::Deadline;
use crate::failure::Outcome;
use crate::sync::{Arc, Mutex, lock};
use crate::time::Timestamp;
use std::time::Duration;

/// A [`Breaker`] behind a lock. Cloning it gives another handle to the same breaker.
///
/// The lock is held for one step of the machine, never across a call.
#[derive(Clone, Debug)]
pub struct SharedBreaker(Arc<Mutex<Breaker>>);

/// The right to make one call; dropped without a verdict, it gives its place back as abandoned.
#[derive(Debug)]
#[must_use = "dropping a permit abandons it"]
pub struct SharedPermit {
    breaker: SharedBreaker,
    permit: Option<BreakerPermit>,
}

impl SharedBreaker {
    /// Shares `breaker`.
    #[must_use]
    pub fn new(breaker: Breaker) -> Self {
        Self(Arc::new(Mutex::new(breaker)))
    }

    /// Asks to make one call that ends by `attempt`; the refusal says why and when the next probe may pass.
    pub fn acquire(
        &self,
        now: Timestamp,
        attempt: Deadline,
    ) -> Result<SharedPermit, (RejectReason, Option<Duration>)> {
        self.acquire_by(|breaker| breaker.acquire(now, attempt))
    }

    /// The same, by any of the ways in which a breaker can be asked.
    pub fn acquire_by(
        &self,
        ask: impl FnOnce(&mut Breaker) -> AcquireDecision,
    ) -> Result<SharedPermit, (RejectReason, Option<Duration>)> {
        let decision = ask(&mut lock(&self.0));
        match decision {
            AcquireDecision::Permitted(permit) => {
                Ok(SharedPermit { breaker: self.clone(), permit: Some(permit) })
            }
            AcquireDecision::Rejected { reason, retry_after } => Err((reason, retry_after)),
        }
    }

    /// One step on the machine itself: peek, force, fold, drain transitions. Keep it short; the lock is held.
    pub fn with<T>(&self, step: impl FnOnce(&mut Breaker) -> T) -> T {
        step(&mut lock(&self.0))
    }
}

impl SharedPermit {
    /// Gives the permit back with what came of it.
    pub fn report(mut self, outcome: &Outcome, now: Timestamp) {
        if let Some(permit) = self.permit.take() {
            lock(&self.breaker.0).report(permit, outcome, now);
        }
    }

    /// Why this call would have been blocked, if the breaker did more than observe.
    #[must_use]
    pub fn would_reject(&self) -> Option<RejectReason> {
        self.permit.as_ref().and_then(BreakerPermit::would_reject)
    }
}

impl Drop for SharedPermit {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            lock(&self.breaker.0).abandon(permit);
        }
    }
}
