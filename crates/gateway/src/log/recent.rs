//! The newest records: some for who looks at them, and those that are still to be written.
//!
//! One ring serves both. A request puts its record in and is done with it; turning it into text is the work of whoever
//! wants text. When the ring comes round to a record that was not written yet, that line is lost and counted, and nobody
//! waits.

use seawall_pipeline::Record;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So many are shown at most.
pub(crate) const SHOWN: usize = 1_000;
/// So many are kept where they are to be written: some seconds of a busy gateway.
pub(super) const WAITING: usize = 10_000;

/// So many are written though more could gather.
const MANY: usize = WAITING / 4;

/// A ring with more room than this was long once, and is made short when it can be.
const MUCH_ROOM: usize = 4 * SHOWN;

/// Records in the order in which requests ended.
#[derive(Debug)]
pub(crate) struct Recent {
    records: Mutex<Records>,
    /// The first of many, or that there are many.
    awaited: Condvar,
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

impl Records {
    /// The oldest, if it was written and need not be shown any more.
    fn pop_written(&mut self) -> Option<Record> {
        let is_spare = self.ring.len() >= SHOWN && self.ring.len() > self.unwritten;
        if is_spare { self.ring.pop_front() } else { None }
    }
}

impl Recent {
    /// With a writer that takes what is put in, or without.
    pub(super) fn new(is_written: bool) -> Self {
        let most = if is_written { WAITING } else { SHOWN };
        // What is shown, and what gathers while it is written: it grows only where writing does not keep up. The smaller,
        // the more of it is still in the processor's cache when its turn comes again.
        let records = Records { ring: VecDeque::with_capacity(2 * SHOWN), ..Records::default() };
        Self { records: Mutex::new(records), awaited: Condvar::new(), is_written, most }
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
        // The oldest goes once it was written, or if there is no room. Where many had gathered, two go for one that comes.
        let oldest = if is_lost { records.ring.pop_front() } else { records.pop_written() };
        let next = records.pop_written();
        if records.ring.len() < SHOWN && records.ring.capacity() > MUCH_ROOM {
            records.ring.shrink_to(2 * SHOWN);
        }
        records.ring.push_back(record);
        if self.is_written && !is_lost {
            records.unwritten += 1;
        }
        let is_awaited = matches!(records.unwritten, 1 | MANY);
        drop(records);
        // Waking a thread costs more than all else here; so it is woken for the first of many, and when there are many.
        if is_awaited && self.is_written && !is_lost {
            self.awaited.notify_one();
        }
        drop((oldest, next));
        is_lost
    }

    /// Waits for something to write, and then for more of it, though not for long; or for the end of all records. Whether
    /// it is the end.
    pub(super) fn wait(&self, gather: Duration) -> bool {
        let nothing_yet = |records: &mut Records| records.unwritten == 0 && !records.is_closed;
        let few = |records: &mut Records| records.unwritten < MANY && !records.is_closed;
        let records =
            self.awaited.wait_while(self.lock(), nothing_yet).unwrap_or_else(PoisonError::into_inner);
        let gathered = self.awaited.wait_timeout_while(records, gather, few);
        gathered.unwrap_or_else(PoisonError::into_inner).0.is_closed
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
        self.awaited.notify_one();
    }

    /// Up to `most` of the newest, the newest first.
    pub(crate) fn newest(&self, most: usize) -> Vec<Record> {
        let mut shown = Vec::with_capacity(most.min(SHOWN));
        shown.extend(self.lock().ring.iter().rev().take(most.min(SHOWN)).cloned());
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::{MUCH_ROOM, Recent, SHOWN, WAITING};
    use crate::log::tests::record;
    use seawall_pipeline::Verdict;

    #[test]
    fn what_was_written_takes_no_more_room_than_what_is_shown() {
        let recent = Recent::new(true);
        let one = record(Verdict::Answered);
        let mut taken = Vec::new();
        for _ in 0..3 {
            (0..WAITING).for_each(|_| assert!(!recent.push(&one)));
            assert_eq!(recent.lock().ring.len(), WAITING);
            recent.take(usize::MAX, &mut taken);
            assert_eq!(taken.len(), WAITING);
            // Whoever keeps up needs little.
            for _ in 0..WAITING {
                recent.push(&one);
                recent.take(usize::MAX, &mut taken);
            }
            let records = recent.lock();
            assert_eq!(records.ring.len(), SHOWN);
            assert!(records.ring.capacity() <= MUCH_ROOM);
        }
    }
}
