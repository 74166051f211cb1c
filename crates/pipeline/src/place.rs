//! A place at a target, and the line of those who wait for one.
//!
//! A target takes so many calls at once. Who finds no place free stands in line, in the order of
//! [`queue`](seawall_core::queue): higher classes first, callers of one class in turn. Who gives a place back hands it to
//! the next in line; nobody who comes later takes it before.

use crate::target::GuardedTarget;
use seawall_core::deadline::Deadline;
use seawall_core::handle::{Runtime, within};
use seawall_core::in_flight::InFlightPermit;
use seawall_core::queue::{
    DepartureReason, EnterDecision, Queue, QueueRequest, QueueSettings, QueueStats, QueueTicket, Wants,
};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Grade;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// The right to one call at a target, until it is dropped. Then the next in line has it.
pub(crate) struct Place<R: Runtime> {
    permit: Option<InFlightPermit>,
    target: Arc<GuardedTarget>,
    runtime: R,
}

impl<R: Runtime> Drop for Place<R> {
    fn drop(&mut self) {
        self.permit = None;
        if self.target.line.has_waiters() {
            self.target.line.serve(&self.target, self.runtime.monotonic());
        }
    }
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// The line is too long for the time there is, or full; this is when to come back.
    Refused(Duration),
    /// Waited in vain.
    TooLate,
}

/// Those who wait for a place at one target.
pub(crate) struct Line {
    waiting: Mutex<Waiting>,
    /// How many do, to be asked without a lock.
    count: AtomicUsize,
}

struct Waiting {
    queue: Queue,
    settings: QueueSettings,
    slots: BTreeMap<QueueTicket, Arc<Slot>>,
}

/// Where somebody who waits is told.
#[derive(Default)]
struct Slot(Mutex<Told>);

#[derive(Default)]
enum Told {
    #[default]
    Nothing,
    Waits(Waker),
    Place(InFlightPermit),
    Leave,
    /// It has heard.
    Heard,
}

impl Slot {
    /// Tells who waits; gives it back where nobody listens any more. What is told to who has left would lie here until the
    /// slot is forgotten, and a place in it would be free without anybody knowing.
    #[must_use = "a place that nobody takes goes to the next"]
    fn tell(&self, told: Told) -> Option<Told> {
        let mut state = lock(&self.0);
        if matches!(*state, Told::Heard) {
            return Some(told);
        }
        let before = std::mem::replace(&mut *state, told);
        drop(state);
        if let Told::Waits(waker) = before {
            waker.wake();
        }
        None
    }

    /// Sends who waits away. Who has left needs no telling.
    fn dismiss(&self) {
        let _ = self.tell(Told::Leave);
    }

    /// A place that was given at the last moment. From here on nobody listens.
    fn take(&self) -> Option<InFlightPermit> {
        match std::mem::replace(&mut *lock(&self.0), Told::Heard) {
            Told::Place(permit) => Some(permit),
            Told::Nothing | Told::Waits(_) | Told::Leave | Told::Heard => None,
        }
    }
}

/// All in a line wait for one target, whatever its grade was when they came: settings may change it while they wait.
const ANY_GRADE: Grade = Grade::Strong;

impl Line {
    pub(crate) fn new(settings: QueueSettings) -> Self {
        let waiting = Waiting { queue: Queue::new(settings), settings, slots: BTreeMap::new() };
        Self { waiting: Mutex::new(waiting), count: AtomicUsize::new(0) }
    }

    /// Whether somebody waits, as seen after all that this thread did before. Who gives a place back and who gets in line
    /// each write first and look then: without the fence both could miss the other.
    fn has_waiters(&self) -> bool {
        fence(Ordering::SeqCst);
        self.count.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn stats(&self, now: Timestamp) -> QueueStats {
        lock(&self.waiting).queue.stats(now)
    }

    /// Hands free places to those who are next.
    pub(crate) fn serve(&self, target: &GuardedTarget, now: Timestamp) {
        loop {
            let Some(permit) = target.in_flight.try_acquire() else { return };
            let mut waiting = lock(&self.waiting);
            let next = waiting.queue.next(ANY_GRADE, now);
            let late = waiting.expired(now);
            let slot = next.and_then(|departure| waiting.slots.remove(&departure.ticket));
            self.note(&waiting);
            drop(waiting);
            late.iter().for_each(|slot| slot.dismiss());
            match slot {
                // Told outside the lock: whoever is woken may come back at once. A place that nobody takes is free again,
                // and the next round gives it to another.
                Some(slot) => drop(slot.tell(Told::Place(permit))),
                None => {
                    drop(permit);
                    // Who came in line while we held the place found none free.
                    if !self.has_waiters() {
                        return;
                    }
                }
            }
        }
    }

    fn note(&self, waiting: &Waiting) {
        self.count.store(waiting.slots.len(), Ordering::Release);
    }

    /// Gets in line. Also when its turn must have come.
    fn enter(
        &self,
        request: &QueueRequest,
        now: Timestamp,
    ) -> Result<(QueueTicket, Arc<Slot>, Timestamp), NoPlace> {
        let mut waiting = lock(&self.waiting);
        let request = &QueueRequest { wants: Wants::only(ANY_GRADE), ..*request };
        match waiting.queue.enter(request, now) {
            EnterDecision::Refused { retry_after, .. } => Err(NoPlace::Refused(retry_after)),
            EnterDecision::Queued { ticket, pushed_out, .. } => {
                let slot = Arc::new(Slot::default());
                waiting.slots.insert(ticket, Arc::clone(&slot));
                let until = request.deadline.min(now + waiting.settings.time_to_live());
                let pushed_out = pushed_out.and_then(|departure| waiting.slots.remove(&departure.ticket));
                self.note(&waiting);
                drop(waiting);
                if let Some(slot) = pushed_out {
                    slot.dismiss();
                }
                Ok((ticket, slot, until))
            }
        }
    }

    fn leave(&self, ticket: QueueTicket, now: Timestamp) {
        let mut waiting = lock(&self.waiting);
        if waiting.slots.remove(&ticket).is_some() {
            let _ = waiting.queue.cancel(ticket, now);
        }
        // A target that gives no place for long must not gather all whose time has come since.
        let late = waiting.expired(now);
        self.note(&waiting);
        drop(waiting);
        late.iter().for_each(|slot| slot.dismiss());
    }
}

impl Waiting {
    /// Those whose time has come, so that they are answered in another way.
    fn expired(&mut self, now: Timestamp) -> Vec<Arc<Slot>> {
        let mut slots = Vec::new();
        while let Some(departure) = self.queue.pop_expired(now) {
            debug_assert_eq!(departure.reason, DepartureReason::Expired);
            slots.extend(self.slots.remove(&departure.ticket));
        }
        slots
    }
}

impl GuardedTarget {
    /// A place, if one is free and nobody waits for it.
    pub(crate) fn place<R: Runtime>(self: &Arc<Self>, runtime: &R) -> Option<Place<R>> {
        if self.line.count.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let permit = self.in_flight.try_acquire()?;
        Some(Place { permit: Some(permit), target: Arc::clone(self), runtime: runtime.clone() })
    }

    /// A place, when its turn has come.
    pub(crate) async fn wait_for_place<R: Runtime>(
        self: &Arc<Self>,
        runtime: &R,
        request: &QueueRequest,
    ) -> Result<Place<R>, NoPlace> {
        let now = runtime.monotonic();
        let (ticket, slot, until) = self.line.enter(request, now)?;
        let standing = Standing { target: self, runtime, ticket, slot };
        // A place may have become free before anybody knew of us.
        fence(Ordering::SeqCst);
        self.line.serve(self, now);
        let told =
            within(runtime, Deadline::at(until), poll_fn(|context| standing.poll(context.waker()))).await;
        match told.flatten().or_else(|| standing.slot.take()) {
            Some(permit) => {
                Ok(Place { permit: Some(permit), target: Arc::clone(self), runtime: runtime.clone() })
            }
            None => Err(NoPlace::TooLate),
        }
    }
}

/// Somebody in line. Dropped, it leaves, and a place that it was given and did not take goes to the next.
struct Standing<'a, R: Runtime> {
    target: &'a Arc<GuardedTarget>,
    runtime: &'a R,
    ticket: QueueTicket,
    slot: Arc<Slot>,
}

impl<R: Runtime> Standing<'_, R> {
    /// The place; nothing if there will be none.
    fn poll(&self, waker: &Waker) -> Poll<Option<InFlightPermit>> {
        let mut told = lock(&self.slot.0);
        match std::mem::replace(&mut *told, Told::Heard) {
            Told::Nothing | Told::Waits(_) => {
                *told = Told::Waits(waker.clone());
                Poll::Pending
            }
            Told::Place(permit) => Poll::Ready(Some(permit)),
            Told::Leave | Told::Heard => Poll::Ready(None),
        }
    }
}

impl<R: Runtime> Drop for Standing<'_, R> {
    fn drop(&mut self) {
        let now = self.runtime.monotonic();
        self.target.line.leave(self.ticket, now);
        if let Some(permit) = self.slot.take() {
            drop(permit);
            self.target.line.serve(self.target, now);
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
