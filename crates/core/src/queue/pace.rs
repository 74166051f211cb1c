//! Measurement: how long it is from one place to the next while somebody waits.

use crate::time::{Timestamp, nanos};
use std::time::Duration;

/// A new gap moves the mean by one part in this many.
const SMOOTHING: u64 = 8;

/// The mean gap between two places of one grade, while somebody waits who can use one.
///
/// Only time in which somebody waited counts: a queue that is mostly empty serves rarely, and is not slow for that. Who
/// takes either grade and gets the other has left as far as this one is concerned: it says nothing of how often this
/// grade has a place, so that the clock runs on for those who still wait for it.
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

    /// Somebody who waited got a place of this grade.
    pub(super) fn served(&mut self, now: Timestamp) {
        let gap = nanos(now - self.since.unwrap_or(now));
        self.mean = Some(self.mean.map_or(gap, |mean| smooth(mean, gap)));
        self.since = Some(now);
        self.left();
    }

    /// Somebody has left without a place of this grade.
    pub(super) fn left(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
        if self.waiting == 0 {
            self.since = None;
        }
    }

    /// How long it is expected to take until this many have got a place; nothing while that has never been measured
    /// and nobody waits.
    ///
    /// When the present gap is longer than the mean already, it counts as if it ended now: otherwise a complete
    /// standstill would never be noticed. Before the first place there is no mean, and the present gap is all that is
    /// known: the first place is expected to take as long again. How fast others will follow it cannot be told, so that
    /// it counts once however many are ahead; counted for each of them, it would turn away whoever comes while the
    /// first calls after a start are under way.
    pub(super) fn wait(&self, places: u64, now: Timestamp) -> Option<Expected> {
        let present = self.since.map(|since| nanos(now - since));
        match (self.mean, present) {
            (Some(mean), Some(present)) if present > mean => {
                Some(Expected::Measured(smooth(mean, present).saturating_mul(places)))
            }
            (Some(mean), _) => Some(Expected::Measured(mean.saturating_mul(places))),
            (None, Some(present)) => Some(Expected::Guessed(present.saturating_mul(places.min(1)))),
            (None, None) => None,
        }
    }
}

/// A wait in nanoseconds, and what it is from. Of two the least is the one to go by: a place that was given counts more
/// than one that never was, however soon that might come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Expected {
    /// Places were given, so far apart.
    Measured(u64),
    /// None was given yet, for so long.
    Guessed(u64),
}

impl Expected {
    /// The wait. A guess of nothing is none: nobody has waited yet.
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
    use super::{Expected, Pace};
    use crate::time::Timestamp;
    use std::time::Duration;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    /// What one place is measured to take.
    fn gap(pace: &Pace, now: Timestamp) -> Option<u64> {
        match pace.wait(1, now) {
            Some(Expected::Measured(gap)) => Some(gap),
            _ => None,
        }
    }

    #[test]
    fn nothing_is_known_before_anybody_has_waited() {
        let mut pace = Pace::default();
        assert_eq!(pace.wait(1, at(5)), None);
        pace.arrived(at(10));
        assert_eq!(pace.wait(1, at(10)), Some(Expected::Guessed(0)));
        assert_eq!(Expected::Guessed(0).wait(), None);
        pace.left();
        assert_eq!(pace.wait(1, at(90)), None);
    }

    #[test]
    fn before_the_first_place_the_present_gap_is_all_that_is_known() {
        let mut pace = Pace::default();
        pace.arrived(at(10));
        pace.arrived(at(20));
        for (places, wait) in [(0, 0), (1, 80), (2, 80), (900, 80)] {
            assert_eq!(pace.wait(places, at(90)), Some(Expected::Guessed(wait)), "{places}");
        }
        assert_eq!(Expected::Guessed(80).wait(), Some(Duration::from_nanos(80)));
        pace.left();
        assert_eq!(pace.wait(1, at(90)), Some(Expected::Guessed(80)), "somebody else still waits");
        pace.served(at(100));
        for (places, wait) in [(0, 0), (1, 90), (2, 180), (u64::MAX, u64::MAX)] {
            assert_eq!(pace.wait(places, at(100)), Some(Expected::Measured(wait)), "{places}");
        }
        assert_eq!(Expected::Measured(0).wait(), Some(Duration::ZERO));
    }

    #[test]
    fn what_was_measured_counts_more_than_a_guess() {
        assert!(
            Expected::Measured(90) < Expected::Guessed(1) && Expected::Measured(1) < Expected::Measured(2)
        );
        assert!(Expected::Guessed(1) < Expected::Guessed(2));
    }

    #[test]
    fn a_new_gap_moves_the_mean_by_an_eighth() {
        let mut pace = Pace::default();
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
        let mut pace = Pace::default();
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
        let mut pace = Pace::default();
        pace.arrived(at(0));
        pace.arrived(at(0));
        pace.served(at(80));
        assert_eq!(gap(&pace, at(160)), Some(80));
        assert_eq!(gap(&pace, at(161)), Some((80 * 7 + 81) / 8));
        assert_eq!(gap(&pace, at(1_680)), Some((80 * 7 + 1_600) / 8));
        assert_eq!(gap(&pace, at(80)), Some(80));
    }
}
