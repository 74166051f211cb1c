//! A window with one counter per slice, for callers that are active in many slices.

use super::packed::WindowSlice;
use super::sliding::SLICES;

/// A power of two, so that adjacent slices stay in distinct positions when slice numbers wrap around.
const POSITIONS: u32 = 64;

/// A counter for every slice that counts, and their sum.
#[derive(Clone, Debug)]
pub(crate) struct SliceRing {
    newest: u32,
    /// The sum of all counters, including slices that have expired.
    total: u64,
    units: [u32; POSITIONS as usize],
}

impl Default for SliceRing {
    fn default() -> Self {
        Self { newest: 0, total: 0, units: [0; POSITIONS as usize] }
    }
}

impl SliceRing {
    /// Creates a ring with these slices; `newest` is the number of the newest.
    pub(super) fn of(slices: impl Iterator<Item = WindowSlice>, newest: u32) -> Self {
        let mut ring = Self { newest, ..Self::default() };
        for slice in slices {
            ring.units[position(slice.number)] = slice.units;
            ring.total += u64::from(slice.units);
        }
        ring
    }

    /// The number of the newest slice, if there is any.
    pub(super) fn newest(&self) -> Option<u32> {
        (self.total > 0).then_some(self.newest)
    }

    /// The sum of the slices that count at present: the total less those that have expired since the newest was
    /// charged.
    pub(super) fn used(&self, present: u32) -> u64 {
        let left = present.wrapping_sub(self.newest).min(SLICES);
        let oldest = self.newest.wrapping_sub(SLICES - 1);
        let expired = (0..left).map(|step| u64::from(self.units[position(oldest.wrapping_add(step))]));
        self.total.saturating_sub(expired.sum())
    }

    /// The slices that count at present, oldest first.
    pub(super) fn live(&self, present: u32) -> impl Iterator<Item = WindowSlice> {
        let left = present.wrapping_sub(self.newest).min(SLICES);
        let numbers = (left..SLICES).map(move |step| self.newest.wrapping_sub(SLICES - 1).wrapping_add(step));
        numbers.map(|number| WindowSlice { number, units: self.units[position(number)] })
    }

    /// Adds to the newest or a newer slice, and clears expired slices.
    pub(super) fn add(&mut self, slice: WindowSlice) {
        let steps = slice.number.wrapping_sub(self.newest).min(POSITIONS);
        for back in 0..steps {
            let cleared = &mut self.units[position(slice.number.wrapping_sub(back))];
            self.total -= u64::from(*cleared);
            *cleared = 0;
        }
        // The positions between the 61 slices that count and the ring's 64.
        for beyond in SLICES..POSITIONS {
            let cleared = &mut self.units[position(slice.number.wrapping_sub(beyond))];
            self.total -= u64::from(*cleared);
            *cleared = 0;
        }
        self.newest = slice.number;
        let units = &mut self.units[position(slice.number)];
        let more = slice.units.min(u32::MAX - *units);
        *units += more;
        self.total += u64::from(more);
    }

    pub(super) fn refund(&mut self, slice: WindowSlice) {
        if self.newest.wrapping_sub(slice.number) < SLICES {
            let units = &mut self.units[position(slice.number)];
            let less = slice.units.min(*units);
            *units -= less;
            self.total -= u64::from(less);
        }
    }
}

fn position(slice: u32) -> usize {
    (slice % POSITIONS) as usize
}
