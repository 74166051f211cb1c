//! Fair shares of a bounded queue.
//!
//! With a bound on the queue alone, one caller could fill it and all others would be refused. So when the queue is
//! full, the owner with the most waiters gives up its latest one for a newcomer whose owner has fewer. A single
//! caller may still use the whole queue: a share is given up only when another caller needs it.
//!
//! **What it does not do.** It makes no pointless exchange: an owner with only one waiter more than the newcomer keeps
//! it, since swapping the two would leave the queue as uneven as before, and callers would evict each other forever.

use crate::in_flight::SlotOwner;
use std::collections::{BTreeMap, BTreeSet};

/// The party whose share of a queue a waiter counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueOwner {
    /// All guests together, because a guest becomes a new caller whenever it drops its cookie.
    Guests,
    /// An authenticated caller.
    Caller(u64),
}

impl From<SlotOwner> for QueueOwner {
    fn from(owner: SlotOwner) -> Self {
        if owner.guest_network.is_some() { Self::Guests } else { Self::Caller(owner.caller) }
    }
}

/// The waiters of a queue by owner. `T` is a ticket; later waiters have larger tickets.
#[derive(Clone, Debug)]
pub struct QueueShares<T> {
    waiters: BTreeMap<QueueOwner, BTreeSet<T>>,
    /// Owners ordered by their number of waiters.
    sizes: BTreeSet<(usize, QueueOwner)>,
}

impl<T> Default for QueueShares<T> {
    fn default() -> Self {
        Self { waiters: BTreeMap::new(), sizes: BTreeSet::new() }
    }
}

impl<T: Copy + Ord> QueueShares<T> {
    /// Adds a waiter.
    pub fn add(&mut self, owner: QueueOwner, ticket: T) {
        let waiters = self.waiters.entry(owner).or_default();
        let before = waiters.len();
        waiters.insert(ticket);
        let after = waiters.len();
        self.resize(owner, before, after);
    }

    /// Removes a waiter. Has no effect if it was not counted.
    pub fn remove(&mut self, owner: QueueOwner, ticket: T) {
        let Some(waiters) = self.waiters.get_mut(&owner) else { return };
        let before = waiters.len();
        waiters.remove(&ticket);
        let after = waiters.len();
        if after == 0 {
            self.waiters.remove(&owner);
        }
        self.resize(owner, before, after);
    }

    fn resize(&mut self, owner: QueueOwner, before: usize, after: usize) {
        self.sizes.remove(&(before, owner));
        if after > 0 {
            self.sizes.insert((after, owner));
        }
    }

    /// The waiter to evict for one more of `newcomer`, with its owner: the latest of the largest owner, if that
    /// owner has at least two more waiters than the newcomer's.
    #[must_use]
    pub fn eviction_candidate(&self, newcomer: QueueOwner) -> Option<(QueueOwner, T)> {
        let own = self.waiters.get(&newcomer).map_or(0, BTreeSet::len);
        let (largest_size, largest) = self.sizes.last()?;
        if *largest_size < own + 2 {
            return None;
        }
        Some((*largest, *self.waiters.get(largest)?.last()?))
    }
}
