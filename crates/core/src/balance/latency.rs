//! The latency of a target as a moving average that follows peaks at once.

use crate::time::{Timestamp, nanos};
use std::time::Duration;

/// The time constant of the average: a sample has lost 63 % of its weight after it.
const DECAY: Duration = Duration::from_secs(10);

/// A moving average of latencies that jumps up to a higher sample and then decays (peak EWMA, as in Finagle).
///
/// A target that becomes slow is recognised with its first slow call. One that is not called decays towards zero, so that it
/// is tried again.
///
/// ```
/// use seawall_core::balance::PeakEwma;
/// use seawall_core::time::Timestamp;
/// use std::time::Duration;
///
/// let (mut latency, now) = (PeakEwma::default(), Timestamp::ZERO);
/// latency.record(Duration::from_millis(100), now);
/// latency.record(Duration::from_millis(900), now);
/// assert_eq!(latency.value(now), Duration::from_millis(900));
/// assert!(latency.value(now + Duration::from_secs(30)) < Duration::from_millis(50));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PeakEwma {
    nanos: f64,
    at: Timestamp,
}

impl PeakEwma {
    /// Records one latency.
    #[expect(clippy::cast_precision_loss, reason = "a nanosecond in months does not matter")]
    pub fn record(&mut self, latency: Duration, now: Timestamp) {
        let sample = nanos(latency) as f64;
        let kept = self.kept(now);
        self.nanos = sample.max(self.nanos * kept + sample * (1.0 - kept));
        self.at = self.at.max(now);
    }

    /// The average now.
    #[must_use]
    pub fn value(&self, now: Timestamp) -> Duration {
        Duration::try_from_secs_f64(self.nanos * self.kept(now) / 1e9).unwrap_or(Duration::MAX)
    }

    /// The share of the weight that earlier samples still have.
    fn kept(&self, now: Timestamp) -> f64 {
        (-(now - self.at).as_secs_f64() / DECAY.as_secs_f64()).exp()
    }
}
