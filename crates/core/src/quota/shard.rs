//! The callers of one group whose keys hash to one shard.
//!
//! A caller is one contiguous record of words: its key, then its usage of each limit in turn. A decision among a
//! million callers is bound by cache misses, so data that is read together is stored together.

use super::decision::{QuotaKey, QuotaUnits};
use super::index::{RecordSlot, SlotIndex};
use super::ring::SliceRing;
use super::rule::{CountsCarryOver, LimitCheck, Quota};
use super::rules::{KEY_WORDS, LimitOrigin, NumberedQuota, QuotaGroupRules};
use super::saving::Clocks;
use super::slab::Slab;
use crate::invariant::Violation;
use crate::time::Now;
use std::sync::Arc;

/// Records per page. Pages never move, so growing costs one page and no copying.
const PAGE: u32 = 128;

#[derive(Debug)]
pub(super) struct Shard {
    /// Under the same lock as the records, so that records are never read with other rules than they were written with.
    /// `None` in a group that was removed.
    rules: Option<Arc<QuotaGroupRules>>,
    index: SlotIndex,
    records: Records,
    free: Vec<RecordSlot>,
    used_slots: u32,
    rings: Slab<SliceRing>,
}

#[derive(Debug, Default)]
struct Records {
    pages: Vec<Box<[u32]>>,
}

impl Records {
    fn record(&self, slot: RecordSlot, words: usize) -> &[u32] {
        let from = (slot.number() % PAGE) as usize * words;
        &self.pages[(slot.number() / PAGE) as usize][from..from + words]
    }

    fn record_mut(&mut self, slot: RecordSlot, words: usize) -> &mut [u32] {
        let from = (slot.number() % PAGE) as usize * words;
        &mut self.pages[(slot.number() / PAGE) as usize][from..from + words]
    }

    fn key(&self, slot: RecordSlot, words: usize) -> QuotaKey {
        let record = self.record(slot, words);
        QuotaKey(u64::from(record[1]) << 32 | u64::from(record[0]))
    }
}

impl Shard {
    pub(super) fn new(rules: Arc<QuotaGroupRules>) -> Self {
        Self::of(Some(rules))
    }

    fn of(rules: Option<Arc<QuotaGroupRules>>) -> Self {
        let (index, records, rings) = (SlotIndex::default(), Records::default(), Slab::default());
        Self { rules, index, records, free: Vec::new(), used_slots: 0, rings }
    }

    /// The rules in force; `None` if the group was removed.
    pub(super) fn rules(&self) -> Option<&QuotaGroupRules> {
        self.rules.as_deref()
    }

    fn words(&self) -> usize {
        self.rules().map_or(KEY_WORDS, |rules| rules.words)
    }

    fn limits(&self) -> &[NumberedQuota] {
        self.rules().map_or(&[], |rules| &rules.limits)
    }

    pub(super) fn find(&self, hash: u64, key: QuotaKey) -> Option<RecordSlot> {
        let words = self.words();
        self.index.find(hash, |slot| self.records.key(slot, words) == key)
    }

    /// A slot for a key that has none, with nothing used; `None` if the shard is full.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        key: QuotaKey,
        rehash: impl Fn(QuotaKey) -> u64,
    ) -> Option<RecordSlot> {
        let words = self.words();
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.new_slot(words)?,
        };
        let record = self.records.record_mut(slot, words);
        let half = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        record[0] = half(key.0);
        record[1] = half(key.0 >> 32);
        let records = &self.records;
        self.index.insert(hash, slot, |slot| rehash(records.key(slot, words)));
        Some(slot)
    }

    fn new_slot(&mut self, words: usize) -> Option<RecordSlot> {
        let slot = RecordSlot::new(self.used_slots)?;
        if self.used_slots.is_multiple_of(PAGE) {
            self.records.pages.push(empty_page(words));
        }
        self.used_slots += 1;
        Some(slot)
    }

    /// Checks every limit of a caller in turn. An unknown caller has used nothing.
    pub(super) fn check(
        &self,
        slot: Option<RecordSlot>,
        now: Now,
        cost: QuotaUnits,
        mut each: impl FnMut(&NumberedQuota, LimitCheck),
    ) {
        let mut words = slot.map(|slot| &self.records.record(slot, self.words())[KEY_WORDS..]);
        for limit in self.limits() {
            let (own, rest) = words.map_or((&NOTHING_USED[..], None), |words| {
                let (own, rest) = words.split_at(limit.quota.words());
                (own, Some(rest))
            });
            words = rest;
            each(limit, limit.quota.check(own, &self.rings, now, cost));
        }
    }

    pub(super) fn take(&mut self, slot: RecordSlot, now: Now, cost: QuotaUnits, mut mark: impl FnMut(u64)) {
        let Self { rules: Some(rules), records, rings, .. } = self else { return };
        let record = records.record_mut(slot, rules.words);
        for_each_limit(record, &rules.limits, |quota, words| mark(quota.take(words, rings, now, cost)));
    }

    /// Whether a caller that was just charged `cost` is within every limit.
    pub(super) fn check_usage(&self, slot: RecordSlot, now: Now, cost: QuotaUnits) -> Result<(), Violation> {
        let mut words = &self.records.record(slot, self.words())[KEY_WORDS..];
        for NumberedQuota { quota, .. } in self.limits() {
            let (own, rest) = words.split_at(quota.words());
            quota.check_usage(own, &self.rings, now, cost)?;
            words = rest;
        }
        Ok(())
    }

    /// Corrects a reservation that was made under rules of this version and has these marks.
    pub(super) fn settle(
        &mut self,
        slot: RecordSlot,
        now: Now,
        (version, marks): (u32, &[u64]),
        change: (QuotaUnits, QuotaUnits),
    ) {
        let Self { rules: Some(rules), records, rings, .. } = self else { return };
        let record = records.record_mut(slot, rules.words);
        let mut marks = rules.marks_since(version, marks).into_iter();
        for_each_limit(record, &rules.limits, |quota, words| {
            quota.settle(words, rings, now, marks.next().flatten(), change);
        });
    }

    /// Corrects a charge made at `charged_at` under any rules: its marks are computed with the current rules.
    pub(super) fn correct(
        &mut self,
        slot: RecordSlot,
        charged_at: Now,
        change: (QuotaUnits, QuotaUnits),
        now: Now,
    ) {
        let Self { rules: Some(rules), records, rings, .. } = self else { return };
        let record = records.record_mut(slot, rules.words);
        for_each_limit(record, &rules.limits, |quota, words| {
            let mark = quota.mark_at(charged_at, change.0);
            quota.settle(words, rings, now, Some(mark), change);
        });
    }

    /// Calls `each` for every caller with usage in some window, with a function that writes its numbers.
    pub(super) fn for_each_usage(&self, now: Now, mut each: impl FnMut(QuotaKey, &dyn Fn(&mut Vec<u64>))) {
        let Some(rules) = self.rules() else { return };
        for slot in self.index.slots() {
            let record = self.records.record(slot, rules.words);
            let words = |index| rules.words_of(record, index);
            let mut limits = rules.limits.iter().enumerate();
            if limits.all(|(index, limit)| limit.quota.is_idle(words(index), &self.rings, now)) {
                continue;
            }
            each(self.records.key(slot, rules.words), &|numbers| {
                for (index, limit) in rules.limits.iter().enumerate() {
                    limit.quota.save(words(index), &self.rings, now, numbers);
                }
            });
        }
    }

    /// Charges a caller's saved numbers. Returns whether they matched the limits.
    pub(super) fn restore(&mut self, slot: RecordSlot, numbers: &[u64], clock: Clocks) -> bool {
        let Self { rules: Some(rules), records, rings, .. } = self else { return false };
        let record = records.record_mut(slot, rules.words);
        let mut rest = Some(numbers);
        for_each_limit(record, &rules.limits, |quota, words| {
            rest = rest.and_then(|numbers| quota.restore(words, rings, numbers, clock));
        });
        rest.is_some_and(<[u64]>::is_empty)
    }

    /// Evicts callers with nothing left in any window, and frees memory of callers that became less active.
    pub(super) fn sweep(&mut self, now: Now) -> usize {
        let Self { rules: Some(rules), index, records, free, rings, .. } = self else { return 0 };
        let before = index.len();
        index.retain(|slot| {
            let record = records.record_mut(slot, rules.words);
            let mut idle = true;
            for_each_limit(record, &rules.limits, |quota, words| {
                quota.compact(words, rings, now);
                idle &= quota.is_idle(words, rings, now);
            });
            if idle {
                record.fill(0);
                free.push(slot);
            }
            !idle
        });
        before - index.len()
    }

    /// Replaces the limits, or removes them. Callers keep their usage as far as the limits allow.
    pub(super) fn change_limits(&mut self, rules: Option<&Arc<QuotaGroupRules>>, now: Now) {
        let origins = match (self.rules(), rules) {
            (Some(before), Some(rules)) => rules.origins_in(before),
            (None, _) | (_, None) => None,
        };
        let Some((rules, origins)) = rules.zip(origins) else {
            *self = Self::of(rules.cloned());
            return;
        };
        if !self.has_layout(origins) {
            self.carry_records(rules, origins, now);
        }
        self.rules = Some(Arc::clone(rules));
    }

    /// Whether records written under the current rules can be read under rules with these origins.
    fn has_layout(&self, origins: &[LimitOrigin]) -> bool {
        let is_same =
            |(index, origin): (usize, &LimitOrigin)| *origin == Some((index, CountsCarryOver::Kept));
        origins.len() == self.limits().len() && origins.iter().enumerate().all(is_same)
    }

    /// Rewrites all records. Every caller keeps its slot, so the index stays valid.
    fn carry_records(&mut self, after: &QuotaGroupRules, origins: &[LimitOrigin], now: Now) {
        let Self { rules: Some(before), index, records, rings, .. } = self else { return };
        let pages = records.pages.iter().map(|_| empty_page(after.words)).collect();
        let mut carried = Records { pages };
        for slot in index.slots() {
            let old = records.record(slot, before.words);
            let new = carried.record_mut(slot, after.words);
            new[..KEY_WORDS].copy_from_slice(&old[..KEY_WORDS]);
            let mut origins_left = origins.iter();
            for_each_limit(new, &after.limits, |quota, words| {
                if let Some((index, carry_over)) = origins_left.next().copied().flatten() {
                    let previous = &before.limits[index].quota;
                    let old = before.words_of(old, index);
                    quota.carry_over_words(words, (previous, carry_over, old), rings, now);
                }
            });
            for (index, limit) in before.limits.iter().enumerate() {
                let is_removed = !origins.iter().flatten().any(|(from, _)| *from == index);
                if is_removed {
                    limit.quota.release(before.words_of(old, index), rings);
                }
            }
        }
        *records = carried;
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn bytes(&self) -> usize {
        let page = PAGE as usize * self.words() * size_of::<u32>();
        self.index.bytes()
            + self.records.pages.len() * page
            + self.records.pages.capacity() * size_of::<Box<[u32]>>()
            + self.free.capacity() * size_of::<RecordSlot>()
            + self.rings.bytes()
    }
}

/// The record of an unknown caller, as long as the longest limit needs.
const NOTHING_USED: [u32; 8] = [0; 8];

fn empty_page(words: usize) -> Box<[u32]> {
    vec![0; PAGE as usize * words].into()
}

fn for_each_limit(record: &mut [u32], limits: &[NumberedQuota], mut each: impl FnMut(&Quota, &mut [u32])) {
    let mut words = &mut record[KEY_WORDS..];
    for NumberedQuota { quota, .. } in limits {
        let (own, rest) = words.split_at_mut(quota.words());
        each(quota, own);
        words = rest;
    }
}
