//! What requests add to: plain numbers that many threads share, and no lock.

use super::page::{Page, Told};
use super::table::Metric;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Numbers of its own cache lines, so that two threads that count different things do not wait for each other.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Cells<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Cells<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl<const N: usize> Cells<N> {
    /// Adds to one of them. One that is not there is nobody's.
    pub(super) fn add(&self, place: usize, amount: u64) {
        // Most requests have nothing to add to most cells, and looking is cheaper than taking the line from others.
        if amount > 0
            && let Some(cell) = self.0.get(place)
        {
            cell.fetch_add(amount, Ordering::Relaxed);
        }
    }

    pub(super) fn get(&self, place: usize) -> u64 {
        self.0.get(place).map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    pub(super) fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, cell| sum.saturating_add(cell.load(Ordering::Relaxed)))
    }
}

/// The most buckets that a histogram has, with the one above all bounds.
const BUCKETS: usize = 16;
/// Where the sum stands, behind the buckets.
const SUM: usize = BUCKETS;

/// Durations in fixed buckets.
#[derive(Debug)]
pub(super) struct Durations {
    /// Upper bounds in microseconds, rising.
    bounds: &'static [u64],
    cells: Cells<{ BUCKETS + 1 }>,
}

impl Durations {
    pub(super) fn new(bounds: &'static [u64]) -> Self {
        debug_assert!(bounds.len() < BUCKETS && bounds.is_sorted());
        Self { bounds, cells: Cells::default() }
    }

    /// Counts one. A bound belongs to the bucket below it.
    pub(super) fn record(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let above = |bound: &&u64| nanos > bound.saturating_mul(1_000);
        self.cells.add(self.bounds.iter().take_while(above).count(), 1);
        self.cells.add(SUM, nanos);
    }

    /// Nothing is written before anything was counted.
    pub(super) fn write(&self, page: &mut Page, metric: &'static Metric, labels: &[&str]) {
        let counts: [u64; BUCKETS] = std::array::from_fn(|place| self.cells.get(place));
        if counts.iter().any(|count| *count > 0) {
            let sum_nanos = self.cells.get(SUM);
            page.histogram(metric, labels, &Told { bounds: self.bounds, counts: &counts, sum_nanos });
        }
    }
}
