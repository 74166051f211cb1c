//! A timeout that is cheap as long as it does not fire.
//!
//! Starting a runtime timer for every wait is expensive: it takes a lock, and a timer that is due before all others
//! makes Tokio wake its driver through a system call. A [`ReusableTimer`] therefore stays armed across waits and
//! lives as long as its connection. A wait whose deadline is later than the armed time keeps the timer; if it fires
//! before that deadline, it is armed again. A busy connection arms about one timer per timeout duration, not one per request.

use seawall_core::runtime::Timer;
use seawall_core::time::Timestamp;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

/// The time after this wait. An infinite wait does not read the clock.
pub(crate) fn deadline_after(timer: &impl Timer, wait: Duration) -> Timestamp {
    if wait == Duration::MAX { Timestamp::NEVER } else { timer.monotonic() + wait }
}

/// See the module documentation.
#[derive(Default)]
pub(crate) struct ReusableTimer {
    armed: Option<ArmedTimer>,
}

struct ArmedTimer {
    at: Timestamp,
    sleep: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl ReusableTimer {
    /// Ready at `deadline`, once per deadline. Call it after the operation being waited for returned pending.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        timer: &impl Timer,
        deadline: Timestamp,
    ) -> Poll<()> {
        if deadline == Timestamp::NEVER {
            return Poll::Pending;
        }
        loop {
            match &mut self.armed {
                Some(armed) if armed.at <= deadline => {
                    ready!(armed.sleep.as_mut().poll(context));
                    let was_due = armed.at == deadline;
                    self.armed = None;
                    if was_due {
                        return Poll::Ready(());
                    }
                }
                _ => {
                    self.armed =
                        Some(ArmedTimer { at: deadline, sleep: Box::pin(timer.sleep_until(deadline)) });
                }
            }
        }
    }

    /// Drops the waker of the last task, whose memory the timer would otherwise keep alive.
    pub(crate) fn release_waker(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        if let Some(armed) = &mut self.armed
            && armed.sleep.as_mut().poll(&mut context).is_ready()
        {
            self.armed = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::deadline_after;
    use seawall_core::runtime::Timer;
    use seawall_core::time::Timestamp;
    use std::future::{Future, pending};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// A clock that counts how often it is read.
    #[derive(Clone, Default)]
    struct Watch(Arc<AtomicU64>);

    impl Timer for Watch {
        fn monotonic(&self) -> Timestamp {
            Timestamp::from_nanos(self.0.fetch_add(1, Ordering::Relaxed))
        }

        fn sleep_until(&self, _: Timestamp) -> impl Future<Output = ()> + Send + 'static {
            pending()
        }
    }

    #[test]
    fn an_infinite_wait_does_not_read_the_clock() {
        let watch = Watch::default();
        assert_eq!(deadline_after(&watch, Duration::MAX), Timestamp::NEVER);
        assert_eq!(watch.0.load(Ordering::Relaxed), 0);
        assert_eq!(deadline_after(&watch, Duration::from_nanos(7)), Timestamp::from_nanos(7));
        assert_eq!(watch.0.load(Ordering::Relaxed), 1);
    }
}
