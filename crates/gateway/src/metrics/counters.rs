//! Lock-free counters that requests update from many threads.

use super::page::{HistogramValues, MetricsPage};
use super::table::Metric;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters on cache lines of their own, so that threads that update different groups do not contend (no false
/// sharing).
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct CounterCells<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for CounterCells<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl<const N: usize> CounterCells<N> {
    /// Adds to one counter. An index out of range is ignored.
    pub(super) fn add(&self, index: usize, amount: u64) {
        // Most requests add nothing to most cells, and a read is cheaper than taking the cache line from other threads.
        if amount > 0
            && let Some(cell) = self.0.get(index)
        {
            cell.fetch_add(amount, Ordering::Relaxed);
        }
    }

    pub(super) fn get(&self, index: usize) -> u64 {
        self.0.get(index).map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    pub(super) fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, cell| sum.saturating_add(cell.load(Ordering::Relaxed)))
    }
}

/// Maximum number of buckets of a histogram, including the one above all bounds.
const BUCKETS: usize = 16;
/// The index of the sum, behind the buckets.
const SUM: usize = BUCKETS;

/// A histogram of durations with fixed buckets.
#[derive(Debug)]
pub(super) struct DurationHistogram {
    /// Upper bounds in microseconds, ascending.
    bounds: &'static [u64],
    cells: CounterCells<{ BUCKETS + 1 }>,
}

impl DurationHistogram {
    pub(super) fn new(bounds: &'static [u64]) -> Self {
        debug_assert!(bounds.len() < BUCKETS && bounds.is_sorted());
        Self { bounds, cells: CounterCells::default() }
    }

    /// Records one duration. Upper bounds are inclusive.
    pub(super) fn record(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let above = |bound: &&u64| nanos > bound.saturating_mul(1_000);
        self.cells.add(self.bounds.iter().take_while(above).count(), 1);
        self.cells.add(SUM, nanos);
    }

    /// Writes nothing as long as nothing was recorded.
    pub(super) fn write(&self, page: &mut MetricsPage, metric: &'static Metric, labels: &[&str]) {
        let counts: [u64; BUCKETS] = std::array::from_fn(|index| self.cells.get(index));
        if counts.iter().any(|count| *count > 0) {
            let sum_nanos = self.cells.get(SUM);
            page.histogram(
                metric,
                labels,
                &HistogramValues { bounds: self.bounds, counts: &counts, sum_nanos },
            );
        }
    }
}
