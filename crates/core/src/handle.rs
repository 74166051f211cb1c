//! What code that waits needs of the world it runs in.
//!
//! A clock, chance and a timer, as one handle. The gateway hands in the real ones, the simulator its virtual ones; nothing
//! in between can tell the difference.

use crate::chance::Draw;
use crate::deadline::Deadline;
use crate::time::{Now, Timestamp};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// A clock that never goes back, and a way to wait for a moment on it. Clones count alike.
pub trait Timer: Clone + Send + Sync + 'static {
    /// This moment.
    fn monotonic(&self) -> Timestamp;

    /// Ends at this moment or later, never earlier.
    fn sleep_until(&self, moment: Timestamp) -> impl Future<Output = ()> + Send + 'static;
}

/// Time, the date, chance and waiting. Cloning it gives another handle to the same world.
pub trait Runtime: Timer {
    /// This moment on both clocks. Who does not need the date asks for the monotonic clock alone, which is half as dear
    /// where each is a clock of its own.
    fn now(&self) -> Now;

    /// A number nobody could foresee, or that a seed decides.
    fn draw(&self) -> Draw;
}

/// The outcome of `work`, or nothing if the deadline comes first. Work that is ready at the deadline counts.
pub async fn within<T>(timer: &impl Timer, deadline: Deadline, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    // Most work is ready at once or long before; a timer is set up only for what has to be waited for.
    let mut alarm = pin!(async { timer.sleep_until(deadline.moment()).await });
    poll_fn(|context| {
        if let Poll::Ready(outcome) = work.as_mut().poll(context) {
            return Poll::Ready(Some(outcome));
        }
        alarm.as_mut().poll(context).map(|()| None)
    })
    .await
}

/// Lets everything that is ready on this thread have its turn first, once.
pub async fn after_you() {
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
