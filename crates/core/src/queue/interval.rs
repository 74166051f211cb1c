//! Measures the time between slots while requests are waiting.

use crate::time::{Timestamp, nanos};
use std::time::Duration;

/// The weight of a new sample in the moving average: one part in this many.
const SMOOTHING: u64 = 8;

/// The mean interval between two slots of one grade, while a request waits that can use one.
///
/// Only time in which a request waited counts: a queue that is mostly empty serves rarely, but is not slow. A request
/// that accepts either grade and is served by the other one leaves this grade's measurement unserved: it shows nothing
/// about how often this grade has a slot, so the clock runs on for those that still wait for it.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotInterval {
    mean: Option<u64>,
    waiting: usize,
    /// Since when a request has been waiting for the next slot; `None` while none is waiting.
    since: Option<Timestamp>,
}

impl SlotInterval {
    pub(super) fn arrived(&mut self, now: Timestamp) {
        self.waiting += 1;
        self.since.get_or_insert(now);
    }

    /// A waiting request got a slot of this grade.
    pub(super) fn served(&mut self, now: Timestamp) {
        let gap = nanos(now - self.since.unwrap_or(now));
        self.mean = Some(self.mean.map_or(gap, |mean| smooth(mean, gap)));
        self.since = Some(now);
        self.left();
    }

    /// A request left without a slot of this grade.
    pub(super) fn left(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
        if self.waiting == 0 {
            self.since = None;
        }
    }

    /// The expected time until this many requests have got a slot; `None` if it was never measured and no request
    /// waits.
    ///
    /// An interval in progress that already exceeds the mean counts as if it ended now; otherwise a complete standstill
    /// would never be noticed. Before the first slot there is no mean, and the interval in progress is all that is
    /// known: the first slot is expected to take as long again. The rate after it is unknown, so the interval counts
    /// once however many entries are ahead. Counted for each of them, it would refuse every request that arrives while
    /// the first calls after a start are in flight.
    pub(super) fn wait(&self, places: u64, now: Timestamp) -> Option<ExpectedWait> {
        let present = self.since.map(|since| nanos(now - since));
        match (self.mean, present) {
            (Some(mean), Some(present)) if present > mean => {
                Some(ExpectedWait::Measured(smooth(mean, present).saturating_mul(places)))
            }
            (Some(mean), _) => Some(ExpectedWait::Measured(mean.saturating_mul(places))),
            (None, Some(present)) => Some(ExpectedWait::Guessed(present.saturating_mul(places.min(1)))),
            (None, None) => None,
        }
    }
}

/// An expected wait in nanoseconds, and its source. The smaller of two values is used: a measured wait sorts before any
/// guess, however short the guess is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ExpectedWait {
    /// From the measured interval between slots.
    Measured(u64),
    /// No slot has been assigned yet; this is how long the first has been waited for.
    Guessed(u64),
}

impl ExpectedWait {
    /// The wait. A guess of zero is `None`: no request has waited yet.
    pub(super) fn wait(self) -> Option<Duration> {
        match self {
            Self::Guessed(0) => None,
            Self::Measured(nanos) | Self::Guessed(nanos) => Some(Duration::from_nanos(nanos)),
        }
    }
}

fn smooth(mean: u64, gap: u64) -> u64 {
    let (mean, gap) = (u128::from(mean), u128::from(gap));
    let weight = u128::from(SMOOTHING);
    u64::try_from((mean * (weight - 1) + gap) / weight).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{ExpectedWait, SlotInterval};
    use crate::time::Timestamp;
    use std::time::Duration;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    /// The measured time for one slot.
    fn gap(pace: &SlotInterval, now: Timestamp) -> Option<u64> {
        match pace.wait(1, now) {
            Some(ExpectedWait::Measured(gap)) => Some(gap),
            _ => None,
        }
    }

    #[test]
    fn nothing_is_known_before_anybody_has_waited() {
        let mut pace = SlotInterval::default();
        assert_eq!(pace.wait(1, at(5)), None);
        pace.arrived(at(10));
        assert_eq!(pace.wait(1, at(10)), Some(ExpectedWait::Guessed(0)));
        assert_eq!(ExpectedWait::Guessed(0).wait(), None);
        pace.left();
        assert_eq!(pace.wait(1, at(90)), None);
    }

    #[test]
    fn before_the_first_place_the_present_gap_is_all_that_is_known() {
        let mut pace = SlotInterval::default();
        pace.arrived(at(10));
        pace.arrived(at(20));
        for (places, wait) in [(0, 0), (1, 80), (2, 80), (900, 80)] {
            assert_eq!(pace.wait(places, at(90)), Some(ExpectedWait::Guessed(wait)), "{places}");
        }
        assert_eq!(ExpectedWait::Guessed(80).wait(), Some(Duration::from_nanos(80)));
        pace.left();
        assert_eq!(pace.wait(1, at(90)), Some(ExpectedWait::Guessed(80)), "somebody else still waits");
        pace.served(at(100));
        for (places, wait) in [(0, 0), (1, 90), (2, 180), (u64::MAX, u64::MAX)] {
            assert_eq!(pace.wait(places, at(100)), Some(ExpectedWait::Measured(wait)), "{places}");
        }
        assert_eq!(ExpectedWait::Measured(0).wait(), Some(Duration::ZERO));
    }

    #[test]
    fn what_was_measured_counts_more_than_a_guess() {
        assert!(
            ExpectedWait::Measured(90) < ExpectedWait::Guessed(1)
                && ExpectedWait::Measured(1) < ExpectedWait::Measured(2)
        );
        assert!(ExpectedWait::Guessed(1) < ExpectedWait::Guessed(2));
    }

    #[test]
    fn a_new_gap_moves_the_mean_by_an_eighth() {
        let mut pace = SlotInterval::default();
        for _ in 0..3 {
            pace.arrived(at(0));
        }
        pace.served(at(800));
        pace.served(at(800));
        assert_eq!(gap(&pace, at(800)), Some(700));
        pace.served(at(2_400));
        assert_eq!(gap(&pace, at(2_400)), Some((700 * 7 + 1_600) / 8));
    }

    #[test]
    fn time_in_which_nobody_waits_is_not_measured() {
        let mut pace = SlotInterval::default();
        pace.arrived(at(0));
        pace.served(at(80));
        pace.arrived(at(10_000));
        assert_eq!(gap(&pace, at(10_050)), Some(80));
        pace.left();
        assert_eq!(gap(&pace, at(90_000)), Some(80));
        pace.arrived(at(90_000));
        pace.arrived(at(90_001));
        pace.left();
        pace.served(at(90_080));
        assert_eq!(gap(&pace, at(90_080)), Some(80));
    }

    #[test]
    fn a_gap_that_is_longer_than_the_mean_counts_before_it_ends() {
        let mut pace = SlotInterval::default();
        pace.arrived(at(0));
        pace.arrived(at(0));
        pace.served(at(80));
        assert_eq!(gap(&pace, at(160)), Some(80));
        assert_eq!(gap(&pace, at(161)), Some((80 * 7 + 81) / 8));
        assert_eq!(gap(&pace, at(1_680)), Some((80 * 7 + 1_600) / 8));
        assert_eq!(gap(&pace, at(80)), Some(80));
    }
}
