//! Blocking on futures.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Blocks this thread on a future. A store that needs a runtime brings its own.
pub(crate) trait Drive: Sync {
    /// Returns the output of the future.
    fn drive<T>(&self, work: impl Future<Output = T>) -> T;
}

/// For stores that need no runtime: the thread parks until it is woken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parked;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Drive for Parked {
    fn drive<T>(&self, work: impl Future<Output = T>) -> T {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut work = pin!(work);
        loop {
            match work.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(outcome) => return outcome,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}
