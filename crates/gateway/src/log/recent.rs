//! The newest records: some for who looks at them, and those that are still to be written.
//!
//! One ring serves both. A request puts its record in and is done with it; turning it into text is the work of whoever
//! wants text. When the ring comes round to a record that was not written yet, that line is lost and counted, and nobody
//! waits.

use seawall_pipeline::Record;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// So many are shown at most.
pub(crate) const SHOWN: usize = 1_000;
/// So many are kept where they are to be written: some seconds of a busy gateway.
pub(super) const WAITING: usize = 10_000;

/// Records in the order in which requests ended.
#[derive(Debug)]
pub(crate) struct Recent {
    records: Mutex<Records>,
    first: Condvar,
    is_written: bool,
    most: usize,
}

#[derive(Debug, Default)]
struct Records {
    /// The newest is the last.
    ring: VecDeque<Record>,
    /// How many of the newest are still to be written.
    unwritten: usize,
    /// No more will come.
    is_closed: bool,
}

impl Recent {
    /// With a writer that takes what is put in, or without.
    pub(super) fn new(is_written: bool) -> Self {
        let most = if is_written { WAITING } else { SHOWN };
        // What is shown, and what gathers while it is written: it grows only where writing does not keep up. The smaller,
        // the more of it is still in the processor's cache when its turn comes again.
        let records = Records { ring: VecDeque::with_capacity(2 * SHOWN), ..Records::default() };
        Self { records: Mutex::new(records), first: Condvar::new(), is_written, most }
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts one in. Whether a line was lost by that.
    pub(super) fn push(&self, record: &Record) -> bool {
        // Copied before the lock is taken, and the old one dropped after it is given back.
        let record = record.clone();
        let mut records = self.lock();
        let is_lost = records.unwritten == self.most;
        // The oldest goes once it was written, or if there is no room.
        let is_full = records.ring.len() >= SHOWN && records.ring.len() > records.unwritten;
        let old = if is_full || is_lost { records.ring.pop_front() } else { None };
        records.ring.push_back(record);
        if self.is_written && !is_lost {
            records.unwritten += 1;
        }
        let is_first = records.unwritten == 1;
        drop(records);
        // Waking a thread costs more than all else here; so it is woken for the first of many.
        if is_first && self.is_written {
            self.first.notify_one();
        }
        drop(old);
        is_lost
    }

    /// Waits for something to write, or for the end of all records. Whether it is the end.
    pub(super) fn wait(&self) -> bool {
        let nothing_yet = |records: &mut Records| records.unwritten == 0 && !records.is_closed;
        let records = self.first.wait_while(self.lock(), nothing_yet).unwrap_or_else(PoisonError::into_inner);
        records.is_closed
    }

    /// Up to `most` of those that are to be written, the oldest first: few at a time, because requests wait meanwhile.
    pub(super) fn take(&self, most: usize, out: &mut Vec<Record>) {
        out.clear();
        let mut records = self.lock();
        let from = records.ring.len().saturating_sub(records.unwritten);
        out.extend(records.ring.range(from..).take(most).cloned());
        records.unwritten = records.unwritten.saturating_sub(out.len());
    }

    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.first.notify_one();
    }

    /// Up to `most` of the newest, the newest first.
    pub(crate) fn newest(&self, most: usize) -> Vec<Record> {
        let mut shown = Vec::with_capacity(most.min(SHOWN));
        shown.extend(self.lock().ring.iter().rev().take(most.min(SHOWN)).cloned());
        shown
    }
}
