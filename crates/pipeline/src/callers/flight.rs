//! Single flight for directory lookups: concurrent requests with the same credential share one lookup.
//!
//! The first request leads and performs the lookup; requests that arrive meanwhile follow it and receive the same
//! result. If the leader is dropped, its followers receive `None`, and one of them leads the next lookup.
//!
//! This module performs no lookups and sets no timeouts: both belong to the leader and to each follower.

use super::Outcome;
use super::memory::Remembered;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

type Hash = [u8; 32];

/// The lookups in progress.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<BTreeMap<Hash, Arc<Flight>>>);

#[derive(Debug, Default)]
struct Flight(Mutex<Progress>);

#[derive(Debug, Default)]
struct Progress {
    /// `None` while the lookup is in progress; then its outcome, or `Some(None)` if the leader was dropped.
    landed: Option<Option<Outcome>>,
    waiting: Vec<Waker>,
}

/// The role of a request in a lookup.
pub(super) enum Turn<'a> {
    /// Perform the lookup.
    Lead(Lead<'a>),
    /// Wait for the leader.
    Follow(Follow),
}

/// The right to perform the lookup. Dropping it without a result releases the followers with `None`.
pub(super) struct Lead<'a> {
    flights: &'a Flights,
    hash: Hash,
    flight: Arc<Flight>,
}

/// Resolves to the leader's outcome, or to `None` if the leader was dropped.
pub(super) struct Follow {
    flight: Arc<Flight>,
    /// The index of this follower's waker.
    place: Option<usize>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flights {
    /// Leads a new lookup, or follows the one in progress.
    pub(super) fn join(&self, hash: &Hash) -> Turn<'_> {
        let mut all = lock(&self.0);
        if let Some(flight) = all.get(hash) {
            return Turn::Follow(Follow { flight: Arc::clone(flight), place: None });
        }
        let flight = Arc::new(Flight::default());
        all.insert(*hash, Arc::clone(&flight));
        Turn::Lead(Lead { flights: self, hash: *hash, flight })
    }

    /// Detaches the lookup in progress, so that its result is not cached and no later request joins it.
    pub(super) fn disown(&self, hash: &Hash) {
        lock(&self.0).remove(hash);
    }

    fn is_current(all: &BTreeMap<Hash, Arc<Flight>>, lead: &Lead<'_>) -> bool {
        all.get(&lead.hash).is_some_and(|flight| Arc::ptr_eq(flight, &lead.flight))
    }
}

impl Lead<'_> {
    /// Delivers the outcome to all followers. A result is cached unless the lookup was disowned meanwhile. Caching and
    /// removal happen under one lock, so the next request either finds the cached result or starts a new lookup.
    pub(super) fn land(self, outcome: Outcome, keep: impl FnOnce(Remembered)) {
        let mut all = lock(&self.flights.0);
        if Flights::is_current(&all, &self) {
            if let Outcome::Answered(answered) = outcome {
                keep(answered);
            }
            all.remove(&self.hash);
        }
        drop(all);
        self.flight.land(Some(outcome));
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut all = lock(&self.flights.0);
        if Flights::is_current(&all, self) {
            all.remove(&self.hash);
        }
        drop(all);
        self.flight.land(None);
    }
}

impl Flight {
    /// Only the first outcome counts.
    fn land(&self, outcome: Option<Outcome>) {
        let mut progress = lock(&self.0);
        progress.landed.get_or_insert(outcome);
        let waiting = std::mem::take(&mut progress.waiting);
        drop(progress);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Future for Follow {
    type Output = Option<Outcome>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let flight = Arc::clone(&self.flight);
        let mut progress = lock(&flight.0);
        if let Some(landed) = progress.landed {
            return Poll::Ready(landed);
        }
        let waker = context.waker();
        match self.place.and_then(|place| progress.waiting.get_mut(place)) {
            Some(own) => own.clone_from(waker),
            None => {
                self.place = Some(progress.waiting.len());
                progress.waiting.push(waker.clone());
            }
        }
        Poll::Pending
    }
}
