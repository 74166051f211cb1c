//! The shutdown signal, and the work in flight on one core that it must reach.
//!
//! Requests check a flag whenever they are polled, which costs nothing. Their tasks are registered here and are woken
//! when the flag changes. A request therefore needs no setup of its own to be cancellable.

use crate::connections::Connections;
use crate::conversation::{Conversation, Word};
use crate::unread::OpenStreams;
use seawall_core::time::Timestamp;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Timeouts of connections. Where no duration is given, they are counted in checks of one second each.
pub(crate) struct ConnectionPatience {
    /// Until the first request has arrived.
    pub(crate) head: Duration,
    /// Without a request in flight.
    pub(crate) max_idle: u32,
    /// Without the client reading any of what was sent.
    pub(crate) max_unread: u32,
}

/// The shutdown signal: set when requests in flight have used up the drain timeout. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Cut(Arc<Core>);

#[derive(Default)]
struct Core {
    is_over: AtomicBool,
    /// Open streams, which have their own timeouts until the signal is set.
    streams: OpenStreams,
    conversations: Mutex<Vec<Weak<Conversation>>>,
    /// Tasks of requests that do not run on the task of their connection (HTTP/2).
    tasks: Mutex<Vec<Weak<Listener>>>,
}

impl Cut {
    /// Whether the signal is set.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::Acquire)
    }

    /// Completes when the signal is set. Must be polled on a registered task, because it does not register a waker
    /// itself.
    pub(crate) fn told(&self) -> impl Future<Output = ()> {
        poll_fn(|_| if self.is_over() { Poll::Ready(()) } else { Poll::Pending })
    }

    pub(crate) fn streams(&self) -> &OpenStreams {
        &self.0.streams
    }

    /// Sets the signal and wakes everything in flight.
    pub(crate) fn end(&self) {
        self.0.is_over.store(true, Ordering::Release);
        // A stream that always has data to send would not check the flag otherwise.
        self.0.streams.stop();
        self.conversations().iter().for_each(|conversation| conversation.listener.wake());
        present(&self.0.tasks).iter().for_each(|listener| listener.wake());
    }

    /// Registers a new connection.
    pub(crate) fn converse(&self, now: Timestamp) -> Arc<Conversation> {
        let conversation = Arc::new(Conversation::new(now));
        hold(&self.0.conversations).push(Arc::downgrade(&conversation));
        conversation
    }

    /// The open connections.
    pub(crate) fn conversations(&self) -> Vec<Arc<Conversation>> {
        present(&self.0.conversations)
    }

    /// Runs `work` on a registered task, so that the signal wakes it.
    pub(crate) async fn hearing<T>(self, work: impl Future<Output = T>) -> T {
        let listener = Arc::new(Listener::default());
        hold(&self.0.tasks).push(Arc::downgrade(&listener));
        let (mut work, mut last) = (pin!(work), None);
        poll_fn(|context| {
            listener.listen(context, &mut last);
            work.as_mut().poll(context)
        })
        .await
    }

    /// Applies the timeouts while no shutdown is under way, and drops entries of what has ended. Call it once a second.
    pub(crate) fn look(&self, now: Timestamp, patience: &ConnectionPatience, connections: &Connections) {
        self.0.streams.look(patience.max_unread);
        for conversation in self.conversations() {
            if !conversation.has_asked() && now - conversation.since >= patience.head {
                conversation.tell(Word::Leave);
            }
            if let Some((word, reason)) = conversation.look(patience)
                && conversation.tell(word)
                && let Some(reason) = reason
            {
                connections.count(reason);
            }
        }
        drop(present(&self.0.tasks));
    }
}

pub(crate) fn hold<T>(all: &Mutex<T>) -> MutexGuard<'_, T> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the entries that are still alive and removes the others. The caller acts on them outside the lock: releasing
/// one may unblock a task that then registers another here.
pub(crate) fn present<T: ?Sized>(all: &Mutex<Vec<Weak<T>>>) -> Vec<Arc<T>> {
    let mut here = Vec::new();
    hold(all).retain(|one| {
        let one = one.upgrade();
        let is_here = one.is_some();
        here.extend(one);
        is_here
    });
    here
}

/// A task that other tasks can wake.
#[derive(Default)]
pub(crate) struct Listener(Mutex<Option<Waker>>);

impl Listener {
    /// Registers the current task's waker. `last` is the one registered before: nearly always it is the same, and
    /// nothing is done.
    pub(crate) fn listen(&self, context: &Context<'_>, last: &mut Option<Waker>) {
        let waker = context.waker();
        if !last.as_ref().is_some_and(|last| last.will_wake(waker)) {
            *last = Some(waker.clone());
            *hold(&self.0) = Some(waker.clone());
        }
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = &*hold(&self.0) {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cut;
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
    fn who_listens_is_woken_at_the_end_on_the_task_it_was_last_seen_on() {
        let (cut, first, second) = (Cut::default(), Arc::<Woken>::default(), Arc::<Woken>::default());
        let mut work = pin!(cut.clone().hearing(cut.told()));
        for task in [&first, &first, &second] {
            let waker = Waker::from(Arc::clone(task));
            assert_eq!(work.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
        }
        cut.end();
        let woken = |task: &Woken| task.0.load(Ordering::Relaxed);
        assert_eq!((woken(&first), woken(&second)), (0, 1));
        assert_eq!(work.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
    }
}
