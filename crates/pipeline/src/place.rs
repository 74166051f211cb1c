//! A place at a target, and the line of those who wait for one.
//!
//! A target takes so many calls at once, and of those a caller has its share ([`SlotLimit`]). Who finds no place free stands
//! in line, in the order of [`queue`](seawall_core::queue): higher classes first, callers of one class in turn. Who gives a
//! place back hands it to the next in line that may have it; nobody who comes later takes it before. Where the line is
//! full, a caller that may have one of the places that are free has it at once: they are kept for such callers.

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

/// The right to one call at a target, until it is dropped. Then the next in line has it.
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

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoPlace {
    /// Why it got none.
    pub(crate) reason: SlotRefusal,
    /// When to come back, where the line is too long for the time there is, or full; nothing after waiting in vain.
    pub(crate) retry_after: Option<Duration>,
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
    slots: BTreeMap<QueueTicket, (SlotHolder, Arc<Slot>)>,
}

/// Where somebody who waits is told.
#[derive(Default)]
struct Slot(Mutex<Told>);

#[derive(Default)]
enum Told {
    #[default]
    Nothing,
    Waits(Waker),
    Place(SlotPermit),
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
    fn take(&self) -> Option<SlotPermit> {
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

    /// Hands free places to those who are next and may have one. Whoever may not now, may when somebody gives one back.
    pub(crate) fn serve(&self, target: &GuardedTarget, now: Timestamp) {
        while target.in_flight.in_flight() < target.in_flight.limit() {
            let mut waiting = lock(&self.waiting);
            let Waiting { queue, slots, .. } = &mut *waiting;
            // Taken as soon as it is known who gets it: a place that is held before would be missed by who looks meanwhile.
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
            late.iter().for_each(|slot| slot.dismiss());
            // Told outside the lock: whoever is woken may come back at once. A place that nobody takes is free again, and
            // the next round gives it to another.
            match (slot, permit) {
                (Some((_, slot)), Some(permit)) => drop(slot.tell(Told::Place(permit))),
                _ => return,
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
        holder: SlotHolder,
        now: Timestamp,
    ) -> Result<(QueueTicket, Arc<Slot>, Timestamp), Duration> {
        let mut waiting = lock(&self.waiting);
        let request = &QueueRequest { wants: Wants::only(ANY_GRADE), ..*request };
        match waiting.queue.enter(request, now) {
            EnterDecision::Refused { retry_after, .. } => Err(retry_after),
            EnterDecision::Queued { ticket, pushed_out, .. } => {
                let slot = Arc::new(Slot::default());
                waiting.slots.insert(ticket, (holder, Arc::clone(&slot)));
                let until = request.deadline.min(now + waiting.settings.time_to_live());
                let pushed_out = pushed_out.and_then(|departure| waiting.slots.remove(&departure.ticket));
                self.note(&waiting);
                drop(waiting);
                if let Some((_, slot)) = pushed_out {
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
            slots.extend(self.slots.remove(&departure.ticket).map(|(_, slot)| slot));
        }
        slots
    }
}

impl GuardedTarget {
    /// A place, if one is free for this caller and nobody waits for it.
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

    /// A place, when its turn has come.
    pub(crate) async fn wait_for_place<R: Runtime>(
        self: &Arc<Self>,
        runtime: &R,
        request: &QueueRequest,
        holder: SlotHolder,
    ) -> Result<Place<R>, NoPlace> {
        let now = runtime.monotonic();
        let (ticket, slot, until) = match self.line.enter(request, holder, now) {
            Ok(entered) => entered,
            // Others fill the line who may not have what is free.
            Err(retry_after) => {
                let refused = |reason| NoPlace { reason, retry_after: Some(retry_after) };
                return self.acquire(runtime, holder).map_err(refused);
            }
        };
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
            None => {
                drop(standing);
                self.acquire(runtime, holder).map_err(|reason| NoPlace { reason, retry_after: None })
            }
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
    fn poll(&self, waker: &Waker) -> Poll<Option<SlotPermit>> {
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
