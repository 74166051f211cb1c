//! The clock and timers of the client.
//!
//! This is the only file that uses the real ones. All other code uses a [`Timer`], so that a test can advance time at
//! will.

use seawall_core::runtime::Timer;
use seawall_core::time::Timestamp;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// Tokio's clock and timers; clones share the origin.
#[derive(Clone, Copy, Debug)]
pub struct TokioTimer {
    origin: Instant,
    /// The clock's value at its origin.
    start: Timestamp,
}

/// Times beyond this are never reached: thirty years.
const MAX_SLEEP: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

impl TokioTimer {
    /// A timer whose clock starts now at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::starting_at(Timestamp::ZERO)
    }

    /// A timer whose clock starts now at this value.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real clock")]
    pub fn starting_at(start: Timestamp) -> Self {
        Self { origin: Instant::now(), start }
    }
}

impl Default for TokioTimer {
    fn default() -> Self {
        Self::new()
    }
}

impl Timer for TokioTimer {
    #[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real clock")]
    fn monotonic(&self) -> Timestamp {
        self.start + Instant::now().saturating_duration_since(self.origin)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real timer")]
    fn sleep_until(&self, at: Timestamp) -> impl Future<Output = ()> + Send + 'static {
        let at = self.origin.checked_add((at - self.start).min(MAX_SLEEP)).unwrap_or(self.origin);
        tokio::time::sleep_until(at)
    }
}
