//! The real clock, the real chance and the real timer. Nothing else in Seawall touches them.

use seawall_core::chance::{Draw, SeededChance};
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_pipeline::Runtime;
use std::cell::Cell;
use std::future::Future;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Time counts from when it was made; clones count alike.
#[derive(Clone, Copy, Debug)]
pub struct TokioRuntime {
    origin: Instant,
}

thread_local! {
    /// Each thread draws by itself, so that drawing costs no lock.
    static CHANCE: Cell<SeededChance> = Cell::new(SeededChance::new(seed()));
}

/// Moments beyond this are never reached: thirty years on.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

impl TokioRuntime {
    /// A clock that starts now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real clock")]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for TokioRuntime {
    fn default() -> Self {
        Self::new()
    }
}

impl Runtime for TokioRuntime {
    #[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real clock")]
    fn now(&self) -> Now {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now::new(self.monotonic(), UtcTime::from_nanos(0) + since_epoch)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real clock")]
    fn monotonic(&self) -> Timestamp {
        Timestamp::ZERO + Instant::now().saturating_duration_since(self.origin)
    }

    fn draw(&self) -> Draw {
        CHANCE.with(|chance| {
            let mut own = chance.get();
            let draw = own.draw();
            chance.set(own);
            draw
        })
    }

    fn sleep_until(&self, moment: Timestamp) -> impl Future<Output = ()> + Send + 'static {
        let since = moment - Timestamp::ZERO;
        let at = self.origin.checked_add(since.min(FAR)).unwrap_or(self.origin);
        tokio::time::sleep_until(at)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one real source of chance")]
fn seed() -> u64 {
    let mut bytes = [0; 8];
    // Without the kernel's chance a fixed seed is left: retries then spread less well, and nothing else depends on it.
    let _ = getrandom::fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}
