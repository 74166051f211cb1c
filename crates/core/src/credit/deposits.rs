//! A lock-free sum over a sliding window.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::time::{Timestamp, nanos};
use std::time::Duration;

const SLICES: u32 = 10;
const CELLS: usize = 10;

/// Ten slices of one word each: the slice's number in the high half, its count in the low half. Adding to an expired
/// slice resets it in the same compare-and-swap, so no addition is lost and none counts twice.
#[derive(Debug)]
pub(super) struct Deposits {
    slice_nanos: u64,
    slices: [AtomicU64; CELLS],
}

impl Deposits {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            slice_nanos: (nanos(window) / u64::from(SLICES)).max(1),
            slices: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    pub(super) fn add(&self, count: u32, now: Timestamp) {
        let slice = self.slice(now);
        let cell = &self.slices[cell_index(slice)];
        let mut seen = cell.load(Ordering::Acquire);
        loop {
            let (number, counted) = split(seen);
            // The slice in this cell is newer than ours: this thread read its clock earlier, so count it there. A cell
            // with a count of zero was never used and has no slice.
            let is_behind = counted > 0 && number.wrapping_sub(slice) < u32::MAX / 2;
            let next =
                if is_behind { join(number, counted.saturating_add(count)) } else { join(slice, count) };
            match cell.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(changed) => seen = changed,
            }
        }
    }

    pub(super) fn sum(&self, now: Timestamp) -> u64 {
        let present = self.slice(now);
        let live = self.slices.iter().filter_map(|cell| {
            let (number, count) = split(cell.load(Ordering::Acquire));
            // A newer slice than ours is another thread's current slice and counts.
            let age = present.wrapping_sub(number);
            (!(SLICES..=u32::MAX / 2).contains(&age)).then_some(u64::from(count))
        });
        live.fold(0_u64, u64::saturating_add)
    }

    /// The slice of this time.
    fn slice(&self, now: Timestamp) -> u32 {
        let number = now.as_nanos() / self.slice_nanos;
        u32::try_from(number & u64::from(u32::MAX)).unwrap_or(u32::MAX)
    }
}

fn cell_index(slice: u32) -> usize {
    slice as usize % CELLS
}

fn split(word: u64) -> (u32, u32) {
    let half = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    (half(word >> 32), half(word))
}

fn join(number: u32, count: u32) -> u64 {
    u64::from(number) << 32 | u64::from(count)
}
