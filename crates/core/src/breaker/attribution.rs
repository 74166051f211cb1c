//! Attributes failures to callers.
//!
//! **Why?** One caller can cause failures that no other caller sees: a prompt that crashes the model, or answers so
//! long that all of them are slow. If such failures opened the breaker for everyone, that caller could take the target
//! away from all. So failures are counted per caller in a small fixed number of slots. Callers that find no free slot
//! are counted together as others and are never blamed.

use super::machine::TripReason;
use crate::setting::Ratio;
use crate::time::{Timestamp, nanos};
use std::time::Duration;

const SLOTS: usize = 4;

/// The caller of a call, for attributing failures. All guests share one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallerKey(pub u64);

impl CallerKey {
    /// All callers without a credential. They share one key so that dropping a cookie does not yield a fresh identity.
    pub const GUESTS: Self = Self(u64::MAX);
}

/// Failures by caller.
#[derive(Clone, Copy, Debug, Default)]
struct FailuresByCaller {
    slots: [Option<(CallerKey, u32)>; SLOTS],
    others: u32,
}

impl FailuresByCaller {
    fn add(&mut self, caller: Option<CallerKey>) {
        let slot = caller.and_then(|caller| {
            let is_free_or_own =
                |slot: &Option<(CallerKey, u32)>| slot.is_none_or(|(owner, _)| owner == caller);
            // Slots are filled from the front and never freed one by one, so the first that fits is the caller's own.
            let index = self.slots.iter().position(is_free_or_own)?;
            Some(self.slots[index].get_or_insert((caller, 0)))
        });
        let count = match slot {
            Some((_, count)) => count,
            None => &mut self.others,
        };
        *count = count.saturating_add(1);
    }

    fn merge(&mut self, other: &Self) {
        for (caller, count) in other.slots.iter().flatten() {
            let existing = self.slots.iter_mut().flatten().find(|(owner, _)| owner == caller);
            if let Some((_, sum)) = existing {
                *sum = sum.saturating_add(*count);
            } else if let Some(free) = self.slots.iter_mut().find(|slot| slot.is_none()) {
                *free = Some((*caller, *count));
            } else {
                self.others = self.others.saturating_add(*count);
            }
        }
        self.others = self.others.saturating_add(other.others);
    }

    /// The caller with at least this share of all failures.
    fn dominant_caller(&self, share: Ratio) -> Option<CallerKey> {
        let counts = self.slots.iter().flatten();
        let total = counts.clone().fold(u64::from(self.others), |sum, (_, count)| sum + u64::from(*count));
        counts
            .max_by_key(|(_, count)| *count)
            .filter(|(_, count)| share.is_reached_by((*count).into(), total))
            .map(|(caller, _)| *caller)
    }
}

/// Failures and slow calls by caller: of the current run of consecutive failures, and of the window, kept as two
/// halves.
#[derive(Clone, Debug)]
pub(super) struct FailureAttribution {
    half_nanos: u64,
    half: u64,
    streak: FailuresByCaller,
    failed: [FailuresByCaller; 2],
    slow: [FailuresByCaller; 2],
}

impl FailureAttribution {
    pub(super) fn new(window: Duration) -> Self {
        let half_nanos = (nanos(window) / 2).max(1);
        Self {
            half_nanos,
            half: 0,
            streak: FailuresByCaller::default(),
            failed: Default::default(),
            slow: Default::default(),
        }
    }

    pub(super) fn clear(&mut self) {
        (self.streak, self.failed, self.slow) = Default::default();
    }

    pub(super) fn record_failure(&mut self, caller: Option<CallerKey>, now: Timestamp) {
        self.advance(now);
        self.streak.add(caller);
        self.failed[0].add(caller);
    }

    pub(super) fn record_slow(&mut self, caller: Option<CallerKey>, now: Timestamp) {
        self.advance(now);
        self.slow[0].add(caller);
    }

    /// A success ends the run of consecutive failures.
    pub(super) fn end_streak(&mut self) {
        self.streak = FailuresByCaller::default();
    }

    /// The caller with at least this share of the calls that led to the trip.
    pub(super) fn dominant_caller(&self, reason: TripReason, share: Ratio) -> Option<CallerKey> {
        let both = |halves: &[FailuresByCaller; 2]| {
            let mut sum = halves[0];
            sum.merge(&halves[1]);
            sum
        };
        match reason {
            TripReason::ConsecutiveFailures => self.streak.dominant_caller(share),
            TripReason::FailureRate | TripReason::SustainedPressure | TripReason::ProbeFailed => {
                both(&self.failed).dominant_caller(share)
            }
            TripReason::SlowRate | TripReason::StartTimeout | TripReason::ProbesSlow => {
                both(&self.slow).dominant_caller(share)
            }
            // These trips cannot be attributed to a single caller.
            TripReason::ProbeExpired | TripReason::Fleet => None,
        }
    }

    fn advance(&mut self, now: Timestamp) {
        let half = (now.as_nanos() / self.half_nanos).max(self.half);
        for _ in 0..(half - self.half).min(2) {
            for halves in [&mut self.failed, &mut self.slow] {
                halves[1] = std::mem::take(&mut halves[0]);
            }
        }
        self.half = half;
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{CallerKey, FailureAttribution};
    use crate::breaker::TripReason;
    use crate::setting::Ratio;
    use crate::time::Timestamp;
    use proptest::collection::vec;
    use proptest::prelude::{prop_assert_eq, proptest};
    use std::time::Duration;

    fn share() -> Ratio {
        Ratio::percent("share", 80.0).unwrap()
    }

    proptest! {
        /// With no more callers than slots, the count is exact.
        #[test]
        fn the_dominant_caller_matches_a_list_of_all_failures(calls in vec((0_u64..4, 0_u64..3_000, 0_usize..3), 1..80)) {
            let mut blame = FailureAttribution::new(Duration::from_secs(10));
            let (mut now, mut failed, mut streak) = (0, Vec::new(), Vec::new());
            for (caller, wait, what) in calls {
                now += wait;
                let key = CallerKey(caller);
                if what == 0 {
                    blame.end_streak();
                    streak.clear();
                } else {
                    blame.record_failure(Some(key), Timestamp::ZERO + Duration::from_millis(now));
                    failed.push((now, key));
                    streak.push(key);
                    let recent: Vec<CallerKey> =
                        failed.iter().filter(|(when, _)| when / 5_000 + 2 > now / 5_000).map(|(_, key)| *key).collect();
                    for (reason, all) in [(TripReason::ConsecutiveFailures, &streak), (TripReason::FailureRate, &recent)] {
                        let of = |caller: u64| all.iter().filter(|key| key.0 == caller).count();
                        let naive = (0..4).find(|caller| of(*caller) * 5 >= all.len() * 4).map(CallerKey);
                        prop_assert_eq!(blame.dominant_caller(reason, share()), naive);
                    }
                }
            }
        }
    }

    #[test]
    fn callers_without_a_slot_or_a_key_are_never_blamed() {
        let mut blame = FailureAttribution::new(Duration::from_secs(10));
        for caller in 0..4 {
            blame.record_failure(Some(CallerKey(caller)), Timestamp::ZERO);
        }
        (0..100).for_each(|_| blame.record_failure(Some(CallerKey(9)), Timestamp::ZERO));
        assert_eq!(blame.dominant_caller(TripReason::FailureRate, share()), None);
        blame.clear();
        (0..100).for_each(|_| blame.record_failure(None, Timestamp::ZERO));
        assert_eq!(blame.dominant_caller(TripReason::FailureRate, share()), None);
        (0..400).for_each(|_| blame.record_failure(Some(CallerKey::GUESTS), Timestamp::ZERO));
        assert_eq!(blame.dominant_caller(TripReason::FailureRate, share()), Some(CallerKey::GUESTS));
    }
}
