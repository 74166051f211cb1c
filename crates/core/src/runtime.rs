//! The runtime interface of code that waits: clock, random source and timer.
//!
//! The gateway passes in the real ones and the simulator its virtual ones, so that the same code runs in both.

use crate::deadline::Deadline;
use crate::random::Draw;
use crate::time::{Now, Timestamp};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// A monotonic clock and a timer on it. Clones share the same clock.
pub trait Timer: Clone + Send + Sync + 'static {
    /// The current time.
    fn monotonic(&self) -> Timestamp;

    /// Completes at `moment` or later, never earlier.
    fn sleep_until(&self, moment: Timestamp) -> impl Future<Output = ()> + Send + 'static;
}

/// Clocks, random source and timer. Clones are handles to the same runtime.
pub trait Runtime: Timer {
    /// The current time on both clocks. Code that does not need the date should read only the monotonic clock: where
    /// the two are separate clocks, that costs half as much.
    fn now(&self) -> Now;

    /// A random number: unpredictable, or determined by a seed.
    fn draw(&self) -> Draw;
}

/// The output of `work`, or `None` if the deadline comes first. Work that is ready at the deadline counts.
pub async fn timeout_at<T>(
    timer: &impl Timer,
    deadline: Deadline,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = pin!(work);
    // Most work is ready at once or long before the deadline, so the timer is created only if there is something to
    // wait for.
    let mut alarm = pin!(async { timer.sleep_until(deadline.moment()).await });
    poll_fn(|context| {
        if let Poll::Ready(outcome) = work.as_mut().poll(context) {
            return Poll::Ready(Some(outcome));
        }
        alarm.as_mut().poll(context).map(|()| None)
    })
    .await
}

/// Yields once, so that all tasks that are ready on this thread run first.
pub async fn yield_now() {
    let mut has_waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
