//! The real clock and timer, with a configurable clock skew.

use seawall_core::random::{Draw, SeededRandom};
use seawall_core::runtime::{Runtime, Timer};
use seawall_core::time::{Now, Timestamp, UtcTime};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

#[derive(Clone)]
pub(crate) struct World {
    origin: Instant,
    /// The skew of this node's clocks, in milliseconds.
    skew: i64,
    chance: Arc<Mutex<SeededRandom>>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_skew(0)
    }

    #[expect(clippy::disallowed_methods, reason = "tests against real servers need the real clock")]
    pub(crate) fn with_skew(skew: i64) -> Self {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let chance = SeededRandom::new(u64::try_from(seed % u128::from(u64::MAX)).unwrap());
        Self { origin: Instant::now(), skew, chance: Arc::new(Mutex::new(chance)) }
    }

    pub(crate) async fn sleep(&self, span: Duration) {
        self.sleep_until(self.monotonic() + span).await;
    }
}

/// An offset, so that a clock that is behind does not start below zero.
const BASE: Duration = Duration::from_secs(1_000);

fn skewed(moment: Duration, skew: i64) -> Duration {
    let by = Duration::from_millis(skew.unsigned_abs());
    if skew < 0 { moment.saturating_sub(by) } else { moment + by }
}

impl Runtime for World {
    #[expect(clippy::disallowed_methods, reason = "tests against real servers need the real clock")]
    fn now(&self) -> Now {
        let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Now::new(self.monotonic(), UtcTime::from_nanos(0) + skewed(utc, self.skew))
    }

    fn draw(&self) -> Draw {
        self.chance.lock().unwrap().draw()
    }
}

impl Timer for World {
    #[expect(clippy::disallowed_methods, reason = "tests against real servers need the real clock")]
    fn monotonic(&self) -> Timestamp {
        Timestamp::ZERO + skewed(BASE + (Instant::now() - self.origin), self.skew)
    }

    #[expect(clippy::disallowed_methods, reason = "tests against real servers need the real timer")]
    fn sleep_until(&self, moment: Timestamp) -> impl Future<Output = ()> + Send + 'static {
        let base = skewed(BASE, self.skew);
        tokio::time::sleep_until(self.origin + (moment - Timestamp::ZERO).saturating_sub(base))
    }
}
