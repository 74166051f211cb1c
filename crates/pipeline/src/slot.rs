//! Concurrency slots of a target, and the queue of requests that wait for one.
//!
//! A target takes a limited number of concurrent calls, and each caller may hold its share of them ([`SlotLimit`]). A
//! request that finds no free slot is queued in the order of [`queue`](seawall_core::queue): higher classes first,
//! callers of one class in turn (round robin). A released slot passes to the next eligible waiter, so a later arrival
//! cannot overtake it. When the queue is full, the caller with the most waiters loses one to a caller with fewer. A
//! caller that is entitled to a free slot that the waiters may not use gets it at once: such slots are reserved for it.

use crate::target::GuardedTarget;
use seawall_core::deadline::Deadline;
use seawall_core::in_flight::{SlotHolder, SlotPermit, SlotRefusal};
use seawall_core::queue::{
    AcceptedGrades, AdmissionQueue, DepartureReason, EnterDecision, QueueRequest, QueueSettings, QueueStats,
    QueueTicket,
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
    /// The concurrency limit that refused it.
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
    queue: AdmissionQueue,
    settings: QueueSettings,
    mailboxes: BTreeMap<QueueTicket, (SlotHolder, Arc<Mailbox>)>,
}

/// Mailbox through which a waiter receives its result.
#[derive(Default)]
struct Mailbox(Mutex<Delivery>);

#[derive(Default)]
enum Delivery {
    #[default]
    Empty,
    Waiting(Waker),
    Granted(SlotPermit),
    /// The wait expired, or the waiter was evicted and may retry after this time.
    Dismissed(Option<Duration>),
    /// The waiter has read its result or has left.
    Closed,
}

impl Mailbox {
    /// Delivers a result to the waiter. Returns it if the waiter has already left: otherwise a slot permit would stay
    /// in the mailbox until it is dropped, and no other waiter would be served with it.
    #[must_use = "a permit that was not accepted must be granted to the next waiter"]
    fn deliver(&self, delivery: Delivery) -> Option<Delivery> {
        let mut state = lock(&self.0);
        if matches!(*state, Delivery::Closed) {
            return Some(delivery);
        }
        let before = std::mem::replace(&mut *state, delivery);
        drop(state);
        if let Delivery::Waiting(waker) = before {
            waker.wake();
        }
        None
    }

    /// Removes a waiter without a slot. One that has already left needs no result.
    fn dismiss(&self, retry_after: Option<Duration>) {
        let _ = self.deliver(Delivery::Dismissed(retry_after));
    }

    /// Closes the mailbox, and returns a slot that was granted at the last moment.
    fn close(&self) -> Option<SlotPermit> {
        match std::mem::replace(&mut *lock(&self.0), Delivery::Closed) {
            Delivery::Granted(permit) => Some(permit),
            Delivery::Empty | Delivery::Waiting(_) | Delivery::Dismissed(_) | Delivery::Closed => None,
        }
    }
}

/// All waiters of a queue want the same target. Its grade is ignored, because a configuration reload may change it
/// while they wait.
const ANY_GRADE: Grade = Grade::Strong;

impl SlotQueue {
    pub(crate) fn new(settings: QueueSettings) -> Self {
        let waiting =
            QueueState { queue: AdmissionQueue::new(settings), settings, mailboxes: BTreeMap::new() };
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
            let QueueState { queue, mailboxes, .. } = &mut *waiting;
            // The permit is acquired only once its recipient is known: one held earlier would look taken to concurrent
            // requests.
            let mut permit = None;
            let next = queue.next_where(ANY_GRADE, now, |ticket| {
                let holder = mailboxes.get(&ticket).map(|(holder, _)| *holder);
                permit = holder.and_then(|holder| target.in_flight.try_acquire(holder).ok());
                permit.is_some()
            });
            let expired = waiting.remove_expired(now);
            let mailbox = next.and_then(|departure| waiting.mailboxes.remove(&departure.ticket));
            self.update_count(&waiting);
            drop(waiting);
            expired.iter().for_each(|mailbox| mailbox.dismiss(None));
            // Delivered outside the lock, because a woken request may come back at once. A permit that is not accepted
            // is released, and the next iteration grants it to another waiter.
            match (mailbox, permit) {
                (Some((_, mailbox)), Some(permit)) => drop(mailbox.deliver(Delivery::Granted(permit))),
                _ => return,
            }
        }
    }

    fn update_count(&self, waiting: &QueueState) {
        self.count.store(waiting.mailboxes.len(), Ordering::Release);
    }

    /// Joins the queue. Returns the ticket, the mailbox and the time at which the wait expires.
    fn enter(
        &self,
        request: &QueueRequest,
        holder: SlotHolder,
        now: Timestamp,
    ) -> Result<(QueueTicket, Arc<Mailbox>, Timestamp), Duration> {
        let mut waiting = lock(&self.waiting);
        let request =
            &QueueRequest { grades: AcceptedGrades::only(ANY_GRADE), holder: holder.into(), ..*request };
        match waiting.queue.enter(request, now) {
            EnterDecision::Refused { retry_after, .. } => Err(retry_after),
            EnterDecision::Queued { ticket, evicted, .. } => {
                let mailbox = Arc::new(Mailbox::default());
                waiting.mailboxes.insert(ticket, (holder, Arc::clone(&mailbox)));
                let until = request.deadline.min(now + waiting.settings.ttl());
                let evicted = evicted.and_then(|departure| waiting.mailboxes.remove(&departure.ticket));
                // The evicted waiter gets the Retry-After that a new arrival would get.
                let evicted =
                    evicted.map(|(_, mailbox)| (mailbox, waiting.queue.time_until_room(request.grades, now)));
                self.update_count(&waiting);
                drop(waiting);
                if let Some((mailbox, retry_after)) = evicted {
                    mailbox.dismiss(Some(retry_after));
                }
                Ok((ticket, mailbox, until))
            }
        }
    }

    fn leave(&self, ticket: QueueTicket, now: Timestamp) {
        let mut waiting = lock(&self.waiting);
        if waiting.mailboxes.remove(&ticket).is_some() {
            let _ = waiting.queue.cancel(ticket, now);
        }
        // If the target releases no slot for long, expired waiters must not accumulate.
        let expired = waiting.remove_expired(now);
        self.update_count(&waiting);
        drop(waiting);
        expired.iter().for_each(|mailbox| mailbox.dismiss(None));
    }
}

impl QueueState {
    /// Removes expired waiters, so that their requests continue with another rung.
    fn remove_expired(&mut self, now: Timestamp) -> Vec<Arc<Mailbox>> {
        let mut mailboxes = Vec::new();
        while let Some(departure) = self.queue.pop_expired(now) {
            debug_assert_eq!(departure.reason, DepartureReason::Expired);
            mailboxes.extend(self.mailboxes.remove(&departure.ticket).map(|(_, mailbox)| mailbox));
        }
        mailboxes
    }
}

impl GuardedTarget {
    /// Takes a slot if one is free for this caller and no request is queued.
    pub(crate) fn try_take_slot<R: Runtime>(
        self: &Arc<Self>,
        runtime: &R,
        holder: SlotHolder,
    ) -> Option<TargetSlot<R>> {
        if self.slot_queue.count.load(Ordering::Relaxed) > 0 {
            return None;
        }
        self.acquire(runtime, holder).ok()
    }

    fn acquire<R: Runtime>(
        self: &Arc<Self>,
        runtime: &R,
        holder: SlotHolder,
    ) -> Result<TargetSlot<R>, SlotRefusal> {
        let permit = self.in_flight.try_acquire(holder)?;
        Ok(TargetSlot { permit: Some(permit), target: Arc::clone(self), runtime: runtime.clone() })
    }

    /// Waits in the queue for a slot.
    pub(crate) async fn wait_for_slot<R: Runtime>(
        self: &Arc<Self>,
        runtime: &R,
        request: &QueueRequest,
        holder: SlotHolder,
    ) -> Result<TargetSlot<R>, SlotUnavailable> {
        let now = runtime.monotonic();
        let (ticket, mailbox, until) = match self.slot_queue.enter(request, holder, now) {
            Ok(entered) => entered,
            // The queue may be full of callers that are not entitled to the free slots.
            Err(retry_after) => {
                let refused = |reason| SlotUnavailable { reason, retry_after: Some(retry_after) };
                return self.acquire(runtime, holder).map_err(refused);
            }
        };
        let waiter = QueuedWaiter { target: self, runtime, ticket, mailbox };
        // A slot may have been released before this waiter was visible in the queue.
        fence(Ordering::SeqCst);
        self.slot_queue.grant_free_slots(self, now);
        let delivery =
            timeout_at(runtime, Deadline::at(until), poll_fn(|context| waiter.poll(context.waker()))).await;
        let delivery = delivery.unwrap_or_else(|| waiter.mailbox.close().ok_or(None));
        match delivery {
            Ok(permit) => {
                Ok(TargetSlot { permit: Some(permit), target: Arc::clone(self), runtime: runtime.clone() })
            }
            Err(retry_after) => {
                drop(waiter);
                self.acquire(runtime, holder).map_err(|reason| SlotUnavailable { reason, retry_after })
            }
        }
    }
}

/// A queued waiter. Dropping it leaves the queue and passes on a slot that was granted but not taken.
struct QueuedWaiter<'a, R: Runtime> {
    target: &'a Arc<GuardedTarget>,
    runtime: &'a R,
    ticket: QueueTicket,
    mailbox: Arc<Mailbox>,
}

impl<R: Runtime> QueuedWaiter<'_, R> {
    /// Polls for the slot. The error means that none will come, with a Retry-After if the waiter was evicted.
    fn poll(&self, waker: &Waker) -> Poll<Result<SlotPermit, Option<Duration>>> {
        let mut delivery = lock(&self.mailbox.0);
        match std::mem::replace(&mut *delivery, Delivery::Closed) {
            Delivery::Empty | Delivery::Waiting(_) => {
                *delivery = Delivery::Waiting(waker.clone());
                Poll::Pending
            }
            Delivery::Granted(permit) => Poll::Ready(Ok(permit)),
            Delivery::Dismissed(retry_after) => Poll::Ready(Err(retry_after)),
            Delivery::Closed => Poll::Ready(Err(None)),
        }
    }
}

impl<R: Runtime> Drop for QueuedWaiter<'_, R> {
    fn drop(&mut self) {
        let now = self.runtime.monotonic();
        self.target.slot_queue.leave(self.ticket, now);
        if let Some(permit) = self.mailbox.close() {
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
