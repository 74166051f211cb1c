//! A limit over a sliding window.
//!
//! The period is divided into sixty slices, and the sum covers sixty-one: the current slice and the sixty before it. So
//! no window of the period's length, wherever it begins, ever holds more than the limit, and a unit is released at most
//! one slice late. With fewer slices in the sum, twice the limit could pass at the edge of a slice.

use super::packed::{self, StoredSlices, WindowSlice};
use super::ring::SliceRing;
use super::rule::{LimitCheck, QuotaKind};
use super::slab::Slab;
use crate::setting::{SettingError, at_least_one};
use crate::time::{Timestamp, nanos};
use std::time::Duration;

/// The number of slices that count, including the current one.
pub(super) const SLICES: u32 = 61;

/// How many slices a timestamp may lie behind before its number is taken to have wrapped around.
const MAX_SLICES_BEHIND: u32 = 1 << 30;

/// At most `limit` units in any period of sixty slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlidingRule {
    slice_nanos: u64,
    limit: u32,
}

/// The slice of a timestamp and the offset into it.
#[derive(Clone, Copy, Debug)]
struct SlicePosition {
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
            return Err(SettingError::new("burst", format!("{limit} + {burst} is more than 4294967295")));
        };
        let slice_nanos = nanos(per).div_ceil(u64::from(SLICES - 1));
        if slice_nanos.checked_mul(u64::from(SLICES)).is_none() {
            return Err(SettingError::new("per", format!("{per:?} is longer than 584 years")));
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
            return Err(SettingError::new("slice", format!("{slice_nanos} ns is too long for a slice")));
        }
        Ok(Self { slice_nanos, limit })
    }

    pub(super) fn number_at(&self, at: Timestamp) -> u32 {
        self.present(at, None).slice
    }

    /// The slice of this timestamp for a caller with this usage; never before the caller's newest slice.
    pub(super) fn slice_at(&self, words: &[u32], rings: &Slab<SliceRing>, now: Timestamp) -> u32 {
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

    fn present(&self, now: Timestamp, newest: Option<u32>) -> SlicePosition {
        let (slice, into_slice) = (now.as_nanos() / self.slice_nanos, now.as_nanos() % self.slice_nanos);
        // Numbers wrap after 2^32 slices, and are only ever compared over 61 of them.
        let slice = u32::try_from(slice & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        match newest {
            // A timestamp before the newest slice, read by a slower thread, belongs to the newest slice. Taken for a
            // later one, it would renew the whole limit.
            Some(newest) if newest.wrapping_sub(slice).wrapping_sub(1) < MAX_SLICES_BEHIND => {
                SlicePosition { slice: newest, into_slice: 0 }
            }
            _ => SlicePosition { slice, into_slice },
        }
    }

    /// Decides by the sum of the live slices; for the wait, walks the slices oldest first.
    fn check<S: Iterator<Item = WindowSlice>>(
        &self,
        present: SlicePosition,
        used: u64,
        oldest_first: impl FnOnce() -> S,
        units: u32,
    ) -> LimitCheck {
        if units > self.limit {
            return LimitCheck::Never { capacity: self.limit };
        }
        let left = self.left(used);
        if units <= left {
            return LimitCheck::Fits { remaining: left - units };
        }
        let mut still_used = used;
        for slice in oldest_first() {
            still_used = still_used.saturating_sub(slice.units.into());
            if units <= self.left(still_used) {
                return LimitCheck::Wait {
                    wait: self.until_released(slice.number, present),
                    remaining: left,
                };
            }
        }
        // Unreachable: with no slices left the whole limit is free, and the units fit into that.
        LimitCheck::Wait { wait: Duration::from_nanos(self.slice_nanos * u64::from(SLICES)), remaining: left }
    }

    fn left(&self, used: u64) -> u32 {
        self.limit.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX))
    }

    fn until_released(&self, slice: u32, present: SlicePosition) -> Duration {
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
        rings: &Slab<SliceRing>,
        now: Timestamp,
        units: u32,
    ) -> LimitCheck {
        match packed::stored(words, rings) {
            StoredSlices::PackedSlices(packed) => {
                let present = self.present(now, packed.newest());
                let used = packed.used(present.slice);
                self.check(present, used, || packed.oldest_first(present.slice), units)
            }
            StoredSlices::Ring(ring) => ring.check(self, now, units),
        }
    }

    /// Charges units whether they fit or not, and returns the slice they were charged to.
    pub(super) fn take(
        &self,
        words: &mut [u32],
        rings: &mut Slab<SliceRing>,
        now: Timestamp,
        units: u32,
    ) -> u64 {
        let present = self.present(now, packed::newest(words, rings)).slice;
        if units > 0 {
            packed::add(words, rings, WindowSlice { number: present, units });
        }
        present.into()
    }

    pub(super) fn refund(words: &mut [u32], rings: &mut Slab<SliceRing>, mark: u64, units: u32) {
        let number = u32::try_from(mark).unwrap_or(u32::MAX);
        packed::refund(words, rings, WindowSlice { number, units });
    }

    /// Units that count at this time.
    pub(super) fn used(&self, words: &[u32], rings: &Slab<SliceRing>, now: Timestamp) -> u32 {
        let present = self.present(now, packed::newest(words, rings)).slice;
        let used = match packed::stored(words, rings) {
            StoredSlices::PackedSlices(packed) => packed.used(present),
            StoredSlices::Ring(ring) => ring.used(present),
        };
        u32::try_from(used).unwrap_or(u32::MAX)
    }

    pub(super) fn is_idle(&self, words: &[u32], rings: &Slab<SliceRing>, now: Timestamp) -> bool {
        self.check_words(words, rings, now, self.limit) == LimitCheck::Fits { remaining: 0 }
    }

    /// Frees memory that a caller no longer needs because it has become less active.
    pub(super) fn compact(&self, words: &mut [u32], rings: &mut Slab<SliceRing>, now: Timestamp) {
        let present = self.present(now, packed::newest(words, rings));
        packed::shrink(words, rings, present.slice);
    }
}

impl SliceRing {
    pub(crate) fn has_room(&self, rule: &SlidingRule, now: Timestamp, units: u32) -> bool {
        matches!(self.check(rule, now, units), LimitCheck::Fits { .. })
    }

    pub(super) fn check(&self, rule: &SlidingRule, now: Timestamp, units: u32) -> LimitCheck {
        let present = rule.present(now, self.newest());
        rule.check(present, self.used(present.slice), || self.live(present.slice), units)
    }

    /// Charges units whether they fit or not.
    pub(crate) fn take(&mut self, rule: &SlidingRule, now: Timestamp, units: u32) {
        let number = rule.present(now, self.newest()).slice;
        self.add(WindowSlice { number, units });
    }
}
