//! The clock and the timer that the client waits by.
//!
//! The only file that touches the real ones. Everything else asks a [`Timer`], so that a test can let a minute pass in no
//! time.

use seawall_core::handle::Timer;
use seawall_core::time::Timestamp;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// Tokio's clock and timer; clones count alike.
#[derive(Clone, Copy, Debug)]
pub struct TokioTimer {
    origin: Instant,
    /// What the clock showed then.
    first: Timestamp,
}

/// Moments beyond this are never reached: thirty years on.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

impl TokioTimer {
    /// A timer whose clock starts now, at its origin.
    #[must_use]
    pub fn new() -> Self {
        Self::starting_at(Timestamp::ZERO)
    }

    /// A timer whose clock starts now and shows this.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real clock")]
    pub fn starting_at(first: Timestamp) -> Self {
        Self { origin: Instant::now(), first }
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
        self.first + Instant::now().saturating_duration_since(self.origin)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real timer")]
    fn sleep_until(&self, at: Timestamp) -> impl Future<Output = ()> + Send + 'static {
        let at = self.origin.checked_add((at - self.first).min(FAR)).unwrap_or(self.origin);
        tokio::time::sleep_until(at)
    }
}
