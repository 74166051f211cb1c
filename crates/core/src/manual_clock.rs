//! A clock for tests of code that waits.

use crate::random::Draw;
use crate::runtime::{Runtime, Timer};
use crate::time::{Now, Timestamp, UtcTime};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that advances only through `advance`; its timers never fire.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, time: Duration) {
        self.0.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Timer for ManualClock {
    fn monotonic(&self) -> Timestamp {
        Timestamp::ZERO + Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, _: Timestamp) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }
}

impl Runtime for ManualClock {
    fn now(&self) -> Now {
        Now::new(self.monotonic(), UtcTime::default())
    }

    fn draw(&self) -> Draw {
        Draw::LOWEST
    }
}
