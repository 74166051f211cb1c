//! A hash index from a key to the slot of its record, with one cache miss per lookup.
//!
//! Sixteen entries share one cache line: a lookup reads the line that the hash selects, compares sixteen tags, and then
//! reads the record. A general hash table keeps tags and entries in two places, one read after the other, and among a
//! million callers each of those reads is a cache miss.

/// The position of a caller's record in its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordSlot(u32);

impl RecordSlot {
    /// The maximum number of slots.
    pub(super) const MAX: u32 = SLOT_MASK - 1;

    /// The slot with this number; `None` above the maximum.
    pub(super) fn new(number: u32) -> Option<Self> {
        (number < Self::MAX).then_some(Self(number))
    }

    pub(super) fn number(self) -> u32 {
        self.0
    }
}

const ENTRIES: usize = 16;
/// The load per line, in entries, above which the index is rebuilt.
const MAX_LOAD: usize = 13;
/// The average load per line after a rebuild. With fewer lines, entries would overflow into neighbouring lines.
const REBUILT_LOAD: usize = 9;

/// Entries: eight bits of the hash as tag, then the slot number plus one. Zero marks an entry that was never used.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct IndexLine([u32; ENTRIES]);

const SLOT_BITS: u32 = 24;
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;
/// A tombstone. It keeps a lookup from stopping at a line that has overflowed into the next.
const REMOVED: u32 = SLOT_MASK;

/// The slots of the keys of one shard.
#[derive(Debug, Default)]
pub(super) struct SlotIndex {
    lines: Vec<IndexLine>,
    live: usize,
    /// Entries that are not zero: live ones and tombstones.
    used: usize,
}

impl SlotIndex {
    pub(super) fn len(&self) -> usize {
        self.live
    }

    pub(super) fn bytes(&self) -> usize {
        self.lines.capacity() * size_of::<IndexLine>()
    }

    /// The slot with this hash for which `is_it` returns true.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(RecordSlot) -> bool) -> Option<RecordSlot> {
        let tag = tag_of(hash);
        for line in self.lines_from(hash) {
            let entries = &self.lines[line].0;
            for entry in entries {
                if entry >> SLOT_BITS == tag
                    && let Some(slot) = slot_of(*entry)
                    && is_it(slot)
                {
                    return Some(slot);
                }
            }
            // A line overflows only when it is full, so one with an unused entry ends the search.
            if entries.contains(&0) {
                return None;
            }
        }
        None
    }

    /// Adds a slot that is not in the index. `hash_of` returns the hash of any slot that is.
    pub(super) fn insert(&mut self, hash: u64, slot: RecordSlot, hash_of: impl Fn(RecordSlot) -> u64) {
        if self.used >= self.lines.len() * MAX_LOAD {
            self.rebuild(hash_of);
        }
        self.put(hash, slot);
        self.live += 1;
    }

    /// Keeps the slots for which `keep` returns true.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(RecordSlot) -> bool) {
        for entry in self.lines.iter_mut().flat_map(|line| &mut line.0) {
            if let Some(slot) = slot_of(*entry)
                && !keep(slot)
            {
                *entry = REMOVED;
                self.live -= 1;
            }
        }
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = RecordSlot> {
        self.lines.iter().flat_map(|line| line.0).filter_map(slot_of)
    }

    /// Rebuilds the lines with the live entries only, with room to spare.
    fn rebuild(&mut self, hash_of: impl Fn(RecordSlot) -> u64) {
        let lines = (self.live + 1).div_ceil(REBUILT_LOAD);
        let old = std::mem::replace(&mut self.lines, vec![IndexLine::default(); lines]);
        self.used = 0;
        for slot in old.iter().flat_map(|line| line.0).filter_map(slot_of) {
            self.put(hash_of(slot), slot);
        }
    }

    fn put(&mut self, hash: u64, slot: RecordSlot) {
        let entry = tag_of(hash) << SLOT_BITS | (slot.0 + 1);
        for line in self.lines_from(hash) {
            let room = self.lines[line].0.iter_mut().find(|entry| slot_of(**entry).is_none());
            if let Some(room) = room {
                self.used += usize::from(*room == 0);
                *room = entry;
                return;
            }
        }
    }

    /// The line that the hash selects, then all following ones, wrapping around.
    fn lines_from(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let lines = self.lines.len();
        // The high half of the product: as uniform as a remainder, and faster.
        let first = (u128::from(hash) * lines as u128) >> 64;
        let first = usize::try_from(first).unwrap_or(0);
        (first..lines).chain(0..first)
    }
}

/// Bits of the hash that select neither the line nor the shard.
fn tag_of(hash: u64) -> u32 {
    u32::try_from(hash & 0xFF).unwrap_or(0)
}

fn slot_of(entry: u32) -> Option<RecordSlot> {
    match entry & SLOT_MASK {
        0 | REMOVED => None,
        number => Some(RecordSlot(number - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::{RecordSlot, SlotIndex};
    use proptest::collection::vec;
    use proptest::prelude::{prop_assert_eq, proptest};
    use std::collections::BTreeMap;

    fn hash(key: u32) -> u64 {
        u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    #[test]
    fn places_end_before_the_mark_of_removal() {
        assert_eq!(RecordSlot::new(RecordSlot::MAX - 1).map(RecordSlot::number), Some(0xFF_FFFD));
        assert_eq!(RecordSlot::new(RecordSlot::MAX), None);
        let mut index = SlotIndex::default();
        let last = RecordSlot(RecordSlot::MAX - 1);
        index.insert(7, last, |_| 7);
        assert_eq!(index.find(7, |_| true), Some(last));
    }

    #[test]
    fn an_empty_index_finds_nothing() {
        let index = SlotIndex::default();
        assert_eq!((index.find(1, |_| true), index.len(), index.bytes()), (None, 0, 0));
    }

    #[test]
    fn a_thousand_keys_of_one_line_are_all_found() {
        // The worst case: every key in the same line with the same tag.
        let mut index = SlotIndex::default();
        for number in 0..1_000 {
            index.insert(5, RecordSlot(number), |_| 5);
        }
        for number in 0..1_000 {
            assert_eq!(index.find(5, |slot| slot == RecordSlot(number)), Some(RecordSlot(number)));
        }
        index.retain(|slot| slot.0 % 2 == 0);
        assert_eq!((index.len(), index.find(5, |slot| slot == RecordSlot(1))), (500, None));
        assert_eq!(index.find(5, |slot| slot == RecordSlot(998)), Some(RecordSlot(998)));
    }

    #[test]
    fn lines_stay_between_half_and_four_fifths_full() {
        let mut index = SlotIndex::default();
        for number in 0..100_000 {
            index.insert(hash(number), RecordSlot(number), |slot| hash(slot.0));
            if number > 100 {
                let entries = index.bytes() / 4;
                let full = index.len() * 100 / entries;
                assert!((50..=82).contains(&full), "{full} % of {entries}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_index_equals_a_map(steps in vec((0_u32..60, 0_u8..10), 1..400), spread in 1_u64..200) {
            // Few distinct hashes, so that lines overflow.
            let hash = |key: u32| (hash(key) % spread) << 55;
            let mut index = SlotIndex::default();
            let mut map = BTreeMap::new();
            for (key, step) in steps {
                if step == 0 {
                    index.retain(|slot| slot.0 % 3 != key % 3);
                    map.retain(|known, ()| known % 3 != key % 3);
                } else if map.insert(key, ()).is_none() {
                    index.insert(hash(key), RecordSlot(key), |slot| hash(slot.0));
                }
                prop_assert_eq!(index.len(), map.len());
                for key in 0..60 {
                    let found = index.find(hash(key), |slot| slot.0 == key);
                    prop_assert_eq!(found, map.contains_key(&key).then_some(RecordSlot(key)));
                }
            }
        }
    }
}
