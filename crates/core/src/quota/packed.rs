//! A compact encoding of one caller's sliding window.
//!
//! Of a million callers most are active in a handful of slices of a window, few in many. Up to six slices are stored
//! inline in seven words beside the caller's other limits; only a caller that is active in more slices gets a
//! separately allocated ring.
//!
//! The first word is the number of the newest slice. Each other word is a slice: its age, counted from the newest, in
//! the high six bits, its units in the rest. A zero word is free. If the second word holds an age that no slice can
//! have, its low bits are the id of a ring.

use super::ring::SliceRing;
use super::slab::{Slab, SlabId};
use super::sliding::SLICES;

/// The number of words for one window of one caller.
pub(super) const WORDS: usize = 7;
const UNIT_BITS: u32 = 26;
const MAX_UNITS: u32 = (1 << UNIT_BITS) - 1;
const RING_MARK: u32 = 63;

/// Units charged in one slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WindowSlice {
    pub(super) number: u32,
    pub(super) units: u32,
}

/// The slices in either representation.
pub(super) enum StoredSlices<'a> {
    PackedSlices(PackedSlices<'a>),
    Ring(&'a SliceRing),
}

/// Slices stored inline.
#[derive(Clone, Copy)]
pub(super) struct PackedSlices<'a> {
    newest: u32,
    slices: &'a [u32],
}

pub(super) fn stored<'a>(words: &'a [u32], rings: &'a Slab<SliceRing>) -> StoredSlices<'a> {
    match ring_of(words) {
        Some(id) => StoredSlices::Ring(rings.get(id)),
        None => StoredSlices::PackedSlices(PackedSlices { newest: words[0], slices: &words[1..WORDS] }),
    }
}

/// The number of the newest slice, if there is any.
pub(super) fn newest(words: &[u32], rings: &Slab<SliceRing>) -> Option<u32> {
    match stored(words, rings) {
        StoredSlices::PackedSlices(packed) => packed.newest(),
        StoredSlices::Ring(ring) => ring.newest(),
    }
}

/// Adds to the newest or a newer slice; moves to a ring if the inline words are full.
pub(super) fn add(words: &mut [u32], rings: &mut Slab<SliceRing>, added: WindowSlice) {
    if let Some(id) = ring_of(words) {
        return rings.get_mut(id).add(added);
    }
    age_slices(words, added.number);
    let slices = &mut words[1..WORDS];
    let current = slices.iter_mut().find(|slice| age(**slice) == 0 && units(**slice) > 0);
    if let Some(current) = current {
        if let Some(sum) = units(*current).checked_add(added.units).filter(|sum| *sum <= MAX_UNITS) {
            *current = sum;
            return;
        }
    } else if added.units <= MAX_UNITS
        && let Some(free) = slices.iter_mut().find(|slice| **slice == 0)
    {
        *free = added.units;
        return;
    }
    let packed = PackedSlices { newest: words[0], slices: &words[1..WORDS] };
    let mut ring = SliceRing::of(packed.live(added.number), added.number);
    ring.add(added);
    words[1] = RING_MARK << UNIT_BITS | rings.add(ring).number();
}

/// Refunds units to the slice they were charged to, if it still counts.
pub(super) fn refund(words: &mut [u32], rings: &mut Slab<SliceRing>, charged: WindowSlice) {
    if let Some(id) = ring_of(words) {
        return rings.get_mut(id).refund(charged);
    }
    let its_age = words[0].wrapping_sub(charged.number);
    if let Some(slice) =
        words[1..WORDS].iter_mut().find(|slice| age(**slice) == its_age && units(**slice) > 0)
    {
        let left = units(*slice).saturating_sub(charged.units);
        *slice = if left == 0 { 0 } else { its_age << UNIT_BITS | left };
    }
}

/// Moves from a ring back to the inline words if its live slices fit.
pub(super) fn shrink(words: &mut [u32], rings: &mut Slab<SliceRing>, present: u32) {
    let Some(id) = ring_of(words) else { return };
    let mut packed = [0; WORDS];
    packed[0] = present;
    let mut free_words = packed[1..].iter_mut();
    for slice in rings.get(id).live(present).filter(|slice| slice.units > 0) {
        match free_words.next() {
            Some(word) if slice.units <= MAX_UNITS => {
                *word = present.wrapping_sub(slice.number) << UNIT_BITS | slice.units;
            }
            _ => return,
        }
    }
    rings.remove(id);
    words.copy_from_slice(&packed);
}

/// Frees the ring of a record that will not be read again.
pub(super) fn release(words: &[u32], rings: &mut Slab<SliceRing>) {
    if let Some(id) = ring_of(words) {
        rings.remove(id);
    }
}

impl PackedSlices<'_> {
    pub(super) fn newest(&self) -> Option<u32> {
        self.slices.iter().any(|slice| *slice != 0).then_some(self.newest)
    }

    /// The sum of the slices that count at present.
    pub(super) fn used(&self, present: u32) -> u64 {
        let passed = present.wrapping_sub(self.newest);
        let live = self.slices.iter().filter(|slice| passed.saturating_add(age(**slice)) < SLICES);
        live.map(|slice| u64::from(units(*slice))).sum()
    }

    /// The slices that count at present, in no particular order.
    pub(super) fn live(&self, present: u32) -> impl Iterator<Item = WindowSlice> {
        let (newest, passed) = (self.newest, present.wrapping_sub(self.newest));
        let live = self
            .slices
            .iter()
            .filter(move |slice| units(**slice) > 0 && passed.saturating_add(age(**slice)) < SLICES);
        live.map(move |slice| WindowSlice { number: newest.wrapping_sub(age(*slice)), units: units(*slice) })
    }

    /// Like `live`, oldest first.
    pub(super) fn oldest_first(&self, present: u32) -> impl Iterator<Item = WindowSlice> {
        let mut sorted = [WindowSlice::default(); WORDS - 1];
        for (position, slice) in sorted.iter_mut().zip(self.live(present)) {
            *position = slice;
        }
        // Free words sort before all slices and are filtered out.
        sorted.sort_unstable_by_key(|slice| std::cmp::Reverse(present.wrapping_sub(slice.number)));
        sorted.into_iter().filter(|slice| slice.units > 0)
    }
}

/// Makes `present` the newest slice: ages all slices and frees those that no longer count.
fn age_slices(words: &mut [u32], present: u32) {
    let passed = present.wrapping_sub(words[0]);
    if passed == 0 {
        return;
    }
    words[0] = present;
    for slice in &mut words[1..WORDS] {
        let its_age = age(*slice).saturating_add(passed);
        let counts = *slice != 0 && its_age < SLICES;
        *slice = if counts { its_age << UNIT_BITS | units(*slice) } else { 0 };
    }
}

fn ring_of(words: &[u32]) -> Option<SlabId> {
    (age(words[1]) == RING_MARK).then(|| SlabId::of_number(units(words[1])))
}

fn age(slice: u32) -> u32 {
    slice >> UNIT_BITS
}

fn units(slice: u32) -> u32 {
    slice & MAX_UNITS
}

#[cfg(test)]
mod tests {
    use super::{MAX_UNITS, StoredSlices, WORDS, WindowSlice, add, newest, refund, shrink, stored};
    use crate::quota::ring::SliceRing;
    use crate::quota::slab::Slab;

    fn take(words: &mut [u32], rings: &mut Slab<SliceRing>, number: u32, units: u32) {
        add(words, rings, WindowSlice { number, units });
    }

    fn is_ring(words: &[u32], rings: &Slab<SliceRing>) -> bool {
        matches!(stored(words, rings), StoredSlices::Ring(_))
    }

    fn used(words: &[u32], rings: &Slab<SliceRing>, present: u32) -> u64 {
        match stored(words, rings) {
            StoredSlices::PackedSlices(packed) => packed.used(present),
            StoredSlices::Ring(ring) => ring.used(present),
        }
    }

    #[test]
    fn six_slices_fit_in_place_and_the_seventh_needs_a_ring() {
        let (mut words, mut rings) = ([0; WORDS], Slab::default());
        for number in 100..106 {
            take(&mut words, &mut rings, number, 10);
        }
        take(&mut words, &mut rings, 105, 5);
        assert!(!is_ring(&words, &rings));
        assert_eq!(used(&words, &rings, 105), 65);
        take(&mut words, &mut rings, 106, 1);
        assert!(is_ring(&words, &rings));
        assert_eq!((used(&words, &rings, 106), newest(&words, &rings)), (66, Some(106)));
    }

    #[test]
    fn a_slice_that_no_longer_counts_makes_room_in_place() {
        let (mut words, mut rings) = ([0; WORDS], Slab::default());
        for number in [100, 110, 120, 130, 140, 150] {
            take(&mut words, &mut rings, number, 1);
        }
        take(&mut words, &mut rings, 161, 1);
        assert!(!is_ring(&words, &rings));
        assert_eq!(used(&words, &rings, 161), 6);
    }

    #[test]
    fn a_ring_is_left_when_what_still_counts_fits_in_place() {
        let (mut words, mut rings) = ([0; WORDS], Slab::default());
        for number in 100..110 {
            take(&mut words, &mut rings, number, 2);
        }
        // Ten, then seven, then six of them count.
        for (present, in_ring) in [(109, true), (163, true), (164, false)] {
            shrink(&mut words, &mut rings, present);
            assert_eq!(is_ring(&words, &rings), in_ring, "{present}");
        }
        assert_eq!(used(&words, &rings, 164), 12);
        refund(&mut words, &mut rings, WindowSlice { number: 109, units: 1 });
        refund(&mut words, &mut rings, WindowSlice { number: 103, units: 1 });
        assert_eq!(used(&words, &rings, 164), 11);
        // The freed ring is reused.
        let (mut other, id) = ([0; WORDS], rings.add(SliceRing::default()));
        assert_eq!(id.number(), 0);
        take(&mut other, &mut rings, 1, 1);
        assert_eq!(used(&other, &rings, 1), 1);
    }

    #[test]
    fn more_units_than_fit_in_a_word_move_to_a_ring_and_stay_there() {
        for first in [MAX_UNITS, MAX_UNITS + 1] {
            let (mut words, mut rings) = ([0; WORDS], Slab::default());
            take(&mut words, &mut rings, 5, first);
            assert_eq!(is_ring(&words, &rings), first > MAX_UNITS);
            take(&mut words, &mut rings, 5, 1);
            assert!(is_ring(&words, &rings));
            shrink(&mut words, &mut rings, 5);
            assert!(is_ring(&words, &rings));
            assert_eq!(used(&words, &rings, 5), u64::from(first) + 1);
        }
    }
}
