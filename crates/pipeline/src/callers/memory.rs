//! What the directory said, for a while.
//!
//! 64 parts, each behind a lock of its own, picked by the hash, which is as even as chance. A part that is full gives up
//! what it has known for longest. Those whom nobody knows are kept apart: whoever makes up a million keys pushes out
//! others who did, and nobody with a real one.
//!
//! It will not judge whether something is still to be believed; what has run out stays until it is pushed out, so that a
//! revocation is known even while the directory is away.

use super::Tier;
use seawall_core::time::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

const PARTS: usize = 64;
/// In one part: 89,984 and 9,984 in all.
const MOST_KNOWN: usize = 1_406;
const MOST_STRANGERS: usize = 156;

type Hash = [u8; 32];

/// What the directory said of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remembered {
    /// Whose it is.
    Found { id: u64, tier: Tier, is_clamped: bool },
    /// It is good for nothing any more.
    Revoked,
    /// Nobody has it.
    Absent,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Memory {
    parts: Box<[Mutex<Part>]>,
}

#[derive(Debug)]
struct Part {
    known: Table,
    strangers: Table,
}

/// What is known, and in which order it came.
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

    /// What was said of it last, and when it was asked for.
    pub(super) fn recall(&self, hash: &Hash) -> Option<(Remembered, Timestamp)> {
        let part = self.part(hash);
        let entry = part.known.entries.get(hash).or_else(|| part.strangers.entries.get(hash))?;
        Some((entry.what, entry.since))
    }

    /// Remembers what was just said.
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
        // The last byte: the first ones may be what somebody wants to look like another's.
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
        // Who is known now is no stranger any more, and takes the place of who was known for longest.
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
        /// Against a list that is searched from its end.
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
