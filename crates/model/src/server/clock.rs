//! The only module of this crate that reads the clock and sleeps.
#![expect(
    clippy::disallowed_methods,
    reason = "a server at a real socket lives in real time; scripts are made of offsets"
)]

use seawall_core::runtime::Timer;
use seawall_core::time::Timestamp;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// Real time since construction; clones share the same origin.
#[derive(Clone, Copy, Debug)]
pub struct ServerTimer {
    origin: Instant,
}

impl ServerTimer {
    /// Creates a clock that starts now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for ServerTimer {
    fn default() -> Self {
        Self::new()
    }
}

/// Cap on timers, thirty years: a later moment is never reached anyway.
const MAX_SLEEP: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

impl Timer for ServerTimer {
    fn monotonic(&self) -> Timestamp {
        Timestamp::ZERO + self.origin.elapsed()
    }

    fn sleep_until(&self, moment: Timestamp) -> impl Future<Output = ()> + Send + 'static {
        let moment =
            self.origin.checked_add((moment - Timestamp::ZERO).min(MAX_SLEEP)).unwrap_or(self.origin);
        tokio::time::sleep_until(moment)
    }
}

pub(super) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}
