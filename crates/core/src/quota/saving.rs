//! Saving and restoring quota usage.
//!
//! A limiter that outlives its process is saved limit by limit and restored by another process, whose monotonic clock may
//! have another origin, so times are converted through UTC. Usage is restored at the latest time at which it can have
//! happened: a restore never frees units early, and a slice may count for one slice longer.

use super::decision::{GroupId, QuotaKey, QuotaScope, QuotaUnits};
use super::limiter::RateLimiter;
use super::packed::{self, StoredSlices};
use super::rate::{Backlog, RateRule};
use super::ring::SliceRing;
use super::rule::{Quota, QuotaGroup, QuotaUnit};
use super::slab::Slab;
use super::sliding::{SLICES, SlidingRule};
use crate::setting::SettingError;
use crate::time::{Now, Timestamp, UtcTime};

/// A limit as plain numbers; their meaning depends on the kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedQuota {
    /// The limit's name.
    pub name: String,
    /// The unit that it counts.
    pub unit: QuotaUnit,
    /// 0 for a rate, 1 for a sliding window, 2 for a day, 3 for a month.
    pub kind: u8,
    /// In nanoseconds: the emission interval and the period of a rate; the slice of a window; unused for a calendar
    /// limit.
    pub nanos: [u64; 2],
    /// The maximum number of units at once.
    pub max_units: u32,
}

/// A group as plain numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedGroup {
    /// The group's name.
    pub name: String,
    /// The limits of the group.
    pub quotas: Vec<SavedQuota>,
}

impl SavedGroup {
    /// Saves the limits of a group.
    #[must_use]
    pub fn from_group(group: &QuotaGroup) -> Self {
        Self { name: group.name().to_owned(), quotas: group.quotas().iter().map(Quota::saved).collect() }
    }

    /// Restores the limits. Fails on numbers that no limit can have.
    pub fn to_group(&self) -> Result<QuotaGroup, SettingError> {
        let quotas: Result<_, _> = self.quotas.iter().map(Quota::from_saved).collect();
        QuotaGroup::new(&self.name, quotas?)
    }
}

/// A hash of the group's name that is the same in every process.
#[must_use]
pub fn group_tag(name: &str) -> u64 {
    // FNV-1a.
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl RateLimiter {
    /// The tag of a group.
    #[must_use]
    pub fn tag(&self, group: GroupId) -> Option<u64> {
        self.groups.get(group).map(|group| group.tag)
    }

    /// The group with this tag.
    #[must_use]
    pub fn group_with_tag(&self, tag: u64) -> Option<GroupId> {
        let index = self.groups.iter().position(|group| group.tag == tag)?;
        u16::try_from(index).ok().map(GroupId::from_index)
    }

    /// Charges what was admitted at `at`, whether it fits or not. Has no effect on a group that was removed.
    pub fn charge(&self, scope: QuotaScope, cost: QuotaUnits, at: Now) {
        self.with_shard(scope, |shard, hash, rehash| {
            let slot = shard.find(hash, scope.key).or_else(|| shard.insert(hash, scope.key, rehash));
            if let Some(slot) = slot {
                shard.take(slot, at, cost, |_| {});
            }
        });
    }

    /// Corrects what was [charged](Self::charge) at `charged_at`, as [`settle`](Self::settle) does.
    pub fn correct(
        &self,
        scope: QuotaScope,
        charged_at: Now,
        (reserved, actual): (QuotaUnits, QuotaUnits),
        now: Now,
    ) {
        self.with_shard(scope, |shard, hash, rehash| {
            let is_beyond = actual.requests > reserved.requests || actual.tokens > reserved.tokens;
            let found = shard.find(hash, scope.key);
            let slot = found.or_else(|| if is_beyond { shard.insert(hash, scope.key, rehash) } else { None });
            if let Some(slot) = slot {
                shard.correct(slot, charged_at, (reserved, actual), now);
            }
        });
    }

    /// Calls `each` for every caller of a group with usage in some window. The numbers are, limit by limit: the
    /// outstanding backlog of a rate; the count of live slices of a window, then age and units of each; the period and
    /// units of a calendar limit.
    pub fn for_each_usage(&self, group: GroupId, now: Now, mut each: impl FnMut(QuotaKey, &[u64])) {
        let Some(group) = self.groups.get(group) else { return };
        let mut numbers = Vec::new();
        for shard in &group.shards {
            crate::sync::lock(shard).for_each_usage(now, |key, quotas| {
                numbers.clear();
                quotas(&mut numbers);
                each(key, &numbers);
            });
        }
    }

    /// Charges a caller's usage as of `saved`, in the format of [`for_each_usage`](Self::for_each_usage). Returns whether the
    /// numbers matched the group's limits; if not, some of them may have been charged.
    pub fn restore(&self, scope: QuotaScope, numbers: &[u64], saved: Now, now: Now) -> bool {
        let clock = Clocks { saved, now };
        let mut is_match = false;
        self.with_shard(scope, |shard, hash, rehash| {
            let slot = shard.find(hash, scope.key).or_else(|| shard.insert(hash, scope.key, rehash));
            if let Some(slot) = slot {
                is_match = shard.restore(slot, numbers, clock);
            }
        });
        is_match
    }
}

/// The clocks at the time of saving and at the time of restoring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    saved: Now,
    now: Now,
}

impl Clocks {
    /// Converts a time of the previous process to the current monotonic clock. A time in the future, after UTC was set
    /// back, becomes now.
    fn present(self, saved_time: Timestamp) -> Timestamp {
        let age = self.saved.monotonic - saved_time;
        let utc_time = UtcTime::from_nanos(
            self.saved.utc.as_nanos().saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)),
        );
        let ago = self.now.utc.since(utc_time);
        Timestamp::from_nanos(
            self.now.monotonic.as_nanos().saturating_sub(u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

/// Saves a rate's usage.
pub(super) fn save_rate(backlog: Backlog, now: Timestamp, numbers: &mut Vec<u64>) {
    numbers.push(backlog.owed(now));
}

pub(super) fn restore_rate(backlog: &mut Backlog, owed: u64, clock: Clocks) {
    let passed = clock.now.utc.since(clock.saved.utc);
    let owed = owed.saturating_sub(u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX));
    RateRule::add_backlog(backlog, owed, clock.now.monotonic);
}

impl SlidingRule {
    pub(super) fn save(
        &self,
        words: &[u32],
        rings: &Slab<SliceRing>,
        now: Timestamp,
        numbers: &mut Vec<u64>,
    ) {
        let present = self.slice_at(words, rings, now);
        let count = numbers.len();
        numbers.push(0);
        let mut put = |slice: packed::WindowSlice| {
            if slice.units > 0 {
                numbers.push(u64::from(present.wrapping_sub(slice.number)));
                numbers.push(u64::from(slice.units));
            }
        };
        match packed::stored(words, rings) {
            StoredSlices::PackedSlices(packed) => packed.oldest_first(present).for_each(&mut put),
            StoredSlices::Ring(ring) => ring.live(present).for_each(&mut put),
        }
        numbers[count] = (numbers.len() - count - 1) as u64 / 2;
    }

    /// Charges the slices, oldest first. Returns whether the numbers are valid slices.
    pub(super) fn restore(
        &self,
        words: &mut [u32],
        rings: &mut Slab<SliceRing>,
        slices: &[u64],
        clock: Clocks,
    ) -> bool {
        let length = self.slice_nanos();
        for pair in slices.chunks(2) {
            let [age, units] = *pair else { return false };
            let (Ok(units), true) = (u32::try_from(units), age < u64::from(SLICES)) else { return false };
            let saved = clock.saved.monotonic.as_nanos();
            // The last instant of the slice, or the time of saving if the slice was still current.
            let end = (saved / length + 1).saturating_mul(length).saturating_sub(age.saturating_mul(length));
            let last = Timestamp::from_nanos(end.saturating_sub(1).min(saved));
            let at = clock.present(last);
            if clock.now.monotonic.as_nanos().saturating_sub(at.as_nanos()) < length * u64::from(SLICES) {
                self.take(words, rings, at, units);
            }
        }
        true
    }
}
