//! Single flight for chat answers: concurrent equal questions share one model call.
//!
//! [`Flights`] holds the rules; this module adds the lock and wakes the waiters. The leader holds a [`Lead`], which
//! reports how the call ended, including when its caller disconnects.

use seawall_core::cache_policy::{
    Asker, FlightDecision, FlightKey, Flights, LandingDecision, LeaderEnd, WaitDecision,
};
use seawall_core::deadline::Deadline;
use seawall_core::handle::{Runtime, within};
use seawall_core::time::Timestamp;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The shared calls in progress and the requests that wait for their answers.
pub struct FlightBoard(Mutex<Table>);

struct Table {
    flights: Flights,
    waiters: BTreeMap<Asker, Arc<Waiter>>,
    next: u64,
}

#[derive(Default)]
struct Waiter(Mutex<(Option<Told>, Option<Waker>)>);

enum Told {
    Answer(Arc<str>),
    Lead,
    NextRung,
}

/// What a request that joined a flight must do.
pub(crate) enum Joined<R: Runtime> {
    /// Call the model and report how it ended.
    Lead(Lead<R>),
    /// Call the model without sharing the answer.
    Alone,
    /// Use this shared answer.
    Answer(Arc<str>),
    /// Continue with the next rung.
    NextRung,
}

impl FlightBoard {
    /// A board without flights.
    #[must_use]
    pub fn new(flights: Flights) -> Self {
        Self(Mutex::new(Table { flights, waiters: BTreeMap::new(), next: 0 }))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the flight for this key, or starts one. A request that may wait does so inside this call.
    pub(crate) async fn join<R: Runtime>(
        self: &Arc<Self>,
        runtime: &R,
        key: &FlightKey,
        deadline: Deadline,
    ) -> Joined<R> {
        let (asker, waiter, mut until) = {
            let mut table = self.table();
            table.next += 1;
            let asker = Asker(table.next);
            match table.flights.ask(key, asker, deadline, runtime.monotonic()) {
                FlightDecision::Lead => return Joined::Lead(self.lead(runtime, key, asker)),
                FlightDecision::Alone(_) => return Joined::Alone,
                FlightDecision::Wait { until } => {
                    let waiter = Arc::new(Waiter::default());
                    table.waiters.insert(asker, Arc::clone(&waiter));
                    (asker, waiter, until)
                }
            }
        };
        // The waiter is registered now; `Waits` deregisters it on every exit, including cancellation.
        let mut waits = Waits { board: self, runtime, key, asker, is_over: false };
        loop {
            match within(runtime, Deadline::at(until), waiter.told()).await {
                Some(Told::Answer(text)) => return waits.end(Joined::Answer(text)),
                Some(Told::NextRung) => return waits.end(Joined::NextRung),
                Some(Told::Lead) => return waits.end(Joined::Lead(self.lead(runtime, key, asker))),
                None => {}
            }
            let decision = self.table().flights.stop_waiting(key, asker, runtime.monotonic());
            match decision {
                WaitDecision::GoOnWaiting { until: later } => until = later,
                WaitDecision::Lead => return waits.end(Joined::Lead(self.lead(runtime, key, asker))),
                WaitDecision::Alone => return waits.end(Joined::Alone),
                WaitDecision::NextRung => return waits.end(Joined::NextRung),
            }
        }
    }

    fn lead<R: Runtime>(self: &Arc<Self>, runtime: &R, key: &FlightKey, asker: Asker) -> Lead<R> {
        let (board, runtime, key) = (Arc::clone(self), runtime.clone(), key.clone());
        Lead { board, runtime, key, asker, is_over: false }
    }

    fn land(&self, key: &FlightKey, asker: Asker, how: LeaderEnd, text: Option<&Arc<str>>, now: Timestamp) {
        let decision = self.table().flights.end(key, asker, how, now);
        self.tell(decision, text);
    }

    fn tell(&self, decision: LandingDecision, text: Option<&Arc<str>>) {
        let (askers, told): (Vec<Asker>, &dyn Fn() -> Told) = match (decision, text) {
            (LandingDecision::Nobody | LandingDecision::NotLeading, _) => return,
            (LandingDecision::Share(askers), Some(text)) => (askers, &move || Told::Answer(Arc::clone(text))),
            (LandingDecision::Promote(asker), _) => (vec![asker], &|| Told::Lead),
            (LandingDecision::Share(askers) | LandingDecision::Release(askers), _) => {
                (askers, &|| Told::NextRung)
            }
        };
        for asker in askers {
            let waiter = self.table().waiters.remove(&asker);
            if let Some(waiter) = waiter {
                waiter.tell(told());
            }
        }
    }

    /// The number of keys in flight and the number of waiters.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        let table = self.table();
        (table.flights.len(), table.flights.waiting())
    }
}

impl Waiter {
    fn tell(&self, told: Told) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = Some(told);
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    async fn told(&self) -> Told {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(told) = state.0.take() {
                return Poll::Ready(told);
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

/// A registered waiter. Dropped while it still waits, it deregisters; a lead that was just assigned to it passes to the
/// next waiter.
struct Waits<'a, R: Runtime> {
    board: &'a FlightBoard,
    runtime: &'a R,
    key: &'a FlightKey,
    asker: Asker,
    is_over: bool,
}

impl<R: Runtime> Waits<'_, R> {
    fn end(&mut self, joined: Joined<R>) -> Joined<R> {
        self.is_over = true;
        self.board.table().waiters.remove(&self.asker);
        joined
    }
}

impl<R: Runtime> Drop for Waits<'_, R> {
    fn drop(&mut self) {
        if !self.is_over {
            let decision = {
                let mut table = self.board.table();
                table.waiters.remove(&self.asker);
                table.flights.leave(self.key, self.asker, self.runtime.monotonic())
            };
            self.board.tell(decision, None);
        }
    }
}

/// The leader's side of a flight. Dropping it without a result means that the leader's caller disconnected.
pub(crate) struct Lead<R: Runtime> {
    board: Arc<FlightBoard>,
    runtime: R,
    key: FlightKey,
    asker: Asker,
    is_over: bool,
}

impl<R: Runtime> Lead<R> {
    /// Delivers this answer to all waiters.
    pub(crate) fn answered(mut self, text: &Arc<str>) {
        self.end(LeaderEnd::Answered, Some(text));
    }

    /// Ends the flight without an answer that may be shared.
    pub(crate) fn failed(mut self) {
        self.end(LeaderEnd::Failed, None);
    }

    fn end(&mut self, how: LeaderEnd, text: Option<&Arc<str>>) {
        self.is_over = true;
        self.board.land(&self.key, self.asker, how, text, self.runtime.monotonic());
    }
}

impl<R: Runtime> Drop for Lead<R> {
    fn drop(&mut self) {
        if !self.is_over {
            self.end(LeaderEnd::Left, None);
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
