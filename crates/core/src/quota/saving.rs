//! What everybody has used, as plain numbers, and back.
//!
//! A book that outlives its process is written down limit by limit and read again by another one, whose clock may have
//! another origin: moments are told by the calendar. What was used is read back at the latest moment at which it may have
//! been used, so that reading never gives anybody room earlier; a slice may count for one slice longer.

use super::book::QuotaBook;
use super::decision::{Cost, GroupId, QuotaKey, Scope};
use super::packed::{self, Stored};
use super::pool::Pool;
use super::rate::{Backlog, RateRule};
use super::ring::SliceRing;
use super::rule::{Quota, QuotaGroup, Unit};
use super::sliding::{SLICES, SlidingRule};
use crate::setting::SettingError;
use crate::time::{Now, Timestamp, UtcTime};

/// A limit as plain numbers. What they mean depends on the kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedQuota {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub unit: Unit,
    /// 0 for a rate, 1 for a sliding period, 2 for a day, 3 for a month.
    pub kind: u8,
    /// Nanoseconds of a unit and of the period; of a slice; nothing.
    pub nanos: [u64; 2],
    /// The most at once.
    pub most: u32,
}

/// A group as plain numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedGroup {
    /// Its name.
    pub name: String,
    /// Its limits.
    pub quotas: Vec<SavedQuota>,
}

impl SavedGroup {
    /// These limits.
    #[must_use]
    pub fn of(group: &QuotaGroup) -> Self {
        Self { name: group.name().to_owned(), quotas: group.quotas().iter().map(Quota::saved).collect() }
    }

    /// The limits that these numbers are of. Refuses those that no limit has.
    pub fn group(&self) -> Result<QuotaGroup, SettingError> {
        let quotas: Result<_, _> = self.quotas.iter().map(Quota::of_saved).collect();
        QuotaGroup::new(&self.name, quotas?)
    }
}

/// The name of a group as a number that is the same in every process.
#[must_use]
pub fn group_tag(name: &str) -> u64 {
    // FNV-1a.
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl QuotaBook {
    /// The tag of a group.
    #[must_use]
    pub fn tag(&self, group: GroupId) -> Option<u64> {
        self.groups.get(group).map(|group| group.tag)
    }

    /// The group of this tag.
    #[must_use]
    pub fn tagged(&self, tag: u64) -> Option<GroupId> {
        let place = self.groups.iter().position(|group| group.tag == tag)?;
        u16::try_from(place).ok().map(GroupId::at)
    }

    /// Charges what was admitted at this moment, whether there is room for it or not. A group that is gone counts nothing.
    pub fn charge(&self, scope: Scope, cost: Cost, at: Now) {
        self.with_shard(scope, |shard, hash, rehash| {
            let slot = shard.find(hash, scope.key).or_else(|| shard.insert(hash, scope.key, rehash));
            if let Some(slot) = slot {
                shard.take(slot, at, cost, |_| {});
            }
        });
    }

    /// Corrects what was [charged](Self::charge) at this moment, as [`settle`](Self::settle) does.
    pub fn correct(&self, scope: Scope, charged_at: Now, (reserved, actual): (Cost, Cost), now: Now) {
        self.with_shard(scope, |shard, hash, rehash| {
            let is_beyond = actual.requests > reserved.requests || actual.tokens > reserved.tokens;
            let found = shard.find(hash, scope.key);
            let slot = found.or_else(|| if is_beyond { shard.insert(hash, scope.key, rehash) } else { None });
            if let Some(slot) = slot {
                shard.correct(slot, charged_at, (reserved, actual), now);
            }
        });
    }

    /// Hands over every caller of a group who has something left in a window, with the numbers of its limits: what of a
    /// rate is still owed; how many slices count, and the age and units of each; a period and its units.
    pub fn each_use(&self, group: GroupId, now: Now, mut each: impl FnMut(QuotaKey, &[u64])) {
        let Some(group) = self.groups.get(group) else { return };
        let mut numbers = Vec::new();
        for shard in &group.shards {
            crate::sync::lock(shard).each_use(now, |key, quotas| {
                numbers.clear();
                quotas(&mut numbers);
                each(key, &numbers);
            });
        }
    }

    /// Charges what a caller had used at the moment `saved`, as [`each_use`](Self::each_use) has told it. Whether the
    /// numbers were of this group's limits; if not, some of them may have been charged.
    pub fn restore(&self, scope: Scope, numbers: &[u64], saved: Now, now: Now) -> bool {
        let clock = Clocks { saved, now };
        let mut is_whole = false;
        self.with_shard(scope, |shard, hash, rehash| {
            let slot = shard.find(hash, scope.key).or_else(|| shard.insert(hash, scope.key, rehash));
            if let Some(slot) = slot {
                is_whole = shard.restore(slot, numbers, clock);
            }
        });
        is_whole
    }
}

/// Two processes' clocks: when something was written down, and when it is read again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    saved: Now,
    now: Now,
}

impl Clocks {
    /// What the present clock showed when the former one showed this. What lies ahead, because the calendar was set back,
    /// was just now.
    fn present(self, former: Timestamp) -> Timestamp {
        let back = self.saved.monotonic - former;
        let then = UtcTime::from_nanos(
            self.saved.utc.as_nanos().saturating_sub(u64::try_from(back.as_nanos()).unwrap_or(u64::MAX)),
        );
        let ago = self.now.utc.since(then);
        Timestamp::from_nanos(
            self.now.monotonic.as_nanos().saturating_sub(u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

/// The numbers of a rate.
pub(super) fn save_rate(backlog: Backlog, now: Timestamp, numbers: &mut Vec<u64>) {
    numbers.push(backlog.owed(now));
}

pub(super) fn restore_rate(backlog: &mut Backlog, owed: u64, clock: Clocks) {
    let passed = clock.now.utc.since(clock.saved.utc);
    let owed = owed.saturating_sub(u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX));
    RateRule::owe(backlog, owed, clock.now.monotonic);
}

impl SlidingRule {
    pub(super) fn save(
        &self,
        words: &[u32],
        rings: &Pool<SliceRing>,
        now: Timestamp,
        numbers: &mut Vec<u64>,
    ) {
        let present = self.slice_at(words, rings, now);
        let count = numbers.len();
        numbers.push(0);
        let mut put = |slice: packed::Slice| {
            if slice.units > 0 {
                numbers.push(u64::from(present.wrapping_sub(slice.number)));
                numbers.push(u64::from(slice.units));
            }
        };
        match packed::stored(words, rings) {
            Stored::Packed(packed) => packed.oldest_first(present).for_each(&mut put),
            Stored::Ring(ring) => ring.live(present).for_each(&mut put),
        }
        numbers[count] = (numbers.len() - count - 1) as u64 / 2;
    }

    /// Charges slices, the oldest first. Whether they were slices.
    pub(super) fn restore(
        &self,
        words: &mut [u32],
        rings: &mut Pool<SliceRing>,
        slices: &[u64],
        clock: Clocks,
    ) -> bool {
        let length = self.slice_nanos();
        for pair in slices.chunks(2) {
            let [age, units] = *pair else { return false };
            let (Ok(units), true) = (u32::try_from(units), age < u64::from(SLICES)) else { return false };
            let saved = clock.saved.monotonic.as_nanos();
            // The last moment of its slice, unless that was still going on.
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
