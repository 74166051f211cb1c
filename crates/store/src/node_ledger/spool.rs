//! The spool of ended calls that have not been posted to the ledger.

use crate::ledger::Totals;
use crate::usage::UsageEvent;
use std::collections::VecDeque;

/// The capacity of the spool: some seconds of a busy node, a few megabytes.
pub(super) const MAX_EVENTS: usize = 16_384;

/// Events in the order of their arrival. When the spool is full, the oldest stay and new ones are dropped, because the
/// first events explain the rest.
#[derive(Debug, Default)]
pub(super) struct Spool {
    events: VecDeque<UsageEvent>,
    dropped: Totals,
}

impl Spool {
    pub(super) fn put(&mut self, event: UsageEvent) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        } else {
            self.dropped.add(&event);
        }
    }

    pub(super) fn take(&mut self, max: usize) -> Vec<UsageEvent> {
        let max = max.min(self.events.len());
        self.events.drain(..max).collect()
    }

    /// The totals of the events that were dropped because the spool was full.
    pub(super) const fn dropped(&self) -> Totals {
        self.dropped
    }
}
