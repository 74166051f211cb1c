//! Durable state in a folder on one machine.
//!
//! `books.redb` holds everything that is kept; segments of a journal hold what this node's books have promised since they
//! were last taken into it. What has been answered survives the end of the process and of the machine; a reservation
//! survives the end of the process at once, and that of the machine some milliseconds later.
//!
//! **When it acts.** Whatever changes goes through one thread, which makes all that has arrived durable together. Reading
//! goes to the file directly and waits for nobody. Time comes with each call; what must outlive the process is kept by the
//! calendar.
//!
//! **Opening.** One process has the folder. Books and journal are read and checked first, and nothing is changed unless all
//! of it is good; otherwise [`OpenError`] names the file and says what to do. Then what was reserved and never settled is
//! charged at its worst, once, however often opening is interrupted. What was not under way is free.
//!
//! **What it will not do.** It repairs nothing and guesses nothing. It is for one process; a fleet shares another store.

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
pub use journal::EmbeddedJournal;
pub use refusal::OpenError;

use crate::StoreError;
use crate::memory::MemoryQuotas;
use crate::usage::UsageEvent;
use answer::Answer;
use folder::{BOOKS, Folder, FoundBooks};
use redb::Database;
use rows::{Batch, View, guarded};
use seawall_core::budget::{BudgetBook, BudgetLimits, BudgetSource};
use seawall_core::quota::QuotaGroup;
use seawall_core::time::Now;
use shelf::Shelf;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use writer::Writer;

/// How a folder is used.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// What may be spent: by the leases of a fleet, and by this node's own books.
    pub limits: BudgetLimits,
    /// Where this node's money comes from.
    pub source: BudgetSource,
    /// Memory for pages of the books, in bytes.
    pub cache: usize,
    /// From which length on a segment of the journal is followed by the next, in bytes.
    pub segment: u64,
    /// The limits whose counts are kept here; none where they are kept elsewhere. Counts that are here already stay.
    pub groups: Option<Vec<QuotaGroup>>,
    /// What spreads callers over the parts of the limits.
    pub seed: u64,
}

impl EmbeddedOptions {
    /// The usual, for a node that is alone and may spend these.
    #[must_use]
    pub const fn new(limits: BudgetLimits) -> Self {
        Self { limits, source: BudgetSource::Caps, cache: 2 << 20, segment: 16 << 20, groups: None, seed: 0 }
    }
}

/// What was found when a folder was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// There was nothing yet.
    pub created: bool,
    /// Records of the journal that were read again.
    pub replayed: usize,
    /// Calls that were under way when the last process ended: charged at their worst.
    pub charged: Vec<UsageEvent>,
    /// The end of a write that was cut short, which nobody had been told of: where, and how many bytes.
    pub cut: Option<(PathBuf, u64)>,
}

/// A folder that has been opened.
#[derive(Debug)]
pub struct Opened {
    /// Everything that is kept.
    pub store: EmbeddedStore,
    /// This node's books as they were left, with nothing open.
    pub book: BudgetBook,
    /// Where they are to be written down from now on.
    pub journal: EmbeddedJournal,
    /// What requests have taken of limits and names, where that is kept here. A name whose request was under way has an
    /// unknown outcome.
    pub quotas: Option<MemoryQuotas>,
    /// What was found.
    pub report: OpenReport,
}

/// State in a folder. Cloning it gives another handle to the same; the folder is free when the last one is dropped, and the
/// journal.
#[derive(Clone, Debug)]
pub struct EmbeddedStore {
    shared: Arc<Shared>,
}

/// In the order in which it is to be dropped: the thread ends, the file is closed, the folder is free.
#[derive(Debug)]
struct Shared {
    writer: Writer,
    database: Arc<Database>,
    shelf: Arc<Mutex<Shelf>>,
    options: EmbeddedOptions,
    /// The limits by which counts are kept from now on.
    groups: Mutex<Option<Vec<QuotaGroup>>>,
    /// How many segments of the journal in a row could not be taken into the books.
    untaken: Arc<AtomicU64>,
    folder: Folder,
}

impl EmbeddedStore {
    /// Opens a folder, and makes it where there is none.
    pub fn open(folder: &Path, options: EmbeddedOptions, now: Now) -> Result<Opened, OpenError> {
        // The database panics over some damage, when it reads a file and even when it closes one that was refused.
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
        // Up to here nothing has been changed.
        file.release().map_err(|error| OpenError::unusable(&path, &error))?;
        let number = recovery.next_segment();
        let report = OpenReport { created, replayed: recovery.replayed, charged, cut: recovery.cut.take() };
        let segment = journal::create_segment(&folder, number)
            .map_err(|error| OpenError::unusable(&segment::segment_path(folder.path(), number), &error))?;
        let unusable =
            |error: StoreError| OpenError::Unusable { path: path.clone(), reason: error.to_string().into() };
        guarded(|| recovery.commit(&database, number, now.utc)).map_err(&unusable)?;
        checkpoint::delete_before(folder.path(), number);
        let (database, shelf) = (Arc::new(database), Arc::new(Mutex::new(shelf)));
        let writer = Writer::start(Arc::clone(&database), Arc::clone(&shelf));
        let (seed, is_counting) = (options.seed, options.groups.is_some());
        let groups = Mutex::new(options.groups.clone());
        let shared =
            Arc::new(Shared { writer, database, shelf, options, groups, untaken: Arc::default(), folder });
        let journal = EmbeddedJournal::new(&shared, segment, number);
        let (book, counts) = recovery.into_parts();
        let quotas = if is_counting { counts.into_quotas(seed, now).map_err(unusable)? } else { None };
        Ok(Opened { store: Self { shared }, book, journal, quotas, report })
    }

    /// How many segments of the journal in a row could not be taken into the books. More than none stays until the folder
    /// is opened again.
    #[must_use]
    pub fn untaken_segments(&self) -> u64 {
        self.shared.untaken.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Counts are kept by these limits from now on, if any are kept.
    pub fn set_groups(&self, groups: Vec<QuotaGroup>) {
        if let Some(kept) = &mut *crate::lock(&self.shared.groups) {
            *kept = groups;
        }
    }

    /// Has this done by the writer, and waits until it is durable.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Batch<'_>, &mut Shelf) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<T> {
        self.shared.writer.write(work)
    }

    /// Reads what has been committed.
    fn read<T>(&self, work: impl FnOnce(&mut View) -> Result<T, StoreError>) -> Result<T, StoreError> {
        guarded(|| work(&mut View::new(&*self.shared.database)?))
    }
}
