//! The clock and the timer that the client waits by.
//!
//! The only file of this crate that touches the real ones. Everything else asks a [`Timer`], so that a test can
//! let a minute pass in no time.

use seawall_core::time::Timestamp;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// A clock, and a way to wait for a moment on it.
pub trait Timer: Send + Sync + 'static {
    /// This moment.
    fn now(&self) -> Timestamp;

    /// Ends at `at` or later, never earlier. Asked for only after something had to be waited for.
    fn sleep_until(&self, at: Timestamp) -> impl Future<Output = ()> + Send + 'static;
}

/// Tokio's clock and timer. Its moments count from when it was made; clones count alike.
#[derive(Clone, Copy, Debug)]
pub struct TokioTimer {
    origin: Instant,
}

/// Stands for moments that the machine's clock cannot express: thirty years on.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

impl TokioTimer {
    /// A timer whose clock starts now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real clock")]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for TokioTimer {
    fn default() -> Self {
        Self::new()
    }
}

impl Timer for TokioTimer {
    #[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real clock")]
    fn now(&self) -> Timestamp {
        Timestamp::ZERO + Instant::now().saturating_duration_since(self.origin)
    }

    fn sleep_until(&self, at: Timestamp) -> impl Future<Output = ()> + Send + 'static {
        let at = self.origin.checked_add(at - Timestamp::ZERO).unwrap_or_else(|| self.origin + FAR);
        tokio::time::sleep_until(at)
    }
}
