//! A lock-free latency histogram with fixed memory.
//!
//! Eight buckets per doubling, from a microsecond to over an hour: a quantile is accurate to within an eighth, and
//! recording is two additions. A list of latencies would grow without bound; this does not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PER_DOUBLING: u64 = 8;
pub(crate) const BUCKETS: usize = 256;

/// A histogram of durations.
///
/// ```
/// use seawall_core::histogram::Histogram;
/// use std::time::Duration;
///
/// let histogram = Histogram::new();
/// for millis in 1..=100 {
///     histogram.record(Duration::from_millis(millis));
/// }
/// assert_eq!(histogram.mean(), Some(Duration::from_micros(50_500)));
/// let median = histogram.quantile(0.5).unwrap();
/// assert!(Duration::from_millis(50) <= median && median <= Duration::from_millis(57));
/// ```
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    micros: AtomicU64,
}

impl Histogram {
    /// Creates an empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), micros: AtomicU64::new(0) }
    }

    /// Records one duration.
    pub fn record(&self, duration: Duration) {
        // Clamped, because a single duration beyond the last bucket would distort the mean permanently.
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).min(end_of(BUCKETS - 1));
        self.buckets[bucket_of(micros)].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// The number of recorded durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// The mean, to a microsecond.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let micros = self.micros.load(Ordering::Relaxed);
        micros.checked_div(self.count()).map(Duration::from_micros)
    }

    /// The duration that this share of all does not exceed, rounded up to the end of its bucket.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return None;
        }
        // Slightly less, so that 0.29 of 100, which is not exactly 29 in binary, does not select the thirtieth.
        let rank = (share.clamp(0.0, 1.0) * total as f64 * (1.0 - 1e-12)).ceil().max(1.0);
        let mut cumulative = 0;
        let bucket = counts.iter().position(|count| {
            cumulative += count;
            cumulative as f64 >= rank
        });
        bucket.map(|bucket| Duration::from_micros(end_of(bucket)))
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// The first eight buckets hold one microsecond each; from there, each doubling is divided into eight.
pub(crate) fn bucket_of(micros: u64) -> usize {
    let bucket = if micros < PER_DOUBLING {
        micros
    } else {
        let doubling = u64::from(micros.ilog2()) - 3;
        (doubling + 1) * PER_DOUBLING + ((micros >> doubling) - PER_DOUBLING)
    };
    usize::try_from(bucket).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

/// The longest duration, in microseconds, that falls into this bucket.
pub(crate) fn end_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PER_DOUBLING {
        return bucket;
    }
    let doubling = bucket / PER_DOUBLING - 1;
    ((bucket % PER_DOUBLING + PER_DOUBLING + 1) << doubling) - 1
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{BUCKETS, Histogram, bucket_of, end_of};
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use std::time::Duration;

    #[test]
    fn buckets_follow_one_another_without_gap() {
        for bucket in 0..BUCKETS - 1 {
            assert_eq!(bucket_of(end_of(bucket)), bucket);
            assert_eq!(bucket_of(end_of(bucket) + 1), bucket + 1);
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert!(end_of(BUCKETS - 1) > 3_600_000_000);
        assert_eq!([0, 7, 8, 15, 16, 17].map(bucket_of), [0, 7, 8, 15, 16, 16]);
    }

    #[test]
    fn nothing_recorded_has_no_mean_and_no_quantile() {
        let histogram = Histogram::default();
        assert_eq!((histogram.count(), histogram.mean(), histogram.quantile(0.5)), (0, None, None));
        histogram.record(Duration::from_micros(3));
        assert_eq!((histogram.count(), histogram.mean()), (1, Some(Duration::from_micros(3))));
        for share in [-1.0, 0.0, 0.5, 1.0, 2.0] {
            assert_eq!(histogram.quantile(share), Some(Duration::from_micros(3)));
        }
        let longest = Histogram::new();
        longest.record(Duration::MAX);
        longest.record(Duration::from_micros(2));
        assert!(longest.mean().unwrap() > Duration::from_secs(600));
        histogram.record(Duration::from_micros(7));
        assert_eq!(histogram.quantile(0.5), Some(Duration::from_micros(3)));
        assert_eq!(histogram.quantile(0.51), Some(Duration::from_micros(7)));
    }

    proptest! {
        #[test]
        fn a_quantile_is_right_to_within_an_eighth(values in proptest::collection::vec(0_u64..10_000_000, 1..200), percent in 1_usize..=100) {
            let histogram = Histogram::new();
            for value in &values {
                histogram.record(Duration::from_micros(*value));
            }
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let exact = sorted[(percent * sorted.len()).div_ceil(100) - 1];
            let found = u64::try_from(histogram.quantile(percent as f64 / 100.0).unwrap().as_micros()).unwrap();
            prop_assert!(exact <= found && found <= exact + exact / 8 + 1, "{exact} {found}");
            prop_assert_eq!(histogram.count(), values.len() as u64);
        }
    }
}
