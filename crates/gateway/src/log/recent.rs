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
/// A ring with more room than this was long once, and is made short when it can be.
const MUCH_ROOM: usize = 4 * SHOWN;

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
        let records = Records { ring: VecDeque::with_capacity(SHOWN), ..Records::default() };
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
        // What was written is kept only to be shown; the rest of the room is for a writer who does not keep up. Two go for one
        // that comes, so that the ring is short again after that.
        let room = (records.unwritten + 1).clamp(SHOWN, self.most);
        let old = [(); 2].map(|()| if records.ring.len() >= room { records.ring.pop_front() } else { None });
        if records.ring.len() < SHOWN && records.ring.capacity() > MUCH_ROOM {
            records.ring.shrink_to(SHOWN);
        }
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
