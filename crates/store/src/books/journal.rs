//! The write-ahead journal of the books.

use super::record::JournalRecord;
use crate::StoreError;

/// The write-ahead journal of one node's books.
///
/// The records of one write are atomic: after a crash, either all of them are read back or none. A write that has
/// returned is as durable as this journal makes anything. A write that has failed may be present in part and must not
/// be relied on.
pub trait Journal: Send {
    /// Writes these records, after everything that was noted before.
    fn write(&mut self, records: &[JournalRecord]) -> Result<(), StoreError>;

    /// Buffers these records; they are written, in order, with the next write or some milliseconds later. Use it only
    /// for what a crash may lose without harm: the end of a call, which is charged at its worst-case cost if its record
    /// is lost; and the beginning of a call that is not made before [`write_noted`](Self::write_noted) has returned.
    fn note(&mut self, records: &[JournalRecord]) -> Result<Noted, StoreError> {
        self.write(records)?;
        Ok(Noted::WRITTEN)
    }

    /// Writes everything that was noted up to this position, and what was noted after it, unless it has been written
    /// since.
    fn write_noted(&mut self, _: Noted) -> Result<(), StoreError> {
        Ok(())
    }

    /// Writes what is buffered, if anything is, which retries a write that has failed.
    fn flush(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether this journal stores what requests take from limits, and their idempotency keys.
    fn keeps_counts(&self) -> bool {
        false
    }

    /// Whether the ledger takes ended calls from this journal. If so, they need not be posted separately.
    fn feeds_ledger(&self) -> bool {
        false
    }
}

/// A position among the records that were noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Noted(pub(crate) u64);

impl Noted {
    /// The position before everything that is noted: nothing is left to write.
    pub const WRITTEN: Self = Self(0);
}

/// The journal of books that live in memory only. Nothing survives a crash.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoJournal;

impl Journal for NoJournal {
    fn write(&mut self, _: &[JournalRecord]) -> Result<(), StoreError> {
        Ok(())
    }
}
