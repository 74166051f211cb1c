//! Durable state in a data directory, for a single node.
//!
//! `books.redb` is the database; the segments of a write-ahead journal contain what this node's books have promised
//! since the last checkpoint. What has been acknowledged survives the end of the process and a power cut. A reservation
//! survives the end of the process at once, and a power cut some milliseconds later.
//!
//! **When it acts.** All changes go through one writer thread, which commits everything that has arrived in one
//! transaction (group commit). Reads go to the file directly and do not block. Time is passed in with each call;
//! what must survive the process is stored with wall-clock times.
//!
//! **Opening.** One process at a time has the directory. Database and journal are read and validated first, and nothing
//! is modified unless all of it is intact; otherwise [`OpenError`] names the file and what to do. Then what was
//! reserved and never settled is charged at its worst-case cost, once, however often opening is interrupted. No other
//! money stays reserved.
//!
//! **What it does not do.** It repairs nothing and guesses nothing. It serves one process; a fleet shares another
//! store.

mod answer;
mod backend;
mod blocks;
mod caretaker;
mod checkpoint;
mod claims;
mod codec;
mod counts;
mod directory;
mod folder;
mod intake;
mod journal;
mod ledger;
mod open_books;
mod refusal;
mod rows;
mod segment;
mod sessions;
mod shadow;
mod shelf;
mod snapshot;
mod sums;
mod switches;
mod table;
#[cfg(test)]
mod tests;
mod writer;

pub use claims::EmbeddedClaim;
pub use folder::create_private_dir;
pub use journal::EmbeddedJournal;
pub use refusal::OpenError;

use crate::StoreError;
use crate::memory::MemoryQuotas;
use crate::usage::UsageEvent;
use answer::Answer;
use folder::{BOOKS, Folder, FoundBooks, put_header_again};
use open_books::OpenBooks;
use rows::{Batch, View, guarded};
use seawall_core::budget::{BudgetBook, BudgetLimits, BudgetSource};
use seawall_core::quota::QuotaGroup;
use seawall_core::time::Now;
use shelf::Shelf;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use writer::Writer;

/// How a data directory is used.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// The budget caps: for the leases of a fleet, and for this node's own books.
    pub limits: BudgetLimits,
    /// Where this node's money comes from: its caps, or leases.
    pub source: BudgetSource,
    /// The page cache of the database, in bytes.
    pub cache: usize,
    /// A journal segment that has reached this length is followed by a new one, in bytes.
    pub segment: u64,
    /// The limits whose counts are stored here; none where they are stored elsewhere. Existing counts are kept.
    pub groups: Option<Vec<QuotaGroup>>,
    /// Spreads callers over the shards of the quota book.
    pub seed: u64,
}

impl EmbeddedOptions {
    /// The defaults for a single node with these budget limits.
    #[must_use]
    pub const fn new(limits: BudgetLimits) -> Self {
        Self { limits, source: BudgetSource::Caps, cache: 2 << 20, segment: 16 << 20, groups: None, seed: 0 }
    }
}

/// What was found when a data directory was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// The directory was new.
    pub created: bool,
    /// The number of journal records that were replayed.
    pub replayed: usize,
    /// Calls that were in flight when the last process ended; they were charged at their worst-case cost.
    pub charged: Vec<UsageEvent>,
    /// The end of an interrupted write that was never acknowledged: its file, and how many bytes were cut off.
    pub cut: Option<(PathBuf, u64)>,
    /// Other users may access the directory, which existed before.
    pub is_open_to_others: bool,
}

/// An open data directory.
#[derive(Debug)]
pub struct Opened {
    /// The store itself.
    pub store: EmbeddedStore,
    /// This node's books as they were left, without open reservations.
    pub book: BudgetBook,
    /// The journal to which the books write from now on.
    pub journal: EmbeddedJournal,
    /// Rate-limit counts and idempotency keys, where they are stored here. A key whose request was in flight has an
    /// unknown outcome.
    pub quotas: Option<MemoryQuotas>,
    /// What was found while opening.
    pub report: OpenReport,
}

/// State in a data directory. Cloning gives another handle to the same store. The directory is unlocked when the last
/// handle and the journal have been dropped.
#[derive(Clone, Debug)]
pub struct EmbeddedStore {
    shared: Arc<Shared>,
}

/// The fields are in their drop order: the thread ends, the file is closed, the directory is unlocked.
#[derive(Debug)]
struct Shared {
    writer: Writer,
    books: Arc<OpenBooks>,
    shelf: Arc<Mutex<Shelf>>,
    options: EmbeddedOptions,
    /// The limits by which counts are stored from now on.
    groups: Mutex<Option<Vec<QuotaGroup>>>,
    /// Why the database cannot be written, while that lasts.
    write_error: Arc<Mutex<Option<StoreError>>>,
    /// The number of journal segments in a row whose checkpoint failed.
    untaken: Arc<AtomicU64>,
    /// The segment before which the last checkpoint was ordered.
    ordered: AtomicU64,
    folder: Folder,
}

impl EmbeddedStore {
    /// Opens a data directory, and creates it if it is missing.
    pub fn open(folder: &Path, options: EmbeddedOptions, now: Now) -> Result<Opened, OpenError> {
        // The database panics on some kinds of damage, on reading and even on closing a file that was refused.
        let opened = catch_unwind(AssertUnwindSafe(|| Self::open_checked(folder, options, now)));
        opened.unwrap_or_else(|_| Err(OpenError::damaged(&folder.join(BOOKS), "its pages make no sense")))
    }

    fn open_checked(folder: &Path, options: EmbeddedOptions, now: Now) -> Result<Opened, OpenError> {
        let folder = Folder::take(folder)?;
        let segments = segment::list(folder.path())?;
        let books = folder.books(options.cache, !segments.is_empty())?;
        let damaged = |error: StoreError| OpenError::damaged(&books.path, error);
        let shelf =
            guarded(|| Shelf::load(&mut View::new(&books.database)?, options.limits.clone(), now.monotonic));
        let shelf = shelf.map_err(damaged)?;
        let mut recovery = checkpoint::Recovery::read(&folder, &books, &segments, &options)?;
        let charged = recovery.charge_open(now.utc);
        let FoundBooks { database, file, path, created } = books;
        // Nothing has been modified up to here.
        file.release().map_err(|error| OpenError::unusable(&path, &error))?;
        let number = recovery.next_segment();
        let report = OpenReport {
            created,
            replayed: recovery.replayed,
            charged,
            cut: recovery.cut.take(),
            is_open_to_others: folder.is_open_to_others(),
        };
        let segment = journal::create_segment(&folder, number)
            .map_err(|error| OpenError::unusable(&segment::segment_path(folder.path(), number), &error))?;
        let unusable =
            |error: StoreError| OpenError::Unusable { path: path.clone(), reason: error.to_string().into() };
        guarded(|| recovery.commit(&database, number, now.utc)).map_err(&unusable)?;
        checkpoint::delete_before(folder.path(), number);
        let books = Arc::new(OpenBooks::new(database, folder.path(), options.cache));
        let (shelf, write_error) = (Arc::new(Mutex::new(shelf)), Arc::default());
        let writer = Writer::start(Arc::clone(&books), Arc::clone(&shelf), Arc::clone(&write_error));
        let (seed, is_counting) = (options.seed, options.groups.is_some());
        let groups = Mutex::new(options.groups.clone());
        let shared = Arc::new(Shared {
            writer,
            books,
            shelf,
            options,
            groups,
            write_error,
            untaken: Arc::default(),
            ordered: AtomicU64::default(),
            folder,
        });
        let journal = EmbeddedJournal::new(&shared, segment, number);
        let (book, counts) = recovery.into_parts();
        let quotas = if is_counting { counts.into_quotas(seed, now).map_err(unusable)? } else { None };
        Ok(Opened { store: Self { shared }, book, journal, quotas, report })
    }

    /// The number of journal segments in a row whose checkpoint failed.
    #[must_use]
    pub fn untaken_segments(&self) -> u64 {
        self.shared.untaken.load(Ordering::Acquire)
    }

    /// Why the database cannot be written, while that lasts. An error that [may pass](StoreError::may_pass) is retried
    /// by [`mend`](Self::mend); others stay until the directory is opened again.
    #[must_use]
    pub fn write_error(&self) -> Option<StoreError> {
        crate::lock(&self.shared.write_error).clone()
    }

    /// Retries what failed because of the disk: reopening and writing the database, and checkpoints of journal
    /// segments. It does not block. Call it every few seconds.
    pub fn mend(&self) {
        match self.write_error() {
            Some(error) if error.may_pass() => {
                self.shared.writer.write_then(|batch, _| put_header_again(batch), |_| {});
            }
            Some(_) => {}
            None if self.untaken_segments() > 0 => checkpoint::order_again(&self.shared),
            None => {}
        }
    }

    /// Changes the limits by which counts are stored, if any are stored.
    pub fn set_groups(&self, groups: Vec<QuotaGroup>) {
        if let Some(kept) = &mut *crate::lock(&self.shared.groups) {
            *kept = groups;
        }
    }

    /// Runs the work on the writer thread, and waits until it is durable.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Batch<'_>, &mut Shelf) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<T> {
        self.shared.writer.write(work)
    }

    /// Reads what has been committed.
    fn read<T>(&self, work: impl FnOnce(&mut View) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.shared.books.with(|database| work(&mut View::new(database)?))
    }
}
