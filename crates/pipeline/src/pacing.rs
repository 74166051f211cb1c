//! Client-side pacing of a target that throttles.
//!
//! [`ThrottleGate`] decides when the next call may be sent; this module holds the FIFO queue of requests that wait for
//! it. It takes a lock only while the gate is active. Each waiter sleeps for the time that the waiters ahead of it need
//! at the current rate, so one send does not wake all of them. The queue is bounded: when it is full, the caller with
//! the most waiters loses one to a caller with fewer.

use crate::baselines::Baselines;
use crate::target::GuardedTarget;
use seawall_core::breaker::BreakerPhase;
use seawall_core::deadline::Deadline;
use seawall_core::failure::AttemptOutcome;
use seawall_core::pressure::{Pressure, PressureGauge};
use seawall_core::queue::{QueueOwner, QueueShares};
use seawall_core::retry::MAX_PREFERRED_WAIT;
use seawall_core::runtime::{Runtime, timeout_at};
use seawall_core::sender::{SendDecision, ThrottleDecision, ThrottleGate};
use seawall_core::time::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Maximum number of waiters per target. A request that finds the queue full, or is evicted from it, is rejected with a
/// Retry-After.
pub(crate) const MAX_WAITING: usize = 1_000;

/// Longest sleep of a waiter behind others: the rate may have risen meanwhile.
const MAX_SLEEP: Duration = Duration::from_millis(250);
/// Shortest sleep: the waiter ahead may send slightly late.
const MIN_SLEEP: Duration = Duration::from_millis(5);

/// Measurements of a target's responses. One lock covers all of them, because every attempt reports to each.
pub(crate) struct TargetMeasurements {
    pub(crate) pressure: PressureGauge,
    pub(crate) gate: ThrottleGate,
    pub(crate) baselines: Baselines,
}

impl TargetMeasurements {
    /// Records the outcome of a call sent at `sent`. Returns how a throttle counts for the target; `None` for every other
    /// outcome.
    pub(crate) fn record(
        &mut self,
        outcome: &AttemptOutcome,
        sent: Timestamp,
        now: Timestamp,
    ) -> Option<ThrottleDecision> {
        match outcome {
            AttemptOutcome::Failed(failure) if failure.kind.is_throttle() => {
                Some(self.gate.throttled(failure, sent, now))
            }
            AttemptOutcome::Succeeded { .. } | AttemptOutcome::SucceededUnstreamed { .. } => {
                self.gate.answered(sent, now);
                None
            }
            AttemptOutcome::Failed(_) | AttemptOutcome::Throttled | AttemptOutcome::Abandoned => None,
        }
    }
}

/// State that is read without the `TargetMeasurements` lock.
#[derive(Default)]
pub(crate) struct Pacing {
    is_active: AtomicBool,
    queue: Mutex<PacingQueue>,
}

/// Waiters in order of their tickets.
#[derive(Default)]
struct PacingQueue {
    tickets: VecDeque<u64>,
    next: u64,
    shares: QueueShares<u64>,
    /// Wakers of sleeping waiters, to wake one that is evicted.
    sleepers: BTreeMap<u64, Waker>,
}

impl PacingQueue {
    /// Adds a waiter. If the queue is full, the owner with the most tickets loses its latest one.
    fn enter(&mut self, owner: QueueOwner) -> Option<(u64, Option<Waker>)> {
        let mut evicted = None;
        if self.tickets.len() >= MAX_WAITING {
            let (of, loser) = self.shares.eviction_candidate(owner)?;
            evicted = self.leave(of, loser);
        }
        let ticket = self.next;
        self.next = ticket.wrapping_add(1);
        self.tickets.push_back(ticket);
        self.shares.add(owner, ticket);
        Some((ticket, evicted))
    }

    /// Removes a ticket if it is still queued. Returns the waker of its waiter.
    fn leave(&mut self, owner: QueueOwner, ticket: u64) -> Option<Waker> {
        let index = self.tickets.binary_search(&ticket).ok()?;
        self.tickets.remove(index);
        self.shares.remove(owner, ticket);
        self.sleepers.remove(&ticket)
    }
}

/// Pacing of a target, for the admin API.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PacingStatus {
    /// Remaining time of the provider's retry-after.
    pub retry_after: Duration,
    /// Calls per second while pacing is active.
    pub rate: Option<f64>,
    /// Requests that wait to send a call.
    pub waiting: usize,
}

impl GuardedTarget {
    pub(crate) fn measurements(&self) -> MutexGuard<'_, TargetMeasurements> {
        lock(&self.measurements)
    }

    pub(crate) fn pressure_now(&self, phase: BreakerPhase, now: Timestamp) -> Pressure {
        self.measurements().pressure.read(phase, now)
    }

    /// Updates whether requests must wait before they send a call.
    pub(crate) fn update_pacing(&self, measurements: &TargetMeasurements) {
        let is_active = measurements.gate.is_active();
        // Compare before writing: an unmodified cache line stays shared between cores.
        if self.pacing.is_active.load(Ordering::Relaxed) != is_active {
            self.pacing.is_active.store(is_active, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_paced(&self) -> bool {
        self.pacing.is_active.load(Ordering::Relaxed)
    }

    /// Remaining time of the provider's retry-after.
    pub(crate) fn retry_after(&self, now: Timestamp) -> Duration {
        if self.is_paced() { self.measurements().gate.paused_for(now) } else { Duration::ZERO }
    }

    /// Takes permission to send a call if it is available now and no request is queued for it.
    pub(crate) fn try_send_now(&self, now: Timestamp) -> bool {
        !self.is_paced()
            || (lock(&self.pacing.queue).tickets.is_empty()
                && self.measurements().gate.acquire(now) == SendDecision::Send)
    }

    pub(crate) fn pacing_status(&self, now: Timestamp) -> PacingStatus {
        let measurements = self.measurements();
        PacingStatus {
            retry_after: measurements.gate.paused_for(now),
            rate: measurements.gate.paced_rate(),
            waiting: lock(&self.pacing.queue).tickets.len(),
        }
    }

    /// Waits for permission to send a call until `until` at most, and less if another target is ready and waiting here is not worth it.
    /// The error is the time until the target would be available.
    pub(crate) async fn wait_to_send<R: Runtime>(
        &self,
        runtime: &R,
        until: Timestamp,
        owner: QueueOwner,
        other_is_ready: impl Fn(Timestamp) -> bool,
    ) -> Result<(), Duration> {
        let began = runtime.monotonic();
        let Some(waiter) = Waiter::enter(&self.pacing, owner) else { return Err(self.retry_after(began)) };
        loop {
            let now = runtime.monotonic();
            let Some(ahead) = waiter.ahead() else { return Err(self.retry_after(now)) };
            let wait = match self.try_send_behind(ahead, now) {
                Ok(()) => return Ok(()),
                Err(wait) => wait,
            };
            if now + wait >= until || (now + wait - began > MAX_PREFERRED_WAIT && other_is_ready(now)) {
                return Err(wait);
            }
            // The rate may rise during the sleep; the retry-after does not get shorter.
            let sleep = wait.min(self.retry_after(now).saturating_add(MAX_SLEEP));
            let _ = timeout_at(runtime, Deadline::at((now + sleep).min(until)), waiter.evicted()).await;
        }
    }

    /// Takes permission to send for a waiter with `ahead` others in front. The error is the estimated wait.
    fn try_send_behind(&self, ahead: usize, now: Timestamp) -> Result<(), Duration> {
        let mut measurements = self.measurements();
        if ahead == 0 {
            return match measurements.gate.acquire(now) {
                SendDecision::Send => Ok(()),
                SendDecision::Wait(wait) => Err(wait),
            };
        }
        let seconds = ahead as f64 / measurements.gate.paced_rate().unwrap_or(f64::INFINITY);
        let behind = Duration::try_from_secs_f64(seconds).unwrap_or(MAX_SLEEP);
        Err(measurements.gate.paused_for(now).saturating_add(behind.max(MIN_SLEEP)))
    }
}

/// A queued waiter; dropping it leaves the queue. Waiters are served in FIFO order.
struct Waiter<'a> {
    pacing: &'a Pacing,
    owner: QueueOwner,
    ticket: u64,
}

impl<'a> Waiter<'a> {
    fn enter(pacing: &'a Pacing, owner: QueueOwner) -> Option<Self> {
        let (ticket, evicted) = lock(&pacing.queue).enter(owner)?;
        if let Some(waker) = evicted {
            waker.wake();
        }
        Some(Self { pacing, owner, ticket })
    }

    /// The number of waiters ahead; `None` after an eviction.
    fn ahead(&self) -> Option<usize> {
        lock(&self.pacing.queue).tickets.binary_search(&self.ticket).ok()
    }

    /// Resolves when the waiter is evicted. Without this wake-up an evicted request would sleep on, and the queue bound
    /// would not bound the number of pending requests.
    async fn evicted(&self) {
        poll_fn(|context| {
            let mut queue = lock(&self.pacing.queue);
            if queue.tickets.binary_search(&self.ticket).is_err() {
                return Poll::Ready(());
            }
            queue.sleepers.insert(self.ticket, context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        // The waker is this waiter's own and not needed any more.
        let _ = lock(&self.pacing.queue).leave(self.owner, self.ticket);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{MAX_WAITING, Pacing, Waiter};
    use seawall_core::queue::QueueOwner;
    use std::future::Future as _;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn one_caller_cannot_fill_the_queue_of_a_target_that_throttles() {
        let pacing = Pacing::default();
        let caller = QueueOwner::Caller;
        let mut flood: Vec<_> =
            (0..MAX_WAITING).map(|_| Waiter::enter(&pacing, caller(1)).unwrap()).collect();
        assert!(Waiter::enter(&pacing, caller(1)).is_none(), "it is full");
        let latest = flood.pop().unwrap();
        let woken = Arc::new(Counted::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut evicted = pin!(latest.evicted());
        assert!(evicted.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let other = Waiter::enter(&pacing, caller(2)).unwrap();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1, "the evicted waiter is woken at once");
        assert_eq!(evicted.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(()));
        assert_eq!((latest.ahead(), other.ahead()), (None, Some(MAX_WAITING - 1)));
        let guests = Waiter::enter(&pacing, QueueOwner::Guests).unwrap();
        assert_eq!(flood.last().unwrap().ahead(), None);
        drop((flood, other, guests));
        let queue = super::lock(&pacing.queue);
        assert!(queue.tickets.is_empty() && queue.sleepers.is_empty());
        assert_eq!(queue.shares.eviction_candidate(caller(3)), None);
    }
}
