//! Measurement: what happened in the last while. Says nothing about what to do.

use crate::failure::Health;
use crate::time::{Timestamp, nanos};
use std::ops::{AddAssign, SubAssign};
use std::time::Duration;

const SLICES: usize = 10;

/// Calls in a span of time, by how they went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// All that said something about health.
    pub calls: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that were slow, whether they answered or were cut.
    pub slow: u64,
}

impl CallCounts {
    pub(super) fn count(&mut self, health: Health) {
        let (failed, slow) = match health {
            Health::Unknown => return,
            Health::Good => (0, 0),
            Health::Slow | Health::Cut => (0, 1),
            Health::Bad => (1, 0),
        };
        *self += Self { calls: 1, failed, slow };
    }
}

impl AddAssign for CallCounts {
    fn add_assign(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.failed = self.failed.saturating_add(other.failed);
        self.slow = self.slow.saturating_add(other.slow);
    }
}

impl SubAssign for CallCounts {
    fn sub_assign(&mut self, other: Self) {
        self.calls = self.calls.saturating_sub(other.calls);
        self.failed = self.failed.saturating_sub(other.failed);
        self.slow = self.slow.saturating_sub(other.slow);
    }
}

/// A ring of ten slices with exact counts. A slice leaves whole when it is a window old, so the ring looks
/// back between nine and ten tenths of the window.
#[derive(Clone, Debug)]
pub(super) struct HealthWindow {
    slice_nanos: u64,
    /// The number of the newest slice since the clock's origin.
    newest: u64,
    slices: [CallCounts; SLICES],
    total: CallCounts,
}

impl HealthWindow {
    pub(super) fn new(window: Duration) -> Self {
        let slice_nanos = (nanos(window) / SLICES as u64).max(1);
        Self { slice_nanos, newest: 0, slices: Default::default(), total: CallCounts::default() }
    }

    pub(super) fn record(&mut self, health: Health, now: Timestamp) {
        self.advance(now);
        let mut one = CallCounts::default();
        one.count(health);
        self.slices[Self::index(self.newest)] += one;
        self.total += one;
    }

    /// The counts of the window that ends now. Takes `&mut self` only to forget what has left it.
    pub(super) fn counts(&mut self, now: Timestamp) -> CallCounts {
        self.advance(now);
        self.total
    }

    pub(super) fn clear(&mut self) {
        self.slices = Default::default();
        self.total = CallCounts::default();
    }

    fn advance(&mut self, now: Timestamp) {
        // A moment before the newest slice, from a thread that read its clock earlier, belongs to the newest.
        let current = (now.as_nanos() / self.slice_nanos).max(self.newest);
        let steps = (current - self.newest).min(SLICES as u64);
        self.newest = current;
        for back in 0..steps {
            let slice = &mut self.slices[Self::index(current - back)];
            self.total -= *slice;
            *slice = CallCounts::default();
        }
    }

    fn index(slice: u64) -> usize {
        usize::try_from(slice % SLICES as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{CallCounts, HealthWindow};
    use crate::failure::Health;
    use crate::time::Timestamp;
    use proptest::collection::vec;
    use proptest::prelude::{prop_assert_eq, proptest};
    use std::time::Duration;

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_slice_leaves_whole_when_it_is_a_window_old() {
        let mut window = HealthWindow::new(Duration::from_secs(10));
        window.record(Health::Bad, at(500));
        window.record(Health::Good, at(1_000));
        assert_eq!(window.counts(at(9_999)), CallCounts { calls: 2, failed: 1, slow: 0 });
        assert_eq!(window.counts(at(10_000)), CallCounts { calls: 1, failed: 0, slow: 0 });
        assert_eq!(window.counts(at(11_000)), CallCounts::default());
    }

    #[test]
    fn each_health_counts_as_what_it_is() {
        let mut window = HealthWindow::new(Duration::from_secs(10));
        for health in [Health::Good, Health::Slow, Health::Cut, Health::Bad, Health::Unknown] {
            window.record(health, at(0));
        }
        assert_eq!(window.counts(at(0)), CallCounts { calls: 4, failed: 1, slow: 2 });
        window.clear();
        assert_eq!(window.counts(at(0)), CallCounts::default());
    }

    #[test]
    fn an_earlier_moment_counts_in_the_newest_slice() {
        let mut window = HealthWindow::new(Duration::from_secs(10));
        window.record(Health::Bad, at(9_000));
        window.record(Health::Bad, at(1_000));
        assert_eq!(window.counts(at(18_999)).failed, 2);
        assert_eq!(window.counts(at(19_000)).failed, 0);
    }

    proptest! {
        #[test]
        fn the_ring_equals_a_list_of_all_calls(
            steps in vec((0_u64..3_000, 0_usize..5), 1..120),
        ) {
            let kinds = [Health::Good, Health::Slow, Health::Cut, Health::Bad, Health::Unknown];
            let mut window = HealthWindow::new(Duration::from_secs(10));
            let mut calls: Vec<(u64, Health)> = Vec::new();
            let mut now = 0;
            for (wait, kind) in steps {
                now += wait;
                window.record(kinds[kind], at(now));
                calls.push((now, kinds[kind]));
                let mut naive = CallCounts::default();
                for (when, health) in &calls {
                    if when / 1_000 + 10 > now / 1_000 {
                        naive.count(*health);
                    }
                }
                prop_assert_eq!(window.counts(at(now)), naive);
            }
        }
    }
}
