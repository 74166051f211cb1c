//! How many calls one target may have in flight at once.
//!
//! A slow target must not occupy every worker: each target gets a limit of its own, apart from the limit of
//! the whole gateway. [`InFlightLimit::try_acquire`] gives a permit or none, at once; dropping the permit frees
//! its place.
//!
//! **Where the permit belongs.** In the response body, moved there when the head arrives and dropped with the
//! last byte or when the caller goes away. A model answers with its head in a moment and then writes for a
//! minute: the provider works, and counts the call as one of ours, until the body ends. A permit that ended at
//! the head would let through a limit's worth of new calls each moment, and limit nothing. That is why a
//! permit borrows nothing and may be sent to another thread.
//!
//! **When it acts.** On every ask. The limit and the number in flight are two halves of one word, changed by
//! compare-and-swap: no order of events admits one call too many, not for an instant, and not while the limit
//! is being changed.
//!
//! **What it will not do.** It has no line and no lock; who is turned away decides what to do next. It does not
//! take permits back: a limit lowered below what is in flight admits nobody until enough have ended.
//!
//! ```
//! use seawall_core::in_flight::InFlightLimit;
//!
//! let limit = InFlightLimit::new(1)?;
//! let permit = limit.try_acquire().expect("nothing is in flight");
//! let body = (permit, "the stream of the response");
//! assert!(limit.try_acquire().is_none());
//!
//! drop(body);
//! assert!(limit.try_acquire().is_some());
//! # Ok::<(), seawall_core::setting::SettingError>(())
//! ```

#[cfg(test)]
#[cfg(loom)]
mod loom_tests;
mod shares;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use shares::{SlotHolder, SlotLimit, SlotPermit, SlotRefusal, SlotShares, SlotUse};

use crate::setting::{SettingError, at_least_one};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A limit on calls in flight. Clones share one count.
#[derive(Clone, Debug)]
pub struct InFlightLimit {
    count: Arc<Count>,
}

#[derive(Debug)]
struct Count {
    /// The limit in the upper half, the number in flight in the lower.
    word: AtomicU64,
    peak: AtomicU32,
}

/// The right to one call in flight, until it is dropped.
#[derive(Debug)]
#[must_use = "dropping the permit ends the call it stands for"]
pub struct InFlightPermit {
    count: Arc<Count>,
}

impl InFlightLimit {
    /// At most `limit` calls in flight. Refuses a limit of nothing.
    pub fn new(limit: u32) -> Result<Self, SettingError> {
        let word = AtomicU64::new(join(checked(limit)?, 0));
        Ok(Self { count: Arc::new(Count { word, peak: AtomicU32::new(0) }) })
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

    /// Calls in flight now.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        split(self.count.word.load(Ordering::Acquire)).1
    }

    /// The limit now.
    #[must_use]
    pub fn limit(&self) -> u32 {
        split(self.count.word.load(Ordering::Acquire)).0
    }

    /// The most calls that were ever in flight at once.
    #[must_use]
    pub fn peak(&self) -> u32 {
        self.count.peak.load(Ordering::Relaxed)
    }

    /// Changes the limit from now on; calls in flight go on. Refuses a limit of nothing and leaves the old one.
    pub fn set_limit(&self, limit: u32) -> Result<(), SettingError> {
        let limit = checked(limit)?;
        let mut word = self.count.word.load(Ordering::Acquire);
        loop {
            let changed = join(limit, split(word).1);
            match self.count.word.compare_exchange_weak(word, changed, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(()),
                Err(other) => word = other,
            }
        }
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        // The lower half counts this permit, so it is at least one and nothing is borrowed from the limit.
        self.count.word.fetch_sub(1, Ordering::AcqRel);
    }
}

fn checked(limit: u32) -> Result<u32, SettingError> {
    at_least_one("in_flight_limit", u64::from(limit))?;
    Ok(limit)
}

fn join(limit: u32, in_flight: u32) -> u64 {
    (u64::from(limit) << 32) + u64::from(in_flight)
}

#[expect(clippy::cast_possible_truncation, reason = "each half is 32 bits")]
fn split(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}
