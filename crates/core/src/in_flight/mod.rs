//! Concurrency limit: how many calls one target may have in flight at once.
//!
//! **Why one per target?** A slow target must not occupy every worker, so each target has a limit of its own, apart
//! from the limit of the whole gateway (the bulkhead pattern). [`InFlightLimit::try_acquire`] returns a permit or
//! `None` at once; dropping the permit frees its slot.
//!
//! **Where to keep the permit.** In the response body: move it there when the head arrives, and drop it with the last
//! byte or when the caller disconnects. A model sends the response head in a moment and then generates for a minute;
//! until the body ends, the provider is working and counts the call against us. A permit released at the head would
//! admit a limit's worth of new calls every moment, and limit nothing. That is why a permit borrows nothing and is
//! `Send`.
//!
//! **When it acts.** On every acquire. The limit and the number in flight are the two halves of one atomic word,
//! changed by compare-and-swap: no interleaving admits one call too many, not even for an instant or while the limit
//! changes.
//!
//! **What it does not do.** It has no queue and no lock; a rejected caller decides what to do next. It does not revoke
//! permits: after the limit is lowered below the number in flight, it admits no call until enough have ended.
//!
//! ```
//! use seawall_core::in_flight::InFlightLimit;
//! use std::num::NonZeroU32;
//!
//! let limit = InFlightLimit::new(NonZeroU32::MIN);
//! let permit = limit.try_acquire().expect("nothing is in flight");
//! let body = (permit, "the stream of the response");
//! assert!(limit.try_acquire().is_none());
//!
//! drop(body);
//! assert!(limit.try_acquire().is_some());
//! ```

#[cfg(test)]
#[cfg(loom)]
mod loom_tests;
mod shares;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use shares::{SlotLimit, SlotOwner, SlotPermit, SlotRefusal, SlotShares, SlotUse};

use crate::sync::Arc;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::num::NonZeroU32;

/// A concurrency limit. Clones share one count.
#[derive(Clone, Debug)]
pub struct InFlightLimit {
    count: Arc<InFlightCount>,
}

#[derive(Debug)]
struct InFlightCount {
    /// The limit in the upper half, the number in flight in the lower.
    word: AtomicU64,
    peak: AtomicU32,
}

/// A permit for one call in flight; dropping it frees the slot.
#[derive(Debug)]
#[must_use = "dropping the permit frees its slot"]
pub struct InFlightPermit {
    count: Arc<InFlightCount>,
}

impl InFlightLimit {
    /// Creates a limit of `limit` calls in flight.
    #[must_use]
    pub fn new(limit: NonZeroU32) -> Self {
        let word = AtomicU64::new(join(limit.get(), 0));
        Self { count: Arc::new(InFlightCount { word, peak: AtomicU32::new(0) }) }
    }

    /// A permit, if fewer calls than the limit are in flight.
    #[must_use]
    pub fn try_acquire(&self) -> Option<InFlightPermit> {
        let mut word = self.count.word.load(Ordering::Acquire);
        loop {
            let (limit, in_flight) = split(word);
            if in_flight >= limit {
                return None;
            }
            let more = join(limit, in_flight + 1);
            match self.count.word.compare_exchange_weak(word, more, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.count.peak.fetch_max(in_flight + 1, Ordering::Relaxed);
                    return Some(InFlightPermit { count: Arc::clone(&self.count) });
                }
                Err(changed) => word = changed,
            }
        }
    }

    /// The number of calls in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        split(self.count.word.load(Ordering::Acquire)).1
    }

    /// The current limit.
    #[must_use]
    pub fn limit(&self) -> u32 {
        split(self.count.word.load(Ordering::Acquire)).0
    }

    /// The maximum number of calls that were ever in flight at once.
    #[must_use]
    pub fn peak(&self) -> u32 {
        self.count.peak.load(Ordering::Relaxed)
    }

    /// Changes the limit; calls in flight continue.
    pub fn set_limit(&self, limit: NonZeroU32) {
        let mut word = self.count.word.load(Ordering::Acquire);
        loop {
            let changed = join(limit.get(), split(word).1);
            match self.count.word.compare_exchange_weak(word, changed, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(other) => word = other,
            }
        }
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        // The lower half counts this permit, so it is at least one and the subtraction does not borrow from the limit.
        self.count.word.fetch_sub(1, Ordering::AcqRel);
    }
}

fn join(limit: u32, in_flight: u32) -> u64 {
    (u64::from(limit) << 32) + u64::from(in_flight)
}

#[expect(clippy::cast_possible_truncation, reason = "each half is 32 bits")]
fn split(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}
