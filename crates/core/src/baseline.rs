//! The usual latency of one target: quantiles of a duration over the last hour.
//!
//! A fixed limit cannot distinguish a slow answer from that of a model that is reasoning. A [`Baseline`] measures how
//! long a target usually takes, in four slices of a quarter of an hour, each a histogram of fixed size. A quantile is
//! accurate to within an eighth. It is recomputed when a sixteenth of the samples is new, so that reading it costs
//! nothing.
//!
//! **What it does not do.** It returns nothing before it has as many samples as the reader requires.

use crate::histogram::{BUCKETS, bucket_of, end_of};
use crate::time::Timestamp;
use std::time::Duration;

const SLICES: usize = 4;
const SLICE: Duration = Duration::from_secs(15 * 60);

/// Quantiles are recomputed when one in this many samples is new.
const REFRESH: u64 = 16;

/// The durations of the last hour.
///
/// ```
/// use seawall_core::baseline::Baseline;
/// use seawall_core::time::Timestamp;
/// use std::time::Duration;
///
/// let mut baseline = Baseline::new();
/// for _ in 0..50 {
///     baseline.record(Duration::from_millis(400), Timestamp::ZERO);
/// }
/// assert_eq!(baseline.p50(51), None);
/// let usual = baseline.p50(50).unwrap();
/// assert!(Duration::from_millis(400) <= usual && usual <= Duration::from_millis(450));
/// ```
#[derive(Clone, Debug)]
pub struct Baseline {
    slices: Box<[[u32; BUCKETS]; SLICES]>,
    /// The index of the newest slice, counted from the clock's origin.
    newest: u64,
    count: u64,
    new_samples: u64,
    p50: Duration,
    p99: Duration,
}

impl Baseline {
    /// Creates a baseline without samples.
    #[must_use]
    pub fn new() -> Self {
        Self {
            slices: Box::new([[0; BUCKETS]; SLICES]),
            newest: 0,
            count: 0,
            new_samples: 0,
            p50: Duration::ZERO,
            p99: Duration::ZERO,
        }
    }

    /// Records one sample.
    pub fn record(&mut self, duration: Duration, now: Timestamp) {
        let forgot = self.advance(now);
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let cell = &mut self.slices[index(self.newest)][bucket_of(micros)];
        *cell = cell.saturating_add(1);
        self.count += 1;
        self.new_samples += 1;
        if forgot || self.new_samples * REFRESH >= self.count {
            self.refresh();
        }
    }

    /// The median; `None` with fewer than `min_samples` samples.
    #[must_use]
    pub fn p50(&self, min_samples: u64) -> Option<Duration> {
        (self.count >= min_samples.max(1)).then_some(self.p50)
    }

    /// The p99; `None` with fewer than `min_samples` samples.
    #[must_use]
    pub fn p99(&self, min_samples: u64) -> Option<Duration> {
        (self.count >= min_samples.max(1)).then_some(self.p99)
    }

    /// Drops samples that are more than an hour old; returns whether there were any.
    fn advance(&mut self, now: Timestamp) -> bool {
        let current = (now.as_nanos() / u64::try_from(SLICE.as_nanos()).unwrap_or(u64::MAX)).max(self.newest);
        let before = self.count;
        for back in 0..(current - self.newest).min(SLICES as u64) {
            let slice = &mut self.slices[index(current - back)];
            self.count -= slice.iter().map(|count| u64::from(*count)).sum::<u64>();
            *slice = [0; BUCKETS];
        }
        self.newest = current;
        self.count < before
    }

    fn refresh(&mut self) {
        self.new_samples = 0;
        let p50_rank = self.count.div_ceil(2);
        let p99_rank = self.count - self.count / 100;
        let mut cumulative = 0;
        let mut p50 = None;
        for bucket in 0..BUCKETS {
            cumulative += self.slices.iter().map(|slice| u64::from(slice[bucket])).sum::<u64>();
            if cumulative >= p50_rank {
                p50.get_or_insert(bucket);
            }
            if cumulative >= p99_rank {
                self.p99 = Duration::from_micros(end_of(bucket));
                break;
            }
        }
        self.p50 = Duration::from_micros(end_of(p50.unwrap_or(0)));
    }
}

impl Default for Baseline {
    fn default() -> Self {
        Self::new()
    }
}

fn index(slice: u64) -> usize {
    usize::try_from(slice % SLICES as u64).unwrap_or(0)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::Baseline;
    use crate::time::Timestamp;
    use proptest::collection::vec;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use std::time::Duration;

    const QUARTER: u64 = 15 * 60 * 1_000;

    proptest! {
        #[test]
        fn quantiles_are_those_of_a_list_of_the_last_hour(samples in vec((1_u64..100_000, 0_u64..400_000), 1..120)) {
            let mut baseline = Baseline::new();
            let (mut now, mut all) = (0, Vec::new());
            for (millis, wait) in samples {
                now += wait;
                baseline.record(Duration::from_millis(millis), Timestamp::ZERO + Duration::from_millis(now));
                all.push((now, millis));
                let mut recent: Vec<u64> =
                    all.iter().filter(|(when, _)| when / QUARTER + 4 > now / QUARTER).map(|(_, millis)| *millis).collect();
                recent.sort_unstable();
                let count = recent.len() as u64;
                prop_assert_eq!(baseline.p50(count + 1), None);
                // Up to sixteen samples, the quantiles are recomputed with every sample.
                if count <= 16 {
                    let near = |found: Option<Duration>, exact: u64| {
                        let found = u64::try_from(found.unwrap().as_micros()).unwrap();
                        exact * 1_000 <= found && found <= exact * 1_125 + 1
                    };
                    prop_assert!(near(baseline.p50(count), recent[(recent.len() - 1) / 2]));
                    prop_assert!(near(baseline.p99(count), recent[recent.len() - 1]));
                }
            }
        }
    }

    #[test]
    fn an_hour_later_nothing_is_left_of_it() {
        let mut baseline = Baseline::new();
        (0..100).for_each(|_| baseline.record(Duration::from_secs(9), Timestamp::ZERO));
        baseline.record(Duration::from_secs(1), Timestamp::ZERO + Duration::from_secs(3_600));
        assert!(baseline.p99(1).is_some_and(|p99| p99 < Duration::from_secs(2)));
        assert_eq!(baseline.p50(2), None);
    }
}
