//! Detects that a store has recovered, and brings it up to date.

use super::pending::MOST_HOMES;
use super::report::SharedStore;
use super::share::{Share, longest_window};
use super::shared::{SharedQuotas, Standing, State, closed_breaker};
use crate::lock;
use seawall_core::handle::{Runtime, within};
use seawall_core::time::{Now, Timestamp};
use std::sync::Arc;

/// The number of shards of the book that are swept at a time.
const SHARDS_A_TIME: usize = 4;
/// The most reports that are sent in one tick: all that can be waiting, and those that are added meanwhile.
const REPORTS_A_TIME: usize = 2 * MOST_HOMES;

impl<S: SharedStore, R: Runtime> SharedQuotas<S, R> {
    /// Checks whether the store responds, sends it the outstanding reports, and sweeps the book. Returns whether the
    /// store responded. Call it once a second, and more often after a failure: the store is used again after the first
    /// call that reaches it.
    pub async fn tick(&self, now: Now) -> bool {
        let found = within(&self.runtime, self.deadline(), self.store.life(now)).await;
        self.sweep(now);
        let life = match found {
            Some(Ok(life)) => life,
            Some(Err(error)) => {
                lock(&self.state).cause = Some(error.to_string());
                return false;
            }
            None => return false,
        };
        let emptied = {
            let mut state = lock(&self.state);
            state.store_life.replace(life).is_some_and(|before| before != life)
        };
        if emptied {
            // This must happen before any decision is taken by the store again.
            self.learn(now.monotonic, "it was emptied");
        }
        if !self.tell_all(now).await {
            return false;
        }
        let overflowed = lock(&self.state).pending.take_overflow();
        if overflowed {
            self.learn(now.monotonic, "more was admitted without it than could be remembered");
        }
        self.come_back(now.monotonic);
        true
    }

    /// Sends the outstanding reports one after the other. Returns whether all of them have arrived.
    async fn tell_all(&self, now: Now) -> bool {
        for _ in 0..REPORTS_A_TIME {
            let report = {
                let mut state = lock(&self.state);
                if state.unconfirmed.is_none() {
                    state.unconfirmed =
                        state.pending.take_report(self.options.node, self.life, now.monotonic);
                }
                state.unconfirmed.clone()
            };
            let Some(report) = report else { return true };
            match within(&self.runtime, self.deadline(), self.store.merge(&report, now)).await {
                Some(Ok(())) => {}
                // A report that the store rejects as invalid would be rejected again, so it is dropped.
                Some(Err(error)) if !error.may_pass() => {}
                _ => return false,
            }
            let mut state = lock(&self.state);
            state.unconfirmed = None;
            state.counts.merged += 1;
        }
        lock(&self.state).pending.is_empty()
    }

    /// Lets the share decide, too, until nothing that was admitted before now counts in any window.
    fn learn(&self, now: Timestamp, why: &str) {
        let mut state = lock(&self.state);
        state.learning_until = now + longest_window(&state.groups);
        let from = state.standing;
        if from == Standing::Here {
            self.change_standing(&mut state, Standing::Learning, why);
        }
    }

    fn come_back(&self, now: Timestamp) {
        let mut state = lock(&self.state);
        let is_learning = now < state.learning_until;
        match state.standing {
            Standing::Away => {
                if let Ok(breaker) = closed_breaker() {
                    *lock(&self.breaker) = breaker;
                }
                let to = if is_learning { Standing::Learning } else { Standing::Here };
                self.change_standing(&mut state, to, "it answers again");
            }
            Standing::Learning if !is_learning => {
                self.change_standing(&mut state, Standing::Here, "a window has passed");
            }
            Standing::Here | Standing::Learning => {}
        }
        if state.standing == Standing::Here && state.share.nodes != state.fleet_size {
            // The counts of one share mean nothing in another, so the new book starts empty.
            if let Ok(share) = Share::new(&state.groups, state.fleet_size, self.options.seed) {
                state.share = Arc::new(share);
            }
        }
    }

    pub(super) fn change_standing(&self, state: &mut State, to: Standing, why: &str) {
        let from = std::mem::replace(&mut state.standing, to);
        state.counts.changes += 1;
        self.observer.changed(from, to, why);
    }

    fn sweep(&self, now: Now) {
        let (share, first) = {
            let mut state = lock(&self.state);
            let first = state.next_shard;
            state.next_shard = first.wrapping_add(SHARDS_A_TIME);
            (Arc::clone(&state.share), first)
        };
        for shard in first..first.saturating_add(SHARDS_A_TIME) {
            share.quotas.book().sweep(shard, now);
        }
    }
}
