//! The tables of the database; keys and values are bytes.
//!
//! A [`View`] reads what has been committed. A [`Batch`] also reads its own writes; the writer commits it as a whole.
//! Both implement [`Rows`], so that code that reads rows is written once.

use super::codec::STORE;
use crate::StoreError;
use redb::{
    ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, Table, TableDefinition, TableError,
    WriteTransaction,
};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The tables, each with its key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableKind {
    /// A single row that identifies the program and the format.
    Header,
    /// Day, tier, node, generation -> a lease.
    Leases,
    /// Time and id of a call -> its usage and cost.
    Events,
    /// Id of a call -> its time.
    Calls,
    /// Day and what is counted -> totals.
    Totals,
    /// Day, cost (highest first), caller -> nothing. Only in databases of the first format.
    Spenders,
    /// Hash of a conversation -> its usage.
    Sessions,
    /// Hash of a conversation, number -> a turn.
    Turns,
    /// Hash of a conversation, request -> its number.
    Requests,
    /// Hash of a conversation, number -> a request.
    RequestOrder,
    /// Expiry of a conversation, its hash -> nothing.
    SessionEnds,
    /// Credential -> a caller.
    Callers,
    /// A single row: the state of all switches.
    Switches,
    /// Number -> an audit record.
    Trail,
    /// Hash of an idempotency key -> its claim.
    Claims,
    /// Expiry of a claim, its hash -> nothing.
    ClaimEnds,
    /// The snapshot of this node's ledger, with the segment from which the journal is replayed: one row.
    LedgerSnapshot,
    /// Time of the first call, a number -> a block of calls from the journal.
    Blocks,
    /// Day, rank of the cost (highest first), caller -> nothing.
    Ranks,
    /// Rate-limit counts and idempotency keys.
    Counts,
    /// Caller with an API key -> what it has used.
    KeyUsage,
    /// Name of a caller, its credential -> nothing.
    CallerNames,
}

impl TableKind {
    const ALL: [Self; 22] = [
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
        Self::LedgerSnapshot,
        Self::Blocks,
        Self::Ranks,
        Self::Counts,
        Self::KeyUsage,
        Self::CallerNames,
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
            Self::LedgerSnapshot => "ledger_snapshot",
            Self::Blocks => "blocks",
            Self::Ranks => "ranks",
            Self::Counts => "counts",
            Self::KeyUsage => "key_usage",
            Self::CallerNames => "caller_names",
        }
    }

    const fn definition(self) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
        TableDefinition::new(self.name())
    }
}

/// Converts an error of the database. A disk that is full or gone may pass; everything else does not.
pub(super) fn store_error(error: impl Into<redb::Error>) -> StoreError {
    match error.into() {
        error @ (redb::Error::Io(_) | redb::Error::PreviousIo | redb::Error::DatabaseClosed) => {
            StoreError::unavailable(STORE, error)
        }
        error => StoreError::failed(STORE, error),
    }
}

/// Runs the work and converts a panic of the database into an error, because a damaged page can make it panic.
pub(super) fn catch_panic<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(StoreError::failed(STORE, "the database panicked on damaged data")))
}

/// A key and its value.
pub(super) type KeyValue = (Vec<u8>, Vec<u8>);

/// Read access to rows.
pub(super) trait Rows {
    /// The value of a key.
    fn get(&mut self, kind: TableKind, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Up to `max` rows between the bounds, in order.
    fn range(
        &mut self,
        kind: TableKind,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        max: usize,
    ) -> Result<Vec<KeyValue>, StoreError>;

    /// Up to `max` rows whose keys have this prefix, in order.
    fn with_prefix(
        &mut self,
        kind: TableKind,
        prefix: &[u8],
        max: usize,
    ) -> Result<Vec<KeyValue>, StoreError> {
        let end = prefix_end(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.range(kind, (Bound::Included(prefix), end), max)
    }
}

/// The first key after all keys with this prefix.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
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
    max: usize,
) -> Result<Vec<KeyValue>, StoreError> {
    // The database treats a range with reversed bounds as a programming error.
    if let (Bound::Included(first) | Bound::Excluded(first), Bound::Included(last) | Bound::Excluded(last)) =
        bounds
        && first > last
    {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for row in table.range::<&[u8]>(bounds).map_err(store_error)?.take(max) {
        let (key, value) = row.map_err(store_error)?;
        rows.push((key.value().to_vec(), value.value().to_vec()));
    }
    Ok(rows)
}

type OpenTable = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// A read transaction: what has been committed.
pub(super) struct View(ReadTransaction);

impl View {
    pub(super) fn new(database: &impl ReadableDatabase) -> Result<Self, StoreError> {
        database.begin_read().map(Self).map_err(store_error)
    }

    fn table(&self, kind: TableKind) -> Result<Option<OpenTable>, StoreError> {
        match self.0.open_table(kind.definition()) {
            Ok(table) => Ok(Some(table)),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(store_error(error)),
        }
    }
}

impl Rows for View {
    fn get(&mut self, kind: TableKind, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(table) = self.table(kind)? else { return Ok(None) };
        let value = ReadableTable::get(&table, key).map_err(store_error)?;
        Ok(value.map(|value| value.value().to_vec()))
    }

    fn range(
        &mut self,
        kind: TableKind,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        max: usize,
    ) -> Result<Vec<KeyValue>, StoreError> {
        self.table(kind)?.map_or(Ok(Vec::new()), |table| read_range(&table, bounds, max))
    }
}

/// Changes that are committed together. Tables are opened when they are first needed.
pub(super) struct Batch<'t> {
    transaction: &'t WriteTransaction,
    tables: [Option<Table<'t, &'static [u8], &'static [u8]>>; TableKind::ALL.len()],
    changes: u64,
}

impl<'t> Batch<'t> {
    pub(super) fn new(transaction: &'t WriteTransaction) -> Self {
        Self { transaction, tables: TableKind::ALL.map(|_| None), changes: 0 }
    }

    /// The number of rows that were changed.
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }

    fn table(&mut self, kind: TableKind) -> Result<&mut Table<'t, &'static [u8], &'static [u8]>, StoreError> {
        let slot = &mut self.tables[kind as usize];
        match slot {
            Some(table) => Ok(table),
            None => {
                let table = self.transaction.open_table(kind.definition()).map_err(store_error)?;
                Ok(slot.insert(table))
            }
        }
    }

    pub(super) fn put(&mut self, kind: TableKind, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.changes = self.changes.saturating_add(1);
        self.table(kind)?.insert(key, value).map(|_| ()).map_err(store_error)
    }

    pub(super) fn remove(&mut self, kind: TableKind, key: &[u8]) -> Result<(), StoreError> {
        self.changes = self.changes.saturating_add(1);
        self.table(kind)?.remove(key).map(|_| ()).map_err(store_error)
    }
}

impl Rows for Batch<'_> {
    fn get(&mut self, kind: TableKind, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.table(kind)?.get(key).map_err(store_error)?;
        Ok(value.map(|value| value.value().to_vec()))
    }

    fn range(
        &mut self,
        kind: TableKind,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        max: usize,
    ) -> Result<Vec<KeyValue>, StoreError> {
        read_range(self.table(kind)?, bounds, max)
    }
}

#[cfg(test)]
mod tests {
    use super::{TableKind, prefix_end};

    #[test]
    fn the_first_key_that_does_not_begin_so() {
        assert_eq!(prefix_end(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(prefix_end(&[1, 255, 255]), Some(vec![2]));
        assert_eq!((prefix_end(&[255]), prefix_end(&[])), (None, None));
    }

    #[test]
    fn every_table_has_its_place_and_a_name_of_its_own() {
        for (index, kind) in TableKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
            assert!(TableKind::ALL[..index].iter().all(|other| other.name() != kind.name()));
        }
    }
}
