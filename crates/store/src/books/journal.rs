//! Where the books are written down before they change.

use super::record::JournalRecord;
use crate::StoreError;

/// A journal of one node's books.
///
/// Records of one write belong together: after a crash either all of them are read back or none. A write that has returned
/// is as safe as the journal makes anything; one that has failed may be there in part and is not counted on.
pub trait Journal: Send {
    /// Writes these down, behind all that was noted.
    fn write(&mut self, records: &[JournalRecord]) -> Result<(), StoreError>;

    /// Takes these down in their turn, with the next write or some milliseconds later. For what a crash may take back
    /// without harm: the end of a call, which is charged at its worst if nobody remembers it; and the beginning of one that
    /// is not made before [`write_noted`](Self::write_noted) has returned.
    fn note(&mut self, records: &[JournalRecord]) -> Result<Noted, StoreError> {
        self.write(records)?;
        Ok(Noted::WRITTEN)
    }

    /// Writes what was noted up to here, and all behind it, unless somebody has done so since.
    fn write_noted(&mut self, _: Noted) -> Result<(), StoreError> {
        Ok(())
    }

    /// Writes what is waiting, if anything is: tries again what has failed.
    fn flush(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether it keeps what requests take of limits and names.
    fn keeps_counts(&self) -> bool {
        false
    }

    /// Whether the ledger learns from this journal which calls have ended. If so, nobody else need be told.
    fn feeds_ledger(&self) -> bool {
        false
    }
}

/// A place among what was noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Noted(pub(crate) u64);

impl Noted {
    /// Before everything that is noted: it has been written.
    pub const WRITTEN: Self = Self(0);
}

/// For books that live in memory alone: after a crash there are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoJournal;

impl Journal for NoJournal {
    fn write(&mut self, _: &[JournalRecord]) -> Result<(), StoreError> {
        Ok(())
    }
}
