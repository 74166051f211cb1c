//! Calls that have ended and of which the ledger has not been told.

use crate::ledger::Totals;
use crate::usage::UsageEvent;
use std::collections::VecDeque;

/// So many wait: some seconds of a busy node, a few megabytes.
pub(super) const MOST_EVENTS: usize = 16_384;

/// Events in the order in which they came. When it is full the oldest stay: what happened first explains the rest.
#[derive(Debug, Default)]
pub(super) struct Spool {
    events: VecDeque<UsageEvent>,
    untold: Totals,
}

impl Spool {
    pub(super) fn put(&mut self, event: UsageEvent) {
        if self.events.len() < MOST_EVENTS {
            self.events.push_back(event);
        } else {
            self.untold.add(&event);
        }
    }

    pub(super) fn take(&mut self, most: usize) -> Vec<UsageEvent> {
        let most = most.min(self.events.len());
        self.events.drain(..most).collect()
    }

    /// What found no place here comes to.
    pub(super) const fn untold(&self) -> Totals {
        self.untold
    }
}
