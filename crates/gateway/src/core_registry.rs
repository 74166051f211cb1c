//! The registry of one core: its connections, streams and tasks, and the signal that ends them.
//!
//! In normal operation the registry applies the timeouts of connections and streams. When the drain timeout has expired,
//! the termination signal is set: requests check it whenever they are polled, which costs nothing, and their tasks are
//! registered here and are woken when it is set. A request therefore needs no setup of its own to be cancellable.

use crate::connection::{ConnectionSignal, ConnectionState};
use crate::connection_limiter::ConnectionLimiter;
use crate::stalled_streams::OpenStreams;
use seawall_core::time::Timestamp;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Timeouts of connections. Where no duration is given, they are counted in checks of one second each.
pub(crate) struct ConnectionTimeouts {
    /// Until the first request has arrived.
    pub(crate) first_request: Duration,
    /// Without a request in flight.
    pub(crate) max_idle_checks: u32,
    /// Without the client reading any of what was sent.
    pub(crate) max_stalled_checks: u32,
    /// Without a byte of a streamed answer, before a keep-alive is sent; `None` for no keep-alives.
    pub(crate) max_silent_checks: Option<u32>,
}

/// The connections, streams and tasks of one core, and its termination signal. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct CoreRegistry(Arc<CoreState>);

#[derive(Default)]
struct CoreState {
    termination: TerminationSignal,
    /// Open streams, which have their own timeouts until the termination signal is set.
    streams: OpenStreams,
    connections: Mutex<Vec<Weak<ConnectionState>>>,
    /// Tasks of requests that do not run on the task of their connection (HTTP/2).
    tasks: Mutex<Vec<Weak<RegisteredWaker>>>,
}

/// Set when requests in flight have used up the drain timeout: they end now.
#[derive(Default)]
struct TerminationSignal(AtomicBool);

impl TerminationSignal {
    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl CoreRegistry {
    /// Whether the drain timeout has expired.
    pub(crate) fn is_terminating(&self) -> bool {
        self.0.termination.is_set()
    }

    /// Completes when the drain timeout has expired. Must be polled on a registered task, because it does not register
    /// a waker itself.
    pub(crate) fn terminated(&self) -> impl Future<Output = ()> {
        poll_fn(|_| if self.is_terminating() { Poll::Ready(()) } else { Poll::Pending })
    }

    pub(crate) fn streams(&self) -> &OpenStreams {
        &self.0.streams
    }

    /// Sets the termination signal and wakes everything in flight.
    pub(crate) fn terminate(&self) {
        self.0.termination.set();
        // A stream that always has data to send would not check the flag otherwise.
        self.0.streams.end_for_shutdown();
        self.connections().iter().for_each(|connection| connection.waker_slot.wake());
        upgrade_all(&self.0.tasks).iter().for_each(|waker_slot| waker_slot.wake());
    }

    /// Registers a new connection.
    pub(crate) fn register_connection(&self, now: Timestamp) -> Arc<ConnectionState> {
        let connection = Arc::new(ConnectionState::new(now));
        lock(&self.0.connections).push(Arc::downgrade(&connection));
        connection
    }

    /// The open connections.
    pub(crate) fn connections(&self) -> Vec<Arc<ConnectionState>> {
        upgrade_all(&self.0.connections)
    }

    /// Runs `work` on a registered task, so that the termination signal wakes it.
    pub(crate) async fn run_registered<T>(self, work: impl Future<Output = T>) -> T {
        let waker_slot = Arc::new(RegisteredWaker::default());
        lock(&self.0.tasks).push(Arc::downgrade(&waker_slot));
        let (mut work, mut last) = (pin!(work), None);
        poll_fn(|context| {
            waker_slot.register(context, &mut last);
            work.as_mut().poll(context)
        })
        .await
    }

    /// Applies the timeouts, and drops entries of what has ended. Call it once a second.
    pub(crate) fn check(
        &self,
        now: Timestamp,
        timeouts: &ConnectionTimeouts,
        connections: &ConnectionLimiter,
    ) {
        self.0.streams.check(timeouts);
        for connection in self.connections() {
            if !connection.has_received_request() && now - connection.since >= timeouts.first_request {
                connection.send_signal(ConnectionSignal::Close);
            }
            if let Some((signal, reason)) = connection.check(timeouts)
                && connection.send_signal(signal)
                && let Some(reason) = reason
            {
                connections.record_end(reason);
            }
        }
        drop(upgrade_all(&self.0.tasks));
    }
}

pub(crate) fn lock<T>(all: &Mutex<T>) -> MutexGuard<'_, T> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the entries that are still alive and removes the others. The caller acts on them outside the lock: releasing
/// one may unblock a task that then registers another here.
pub(crate) fn upgrade_all<T: ?Sized>(all: &Mutex<Vec<Weak<T>>>) -> Vec<Arc<T>> {
    let mut alive = Vec::new();
    lock(all).retain(|one| {
        let one = one.upgrade();
        let is_alive = one.is_some();
        alive.extend(one);
        is_alive
    });
    alive
}

/// A task that other tasks can wake.
#[derive(Default)]
pub(crate) struct RegisteredWaker(Mutex<Option<Waker>>);

impl RegisteredWaker {
    /// Registers the current task's waker. `last` is the one registered before: nearly always it is the same, and
    /// nothing is done.
    pub(crate) fn register(&self, context: &Context<'_>, last: &mut Option<Waker>) {
        let waker = context.waker();
        if !last.as_ref().is_some_and(|last| last.will_wake(waker)) {
            *last = Some(waker.clone());
            *lock(&self.0) = Some(waker.clone());
        }
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = &*lock(&self.0) {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CoreRegistry;
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_registered_task_is_woken_through_its_latest_waker() {
        let (core, first, second) =
            (CoreRegistry::default(), Arc::<Woken>::default(), Arc::<Woken>::default());
        let mut work = pin!(core.clone().run_registered(core.terminated()));
        for task in [&first, &first, &second] {
            let waker = Waker::from(Arc::clone(task));
            assert_eq!(work.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
        }
        core.terminate();
        let woken = |task: &Woken| task.0.load(Ordering::Relaxed);
        assert_eq!((woken(&first), woken(&second)), (0, 1));
        assert_eq!(work.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
    }
}
