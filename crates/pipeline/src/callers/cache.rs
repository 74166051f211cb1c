//! Bounded cache of directory lookups.
//!
//! The cache has 64 shards, each with its own lock. The hash selects the shard, which spreads credentials evenly. A
//! full shard evicts its oldest entry (FIFO). Unknown credentials have a table of their own: a client that invents a
//! million keys evicts other invented keys and never a real one.
//!
//! The cache does not expire entries; its user compares their age. An expired entry stays until it is evicted, so that
//! a revocation is still known while the caller directory is unavailable.

use super::{CallerContract, Tier};
use seawall_core::time::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 64;
/// Per shard; in total 89,984 known and 9,984 unknown credentials.
const MAX_KNOWN_PER_SHARD: usize = 1_406;
const MAX_UNKNOWN_PER_SHARD: usize = 156;

type Hash = [u8; 32];

/// The directory's record of a credential, reduced to what requests need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CachedRecord {
    /// The credential belongs to this caller.
    Found { id: u64, tier: Tier, is_suspended: bool, contract: Arc<CallerContract> },
    /// The credential was revoked.
    Revoked,
    /// No such credential exists.
    Absent,
}

/// The sharded cache; see the module documentation.
#[derive(Debug)]
pub(super) struct CallerCache {
    shards: Box<[Mutex<CacheShard>]>,
}

#[derive(Debug)]
struct CacheShard {
    known: Table,
    unknown: Table,
}

/// A bounded table with its insertion order.
#[derive(Debug)]
struct Table {
    capacity: usize,
    entries: BTreeMap<Hash, Entry>,
    order: BTreeMap<u64, Hash>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    record: CachedRecord,
    since: Timestamp,
    sequence: u64,
}

impl Default for CallerCache {
    fn default() -> Self {
        Self::new(MAX_KNOWN_PER_SHARD, MAX_UNKNOWN_PER_SHARD)
    }
}

impl CallerCache {
    fn new(max_known: usize, max_unknown: usize) -> Self {
        let shard = || CacheShard { known: Table::new(max_known), unknown: Table::new(max_unknown) };
        Self { shards: (0..SHARDS).map(|_| Mutex::new(shard())).collect() }
    }

    /// The last result for this credential, and when its lookup started.
    pub(super) fn get(&self, hash: &Hash) -> Option<(CachedRecord, Timestamp)> {
        let shard = self.shard(hash);
        let entry = shard.known.entries.get(hash).or_else(|| shard.unknown.entries.get(hash))?;
        Some((entry.record.clone(), entry.since))
    }

    pub(super) fn insert(&self, hash: Hash, record: CachedRecord, since: Timestamp, is_unknown: bool) {
        let mut shard = self.shard(&hash);
        let CacheShard { known, unknown } = &mut *shard;
        let (table, other) = if is_unknown { (unknown, known) } else { (known, unknown) };
        other.remove(&hash);
        table.insert(hash, record, since);
    }

    pub(super) fn remove(&self, hash: &Hash) {
        let mut shard = self.shard(hash);
        shard.known.remove(hash);
        shard.unknown.remove(hash);
    }

    fn shard(&self, hash: &Hash) -> MutexGuard<'_, CacheShard> {
        // Selects by the last byte: the first bytes form the caller's identifier, which an attacker may try to match.
        let index = usize::from(hash[31]) % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    const fn new(capacity: usize) -> Self {
        Self { capacity, entries: BTreeMap::new(), order: BTreeMap::new(), next: 0 }
    }

    fn insert(&mut self, hash: Hash, record: CachedRecord, since: Timestamp) {
        self.remove(&hash);
        while self.entries.len() >= self.capacity {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.entries.remove(&oldest);
        }
        let sequence = self.next;
        self.next += 1;
        self.order.insert(sequence, hash);
        self.entries.insert(hash, Entry { record, since, sequence });
    }

    fn remove(&mut self, hash: &Hash) {
        if let Some(entry) = self.entries.remove(hash) {
            self.order.remove(&entry.sequence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CachedRecord, CallerCache, MAX_KNOWN_PER_SHARD, MAX_UNKNOWN_PER_SHARD, SHARDS};
    use proptest::collection;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use seawall_core::time::Timestamp;

    fn hash(of: u8) -> [u8; 32] {
        let mut hash = [0; 32];
        hash[0] = of;
        hash
    }

    fn at(moment: u64) -> Timestamp {
        Timestamp::from_nanos(moment)
    }

    #[test]
    fn there_are_never_more_than_a_hundred_thousand_and_nearly_as_many() {
        let max = SHARDS * (MAX_KNOWN_PER_SHARD + MAX_UNKNOWN_PER_SHARD);
        assert!((99_900..=100_000).contains(&max), "{max}");
        let cache = CallerCache::default();
        for number in 0..120_000_u32 {
            let mut hash = [0; 32];
            hash[..4].copy_from_slice(&number.to_be_bytes());
            hash[31] = number.to_le_bytes()[0];
            cache.insert(hash, CachedRecord::Revoked, at(0), false);
            hash[4] = 1;
            cache.insert(hash, CachedRecord::Absent, at(0), true);
        }
        let kept: usize = cache.shards.iter().map(|shard| shard.lock().unwrap().known.entries.len()).sum();
        let unknown: usize =
            cache.shards.iter().map(|shard| shard.lock().unwrap().unknown.entries.len()).sum();
        assert_eq!((kept, unknown), (SHARDS * MAX_KNOWN_PER_SHARD, SHARDS * MAX_UNKNOWN_PER_SHARD));
    }

    #[test]
    fn unknown_credentials_evict_only_unknown_ones() {
        let cache = CallerCache::new(1, 2);
        cache.insert(hash(1), CachedRecord::Revoked, at(1), false);
        for of in 2..=4 {
            cache.insert(hash(of), CachedRecord::Absent, at(2), true);
        }
        let is_known = |of| cache.get(&hash(of)).is_some();
        assert_eq!([1, 2, 3, 4].map(is_known), [true, false, true, true]);
        // A credential that becomes known leaves the table of unknown ones and evicts the oldest known one.
        cache.insert(hash(4), CachedRecord::Revoked, at(3), false);
        assert_eq!([1, 3, 4].map(is_known), [false, true, true]);
        assert_eq!(cache.get(&hash(4)), Some((CachedRecord::Revoked, at(3))));
        cache.insert(hash(5), CachedRecord::Absent, at(3), true);
        assert!(is_known(3), "an entry for unknown credentials was free again");
        cache.remove(&hash(4));
        cache.remove(&hash(5));
        assert!(!is_known(4) && !is_known(5));
    }

    proptest! {
        /// Compares with a naive model: a list ordered by age.
        #[test]
        fn a_part_keeps_the_newest(steps in collection::vec((0_u8..12, any::<bool>(), 0_u8..8), 0..80)) {
            let cache = CallerCache::new(4, 2);
            let mut model: Vec<(u8, bool, u64)> = Vec::new();
            for (moment, (of, is_unknown, step)) in (0..).zip(steps) {
                model.retain(|(known, _, _)| *known != of);
                if step == 0 {
                    cache.remove(&hash(of));
                } else {
                    cache.insert(hash(of), CachedRecord::Absent, at(moment), is_unknown);
                    model.push((of, is_unknown, moment));
                    let max = if is_unknown { 2 } else { 4 };
                    if model.iter().filter(|(_, unknown, _)| *unknown == is_unknown).count() > max {
                        let oldest = model.iter().position(|(_, unknown, _)| *unknown == is_unknown);
                        model.remove(oldest.unwrap());
                    }
                }
                for of in 0..12 {
                    let expected = model.iter().find(|(known, _, _)| *known == of).map(|(_, _, since)| at(*since));
                    prop_assert_eq!(cache.get(&hash(of)).map(|(_, since)| since), expected);
                }
                let shard = cache.shard(&hash(0));
                prop_assert!(shard.known.order.len() == shard.known.entries.len());
                prop_assert!(shard.unknown.order.len() == shard.unknown.entries.len());
            }
        }
    }
}
