//! Bounded cache of directory lookups.
//!
//! The cache has 64 shards, each with its own lock. The hash selects the shard, which spreads credentials evenly. A
//! full shard evicts its oldest entry (FIFO). Unknown credentials have a table of their own: a client that invents a
//! million keys evicts other invented keys and never a real one.
//!
//! The cache does not expire entries; its user compares their age. An expired entry stays until it is evicted, so that
//! a revocation is still known while the directory is unavailable.

use super::Tier;
use seawall_core::time::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

const PARTS: usize = 64;
/// Per shard; in total 89,984 known and 9,984 unknown credentials.
const MOST_KNOWN: usize = 1_406;
const MOST_STRANGERS: usize = 156;

type Hash = [u8; 32];

/// The directory's record of a credential, reduced to what requests need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remembered {
    /// The credential belongs to this caller.
    Found { id: u64, tier: Tier, is_clamped: bool },
    /// The credential was revoked.
    Revoked,
    /// No such credential exists.
    Absent,
}

/// The sharded cache; see the module documentation.
#[derive(Debug)]
pub(super) struct Memory {
    parts: Box<[Mutex<Part>]>,
}

#[derive(Debug)]
struct Part {
    known: Table,
    strangers: Table,
}

/// A bounded table with its insertion order.
#[derive(Debug)]
struct Table {
    most: usize,
    entries: BTreeMap<Hash, Entry>,
    order: BTreeMap<u64, Hash>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    what: Remembered,
    since: Timestamp,
    place: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(MOST_KNOWN, MOST_STRANGERS)
    }
}

impl Memory {
    fn new(most_known: usize, most_strangers: usize) -> Self {
        let part = || Part { known: Table::new(most_known), strangers: Table::new(most_strangers) };
        Self { parts: (0..PARTS).map(|_| Mutex::new(part())).collect() }
    }

    /// The last result for this credential, and when its lookup started.
    pub(super) fn recall(&self, hash: &Hash) -> Option<(Remembered, Timestamp)> {
        let part = self.part(hash);
        let entry = part.known.entries.get(hash).or_else(|| part.strangers.entries.get(hash))?;
        Some((entry.what, entry.since))
    }

    pub(super) fn remember(&self, hash: Hash, what: Remembered, since: Timestamp, is_stranger: bool) {
        let mut part = self.part(&hash);
        let Part { known, strangers } = &mut *part;
        let (table, other) = if is_stranger { (strangers, known) } else { (known, strangers) };
        other.remove(&hash);
        table.put(hash, what, since);
    }

    pub(super) fn forget(&self, hash: &Hash) {
        let mut part = self.part(hash);
        part.known.remove(hash);
        part.strangers.remove(hash);
    }

    fn part(&self, hash: &Hash) -> MutexGuard<'_, Part> {
        // Selects by the last byte: the first bytes form the caller's identifier, which an attacker may try to match.
        let place = usize::from(hash[31]) % PARTS;
        self.parts[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    const fn new(most: usize) -> Self {
        Self { most, entries: BTreeMap::new(), order: BTreeMap::new(), next: 0 }
    }

    fn put(&mut self, hash: Hash, what: Remembered, since: Timestamp) {
        self.remove(&hash);
        while self.entries.len() >= self.most {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.entries.remove(&oldest);
        }
        let place = self.next;
        self.next += 1;
        self.order.insert(place, hash);
        self.entries.insert(hash, Entry { what, since, place });
    }

    fn remove(&mut self, hash: &Hash) {
        if let Some(entry) = self.entries.remove(hash) {
            self.order.remove(&entry.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_KNOWN, MOST_STRANGERS, Memory, PARTS, Remembered};
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
        let most = PARTS * (MOST_KNOWN + MOST_STRANGERS);
        assert!((99_900..=100_000).contains(&most), "{most}");
        let memory = Memory::default();
        for number in 0..120_000_u32 {
            let mut hash = [0; 32];
            hash[..4].copy_from_slice(&number.to_be_bytes());
            hash[31] = number.to_le_bytes()[0];
            memory.remember(hash, Remembered::Revoked, at(0), false);
            hash[4] = 1;
            memory.remember(hash, Remembered::Absent, at(0), true);
        }
        let kept: usize = memory.parts.iter().map(|part| part.lock().unwrap().known.entries.len()).sum();
        let strangers: usize =
            memory.parts.iter().map(|part| part.lock().unwrap().strangers.entries.len()).sum();
        assert_eq!((kept, strangers), (PARTS * MOST_KNOWN, PARTS * MOST_STRANGERS));
    }

    #[test]
    fn strangers_push_out_strangers_alone() {
        let memory = Memory::new(1, 2);
        memory.remember(hash(1), Remembered::Revoked, at(1), false);
        for of in 2..=4 {
            memory.remember(hash(of), Remembered::Absent, at(2), true);
        }
        let is_known = |of| memory.recall(&hash(of)).is_some();
        assert_eq!([1, 2, 3, 4].map(is_known), [true, false, true, true]);
        // A credential that becomes known leaves the table of unknown ones and evicts the oldest known one.
        memory.remember(hash(4), Remembered::Revoked, at(3), false);
        assert_eq!([1, 3, 4].map(is_known), [false, true, true]);
        assert_eq!(memory.recall(&hash(4)), Some((Remembered::Revoked, at(3))));
        memory.remember(hash(5), Remembered::Absent, at(3), true);
        assert!(is_known(3), "a place among strangers was free again");
        memory.forget(&hash(4));
        memory.forget(&hash(5));
        assert!(!is_known(4) && !is_known(5));
    }

    proptest! {
        /// Compares with a naive model: a list ordered by age.
        #[test]
        fn a_part_keeps_the_newest(steps in collection::vec((0_u8..12, any::<bool>(), 0_u8..8), 0..80)) {
            let memory = Memory::new(4, 2);
            let mut model: Vec<(u8, bool, u64)> = Vec::new();
            for (moment, (of, is_stranger, deed)) in (0..).zip(steps) {
                model.retain(|(known, _, _)| *known != of);
                if deed == 0 {
                    memory.forget(&hash(of));
                } else {
                    memory.remember(hash(of), Remembered::Absent, at(moment), is_stranger);
                    model.push((of, is_stranger, moment));
                    let most = if is_stranger { 2 } else { 4 };
                    if model.iter().filter(|(_, stranger, _)| *stranger == is_stranger).count() > most {
                        let oldest = model.iter().position(|(_, stranger, _)| *stranger == is_stranger);
                        model.remove(oldest.unwrap());
                    }
                }
                for of in 0..12 {
                    let expected = model.iter().find(|(known, _, _)| *known == of).map(|(_, _, since)| at(*since));
                    prop_assert_eq!(memory.recall(&hash(of)).map(|(_, since)| since), expected);
                }
                let part = memory.part(&hash(0));
                prop_assert!(part.known.order.len() == part.known.entries.len());
                prop_assert!(part.strangers.order.len() == part.strangers.entries.len());
            }
        }
    }
}
