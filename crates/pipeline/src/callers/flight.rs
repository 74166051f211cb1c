//! One look-up for all who ask about the same at once.
//!
//! The first to ask leads; who comes while that look-up is in the air follows it and gets the same answer. A leader that
//! is dropped tells its followers that nothing came of it, and one of them leads the next.
//!
//! It will not look anything up and sets no time limits: those are the leader's and each follower's own.

use super::Outcome;
use super::memory::Remembered;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

type Hash = [u8; 32];

/// The look-ups in the air.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<BTreeMap<Hash, Arc<Flight>>>);

#[derive(Debug, Default)]
struct Flight(Mutex<Progress>);

#[derive(Debug, Default)]
struct Progress {
    /// Nothing yet, or what came of it: an outcome, or none because the leader went away.
    landed: Option<Option<Outcome>>,
    waiting: Vec<Waker>,
}

/// What somebody who asks has to do.
pub(super) enum Turn<'a> {
    /// Look it up.
    Lead(Lead<'a>),
    /// Wait for who does.
    Follow(Follow),
}

/// The right to look something up. Dropped, it says that nothing came of it.
pub(super) struct Lead<'a> {
    flights: &'a Flights,
    hash: Hash,
    flight: Arc<Flight>,
}

/// Ends with what the leader found, or with nothing if it went away.
pub(super) struct Follow {
    flight: Arc<Flight>,
    /// Where its waker is.
    place: Option<usize>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flights {
    /// Leads, or follows who does already.
    pub(super) fn join(&self, hash: &Hash) -> Turn<'_> {
        let mut all = lock(&self.0);
        if let Some(flight) = all.get(hash) {
            return Turn::Follow(Follow { flight: Arc::clone(flight), place: None });
        }
        let flight = Arc::new(Flight::default());
        all.insert(*hash, Arc::clone(&flight));
        Turn::Lead(Lead { flights: self, hash: *hash, flight })
    }

    /// What is in the air for this is no longer to be remembered, nor to be joined.
    pub(super) fn disown(&self, hash: &Hash) {
        lock(&self.0).remove(hash);
    }

    fn is_current(all: &BTreeMap<Hash, Arc<Flight>>, lead: &Lead<'_>) -> bool {
        all.get(&lead.hash).is_some_and(|flight| Arc::ptr_eq(flight, &lead.flight))
    }
}

impl Lead<'_> {
    /// Tells everybody. An answer is kept unless it was disowned in the meantime; whoever asks next finds it kept, or asks
    /// anew, because both happen under one lock.
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
    /// The first word counts.
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
