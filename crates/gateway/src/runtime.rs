//! The real monotonic clock, wall clock and source of randomness. Nothing else in Seawall accesses them.

use seawall_core::random::{Draw, SeededRandom};
use seawall_core::runtime::{Runtime, Timer};
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_provider::http1::TokioTimer;
use std::cell::Cell;
use std::future::Future;
use std::time::{SystemTime, UNIX_EPOCH};

/// Real time and randomness. Clones share the same clock.
///
/// The monotonic clock starts at the current wall-clock time and then runs independently of it. Timestamps from before a
/// restart therefore lie in the past and remain valid.
#[derive(Clone, Copy, Debug)]
pub struct TokioRuntime(TokioTimer);

thread_local! {
    /// One generator per thread, so that drawing takes no lock.
    static RANDOM: Cell<SeededRandom> = Cell::new(SeededRandom::new(seed()));
}

impl TokioRuntime {
    /// A runtime whose clock starts now.
    #[must_use]
    pub fn new() -> Self {
        Self(TokioTimer::starting_at(Timestamp::from_nanos(wall_clock().as_nanos())))
    }

    /// The clock alone.
    #[must_use]
    pub const fn timer(&self) -> TokioTimer {
        self.0
    }
}

impl Timer for TokioRuntime {
    fn monotonic(&self) -> Timestamp {
        self.0.monotonic()
    }

    fn sleep_until(&self, moment: Timestamp) -> impl Future<Output = ()> + Send + 'static {
        self.0.sleep_until(moment)
    }
}

impl Runtime for TokioRuntime {
    fn now(&self) -> Now {
        Now::new(self.monotonic(), wall_clock())
    }

    fn draw(&self) -> Draw {
        RANDOM.with(|random| {
            let mut generator = random.get();
            let draw = generator.draw();
            random.set(generator);
            draw
        })
    }
}

impl Default for TokioRuntime {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real clock")]
fn wall_clock() -> UtcTime {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UtcTime::from_nanos(0) + since_epoch
}

#[expect(clippy::disallowed_methods, reason = "this is the one real source of randomness")]
fn seed() -> u64 {
    let mut bytes = [0; 8];
    // If the kernel has no randomness, a fixed seed remains: retries are spread less well, and nothing else depends on
    // it.
    let _ = getrandom::fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}
