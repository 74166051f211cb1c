//! One asks for all who want to know the same at the same time.
//!
//! The rules are those of [`Flights`]; here they get a lock and those who wait get woken. Who leads holds a [`Lead`], which
//! says how it ended, also when its caller goes away.

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

/// Questions that are being asked, and who waits for their answers.
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

/// What who asks should do.
pub(crate) enum Joined<R: Runtime> {
    /// Ask the model, and say how that ended.
    Lead(Lead<R>),
    /// Ask the model without regard to others.
    Alone,
    /// This is the answer.
    Answer(Arc<str>),
    /// Answer in another way.
    NextRung,
}

impl FlightBoard {
    /// A board on which nothing is.
    #[must_use]
    pub fn new(flights: Flights) -> Self {
        Self(Mutex::new(Table { flights, waiters: BTreeMap::new(), next: 0 }))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins those who want to know the same. Who may wait does so here.
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
        // From here on it is on the board, and taken off however this ends.
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

    /// How many keys are asked for, and how many wait.
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

/// Somebody who waits. Dropped before its wait has ended, it leaves, and a lead that it was given passes on.
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

/// The lead of a flight. Dropped without a word, its caller has gone away.
pub(crate) struct Lead<R: Runtime> {
    board: Arc<FlightBoard>,
    runtime: R,
    key: FlightKey,
    asker: Asker,
    is_over: bool,
}

impl<R: Runtime> Lead<R> {
    /// All who wait get this answer.
    pub(crate) fn answered(mut self, text: &Arc<str>) {
        self.end(LeaderEnd::Answered, Some(text));
    }

    /// There is no answer that others may have.
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
