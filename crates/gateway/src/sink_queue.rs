//! A ring buffer of recent records: those to display, and those still to be written.
//!
//! One ring serves both. A request only pushes its record; formatting is left to the reader. When the ring wraps around
//! to a record that was not written yet, that line is lost and counted, and no request waits.

use seawall_pipeline::RequestRecord;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of records to display.
pub(crate) const MAX_SHOWN: usize = 1_000;
/// Capacity with a writer: some seconds of a busy gateway.
pub(super) const MAX_UNWRITTEN: usize = 10_000;

/// At this many records the writer stops batching and writes.
const FLUSH_THRESHOLD: usize = MAX_UNWRITTEN / 4;

/// A ring with more capacity than this once had a backlog; it shrinks when possible.
const SHRINK_ABOVE: usize = 4 * MAX_SHOWN;

/// Records in the order in which requests ended.
#[derive(Debug)]
pub(crate) struct RecentRequests {
    records: Mutex<RecordRing>,
    /// Signals the first record of a batch, or that there are many.
    awaited: Condvar,
    is_written: bool,
    capacity: usize,
}

#[derive(Debug, Default)]
struct RecordRing {
    /// The newest is at the back.
    ring: VecDeque<RequestRecord>,
    /// How many of the newest are still to be written.
    unwritten: usize,
    /// No more records will follow.
    is_closed: bool,
}

impl RecordRing {
    /// Removes the oldest if it was written and is not needed for display any more.
    fn pop_written(&mut self) -> Option<RequestRecord> {
        let is_removable = self.ring.len() >= MAX_SHOWN && self.ring.len() > self.unwritten;
        if is_removable { self.ring.pop_front() } else { None }
    }
}

impl RecentRequests {
    /// With or without a writer that takes the records.
    pub(super) fn new(is_written: bool) -> Self {
        let capacity = if is_written { MAX_UNWRITTEN } else { MAX_SHOWN };
        // Room for the displayed records and for those that arrive during a write: it grows only if writing is too
        // slow. The smaller the ring, the more of it is still in the CPU cache when its turn comes again.
        let records = RecordRing { ring: VecDeque::with_capacity(2 * MAX_SHOWN), ..RecordRing::default() };
        Self { records: Mutex::new(records), awaited: Condvar::new(), is_written, capacity }
    }

    fn lock(&self) -> MutexGuard<'_, RecordRing> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a record. Returns whether an unwritten one was lost.
    pub(super) fn push(&self, record: &RequestRecord) -> bool {
        // Clone before taking the lock, and drop the old record after releasing it.
        let record = record.clone();
        let mut records = self.lock();
        let is_lost = records.unwritten == self.capacity;
        // The oldest is removed once it was written, or if the ring is full. After a backlog, two are removed for each
        // new one.
        let oldest = if is_lost { records.ring.pop_front() } else { records.pop_written() };
        let next = records.pop_written();
        if records.ring.len() < MAX_SHOWN && records.ring.capacity() > SHRINK_ABOVE {
            records.ring.shrink_to(2 * MAX_SHOWN);
        }
        records.ring.push_back(record);
        if self.is_written && !is_lost {
            records.unwritten += 1;
        }
        let is_awaited = matches!(records.unwritten, 1 | FLUSH_THRESHOLD);
        drop(records);
        // Waking a thread costs more than everything else here: wake it for the first record, and when there are many.
        if is_awaited && self.is_written && !is_lost {
            self.awaited.notify_one();
        }
        drop((oldest, next));
        is_lost
    }

    /// Waits for something to write, and then a short time for more, or until the log is closed. Returns whether it is
    /// closed.
    pub(super) fn wait(&self, batch_time: Duration) -> bool {
        let is_empty = |records: &mut RecordRing| records.unwritten == 0 && !records.is_closed;
        let is_below_threshold =
            |records: &mut RecordRing| records.unwritten < FLUSH_THRESHOLD && !records.is_closed;
        let records = self.awaited.wait_while(self.lock(), is_empty).unwrap_or_else(PoisonError::into_inner);
        let batched = self.awaited.wait_timeout_while(records, batch_time, is_below_threshold);
        batched.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }

    /// Takes up to `max` unwritten records, the oldest first. Few at a time, because requests wait meanwhile.
    pub(super) fn take(&self, max: usize, out: &mut Vec<RequestRecord>) {
        out.clear();
        let mut records = self.lock();
        let from = records.ring.len().saturating_sub(records.unwritten);
        out.extend(records.ring.range(from..).take(max).cloned());
        records.unwritten = records.unwritten.saturating_sub(out.len());
    }

    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.awaited.notify_one();
    }

    /// Up to `max` of the newest, the newest first.
    pub(crate) fn newest(&self, max: usize) -> Vec<RequestRecord> {
        let mut newest = Vec::with_capacity(max.min(MAX_SHOWN));
        newest.extend(self.lock().ring.iter().rev().take(max.min(MAX_SHOWN)).cloned());
        newest
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_SHOWN, MAX_UNWRITTEN, RecentRequests, SHRINK_ABOVE};
    use crate::log::tests::record;
    use seawall_pipeline::RequestOutcome;

    #[test]
    fn written_records_take_no_more_room_than_displayed_ones() {
        let recent = RecentRequests::new(true);
        let one = record(RequestOutcome::Answered);
        let mut taken = Vec::new();
        for _ in 0..3 {
            (0..MAX_UNWRITTEN).for_each(|_| assert!(!recent.push(&one)));
            assert_eq!(recent.lock().ring.len(), MAX_UNWRITTEN);
            recent.take(usize::MAX, &mut taken);
            assert_eq!(taken.len(), MAX_UNWRITTEN);
            // A writer that keeps up needs little capacity.
            for _ in 0..MAX_UNWRITTEN {
                recent.push(&one);
                recent.take(usize::MAX, &mut taken);
            }
            let records = recent.lock();
            assert_eq!(records.ring.len(), MAX_SHOWN);
            assert!(records.ring.capacity() <= SHRINK_ABOVE);
        }
    }
}
