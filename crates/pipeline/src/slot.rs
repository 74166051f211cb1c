//! Concurrency slots of a target, and the queue of requests that wait for one.
//!
//! A target takes a limited number of concurrent calls, and each caller may hold its share of them ([`SlotLimit`]). A
//! request that finds no free slot is queued in the order of [`queue`](seawall_core::queue): higher classes first,
//! callers of one class in turn (round robin). A released slot passes to the next eligible waiter, so a later arrival
//! cannot overtake it. When the queue is full, a new request evicts the newest waiting request of the caller with the
//! most waiting requests, if that caller has at least two more than the caller of the new one.
//!
//! Some slots are reserved for callers without a call in flight. A request of such a caller gets a reserved slot at once,
//! even while others wait, because those others may not use it.

use crate::target::GuardedTarget;
use seawall_core::deadline::Deadline;
use seawall_core::in_flight::{SlotOwner, SlotPermit, SlotRefusal};
use seawall_core::queue::{
    AcceptedGrades, DepartureReason, EnterDecision, QueueRequest, QueueSettings, QueueStats, QueueTicket,
    WaitQueue,
};
use seawall_core::runtime::{Runtime, timeout_at};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Grade;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// The right to one concurrent call at a target. Dropping it passes the slot to the next waiter.
pub(crate) struct TargetSlot<R: Runtime> {
    permit: Option<SlotPermit>,
    target: Arc<GuardedTarget>,
    runtime: R,
}

impl<R: Runtime> Drop for TargetSlot<R> {
    fn drop(&mut self) {
        self.permit = None;
        if self.target.slot_queue.has_waiters() {
            self.target.slot_queue.grant_free_slots(&self.target, self.runtime.monotonic());
        }
    }
}

/// Why a request got no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotUnavailable {
    /// The concurrency limit that rejected it.
    pub(crate) reason: SlotRefusal,
    /// When to retry: set if the queue is full, too long for the request's deadline, or the request was evicted from
    /// it. `None` after a wait that timed out.
    pub(crate) retry_after: Option<Duration>,
}

/// The wait queue of one target.
pub(crate) struct SlotQueue {
    waiting: Mutex<QueueState>,
    /// Number of waiters, readable without the lock.
    count: AtomicUsize,
}

struct QueueState {
    queue: WaitQueue,
    settings: QueueSettings,
    waiters: BTreeMap<QueueTicket, (SlotOwner, Arc<SlotWaiter>)>,
}

/// A waiting request, which receives its result here.
#[derive(Default)]
struct SlotWaiter(Mutex<WaitState>);

#[derive(Default)]
enum WaitState {
    #[default]
    Empty,
    Waiting(Waker),
    Granted(SlotPermit),
    /// The wait expired, or the waiter was evicted and may retry after this time.
    Rejected(Option<Duration>),
    /// The waiter has read its result or has left.
    Closed,
}

impl SlotWaiter {
    /// Passes a result to the waiter. Returns it if the waiter has already left: otherwise a slot permit would stay here
    /// until the waiter is dropped, and no other waiter would be served with it.
    #[must_use = "a permit that was not accepted must be granted to the next waiter"]
    fn resolve(&self, result: WaitState) -> Option<WaitState> {
        let mut state = lock(&self.0);
        if matches!(*state, WaitState::Closed) {
            return Some(result);
        }
        let before = std::mem::replace(&mut *state, result);
        drop(state);
        if let WaitState::Waiting(waker) = before {
            waker.wake();
        }
        None
    }

    /// Removes a waiter without a slot. One that has already left needs no result.
    fn reject(&self, retry_after: Option<Duration>) {
        let _ = self.resolve(WaitState::Rejected(retry_after));
    }

    /// Closes the waiter, and returns a slot that was granted at the last moment.
    fn close(&self) -> Option<SlotPermit> {
        match std::mem::replace(&mut *lock(&self.0), WaitState::Closed) {
            WaitState::Granted(permit) => Some(permit),
            WaitState::Empty | WaitState::Waiting(_) | WaitState::Rejected(_) | WaitState::Closed => None,
        }
    }
}

/// All waiters of a queue want the same target. Its grade is ignored, because a configuration reload may change it
/// while they wait.
const ANY_GRADE: Grade = Grade::Strong;

impl SlotQueue {
    pub(crate) fn new(settings: QueueSettings) -> Self {
        let waiting = QueueState { queue: WaitQueue::new(settings), settings, waiters: BTreeMap::new() };
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
    pub(crate) fn grant_free_slots(&self, target: &GuardedTarget, now: Timestamp) {
        while target.in_flight.in_flight() < target.in_flight.limit() {
            let mut waiting = lock(&self.waiting);
            let QueueState { queue, waiters, .. } = &mut *waiting;
            // The permit is acquired only once its recipient is known: one held earlier would look taken to concurrent
            // requests.
            let mut permit = None;
            let next = queue.next_where(ANY_GRADE, now, |ticket| {
                let owner = waiters.get(&ticket).map(|(owner, _)| *owner);
                permit = owner.and_then(|owner| target.in_flight.try_acquire(owner).ok());
                permit.is_some()
            });
            let expired = waiting.remove_expired(now);
            let waiter = next.and_then(|departure| waiting.waiters.remove(&departure.ticket));
            self.update_count(&waiting);
            drop(waiting);
            expired.iter().for_each(|waiter| waiter.reject(None));
            // Resolved outside the lock, because a woken request may come back at once. A permit that is not accepted
            // is released, and the next iteration grants it to another waiter.
            match (waiter, permit) {
                (Some((_, waiter)), Some(permit)) => drop(waiter.resolve(WaitState::Granted(permit))),
                _ => return,
            }
        }
    }

    fn update_count(&self, waiting: &QueueState) {
        self.count.store(waiting.waiters.len(), Ordering::Release);
    }

    /// Joins the queue. Returns the ticket, the waiter and the time at which the wait expires.
    fn enter(
        &self,
        request: &QueueRequest,
        owner: SlotOwner,
        now: Timestamp,
    ) -> Result<(QueueTicket, Arc<SlotWaiter>, Timestamp), Duration> {
        let mut waiting = lock(&self.waiting);
        let request =
            &QueueRequest { grades: AcceptedGrades::only(ANY_GRADE), owner: owner.into(), ..*request };
        match waiting.queue.enter(request, now) {
            EnterDecision::Refused { retry_after, .. } => Err(retry_after),
            EnterDecision::Queued { ticket, evicted, .. } => {
                let waiter = Arc::new(SlotWaiter::default());
                waiting.waiters.insert(ticket, (owner, Arc::clone(&waiter)));
                let until = request.deadline.min(now + waiting.settings.ttl());
                let evicted = evicted.and_then(|departure| waiting.waiters.remove(&departure.ticket));
                // The evicted waiter gets the Retry-After that a new arrival would get.
                let evicted =
                    evicted.map(|(_, waiter)| (waiter, waiting.queue.time_until_room(request.grades, now)));
                self.update_count(&waiting);
                drop(waiting);
                if let Some((waiter, retry_after)) = evicted {
                    waiter.reject(Some(retry_after));
                }
                Ok((ticket, waiter, until))
            }
        }
    }

    fn leave(&self, ticket: QueueTicket, now: Timestamp) {
        let mut waiting = lock(&self.waiting);
        if waiting.waiters.remove(&ticket).is_some() {
            let _ = waiting.queue.cancel(ticket, now);
        }
        // If the target releases no slot for long, expired waiters must not accumulate.
        let expired = waiting.remove_expired(now);
        self.update_count(&waiting);
        drop(waiting);
        expired.iter().for_each(|waiter| waiter.reject(None));
    }
}

impl QueueState {
    /// Removes expired waiters, so that their requests continue with another rung.
    fn remove_expired(&mut self, now: Timestamp) -> Vec<Arc<SlotWaiter>> {
        let mut waiters = Vec::new();
        while let Some(departure) = self.queue.pop_expired(now) {
            debug_assert_eq!(departure.reason, DepartureReason::Expired);
            waiters.extend(self.waiters.remove(&departure.ticket).map(|(_, waiter)| waiter));
        }
        waiters
    }
}

impl GuardedTarget {
    /// Takes a slot if one is free for this caller and no request is queued.
    pub(crate) fn try_take_slot<R: Runtime>(
        self: &Arc<Self>,
        runtime: &R,
        owner: SlotOwner,
    ) -> Option<TargetSlot<R>> {
        if self.slot_queue.count.load(Ordering::Relaxed) > 0 {
            return None;
        }
        self.acquire(runtime, owner).ok()
    }

    fn acquire<R: Runtime>(
        self: &Arc<Self>,
        runtime: &R,
        owner: SlotOwner,
    ) -> Result<TargetSlot<R>, SlotRefusal> {
        let permit = self.in_flight.try_acquire(owner)?;
        Ok(TargetSlot { permit: Some(permit), target: Arc::clone(self), runtime: runtime.clone() })
    }

    /// Waits in the queue for a slot.
    pub(crate) async fn wait_for_slot<R: Runtime>(
        self: &Arc<Self>,
        runtime: &R,
        request: &QueueRequest,
        owner: SlotOwner,
    ) -> Result<TargetSlot<R>, SlotUnavailable> {
        let now = runtime.monotonic();
        let (ticket, waiter, until) = match self.slot_queue.enter(request, owner, now) {
            Ok(entered) => entered,
            // The queue may be full of callers that are not entitled to the free slots.
            Err(retry_after) => {
                let refused = |reason| SlotUnavailable { reason, retry_after: Some(retry_after) };
                return self.acquire(runtime, owner).map_err(refused);
            }
        };
        let waiter = QueuedWaiter { target: self, runtime, ticket, waiter };
        // A slot may have been released before this waiter was visible in the queue.
        fence(Ordering::SeqCst);
        self.slot_queue.grant_free_slots(self, now);
        let result =
            timeout_at(runtime, Deadline::at(until), poll_fn(|context| waiter.poll(context.waker()))).await;
        let result = result.unwrap_or_else(|| waiter.waiter.close().ok_or(None));
        match result {
            Ok(permit) => {
                Ok(TargetSlot { permit: Some(permit), target: Arc::clone(self), runtime: runtime.clone() })
            }
            Err(retry_after) => {
                drop(waiter);
                self.acquire(runtime, owner).map_err(|reason| SlotUnavailable { reason, retry_after })
            }
        }
    }
}

/// A queued waiter. Dropping it leaves the queue and passes on a slot that was granted but not taken.
struct QueuedWaiter<'a, R: Runtime> {
    target: &'a Arc<GuardedTarget>,
    runtime: &'a R,
    ticket: QueueTicket,
    waiter: Arc<SlotWaiter>,
}

impl<R: Runtime> QueuedWaiter<'_, R> {
    /// Polls for the slot. The error means that none will come, with a Retry-After if the waiter was evicted.
    fn poll(&self, waker: &Waker) -> Poll<Result<SlotPermit, Option<Duration>>> {
        let mut result = lock(&self.waiter.0);
        match std::mem::replace(&mut *result, WaitState::Closed) {
            WaitState::Empty | WaitState::Waiting(_) => {
                *result = WaitState::Waiting(waker.clone());
                Poll::Pending
            }
            WaitState::Granted(permit) => Poll::Ready(Ok(permit)),
            WaitState::Rejected(retry_after) => Poll::Ready(Err(retry_after)),
            WaitState::Closed => Poll::Ready(Err(None)),
        }
    }
}

impl<R: Runtime> Drop for QueuedWaiter<'_, R> {
    fn drop(&mut self) {
        let now = self.runtime.monotonic();
        self.target.slot_queue.leave(self.ticket, now);
        if let Some(permit) = self.waiter.close() {
            drop(permit);
            self.target.slot_queue.grant_free_slots(self.target, now);
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
