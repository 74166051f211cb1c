//! The callers of one group whose keys fall into one shard.

use super::decision::{Cost, QuotaKey};
use super::rule::{Check, Quota, Use};
use super::sliding::RingPool;
use crate::time::Now;
use hashbrown::HashTable;

/// Callers whose uses lie together. Pages never move, so growing costs one page and no copying.
const PAGE: usize = 128;

/// The place of a caller in its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

#[derive(Debug)]
struct Page {
    keys: Box<[QuotaKey]>,
    uses: Box<[Use]>,
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    index: HashTable<Slot>,
    pages: Vec<Page>,
    free: Vec<Slot>,
    used_slots: u32,
    pool: RingPool,
}

impl Slot {
    fn page(self) -> usize {
        self.0 as usize / PAGE
    }

    fn place(self) -> usize {
        self.0 as usize % PAGE
    }
}

impl Shard {
    pub(super) fn find(&self, hash: u64, key: QuotaKey) -> Option<Slot> {
        self.index.find(hash, |slot| self.key(*slot) == key).copied()
    }

    /// The slot of a key that is not in the index yet, with nothing used.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        key: QuotaKey,
        quotas: &[Quota],
        rehash: impl Fn(QuotaKey) -> u64,
    ) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            let slot = Slot(self.used_slots);
            self.used_slots += 1;
            slot
        });
        if slot.page() == self.pages.len() {
            let uses = (0..PAGE).flat_map(|_| quotas.iter().map(Quota::unused)).collect();
            self.pages.push(Page { keys: vec![QuotaKey(0); PAGE].into(), uses });
        }
        self.pages[slot.page()].keys[slot.place()] = key;
        let pages = &self.pages;
        self.index.insert_unique(hash, slot, |slot| rehash(pages[slot.page()].keys[slot.place()]));
        slot
    }

    /// Asks one limit of a caller; of one who is not known, nothing has been used.
    pub(super) fn check(
        &self,
        slot: Option<Slot>,
        quotas: &[Quota],
        quota: usize,
        now: Now,
        cost: Cost,
    ) -> Check {
        let rule = &quotas[quota];
        match slot {
            Some(slot) => rule.check(&self.uses(slot, quotas.len())[quota], &self.pool, now, cost),
            None => rule.check(&rule.unused(), &self.pool, now, cost),
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
        let (uses, pool) = self.uses_mut(slot, quotas.len());
        for (quota, used) in quotas.iter().zip(uses) {
            mark(quota.take(used, pool, now, cost));
        }
    }

    pub(super) fn settle(
        &mut self,
        slot: Slot,
        quotas: &[Quota],
        now: Now,
        marks: &[u64],
        change: (Cost, Cost),
    ) {
        let (uses, pool) = self.uses_mut(slot, quotas.len());
        for ((quota, used), mark) in quotas.iter().zip(uses).zip(marks) {
            quota.settle(used, pool, now, *mark, change);
        }
    }

    /// Forgets callers who have nothing left in any window, and takes rings from those who calmed down.
    pub(super) fn sweep(&mut self, quotas: &[Quota], now: Now) -> usize {
        let Self { index, pages, free, pool, .. } = self;
        let before = index.len();
        index.retain(|slot| {
            let from = slot.place() * quotas.len();
            let uses = &mut pages[slot.page()].uses[from..from + quotas.len()];
            let idle = quotas.iter().zip(&*uses).all(|(quota, used)| quota.is_idle(used, pool, now));
            for (quota, used) in quotas.iter().zip(uses) {
                quota.compact(used, pool, now);
                if idle {
                    *used = quota.unused();
                }
            }
            if idle {
                free.push(*slot);
            }
            !idle
        });
        before - index.len()
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn bytes(&self, quotas: usize) -> usize {
        let page = PAGE * (size_of::<QuotaKey>() + quotas * size_of::<Use>());
        self.index.allocation_size()
            + self.pages.len() * page
            + self.pages.capacity() * size_of::<Page>()
            + self.free.capacity() * size_of::<Slot>()
            + self.pool.bytes()
    }

    fn key(&self, slot: Slot) -> QuotaKey {
        self.pages[slot.page()].keys[slot.place()]
    }

    fn uses(&self, slot: Slot, quotas: usize) -> &[Use] {
        let from = slot.place() * quotas;
        &self.pages[slot.page()].uses[from..from + quotas]
    }

    fn uses_mut(&mut self, slot: Slot, quotas: usize) -> (&mut [Use], &mut RingPool) {
        let from = slot.place() * quotas;
        (&mut self.pages[slot.page()].uses[from..from + quotas], &mut self.pool)
    }
}
