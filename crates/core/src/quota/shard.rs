//! The callers of one group whose keys fall into one shard.
//!
//! A caller is one record of words that lie together: its key, then what it has used of each limit in turn.
//! Deciding among a million callers is mostly waiting for memory, so what is read together is kept together.

use super::decision::{Cost, QuotaKey};
use super::index::{Slot, SlotIndex};
use super::pool::Pool;
use super::ring::SliceRing;
use super::rule::{Check, Quota};
use crate::time::Now;

/// Records that lie together. Pages never move, so growing costs one page and no copying.
const PAGE: u32 = 128;
/// The words of a record before the first limit's.
const KEY_WORDS: usize = 2;

#[derive(Debug, Default)]
pub(super) struct Shard {
    index: SlotIndex,
    records: Records,
    free: Vec<Slot>,
    used_slots: u32,
    rings: Pool<SliceRing>,
}

#[derive(Debug, Default)]
struct Records {
    pages: Vec<Box<[u32]>>,
}

/// Words of one record.
fn record_words(quotas: &[Quota]) -> usize {
    KEY_WORDS + quotas.iter().map(Quota::words).sum::<usize>()
}

impl Records {
    fn record(&self, slot: Slot, words: usize) -> &[u32] {
        let from = (slot.number() % PAGE) as usize * words;
        &self.pages[(slot.number() / PAGE) as usize][from..from + words]
    }

    fn record_mut(&mut self, slot: Slot, words: usize) -> &mut [u32] {
        let from = (slot.number() % PAGE) as usize * words;
        &mut self.pages[(slot.number() / PAGE) as usize][from..from + words]
    }

    fn key(&self, slot: Slot, words: usize) -> QuotaKey {
        let record = self.record(slot, words);
        QuotaKey(u64::from(record[1]) << 32 | u64::from(record[0]))
    }
}

impl Shard {
    pub(super) fn find(&self, hash: u64, key: QuotaKey, quotas: &[Quota]) -> Option<Slot> {
        let words = record_words(quotas);
        self.index.find(hash, |slot| self.records.key(slot, words) == key)
    }

    /// A slot for a key that has none, with nothing used; none if there is no room for one more.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        key: QuotaKey,
        quotas: &[Quota],
        rehash: impl Fn(QuotaKey) -> u64,
    ) -> Option<Slot> {
        let words = record_words(quotas);
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

    fn new_slot(&mut self, words: usize) -> Option<Slot> {
        let slot = Slot::new(self.used_slots)?;
        if self.used_slots.is_multiple_of(PAGE) {
            self.records.pages.push(vec![0; PAGE as usize * words].into());
        }
        self.used_slots += 1;
        Some(slot)
    }

    /// Asks every limit of a caller in turn; of one who is not known, nothing has been used.
    pub(super) fn check(
        &self,
        slot: Option<Slot>,
        quotas: &[Quota],
        now: Now,
        cost: Cost,
        mut each: impl FnMut(usize, Check),
    ) {
        let mut words = slot.map(|slot| &self.records.record(slot, record_words(quotas))[KEY_WORDS..]);
        for (index, quota) in quotas.iter().enumerate() {
            let (own, rest) = words.map_or((&NOTHING_USED[..], None), |words| {
                let (own, rest) = words.split_at(quota.words());
                (own, Some(rest))
            });
            words = rest;
            each(index, quota.check(own, &self.rings, now, cost));
        }
    }

    pub(super) fn take(
        &mut self,
        slot: Slot,
        quotas: &[Quota],
        now: Now,
        cost: Cost,
        mut mark: impl FnMut(u64),
    ) {
        let Self { records, rings, .. } = self;
        let record = records.record_mut(slot, record_words(quotas));
        for_each_limit(record, quotas, |quota, words| mark(quota.take(words, rings, now, cost)));
    }

    pub(super) fn settle(
        &mut self,
        slot: Slot,
        quotas: &[Quota],
        now: Now,
        marks: &[u64],
        change: (Cost, Cost),
    ) {
        let Self { records, rings, .. } = self;
        let record = records.record_mut(slot, record_words(quotas));
        let mut marks = marks.iter();
        for_each_limit(record, quotas, |quota, words| {
            if let Some(mark) = marks.next() {
                quota.settle(words, rings, now, *mark, change);
            }
        });
    }

    /// Forgets callers who have nothing left in any window, and takes room from those who calmed down.
    pub(super) fn sweep(&mut self, quotas: &[Quota], now: Now) -> usize {
        let Self { index, records, free, rings, .. } = self;
        let before = index.len();
        index.retain(|slot| {
            let record = records.record_mut(slot, record_words(quotas));
            let mut idle = true;
            for_each_limit(record, quotas, |quota, words| {
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

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn bytes(&self, quotas: &[Quota]) -> usize {
        let page = PAGE as usize * record_words(quotas) * size_of::<u32>();
        self.index.bytes()
            + self.records.pages.len() * page
            + self.records.pages.capacity() * size_of::<Box<[u32]>>()
            + self.free.capacity() * size_of::<Slot>()
            + self.rings.bytes()
    }
}

/// The record of somebody who is not known, as long as the longest limit needs.
const NOTHING_USED: [u32; 8] = [0; 8];

fn for_each_limit(record: &mut [u32], quotas: &[Quota], mut each: impl FnMut(&Quota, &mut [u32])) {
    let mut words = &mut record[KEY_WORDS..];
    for quota in quotas {
        let (own, rest) = words.split_at_mut(quota.words());
        each(quota, own);
        words = rest;
    }
}
