//! Measurement: how long it is from one place to the next while somebody waits.

use crate::time::{Timestamp, nanos};

/// A new gap moves the mean by one part in this many.
const SMOOTHING: u64 = 8;

/// The mean gap between two places, for those who can use the same kind of place.
///
/// Only time in which somebody waited counts: a queue that is mostly empty serves rarely, and is not slow for that.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    mean: Option<u64>,
    waiting: usize,
    /// Since when somebody has waited for the next place; nothing while nobody waits.
    since: Option<Timestamp>,
}

impl Pace {
    pub(super) fn arrived(&mut self, now: Timestamp) {
        self.waiting += 1;
        self.since.get_or_insert(now);
    }

    pub(super) fn served(&mut self, now: Timestamp) {
        let gap = nanos(now - self.since.unwrap_or(now));
        self.mean = Some(self.mean.map_or(gap, |mean| smooth(mean, gap)));
        self.since = Some(now);
        self.left();
    }

    /// Somebody has left, with or without a place.
    pub(super) fn left(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
        if self.waiting == 0 {
            self.since = None;
        }
    }

    /// The gap to expect, in nanoseconds; nothing before the first measurement. When the present gap is longer than
    /// the mean already, it counts as if it ended now: otherwise a complete standstill would never be noticed.
    pub(super) fn gap(&self, now: Timestamp) -> Option<u64> {
        let mean = self.mean?;
        let present = self.since.map_or(0, |since| nanos(now - since));
        Some(if present > mean { smooth(mean, present) } else { mean })
    }
}

fn smooth(mean: u64, gap: u64) -> u64 {
    let (mean, gap) = (u128::from(mean), u128::from(gap));
    let weight = u128::from(SMOOTHING);
    u64::try_from((mean * (weight - 1) + gap) / weight).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use crate::time::Timestamp;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    #[test]
    fn nothing_is_known_before_the_first_place() {
        let mut pace = Pace::default();
        assert_eq!(pace.gap(at(5)), None);
        pace.arrived(at(10));
        assert_eq!(pace.gap(at(90)), None);
        pace.served(at(100));
        assert_eq!(pace.gap(at(100)), Some(90));
    }

    #[test]
    fn a_new_gap_moves_the_mean_by_an_eighth() {
        let mut pace = Pace::default();
        for _ in 0..3 {
            pace.arrived(at(0));
        }
        pace.served(at(800));
        pace.served(at(800));
        assert_eq!(pace.gap(at(800)), Some(700));
        pace.served(at(2_400));
        assert_eq!(pace.gap(at(2_400)), Some((700 * 7 + 1_600) / 8));
    }

    #[test]
    fn time_in_which_nobody_waits_is_not_measured() {
        let mut pace = Pace::default();
        pace.arrived(at(0));
        pace.served(at(80));
        pace.arrived(at(10_000));
        assert_eq!(pace.gap(at(10_050)), Some(80));
        pace.left();
        assert_eq!(pace.gap(at(90_000)), Some(80));
        pace.arrived(at(90_000));
        pace.arrived(at(90_001));
        pace.left();
        pace.served(at(90_080));
        assert_eq!(pace.gap(at(90_080)), Some(80));
    }

    #[test]
    fn a_gap_that_is_longer_than_the_mean_counts_before_it_ends() {
        let mut pace = Pace::default();
        pace.arrived(at(0));
        pace.arrived(at(0));
        pace.served(at(80));
        assert_eq!(pace.gap(at(160)), Some(80));
        assert_eq!(pace.gap(at(161)), Some((80 * 7 + 81) / 8));
        assert_eq!(pace.gap(at(1_680)), Some((80 * 7 + 1_600) / 8));
        assert_eq!(pace.gap(at(80)), Some(80));
    }
}
