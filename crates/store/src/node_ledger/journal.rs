//! The write-ahead journal of the ledger.

use super::record::JournalRecord;
use crate::StoreError;

/// The write-ahead journal of one node's ledger.
///
/// The records of one write are atomic: after a crash, either all of them are read back or none. A write that has
/// returned is as durable as this journal makes anything. A write that has failed may be present in part and must not
/// be relied on.
pub trait Journal: Send {
    /// Writes these records, after everything that was buffered before.
    fn write(&mut self, records: &[JournalRecord]) -> Result<(), StoreError>;

    /// Buffers these records; they are written, in order, with the next write or some milliseconds later. Use it only
    /// for what a crash may lose without harm: the end of a call, which is charged at its maximum cost if its record
    /// is lost; and the beginning of a call that is not made before [`write_buffered`](Self::write_buffered) has returned.
    fn buffer(&mut self, records: &[JournalRecord]) -> Result<JournalPosition, StoreError> {
        self.write(records)?;
        Ok(JournalPosition::WRITTEN)
    }

    /// Writes everything that was buffered up to this position, and what was buffered after it, unless it has been written
    /// since.
    fn write_buffered(&mut self, _: JournalPosition) -> Result<(), StoreError> {
        Ok(())
    }

    /// Writes what is buffered, if anything is, which retries a write that has failed.
    fn flush(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Hands everything that was written by now to the ledger that it [feeds](Self::feeds_ledger), in the background.
    fn checkpoint(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether this journal stores what requests are charged by limits, and their idempotency keys.
    fn journals_admissions(&self) -> bool {
        false
    }

    /// Whether the ledger takes ended calls from this journal. If so, they need not be posted separately.
    fn feeds_ledger(&self) -> bool {
        false
    }
}

/// A position among the records that were buffered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JournalPosition(pub(crate) u64);

impl JournalPosition {
    /// The position before everything that is buffered: nothing is left to write.
    pub const WRITTEN: Self = Self(0);
}

/// The journal of a ledger that lives in memory only. Nothing survives a crash.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoJournal;

impl Journal for NoJournal {
    fn write(&mut self, _: &[JournalRecord]) -> Result<(), StoreError> {
        Ok(())
    }
}
