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

/// Time, chance and waiting. Cloning it gives another handle to the same world.
pub trait Runtime: Clone + Send + Sync + 'static {
    /// This moment on both clocks.
    fn now(&self) -> Now;

    /// This moment on the monotonic clock alone, for who does not need the date: half as dear where each is a clock
    /// of its own.
    fn monotonic(&self) -> Timestamp {
        self.now().monotonic
    }

    /// A number nobody could foresee, or that a seed decides.
    fn draw(&self) -> Draw;

    /// Waits until this moment.
    fn sleep_until(&self, moment: Timestamp) -> impl Future<Output = ()> + Send + 'static;
}

/// The outcome of `work`, or nothing if the deadline comes first. Work that is ready at the deadline counts.
pub async fn within<T>(
    runtime: &impl Runtime,
    deadline: Deadline,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = pin!(work);
    // Most work is ready at once or long before; a timer is set up only for what has to be waited for.
    let mut timer = pin!(async { runtime.sleep_until(deadline.moment()).await });
    poll_fn(|context| {
        if let Poll::Ready(outcome) = work.as_mut().poll(context) {
            return Poll::Ready(Some(outcome));
        }
        timer.as_mut().poll(context).map(|()| None)
    })
    .await
}
