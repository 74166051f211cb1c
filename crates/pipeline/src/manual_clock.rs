//! A manual clock for tests.

use seawall_core::random::Draw;
use seawall_core::runtime::{Runtime, Timer};
use seawall_core::time::{Now, Timestamp, UtcTime};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that advances only through `advance`; its timers never fire.
#[derive(Clone, Default)]
pub(crate) struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    pub(crate) fn advance(&self, time: Duration) {
        self.0.fetch_add(u64::try_from(time.as_nanos()).unwrap(), Ordering::Relaxed);
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
