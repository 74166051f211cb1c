//! Concurrency slots of a target, and the queue of requests that wait for one.
//!
//! A target takes a limited number of concurrent calls, and each caller may hold its share of them ([`SlotLimit`]). A
//! request that finds no free slot is queued in the order of [`queue`](seawall_core::queue): higher classes first,
//! callers of one class in turn (round robin). A released slot passes to the next eligible waiter, so a later arrival
//! cannot overtake it. When the queue is full, the caller with the most waiters loses one to a caller with fewer. A
//! caller that is entitled to a free slot that the waiters may not use gets it at once: such slots are reserved for it.

use crate::target::GuardedTarget;
use seawall_core::deadline::Deadline;
use seawall_core::handle::{Runtime, within};
use seawall_core::in_flight::{SlotHolder, SlotPermit, SlotRefusal};
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

/// The right to one concurrent call at a target. Dropping it passes the slot to the next waiter.
pub(crate) struct Place<R: Runtime> {
    permit: Option<SlotPermit>,
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

/// Why a request got no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoPlace {
    /// The concurrency limit that refused it.
    pub(crate) reason: SlotRefusal,
    /// When to retry: set if the queue is full, too long for the request's deadline, or the request was evicted from
    /// it. `None` after a wait that timed out.
    pub(crate) retry_after: Option<Duration>,
}

/// The wait queue of one target.
pub(crate) struct Line {
    waiting: Mutex<Waiting>,
    /// Number of waiters, readable without the lock.
    count: AtomicUsize,
}

struct Waiting {
    queue: Queue,
    settings: QueueSettings,
    slots: BTreeMap<QueueTicket, (SlotHolder, Arc<Slot>)>,
}

/// Mailbox through which a waiter receives its result.
#[derive(Default)]
struct Slot(Mutex<Told>);

#[derive(Default)]
enum Told {
    #[default]
    Nothing,
    Waits(Waker),
    Place(SlotPermit),
    /// The wait expired, or the waiter was evicted and may retry after this time.
    Leave(Option<Duration>),
    /// The waiter has read its result or has left.
    Heard,
}

impl Slot {
    /// Delivers a result to the waiter. Returns it if the waiter has already left: otherwise a slot permit would stay
    /// in the mailbox until it is dropped, and no other waiter would be served with it.
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

    /// Removes a waiter without a slot. One that has already left needs no result.
    fn dismiss(&self, retry_after: Option<Duration>) {
        let _ = self.tell(Told::Leave(retry_after));
    }

    /// Closes the mailbox, and returns a slot that was granted at the last moment.
    fn take(&self) -> Option<SlotPermit> {
        match std::mem::replace(&mut *lock(&self.0), Told::Heard) {
            Told::Place(permit) => Some(permit),
            Told::Nothing | Told::Waits(_) | Told::Leave(_) | Told::Heard => None,
        }
    }
}

/// All waiters of a queue want the same target. Its grade is ignored, because a configuration reload may change it
/// while they wait.
const ANY_GRADE: Grade = Grade::Strong;

impl Line {
    pub(crate) fn new(settings: QueueSettings) -> Self {
        let waiting = Waiting { queue: Queue::new(settings), settings, slots: BTreeMap::new() };
        Self { waiting: Mutex::new(waiting), count: AtomicUsize::new(0) }
    }

    /// Whether there are waiters. Releasing a slot and joining the queue both write first and then read; without the
    /// fence each could miss the other's write, and a waiter would sleep while a slot is free.
    fn has_waiters(&self) -> bool {
        fence(Ordering::SeqCst);
        self.count.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn stats(&self, now: Timestamp) -> QueueStats {
        lock(&self.waiting).queue.stats(now)
    }

    /// Grants free slots to the next eligible waiters. A waiter that is not eligible now is considered at the next
    /// release.
    pub(crate) fn serve(&self, target: &GuardedTarget, now: Timestamp) {
        while target.in_flight.in_flight() < target.in_flight.limit() {
            let mut waiting = lock(&self.waiting);
            let Waiting { queue, slots, .. } = &mut *waiting;
            // The permit is acquired only once its recipient is known: one held earlier would look taken to concurrent
            // requests.
            let mut permit = None;
            let next = queue.next_where(ANY_GRADE, now, |ticket| {
                let holder = slots.get(&ticket).map(|(holder, _)| *holder);
                permit = holder.and_then(|holder| target.in_flight.try_acquire(holder).ok());
                permit.is_some()
            });
            let late = waiting.expired(now);
            let slot = next.and_then(|departure| waiting.slots.remove(&departure.ticket));
            self.note(&waiting);
            drop(waiting);
            late.iter().for_each(|slot| slot.dismiss(None));
            // Delivered outside the lock, because a woken request may come back at once. A permit that is not accepted
            // is released, and the next iteration grants it to another waiter.
            match (slot, permit) {
                (Some((_, slot)), Some(permit)) => drop(slot.tell(Told::Place(permit))),
                _ => return,
            }
        }
    }

    fn note(&self, waiting: &Waiting) {
        self.count.store(waiting.slots.len(), Ordering::Release);
    }

    /// Joins the queue. Returns the ticket, the mailbox and the time at which the wait expires.
    fn enter(
        &self,
        request: &QueueRequest,
        holder: SlotHolder,
        now: Timestamp,
    ) -> Result<(QueueTicket, Arc<Slot>, Timestamp), Duration> {
        let mut waiting = lock(&self.waiting);
        let request = &QueueRequest { wants: Wants::only(ANY_GRADE), holder: holder.into(), ..*request };
        match waiting.queue.enter(request, now) {
            EnterDecision::Refused { retry_after, .. } => Err(retry_after),
            EnterDecision::Queued { ticket, pushed_out, .. } => {
                let slot = Arc::new(Slot::default());
                waiting.slots.insert(ticket, (holder, Arc::clone(&slot)));
                let until = request.deadline.min(now + waiting.settings.time_to_live());
                let pushed_out = pushed_out.and_then(|departure| waiting.slots.remove(&departure.ticket));
                // The evicted waiter gets the retry hint that a new arrival would get.
                let pushed_out =
                    pushed_out.map(|(_, slot)| (slot, waiting.queue.time_until_room(request.wants, now)));
                self.note(&waiting);
                drop(waiting);
                if let Some((slot, retry_after)) = pushed_out {
                    slot.dismiss(Some(retry_after));
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
        // If the target releases no slot for long, expired waiters must not accumulate.
        let late = waiting.expired(now);
        self.note(&waiting);
        drop(waiting);
        late.iter().for_each(|slot| slot.dismiss(None));
    }
}

impl Waiting {
    /// Removes expired waiters, so that their requests continue with another rung.
    fn expired(&mut self, now: Timestamp) -> Vec<Arc<Slot>> {
        let mut slots = Vec::new();
        while let Some(departure) = self.queue.pop_expired(now) {
            debug_assert_eq!(departure.reason, DepartureReason::Expired);
            slots.extend(self.slots.remove(&departure.ticket).map(|(_, slot)| slot));
        }
        slots
    }
}

impl GuardedTarget {
    /// Takes a slot if one is free for this caller and no request is queued.
    pub(crate) fn place<R: Runtime>(self: &Arc<Self>, runtime: &R, holder: SlotHolder) -> Option<Place<R>> {
        if self.line.count.load(Ordering::Relaxed) > 0 {
            return None;
        }
        self.acquire(runtime, holder).ok()
    }

    fn acquire<R: Runtime>(
        self: &Arc<Self>,
        runtime: &R,
        holder: SlotHolder,
    ) -> Result<Place<R>, SlotRefusal> {
        let permit = self.in_flight.try_acquire(holder)?;
        Ok(Place { permit: Some(permit), target: Arc::clone(self), runtime: runtime.clone() })
    }

    /// Waits in the queue for a slot.
    pub(crate) async fn wait_for_place<R: Runtime>(
        self: &Arc<Self>,
        runtime: &R,
        request: &QueueRequest,
        holder: SlotHolder,
    ) -> Result<Place<R>, NoPlace> {
        let now = runtime.monotonic();
        let (ticket, slot, until) = match self.line.enter(request, holder, now) {
            Ok(entered) => entered,
            // The queue may be full of callers that are not entitled to the free slots.
            Err(retry_after) => {
                let refused = |reason| NoPlace { reason, retry_after: Some(retry_after) };
                return self.acquire(runtime, holder).map_err(refused);
            }
        };
        let standing = Standing { target: self, runtime, ticket, slot };
        // A slot may have been released before this waiter was visible in the queue.
        fence(Ordering::SeqCst);
        self.line.serve(self, now);
        let told =
            within(runtime, Deadline::at(until), poll_fn(|context| standing.poll(context.waker()))).await;
        let told = told.unwrap_or_else(|| standing.slot.take().ok_or(None));
        match told {
            Ok(permit) => {
                Ok(Place { permit: Some(permit), target: Arc::clone(self), runtime: runtime.clone() })
            }
            Err(retry_after) => {
                drop(standing);
                self.acquire(runtime, holder).map_err(|reason| NoPlace { reason, retry_after })
            }
        }
    }
}

/// A queued waiter. Dropping it leaves the queue and passes on a slot that was granted but not taken.
struct Standing<'a, R: Runtime> {
    target: &'a Arc<GuardedTarget>,
    runtime: &'a R,
    ticket: QueueTicket,
    slot: Arc<Slot>,
}

impl<R: Runtime> Standing<'_, R> {
    /// Polls for the slot. The error means that none will come, with the retry hint if the waiter was evicted.
    fn poll(&self, waker: &Waker) -> Poll<Result<SlotPermit, Option<Duration>>> {
        let mut told = lock(&self.slot.0);
        match std::mem::replace(&mut *told, Told::Heard) {
            Told::Nothing | Told::Waits(_) => {
                *told = Told::Waits(waker.clone());
                Poll::Pending
            }
            Told::Place(permit) => Poll::Ready(Ok(permit)),
            Told::Leave(retry_after) => Poll::Ready(Err(retry_after)),
            Told::Heard => Poll::Ready(Err(None)),
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
