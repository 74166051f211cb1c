//! The sliding window of call results. It measures; the decisions are in `machine`.

use crate::failure::Health;
use crate::time::{Timestamp, nanos};
use std::ops::{AddAssign, SubAssign};
use std::time::Duration;

const SLICES: usize = 10;

/// Calls in a window, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Calls whose outcome is evidence of the target's health.
    pub calls: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Streaming calls that were slow, whether they were answered or cut off.
    pub slow: u64,
    /// Slow calls that we cut off before their first content.
    pub timed_out: u64,
    /// Non-streaming answers. They have no time to first content, so they are judged by total time.
    pub unstreamed: u64,
    /// Non-streaming answers that were slow.
    pub unstreamed_slow: u64,
}

impl CallCounts {
    pub(super) fn count(&mut self, health: Health, is_unstreamed: bool) {
        let (failed, slow, timed_out) = match health {
            Health::Unknown => return,
            Health::Good => (0, 0, 0),
            Health::Slow => (0, 1, 0),
            Health::TimedOut => (0, 1, 1),
            Health::Bad => (1, 0, 0),
        };
        *self += if is_unstreamed {
            Self { calls: 1, failed, unstreamed: 1, unstreamed_slow: slow, ..Self::default() }
        } else {
            Self { calls: 1, failed, slow, timed_out, ..Self::default() }
        };
    }

    /// Calls that are judged by their time to first content.
    pub(super) const fn streams(&self) -> u64 {
        self.calls.saturating_sub(self.unstreamed)
    }
}

impl AddAssign for CallCounts {
    fn add_assign(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.failed = self.failed.saturating_add(other.failed);
        self.slow = self.slow.saturating_add(other.slow);
        self.timed_out = self.timed_out.saturating_add(other.timed_out);
        self.unstreamed = self.unstreamed.saturating_add(other.unstreamed);
        self.unstreamed_slow = self.unstreamed_slow.saturating_add(other.unstreamed_slow);
    }
}

impl SubAssign for CallCounts {
    fn sub_assign(&mut self, other: Self) {
        self.calls = self.calls.saturating_sub(other.calls);
        self.failed = self.failed.saturating_sub(other.failed);
        self.slow = self.slow.saturating_sub(other.slow);
        self.timed_out = self.timed_out.saturating_sub(other.timed_out);
        self.unstreamed = self.unstreamed.saturating_sub(other.unstreamed);
        self.unstreamed_slow = self.unstreamed_slow.saturating_sub(other.unstreamed_slow);
    }
}

/// A sliding window as a ring of ten slices with exact counts. A slice expires as a whole when it is a window old, so
/// the ring covers between nine and ten tenths of the window.
#[derive(Clone, Debug)]
pub(super) struct HealthWindow {
    slice_nanos: u64,
    /// The index of the newest slice, counted from the clock's origin.
    newest: u64,
    slices: [CallCounts; SLICES],
    total: CallCounts,
}

impl HealthWindow {
    pub(super) fn new(window: Duration) -> Self {
        let slice_nanos = (nanos(window) / SLICES as u64).max(1);
        Self { slice_nanos, newest: 0, slices: Default::default(), total: CallCounts::default() }
    }

    pub(super) fn record(&mut self, health: Health, is_unstreamed: bool, now: Timestamp) {
        self.advance(now);
        let mut call = CallCounts::default();
        call.count(health, is_unstreamed);
        self.slices[Self::index(self.newest)] += call;
        self.total += call;
    }

    /// The counts of the window that ends now. Takes `&mut self` only to drop expired slices.
    pub(super) fn counts(&mut self, now: Timestamp) -> CallCounts {
        self.advance(now);
        self.total
    }

    pub(super) fn clear(&mut self) {
        self.slices = Default::default();
        self.total = CallCounts::default();
    }

    fn advance(&mut self, now: Timestamp) {
        // A timestamp before the newest slice, from a thread that read its clock earlier, counts in the newest slice.
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
        window.record(Health::Bad, false, at(500));
        window.record(Health::Good, false, at(1_000));
        assert_eq!(window.counts(at(9_999)), CallCounts { calls: 2, failed: 1, ..CallCounts::default() });
        assert_eq!(window.counts(at(10_000)), CallCounts { calls: 1, ..CallCounts::default() });
        assert_eq!(window.counts(at(11_000)), CallCounts::default());
    }

    #[test]
    fn each_health_counts_as_what_it_is() {
        let mut window = HealthWindow::new(Duration::from_secs(10));
        for health in [Health::Good, Health::Slow, Health::TimedOut, Health::Bad, Health::Unknown] {
            window.record(health, false, at(0));
            window.record(health, true, at(0));
        }
        let counts =
            CallCounts { calls: 8, failed: 2, slow: 2, timed_out: 1, unstreamed: 4, unstreamed_slow: 2 };
        assert_eq!(window.counts(at(0)), counts);
        assert_eq!(counts.streams(), 4);
        window.clear();
        assert_eq!(window.counts(at(0)), CallCounts::default());
    }

    #[test]
    fn an_earlier_moment_counts_in_the_newest_slice() {
        let mut window = HealthWindow::new(Duration::from_secs(10));
        window.record(Health::Bad, false, at(9_000));
        window.record(Health::Bad, false, at(1_000));
        assert_eq!(window.counts(at(18_999)).failed, 2);
        assert_eq!(window.counts(at(19_000)).failed, 0);
    }

    proptest! {
        #[test]
        fn the_ring_equals_a_list_of_all_calls(
            steps in vec((0_u64..3_000, 0_usize..5, proptest::prelude::any::<bool>()), 1..120),
        ) {
            let kinds = [Health::Good, Health::Slow, Health::TimedOut, Health::Bad, Health::Unknown];
            let mut window = HealthWindow::new(Duration::from_secs(10));
            let mut calls: Vec<(u64, Health, bool)> = Vec::new();
            let mut now = 0;
            for (wait, kind, is_unstreamed) in steps {
                now += wait;
                window.record(kinds[kind], is_unstreamed, at(now));
                calls.push((now, kinds[kind], is_unstreamed));
                let mut naive = CallCounts::default();
                for (when, health, is_unstreamed) in &calls {
                    if when / 1_000 + 10 > now / 1_000 {
                        naive.count(*health, *is_unstreamed);
                    }
                }
                prop_assert_eq!(window.counts(at(now)), naive);
            }
        }
    }
}
