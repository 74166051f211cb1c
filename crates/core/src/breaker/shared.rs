//! A breaker shared between threads.

use super::{Breaker, BreakerDecision, BreakerPermit, RejectReason};
use crate::deadline::Deadline;
use crate::failure::AttemptOutcome;
use crate::sync::{Arc, Mutex, lock};
use crate::time::Timestamp;
use std::time::Duration;

/// A [`Breaker`] behind a lock. Clones are handles to the same breaker.
///
/// The lock is held for one step of the state machine, never across a call.
#[derive(Clone, Debug)]
pub struct SharedBreaker(Arc<Mutex<Breaker>>);

/// A permit for one call. Dropping it without an outcome frees its slot and counts as abandoned.
#[derive(Debug)]
#[must_use = "dropping a permit abandons it"]
pub struct SharedPermit {
    breaker: SharedBreaker,
    permit: Option<BreakerPermit>,
}

impl SharedBreaker {
    /// Puts `breaker` behind a lock.
    #[must_use]
    pub fn new(breaker: Breaker) -> Self {
        Self(Arc::new(Mutex::new(breaker)))
    }

    /// Requests a permit for one call that ends by `attempt`. The error carries the reason and, if known, the time
    /// until the next probe may pass.
    pub fn acquire(
        &self,
        now: Timestamp,
        attempt: Deadline,
    ) -> Result<SharedPermit, (RejectReason, Option<Duration>)> {
        self.acquire_with(|breaker| breaker.acquire(now, attempt))
    }

    /// Like [`acquire`](Self::acquire), with any of the acquire methods of [`Breaker`].
    pub fn acquire_with(
        &self,
        acquire: impl FnOnce(&mut Breaker) -> BreakerDecision,
    ) -> Result<SharedPermit, (RejectReason, Option<Duration>)> {
        let decision = acquire(&mut lock(&self.0));
        match decision {
            BreakerDecision::Permitted(permit) => {
                Ok(SharedPermit { breaker: self.clone(), permit: Some(permit) })
            }
            BreakerDecision::Rejected { reason, retry_after } => Err((reason, retry_after)),
        }
    }

    /// Runs `step` on the breaker while holding the lock, such as a peek, a mode change or a fold. Keep it short.
    pub fn with<T>(&self, step: impl FnOnce(&mut Breaker) -> T) -> T {
        step(&mut lock(&self.0))
    }
}

impl SharedPermit {
    /// Returns the permit together with the outcome of its call.
    pub fn report(mut self, outcome: &AttemptOutcome, now: Timestamp) {
        if let Some(permit) = self.permit.take() {
            lock(&self.breaker.0).report(permit, outcome, now);
        }
    }

    /// Why the call would have been rejected, had the breaker not been in observing mode.
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
