//! The one place of this crate that reads the clock and waits.
#![expect(
    clippy::disallowed_methods,
    reason = "a server at a real socket lives in real time; scripts are made of offsets"
)]

use seawall_core::handle::Timer;
use seawall_core::time::Timestamp;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// Real time, counted from when it was made; clones count alike.
#[derive(Clone, Copy, Debug)]
pub struct ServerTimer {
    origin: Instant,
}

impl ServerTimer {
    /// A clock that starts now.
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

/// Moments beyond this are never reached: thirty years on.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

impl Timer for ServerTimer {
    fn monotonic(&self) -> Timestamp {
        Timestamp::ZERO + self.origin.elapsed()
    }

    fn sleep_until(&self, moment: Timestamp) -> impl Future<Output = ()> + Send + 'static {
        let moment = self.origin.checked_add((moment - Timestamp::ZERO).min(FAR)).unwrap_or(self.origin);
        tokio::time::sleep_until(moment)
    }
}

pub(super) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}
