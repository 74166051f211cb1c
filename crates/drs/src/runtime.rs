//! The real clock, timer and source of randomness, for programs that have none of their own to pass in.

use seawall_core::random::{Draw, SeededRandom};
use seawall_core::runtime::{Runtime, Timer};
use seawall_core::time::{Now, Timestamp, UtcTime};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Longer sleeps end after thirty years.
const MAX_SLEEP: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Real time on Tokio's timer, and real randomness. Clones share the clock.
///
/// The monotonic clock starts at zero when the runtime is created.
#[derive(Clone, Debug)]
pub struct SystemRuntime {
    origin: Instant,
    random: Arc<Mutex<SeededRandom>>,
}

impl SystemRuntime {
    /// A runtime whose clock starts now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real clock")]
    pub fn new() -> Self {
        Self { origin: Instant::now(), random: Arc::new(Mutex::new(SeededRandom::new(seed()))) }
    }
}

impl Default for SystemRuntime {
    fn default() -> Self {
        Self::new()
    }
}

impl Timer for SystemRuntime {
    #[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real clock")]
    fn monotonic(&self) -> Timestamp {
        Timestamp::ZERO + Instant::now().saturating_duration_since(self.origin)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real timer")]
    fn sleep_until(&self, moment: Timestamp) -> impl Future<Output = ()> + Send + 'static {
        let wait = (moment - Timestamp::ZERO).min(MAX_SLEEP);
        tokio::time::sleep_until(self.origin.checked_add(wait).unwrap_or(self.origin))
    }
}

impl Runtime for SystemRuntime {
    #[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real clock")]
    fn now(&self) -> Now {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now::new(self.monotonic(), UtcTime::from_nanos(0) + since_epoch)
    }

    fn draw(&self) -> Draw {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).draw()
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real source of randomness")]
fn seed() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness from the kernel a fixed seed remains: retries are spread less well, and ids of calls repeat.
    let _ = getrandom::fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}
