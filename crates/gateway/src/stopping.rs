//! What is under way on a core, and how it is told to end.
//!
//! Requests look at a flag whenever they are polled, which costs nothing; the tasks that they run on are known here, and
//! are woken when there is something to hear. So a request sets up nothing to be able to be stopped.

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

/// How long connections may do nothing, in looks of one second each where no moment is named.
pub(crate) struct ConnectionPatience {
    /// Until the first request has come.
    pub(crate) head: Duration,
    /// Without a request under way.
    pub(crate) max_idle: u32,
    /// Without anything of what was sent being read.
    pub(crate) max_unread: u32,
}

/// Tells when requests under way have had their time. Clones tell alike.
#[derive(Clone, Default)]
pub(crate) struct Cut(Arc<Core>);

#[derive(Default)]
struct Core {
    is_over: AtomicBool,
    /// The streams that have time of their own until then.
    streams: OpenStreams,
    conversations: Mutex<Vec<Weak<Conversation>>>,
    /// Tasks of requests that do not run on their conversation's own.
    tasks: Mutex<Vec<Weak<Listener>>>,
}

impl Cut {
    /// Whether the time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::Acquire)
    }

    /// Ends when the time is over, on a task that listens.
    pub(crate) fn told(&self) -> impl Future<Output = ()> {
        poll_fn(|_| if self.is_over() { Poll::Ready(()) } else { Poll::Pending })
    }

    /// The streams that are open.
    pub(crate) fn streams(&self) -> &OpenStreams {
        &self.0.streams
    }

    /// Tells everything under way that its time is over.
    pub(crate) fn end(&self) {
        self.0.is_over.store(true, Ordering::Release);
        // One that always has something to send does not notice otherwise that it should end.
        self.0.streams.stop();
        self.conversations().iter().for_each(|conversation| conversation.listener.wake());
        present(&self.0.tasks).iter().for_each(|listener| listener.wake());
    }

    /// A conversation that begins now.
    pub(crate) fn converse(&self, now: Timestamp) -> Arc<Conversation> {
        let conversation = Arc::new(Conversation::new(now));
        hold(&self.0.conversations).push(Arc::downgrade(&conversation));
        conversation
    }

    /// The conversations that are open.
    pub(crate) fn conversations(&self) -> Vec<Arc<Conversation>> {
        present(&self.0.conversations)
    }

    /// Work that hears what is told here whenever it waits.
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

    /// Ends what has had its time although nobody was told to stop, and forgets what is gone. To be called once a second.
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

/// Those that are still there; the others are forgotten. What is done to them is done outside the lock: what is given back
/// may be all that somebody waits for who adds another.
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

/// A task that can be woken by others.
#[derive(Default)]
pub(crate) struct Listener(Mutex<Option<Waker>>);

impl Listener {
    /// Wakes this task from now on. `last` is what it was called with before: nearly always it is the same task, and nothing
    /// is to be done.
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
