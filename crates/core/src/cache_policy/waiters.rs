//! The waiters of one flight.

use super::single_flight::ParticipantId;
use crate::deadline::Deadline;
use crate::time::Timestamp;
use std::collections::BTreeMap;

/// A request that waits for the leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlightWaiter {
    pub(super) participant: ParticipantId,
    pub(super) until: Timestamp,
    pub(super) deadline: Deadline,
}

/// All waiters in order of arrival, also indexed by number: a popular question has thousands, and each of them asks,
/// times out and leaves.
#[derive(Clone, Debug, Default)]
pub(super) struct FlightWaiters {
    by_position: BTreeMap<u64, FlightWaiter>,
    positions: BTreeMap<ParticipantId, u64>,
    next_position: u64,
}

impl FlightWaiters {
    /// Adds a waiter that is not in the list yet.
    pub(super) fn push(&mut self, waiter: FlightWaiter) {
        self.positions.insert(waiter.participant, self.next_position);
        self.by_position.insert(self.next_position, waiter);
        self.next_position += 1;
    }

    pub(super) fn get(&self, participant: ParticipantId) -> Option<FlightWaiter> {
        self.by_position.get(self.positions.get(&participant)?).copied()
    }

    /// Returns whether it was in the list.
    pub(super) fn remove(&mut self, participant: ParticipantId) -> bool {
        self.positions
            .remove(&participant)
            .is_some_and(|position| self.by_position.remove(&position).is_some())
    }

    /// In order of arrival.
    pub(super) fn iter(&self) -> impl Iterator<Item = &FlightWaiter> {
        self.by_position.values()
    }

    pub(super) fn len(&self) -> usize {
        self.by_position.len()
    }
}
