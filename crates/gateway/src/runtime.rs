//! The real date and the real chance, beside the real clock. Nothing else in Seawall touches them.

use seawall_core::chance::{Draw, SeededChance};
use seawall_core::handle::{Runtime, Timer};
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_provider::http1::TokioTimer;
use std::cell::Cell;
use std::future::Future;
use std::time::{SystemTime, UNIX_EPOCH};

/// Clones count alike.
///
/// Its clock starts at the time of the calendar and then goes its own way: what was counted before a restart lies behind the
/// start, and has a place there.
#[derive(Clone, Copy, Debug)]
pub struct TokioRuntime(TokioTimer);

thread_local! {
    /// Each thread draws by itself, so that drawing costs no lock.
    static CHANCE: Cell<SeededChance> = Cell::new(SeededChance::new(seed()));
}

impl TokioRuntime {
    /// A clock that starts now.
    #[must_use]
    pub fn new() -> Self {
        Self(TokioTimer::starting_at(Timestamp::from_nanos(calendar().as_nanos())))
    }

    /// Its clock, for who needs no more.
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
        Now::new(self.monotonic(), calendar())
    }

    fn draw(&self) -> Draw {
        CHANCE.with(|chance| {
            let mut own = chance.get();
            let draw = own.draw();
            chance.set(own);
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
fn calendar() -> UtcTime {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UtcTime::from_nanos(0) + since_epoch
}

#[expect(clippy::disallowed_methods, reason = "this is the one real source of chance")]
fn seed() -> u64 {
    let mut bytes = [0; 8];
    // Without the kernel's chance a fixed seed is left: retries then spread less well, and nothing else depends on it.
    let _ = getrandom::fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}
