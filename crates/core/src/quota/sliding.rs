//! A limit over a sliding window.
//!
//! The period is divided into sixty slices, and the sum covers sixty-one: the current slice and the sixty before it. So
//! no window of the period's length, wherever it begins, ever holds more than the limit, and a unit is released at most
//! one slice late. With fewer slices in the sum, twice the limit could pass at the edge of a slice.

use super::packed::{self, Slice, Stored};
use super::pool::Pool;
use super::ring::SliceRing;
use super::rule::{Check, QuotaKind};
use crate::setting::{SettingError, at_least_one};
use crate::time::{Timestamp, nanos};
use std::time::Duration;

/// The number of slices that count, including the current one.
pub(super) const SLICES: u32 = 61;

/// How many slices a timestamp may lie behind before its number is taken to have wrapped around.
const FURTHEST_BEHIND: u32 = 1 << 30;

/// At most `limit` units in any period of sixty slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlidingRule {
    slice_nanos: u64,
    limit: u32,
}

/// The slice of a timestamp and the offset into it.
#[derive(Clone, Copy, Debug)]
struct Present {
    slice: u32,
    into_slice: u64,
}

impl SlidingRule {
    pub(crate) fn new(limit: u32, per: Duration, burst: u32) -> Result<Self, SettingError> {
        at_least_one("limit", limit.into())?;
        if per < Duration::from_secs(1) {
            return Err(SettingError::new("per", format!("{per:?} is shorter than 1s")));
        }
        let Some(limit) = limit.checked_add(burst) else {
            return Err(SettingError::new("burst", format!("{limit} + {burst} is more than can be counted")));
        };
        let slice_nanos = nanos(per).div_ceil(u64::from(SLICES - 1));
        if slice_nanos.checked_mul(u64::from(SLICES)).is_none() {
            return Err(SettingError::new("per", format!("{per:?} is longer than can be counted")));
        }
        Ok(Self { slice_nanos, limit })
    }

    pub(super) const fn slice_nanos(&self) -> u64 {
        self.slice_nanos
    }

    pub(super) fn of_slice(slice_nanos: u64, limit: u32) -> Result<Self, SettingError> {
        at_least_one("limit", limit.into())?;
        at_least_one("slice", slice_nanos)?;
        if slice_nanos.checked_mul(u64::from(SLICES)).is_none() {
            return Err(SettingError::new(
                "slice",
                format!("{slice_nanos} ns are longer than can be counted"),
            ));
        }
        Ok(Self { slice_nanos, limit })
    }

    pub(super) fn number_at(&self, at: Timestamp) -> u32 {
        self.present(at, None).slice
    }

    /// The slice of this timestamp for a caller with this usage; never before the caller's newest slice.
    pub(super) fn slice_at(&self, words: &[u32], rings: &Pool<SliceRing>, now: Timestamp) -> u32 {
        self.present(now, packed::newest(words, rings)).slice
    }

    pub(super) const fn kind(&self) -> QuotaKind {
        QuotaKind::Sliding { slice: Duration::from_nanos(self.slice_nanos), limit: self.limit }
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    pub(super) fn has_period_of(&self, other: &Self) -> bool {
        self.slice_nanos == other.slice_nanos
    }

    fn present(&self, now: Timestamp, newest: Option<u32>) -> Present {
        let (slice, into_slice) = (now.as_nanos() / self.slice_nanos, now.as_nanos() % self.slice_nanos);
        // Numbers wrap after 2^32 slices, and are only ever compared over 61 of them.
        let slice = u32::try_from(slice & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        match newest {
            // A timestamp before the newest slice, read by a slower thread, belongs to the newest slice. Taken for a
            // later one, it would renew the whole limit.
            Some(newest) if newest.wrapping_sub(slice).wrapping_sub(1) < FURTHEST_BEHIND => {
                Present { slice: newest, into_slice: 0 }
            }
            _ => Present { slice, into_slice },
        }
    }

    /// Decides by the sum of the live slices; for the wait, walks the slices oldest first.
    fn check<S: Iterator<Item = Slice>>(
        &self,
        present: Present,
        used: u64,
        oldest_first: impl FnOnce() -> S,
        units: u32,
    ) -> Check {
        if units > self.limit {
            return Check::Never { capacity: self.limit };
        }
        let left = self.left(used);
        if units <= left {
            return Check::Fits { remaining: left - units };
        }
        let mut still_used = used;
        for slice in oldest_first() {
            still_used = still_used.saturating_sub(slice.units.into());
            if units <= self.left(still_used) {
                return Check::Wait { wait: self.until_released(slice.number, present), remaining: left };
            }
        }
        // Unreachable: with no slices left the whole limit is free, and the units fit into that.
        Check::Wait { wait: Duration::from_nanos(self.slice_nanos * u64::from(SLICES)), remaining: left }
    }

    fn left(&self, used: u64) -> u32 {
        self.limit.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX))
    }

    fn until_released(&self, slice: u32, present: Present) -> Duration {
        let age = present.slice.wrapping_sub(slice);
        let slices = u64::from(SLICES.saturating_sub(age));
        Duration::from_nanos((self.slice_nanos * slices).saturating_sub(present.into_slice))
    }
}

/// One caller's window, encoded in the words of its record.
impl SlidingRule {
    pub(super) fn check_words(
        &self,
        words: &[u32],
        rings: &Pool<SliceRing>,
        now: Timestamp,
        units: u32,
    ) -> Check {
        match packed::stored(words, rings) {
            Stored::Packed(packed) => {
                let present = self.present(now, packed.newest());
                let used = packed.used(present.slice);
                self.check(present, used, || packed.oldest_first(present.slice), units)
            }
            Stored::Ring(ring) => ring.check(self, now, units),
        }
    }

    /// Charges units whether they fit or not, and returns the slice they were charged to.
    pub(super) fn take(
        &self,
        words: &mut [u32],
        rings: &mut Pool<SliceRing>,
        now: Timestamp,
        units: u32,
    ) -> u64 {
        let present = self.present(now, packed::newest(words, rings)).slice;
        if units > 0 {
            packed::add(words, rings, Slice { number: present, units });
        }
        present.into()
    }

    pub(super) fn give_back(words: &mut [u32], rings: &mut Pool<SliceRing>, mark: u64, units: u32) {
        let number = u32::try_from(mark).unwrap_or(u32::MAX);
        packed::give_back(words, rings, Slice { number, units });
    }

    /// Units that count at this time.
    pub(super) fn used(&self, words: &[u32], rings: &Pool<SliceRing>, now: Timestamp) -> u32 {
        let present = self.present(now, packed::newest(words, rings)).slice;
        let used = match packed::stored(words, rings) {
            Stored::Packed(packed) => packed.used(present),
            Stored::Ring(ring) => ring.used(present),
        };
        u32::try_from(used).unwrap_or(u32::MAX)
    }

    pub(super) fn is_idle(&self, words: &[u32], rings: &Pool<SliceRing>, now: Timestamp) -> bool {
        self.check_words(words, rings, now, self.limit) == Check::Fits { remaining: 0 }
    }

    /// Frees memory that a caller no longer needs because it has become less active.
    pub(super) fn compact(&self, words: &mut [u32], rings: &mut Pool<SliceRing>, now: Timestamp) {
        let present = self.present(now, packed::newest(words, rings));
        packed::shrink(words, rings, present.slice);
    }
}

impl SliceRing {
    pub(crate) fn has_room(&self, rule: &SlidingRule, now: Timestamp, units: u32) -> bool {
        matches!(self.check(rule, now, units), Check::Fits { .. })
    }

    pub(super) fn check(&self, rule: &SlidingRule, now: Timestamp, units: u32) -> Check {
        let present = rule.present(now, self.newest());
        rule.check(present, self.used(present.slice), || self.live(present.slice), units)
    }

    /// Charges units whether they fit or not.
    pub(crate) fn take(&mut self, rule: &SlidingRule, now: Timestamp, units: u32) {
        let number = rule.present(now, self.newest()).slice;
        self.add(Slice { number, units });
    }
}
