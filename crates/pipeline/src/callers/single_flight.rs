//! Single flight for directory lookups: concurrent requests with the same credential share one lookup.
//!
//! The first request leads and performs the lookup; requests that arrive meanwhile follow it and receive the same
//! result. If the leader is dropped, its followers receive `None`, and one of them leads the next lookup.
//!
//! This module performs no lookups and sets no timeouts: both belong to the leader and to each follower.

use super::LookupOutcome;
use super::cache::CachedRecord;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

type Hash = [u8; 32];

/// The lookups in progress.
#[derive(Debug, Default)]
pub(super) struct LookupSingleFlight(Mutex<BTreeMap<Hash, Arc<Lookup>>>);

#[derive(Debug, Default)]
struct Lookup(Mutex<Progress>);

#[derive(Debug, Default)]
struct Progress {
    /// `None` while the lookup is in progress; then its outcome, or `Some(None)` if the leader was dropped.
    outcome: Option<Option<LookupOutcome>>,
    waiting: Vec<Waker>,
}

/// The role of a request in a lookup.
pub(super) enum LookupRole<'a> {
    /// Perform the lookup.
    Lead(LookupLeader<'a>),
    /// Wait for the leader.
    Follow(LookupFollower),
}

/// The right to perform the lookup. Dropping it without a result releases the followers with `None`.
pub(super) struct LookupLeader<'a> {
    lookups: &'a LookupSingleFlight,
    hash: Hash,
    lookup: Arc<Lookup>,
}

/// Resolves to the leader's outcome, or to `None` if the leader was dropped.
pub(super) struct LookupFollower {
    lookup: Arc<Lookup>,
    /// The index of this follower's waker.
    waker_index: Option<usize>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LookupSingleFlight {
    /// Leads a new lookup, or follows the one in progress.
    pub(super) fn join(&self, hash: &Hash) -> LookupRole<'_> {
        let mut all = lock(&self.0);
        if let Some(lookup) = all.get(hash) {
            return LookupRole::Follow(LookupFollower { lookup: Arc::clone(lookup), waker_index: None });
        }
        let lookup = Arc::new(Lookup::default());
        all.insert(*hash, Arc::clone(&lookup));
        LookupRole::Lead(LookupLeader { lookups: self, hash: *hash, lookup })
    }

    /// Detaches the lookup in progress, so that its result is not cached and no later request joins it.
    pub(super) fn detach(&self, hash: &Hash) {
        lock(&self.0).remove(hash);
    }

    fn is_current(all: &BTreeMap<Hash, Arc<Lookup>>, lead: &LookupLeader<'_>) -> bool {
        all.get(&lead.hash).is_some_and(|lookup| Arc::ptr_eq(lookup, &lead.lookup))
    }
}

impl LookupLeader<'_> {
    /// Delivers the outcome to all followers. A result is cached unless the lookup was detached meanwhile. Caching and
    /// removal happen under one lock, so the next request either finds the cached result or starts a new lookup.
    pub(super) fn complete(self, outcome: LookupOutcome, cache: impl FnOnce(CachedRecord)) {
        let mut all = lock(&self.lookups.0);
        if LookupSingleFlight::is_current(&all, &self) {
            if let LookupOutcome::Answered(record) = &outcome {
                cache(record.clone());
            }
            all.remove(&self.hash);
        }
        drop(all);
        self.lookup.complete(Some(outcome));
    }
}

impl Drop for LookupLeader<'_> {
    fn drop(&mut self) {
        let mut all = lock(&self.lookups.0);
        if LookupSingleFlight::is_current(&all, self) {
            all.remove(&self.hash);
        }
        drop(all);
        self.lookup.complete(None);
    }
}

impl Lookup {
    /// Only the first outcome counts.
    fn complete(&self, outcome: Option<LookupOutcome>) {
        let mut progress = lock(&self.0);
        progress.outcome.get_or_insert(outcome);
        let waiting = std::mem::take(&mut progress.waiting);
        drop(progress);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Future for LookupFollower {
    type Output = Option<LookupOutcome>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let lookup = Arc::clone(&self.lookup);
        let mut progress = lock(&lookup.0);
        if let Some(outcome) = progress.outcome.clone() {
            return Poll::Ready(outcome);
        }
        let waker = context.waker();
        match self.waker_index.and_then(|index| progress.waiting.get_mut(index)) {
            Some(own) => own.clone_from(waker),
            None => {
                self.waker_index = Some(progress.waiting.len());
                progress.waiting.push(waker.clone());
            }
        }
        Poll::Pending
    }
}
