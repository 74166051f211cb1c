//! The rows of the books: one table for each kind, keys and values as bytes.
//!
//! A [`View`] reads what has been committed. A [`Batch`] also reads what it has written itself; the writer commits it as a
//! whole. Both are [`Rows`], so that what is worked out from rows is written once.

use super::codec::STORE;
use crate::StoreError;
use redb::{
    ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, Table, TableDefinition, TableError,
    WriteTransaction,
};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// What wrote this file: one row.
    Header,
    /// Day, tier, node, generation: a lease.
    Leases,
    /// Time and name of a call: what it used and cost.
    Events,
    /// Name of a call: its time.
    Calls,
    /// Day and what is counted: sums.
    Totals,
    /// Day, cost (the highest first), caller: nothing. Only in books of the first format.
    Spenders,
    /// Hash of a conversation: what it used.
    Sessions,
    /// Hash of a conversation, number: a turn.
    Turns,
    /// Hash of a conversation, request: its number.
    Requests,
    /// Hash of a conversation, number: a request.
    RequestOrder,
    /// When a conversation ends, its hash: nothing.
    SessionEnds,
    /// Credential: a caller.
    Callers,
    /// How everything is switched: one row.
    Switches,
    /// Number: what was ordered.
    Trail,
    /// Hash of a request's name: who is at work on it.
    Claims,
    /// When a claim ends, its hash: nothing.
    ClaimEnds,
    /// The books of this node: one row, and where the journal goes on.
    Books,
    /// Time of the first, a number: some calls that came through the journal.
    Blocks,
    /// Day, rank of the cost (the highest first), caller: nothing.
    Ranks,
    /// What requests have taken of limits and names.
    Counts,
}

impl Kind {
    const ALL: [Self; 20] = [
        Self::Header,
        Self::Leases,
        Self::Events,
        Self::Calls,
        Self::Totals,
        Self::Spenders,
        Self::Sessions,
        Self::Turns,
        Self::Requests,
        Self::RequestOrder,
        Self::SessionEnds,
        Self::Callers,
        Self::Switches,
        Self::Trail,
        Self::Claims,
        Self::ClaimEnds,
        Self::Books,
        Self::Blocks,
        Self::Ranks,
        Self::Counts,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Header => "seawall",
            Self::Leases => "leases",
            Self::Events => "events",
            Self::Calls => "calls",
            Self::Totals => "totals",
            Self::Spenders => "spenders",
            Self::Sessions => "sessions",
            Self::Turns => "turns",
            Self::Requests => "requests",
            Self::RequestOrder => "request_order",
            Self::SessionEnds => "session_ends",
            Self::Callers => "callers",
            Self::Switches => "switches",
            Self::Trail => "trail",
            Self::Claims => "claims",
            Self::ClaimEnds => "claim_ends",
            Self::Books => "books",
            Self::Blocks => "blocks",
            Self::Ranks => "ranks",
            Self::Counts => "counts",
        }
    }

    const fn definition(self) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
        TableDefinition::new(self.name())
    }
}

/// What the database says, in our words. A disk that is full or gone may pass; the rest does not.
pub(super) fn failure(error: impl Into<redb::Error>) -> StoreError {
    match error.into() {
        error @ (redb::Error::Io(_) | redb::Error::PreviousIo | redb::Error::DatabaseClosed) => {
            StoreError::away(STORE, error)
        }
        error => StoreError::broken(STORE, error),
    }
}

/// Does some work, and turns a panic of the database into an error: a page that was damaged on the disk can make it stumble.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(StoreError::broken(STORE, "the books on disk cannot be read")))
}

/// A key and its value.
pub(super) type Row = (Vec<u8>, Vec<u8>);

/// Rows that can be read.
pub(super) trait Rows {
    /// The value at a key.
    fn get(&mut self, kind: Kind, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Up to `most` rows from the first bound to the second, in order.
    fn range(
        &mut self,
        kind: Kind,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        most: usize,
    ) -> Result<Vec<Row>, StoreError>;

    /// Up to `most` rows whose keys begin so, in order.
    fn beginning(&mut self, kind: Kind, prefix: &[u8], most: usize) -> Result<Vec<Row>, StoreError> {
        let end = after(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.range(kind, (Bound::Included(prefix), end), most)
    }
}

/// The first key that does not begin so.
fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

fn read_range(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    bounds: (Bound<&[u8]>, Bound<&[u8]>),
    most: usize,
) -> Result<Vec<Row>, StoreError> {
    // The database takes a range that runs backwards for a mistake in the program.
    if let (Bound::Included(first) | Bound::Excluded(first), Bound::Included(last) | Bound::Excluded(last)) =
        bounds
        && first > last
    {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for row in table.range::<&[u8]>(bounds).map_err(failure)?.take(most) {
        let (key, value) = row.map_err(failure)?;
        rows.push((key.value().to_vec(), value.value().to_vec()));
    }
    Ok(rows)
}

type OpenTable = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// What has been committed.
pub(super) struct View(ReadTransaction);

impl View {
    pub(super) fn new(database: &impl ReadableDatabase) -> Result<Self, StoreError> {
        database.begin_read().map(Self).map_err(failure)
    }

    fn table(&self, kind: Kind) -> Result<Option<OpenTable>, StoreError> {
        match self.0.open_table(kind.definition()) {
            Ok(table) => Ok(Some(table)),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(failure(error)),
        }
    }
}

impl Rows for View {
    fn get(&mut self, kind: Kind, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(table) = self.table(kind)? else { return Ok(None) };
        let value = ReadableTable::get(&table, key).map_err(failure)?;
        Ok(value.map(|value| value.value().to_vec()))
    }

    fn range(
        &mut self,
        kind: Kind,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        most: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.table(kind)?.map_or(Ok(Vec::new()), |table| read_range(&table, bounds, most))
    }
}

/// Changes that are committed together. Tables are opened when they are first needed.
pub(super) struct Batch<'t> {
    transaction: &'t WriteTransaction,
    tables: [Option<Table<'t, &'static [u8], &'static [u8]>>; Kind::ALL.len()],
    changes: u64,
}

impl<'t> Batch<'t> {
    pub(super) fn new(transaction: &'t WriteTransaction) -> Self {
        Self { transaction, tables: Kind::ALL.map(|_| None), changes: 0 }
    }

    /// How many rows were changed.
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }

    fn table(&mut self, kind: Kind) -> Result<&mut Table<'t, &'static [u8], &'static [u8]>, StoreError> {
        let place = &mut self.tables[kind as usize];
        match place {
            Some(table) => Ok(table),
            None => {
                let table = self.transaction.open_table(kind.definition()).map_err(failure)?;
                Ok(place.insert(table))
            }
        }
    }

    pub(super) fn put(&mut self, kind: Kind, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.changes = self.changes.saturating_add(1);
        self.table(kind)?.insert(key, value).map(|_| ()).map_err(failure)
    }

    pub(super) fn remove(&mut self, kind: Kind, key: &[u8]) -> Result<(), StoreError> {
        self.changes = self.changes.saturating_add(1);
        self.table(kind)?.remove(key).map(|_| ()).map_err(failure)
    }
}

impl Rows for Batch<'_> {
    fn get(&mut self, kind: Kind, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.table(kind)?.get(key).map_err(failure)?;
        Ok(value.map(|value| value.value().to_vec()))
    }

    fn range(
        &mut self,
        kind: Kind,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        most: usize,
    ) -> Result<Vec<Row>, StoreError> {
        read_range(self.table(kind)?, bounds, most)
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, after};

    #[test]
    fn the_first_key_that_does_not_begin_so() {
        assert_eq!(after(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(after(&[1, 255, 255]), Some(vec![2]));
        assert_eq!((after(&[255]), after(&[])), (None, None));
    }

    #[test]
    fn every_table_has_its_place_and_a_name_of_its_own() {
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
            assert!(Kind::ALL[..place].iter().all(|other| other.name() != kind.name()));
        }
    }
}
