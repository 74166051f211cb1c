//! Detects that a store has recovered, and brings it up to date.

use super::pending::MAX_PARTITIONS;
use super::report::SharedQuotaStore;
use super::share::{NodeShare, longest_window};
use super::shared::{FallbackState, SharedQuotas, SharedStoreState, closed_breaker};
use crate::lock;
use seawall_core::runtime::{Runtime, timeout_at};
use seawall_core::time::{Now, Timestamp};
use std::sync::Arc;

/// The number of shards of the local limiter that are swept at a time.
const SHARDS_PER_TICK: usize = 4;
/// Why the counts of a store are incomplete.
const LOST_DATA: &str = "the server lost its data";
const LOST_REPORTS: &str = "this node could not report all requests that it admitted";
const EARLIER_LOSS: &str = "they were incomplete before the outage";
/// The most reports that are sent in one tick: all that can be waiting, and those that are added meanwhile.
const MAX_REPORTS_PER_TICK: usize = 2 * MAX_PARTITIONS;

impl<S: SharedQuotaStore, R: Runtime> SharedQuotas<S, R> {
    /// Checks whether the store responds, sends it the outstanding reports, and sweeps the local limiter. Returns whether the
    /// store responded. Call it once a second, and more often after a failure: the store is used again after the first
    /// call that reaches it.
    pub async fn tick(&self, now: Now) -> bool {
        let found = timeout_at(&self.runtime, self.deadline(), self.store.incarnation(now)).await;
        self.sweep(now);
        let incarnation = match found {
            Some(Ok(incarnation)) => incarnation,
            Some(Err(error)) => {
                lock(&self.state).cause = Some(error.to_string());
                return false;
            }
            None => return false,
        };
        let emptied = {
            let mut state = lock(&self.state);
            state.store_incarnation.replace(incarnation).is_some_and(|before| before != incarnation)
        };
        let mut incomplete = None;
        if emptied {
            // This must happen before any decision is taken by the store again.
            self.start_recovery(now.monotonic, incomplete.insert(LOST_DATA));
        }
        if !self.send_reports(now).await {
            return false;
        }
        let overflowed = lock(&self.state).pending.take_overflow();
        if overflowed {
            self.start_recovery(now.monotonic, incomplete.insert(LOST_REPORTS));
        }
        self.resume(now.monotonic, incomplete);
        true
    }

    /// Sends the outstanding reports one after the other. Returns whether all of them have arrived.
    async fn send_reports(&self, now: Now) -> bool {
        for _ in 0..MAX_REPORTS_PER_TICK {
            let report = {
                let mut state = lock(&self.state);
                if state.unconfirmed.is_none() {
                    state.unconfirmed =
                        state.pending.take_report(self.options.node, self.incarnation, now.monotonic);
                }
                state.unconfirmed.clone()
            };
            let Some(report) = report else { return true };
            match timeout_at(&self.runtime, self.deadline(), self.store.merge(&report, now)).await {
                Some(Ok(())) => {}
                // A report that the store rejects as invalid would be rejected again, so it is dropped.
                Some(Err(error)) if !error.is_transient() => {}
                _ => return false,
            }
            let mut state = lock(&self.state);
            state.unconfirmed = None;
            state.stats.merged += 1;
        }
        lock(&self.state).pending.is_empty()
    }

    /// Lets the share decide, too, until nothing that was admitted before now counts in any window.
    fn start_recovery(&self, now: Timestamp, reason: &str) {
        let mut state = lock(&self.state);
        state.recovering_until = now + longest_window(&state.groups);
        let from = state.store_state;
        if from == SharedStoreState::Reachable {
            self.set_store_state(&mut state, SharedStoreState::Recovering, reason);
        }
    }

    /// Uses a store again that responds. `incomplete` is why its counts are incomplete, if that was found just now.
    fn resume(&self, now: Timestamp, incomplete: Option<&str>) {
        let mut state = lock(&self.state);
        let is_recovering = now < state.recovering_until;
        match state.store_state {
            SharedStoreState::Unreachable => {
                if let Ok(breaker) = closed_breaker() {
                    *lock(&self.breaker) = breaker;
                }
                let (to, reason) = if is_recovering {
                    (SharedStoreState::Recovering, incomplete.unwrap_or(EARLIER_LOSS))
                } else {
                    (SharedStoreState::Reachable, "it responds again")
                };
                self.set_store_state(&mut state, to, reason);
            }
            SharedStoreState::Recovering if !is_recovering => {
                self.set_store_state(
                    &mut state,
                    SharedStoreState::Reachable,
                    "the longest window has passed",
                );
            }
            SharedStoreState::Reachable | SharedStoreState::Recovering => {}
        }
        if state.store_state == SharedStoreState::Reachable && state.share.nodes != state.fleet_size {
            // The counts of one share mean nothing in another, so the new limiter starts empty.
            if let Ok(share) = NodeShare::new(&state.groups, state.fleet_size, self.options.seed) {
                state.share = Arc::new(share);
            }
        }
    }

    pub(super) fn set_store_state(&self, state: &mut FallbackState, to: SharedStoreState, reason: &str) {
        let from = std::mem::replace(&mut state.store_state, to);
        state.stats.changes += 1;
        self.observer.changed(from, to, reason);
    }

    fn sweep(&self, now: Now) {
        let (share, first) = {
            let mut state = lock(&self.state);
            let first = state.next_shard;
            state.next_shard = first.wrapping_add(SHARDS_PER_TICK);
            (Arc::clone(&state.share), first)
        };
        for shard in first..first.saturating_add(SHARDS_PER_TICK) {
            share.quotas.limiter().sweep(shard, now);
        }
    }
}
