//! The waiters of one flight.

use super::flight::Asker;
use crate::deadline::Deadline;
use crate::time::Timestamp;
use std::collections::BTreeMap;

/// A request that waits for the leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) asker: Asker,
    pub(super) until: Timestamp,
    pub(super) deadline: Deadline,
}

/// All waiters in order of arrival, also indexed by number: a popular question has thousands, and each of them asks,
/// times out and leaves.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiters {
    by_place: BTreeMap<u64, Waiter>,
    places: BTreeMap<Asker, u64>,
    next_place: u64,
}

impl Waiters {
    /// Adds a waiter that is not in the list yet.
    pub(super) fn push(&mut self, waiter: Waiter) {
        self.places.insert(waiter.asker, self.next_place);
        self.by_place.insert(self.next_place, waiter);
        self.next_place += 1;
    }

    pub(super) fn get(&self, asker: Asker) -> Option<Waiter> {
        self.by_place.get(self.places.get(&asker)?).copied()
    }

    /// Returns whether it was in the list.
    pub(super) fn remove(&mut self, asker: Asker) -> bool {
        self.places.remove(&asker).is_some_and(|place| self.by_place.remove(&place).is_some())
    }

    /// In order of arrival.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiter> {
        self.by_place.values()
    }

    pub(super) fn len(&self) -> usize {
        self.by_place.len()
    }
}
