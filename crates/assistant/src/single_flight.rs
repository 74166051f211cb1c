//! Single flight for chat answers: concurrent equal questions share one model call.
//!
//! [`SingleFlightTable`] holds the rules; this module adds the lock and wakes the waiters. The leader holds a
//! [`FlightLeader`], which reports how the call ended, including when its caller disconnects.

use seawall_core::cache_policy::{
    LeaderOutcome, ParticipantId, SingleFlightDecision, SingleFlightKey, SingleFlightTable,
    WaitTimeoutDecision, WaitersDecision,
};
use seawall_core::deadline::Deadline;
use seawall_core::runtime::{Runtime, timeout_at};
use seawall_core::time::Timestamp;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The shared calls in progress and the requests that wait for their answers.
pub struct AnswerSingleFlight(Mutex<FlightState>);

struct FlightState {
    flights: SingleFlightTable,
    waiters: BTreeMap<ParticipantId, Arc<Waiter>>,
    next: u64,
}

#[derive(Default)]
struct Waiter(Mutex<(Option<WaiterResult>, Option<Waker>)>);

enum WaiterResult {
    Answer(Arc<str>),
    Lead,
    NextRung,
}

/// What a request that joined a flight must do.
pub(crate) enum FlightRole<R: Runtime> {
    /// Call the model and report how it ended.
    Lead(FlightLeader<R>),
    /// Call the model without sharing the answer.
    Alone,
    /// Use this shared answer.
    Answer(Arc<str>),
    /// Continue with the next rung.
    NextRung,
}

impl AnswerSingleFlight {
    /// Starts without calls in progress.
    #[must_use]
    pub fn new(flights: SingleFlightTable) -> Self {
        Self(Mutex::new(FlightState { flights, waiters: BTreeMap::new(), next: 0 }))
    }

    fn state(&self) -> MutexGuard<'_, FlightState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the flight for this key, or starts one. A request that may wait does so inside this call.
    pub(crate) async fn join<R: Runtime>(
        self: &Arc<Self>,
        runtime: &R,
        key: &SingleFlightKey,
        deadline: Deadline,
    ) -> FlightRole<R> {
        let (participant, waiter, mut until) = {
            let mut state = self.state();
            state.next += 1;
            let participant = ParticipantId(state.next);
            match state.flights.join(key, participant, deadline, runtime.monotonic()) {
                SingleFlightDecision::Lead => return FlightRole::Lead(self.lead(runtime, key, participant)),
                SingleFlightDecision::Unshared(_) => return FlightRole::Alone,
                SingleFlightDecision::Wait { until } => {
                    let waiter = Arc::new(Waiter::default());
                    state.waiters.insert(participant, Arc::clone(&waiter));
                    (participant, waiter, until)
                }
            }
        };
        // The waiter is registered now; `WaitGuard` deregisters it on every exit, including cancellation.
        let mut guard = WaitGuard { single_flight: self, runtime, key, participant, is_over: false };
        loop {
            match timeout_at(runtime, Deadline::at(until), waiter.result()).await {
                Some(WaiterResult::Answer(text)) => return guard.end(FlightRole::Answer(text)),
                Some(WaiterResult::NextRung) => return guard.end(FlightRole::NextRung),
                Some(WaiterResult::Lead) => {
                    return guard.end(FlightRole::Lead(self.lead(runtime, key, participant)));
                }
                None => {}
            }
            let decision = self.state().flights.handle_wait_timeout(key, participant, runtime.monotonic());
            match decision {
                WaitTimeoutDecision::KeepWaiting { until: later } => until = later,
                WaitTimeoutDecision::Lead => {
                    return guard.end(FlightRole::Lead(self.lead(runtime, key, participant)));
                }
                WaitTimeoutDecision::Unshared => return guard.end(FlightRole::Alone),
                WaitTimeoutDecision::NextRung => return guard.end(FlightRole::NextRung),
            }
        }
    }

    fn lead<R: Runtime>(
        self: &Arc<Self>,
        runtime: &R,
        key: &SingleFlightKey,
        participant: ParticipantId,
    ) -> FlightLeader<R> {
        let (single_flight, runtime, key) = (Arc::clone(self), runtime.clone(), key.clone());
        FlightLeader { single_flight, runtime, key, participant, is_over: false }
    }

    fn end_flight(
        &self,
        key: &SingleFlightKey,
        participant: ParticipantId,
        outcome: LeaderOutcome,
        text: Option<&Arc<str>>,
        now: Timestamp,
    ) {
        let decision = self.state().flights.finish(key, participant, outcome, now);
        self.notify(decision, text);
    }

    fn notify(&self, decision: WaitersDecision, text: Option<&Arc<str>>) {
        let (participants, result): (Vec<ParticipantId>, &dyn Fn() -> WaiterResult) = match (decision, text) {
            (WaitersDecision::NoWaiters | WaitersDecision::NotLeader, _) => return,
            (WaitersDecision::Share(participants), Some(text)) => {
                (participants, &move || WaiterResult::Answer(Arc::clone(text)))
            }
            (WaitersDecision::Promote(participant), _) => (vec![participant], &|| WaiterResult::Lead),
            (WaitersDecision::Share(participants) | WaitersDecision::Release(participants), _) => {
                (participants, &|| WaiterResult::NextRung)
            }
        };
        for participant in participants {
            let waiter = self.state().waiters.remove(&participant);
            if let Some(waiter) = waiter {
                waiter.notify(result());
            }
        }
    }

    /// The number of keys in flight and the number of waiters.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        let state = self.state();
        (state.flights.len(), state.flights.waiting())
    }
}

impl Waiter {
    fn notify(&self, result: WaiterResult) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = Some(result);
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    async fn result(&self) -> WaiterResult {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(result) = state.0.take() {
                return Poll::Ready(result);
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

/// A registered waiter. Dropped while it still waits, it deregisters; a lead that was just assigned to it passes to the
/// next waiter.
struct WaitGuard<'a, R: Runtime> {
    single_flight: &'a AnswerSingleFlight,
    runtime: &'a R,
    key: &'a SingleFlightKey,
    participant: ParticipantId,
    is_over: bool,
}

impl<R: Runtime> WaitGuard<'_, R> {
    fn end(&mut self, joined: FlightRole<R>) -> FlightRole<R> {
        self.is_over = true;
        self.single_flight.state().waiters.remove(&self.participant);
        joined
    }
}

impl<R: Runtime> Drop for WaitGuard<'_, R> {
    fn drop(&mut self) {
        if !self.is_over {
            let decision = {
                let mut state = self.single_flight.state();
                state.waiters.remove(&self.participant);
                state.flights.leave(self.key, self.participant, self.runtime.monotonic())
            };
            self.single_flight.notify(decision, None);
        }
    }
}

/// The leader's side of a flight. Dropping it without a result means that the leader's caller disconnected.
pub(crate) struct FlightLeader<R: Runtime> {
    single_flight: Arc<AnswerSingleFlight>,
    runtime: R,
    key: SingleFlightKey,
    participant: ParticipantId,
    is_over: bool,
}

impl<R: Runtime> FlightLeader<R> {
    /// Delivers this answer to all waiters.
    pub(crate) fn answered(mut self, text: &Arc<str>) {
        self.end(LeaderOutcome::Answered, Some(text));
    }

    /// Ends the flight without an answer that may be shared.
    pub(crate) fn failed(mut self) {
        self.end(LeaderOutcome::Failed, None);
    }

    fn end(&mut self, outcome: LeaderOutcome, text: Option<&Arc<str>>) {
        self.is_over = true;
        self.single_flight.end_flight(&self.key, self.participant, outcome, text, self.runtime.monotonic());
    }
}

impl<R: Runtime> Drop for FlightLeader<R> {
    fn drop(&mut self) {
        if !self.is_over {
            self.end(LeaderOutcome::Disconnected, None);
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
