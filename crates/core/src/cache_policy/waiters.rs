//! Those who wait for one flight.

use super::flight::Asker;
use crate::deadline::Deadline;
use crate::time::Timestamp;
use std::collections::BTreeMap;

/// Somebody who waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) asker: Asker,
    /// When its wait ends.
    pub(super) until: Timestamp,
    /// When it must be answered.
    pub(super) deadline: Deadline,
}

/// All of them, in the order in which they came, and each to be found by its number: a popular question has thousands,
/// and every one of them asks, rings and leaves.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiters {
    by_place: BTreeMap<u64, Waiter>,
    places: BTreeMap<Asker, u64>,
    next_place: u64,
}

impl Waiters {
    /// Adds somebody who does not wait yet.
    pub(super) fn push(&mut self, waiter: Waiter) {
        self.places.insert(waiter.asker, self.next_place);
        self.by_place.insert(self.next_place, waiter);
        self.next_place += 1;
    }

    pub(super) fn get(&self, asker: Asker) -> Option<Waiter> {
        self.by_place.get(self.places.get(&asker)?).copied()
    }

    /// Says whether it was there.
    pub(super) fn remove(&mut self, asker: Asker) -> bool {
        self.places.remove(&asker).is_some_and(|place| self.by_place.remove(&place).is_some())
    }

    /// In the order in which they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiter> {
        self.by_place.values()
    }

    pub(super) fn len(&self) -> usize {
        self.by_place.len()
    }
}
