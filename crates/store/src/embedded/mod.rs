//! Durable state in a data directory, for a single node.
//!
//! `state.redb` is the database; the segments of a write-ahead journal contain what this node's ledger has promised
//! since the last checkpoint. What has been acknowledged survives the end of the process and a power cut. A reservation
//! survives the end of the process at once, and a power cut some milliseconds later.
//!
//! **When it acts.** All changes go through one writer thread, which commits everything that has arrived in one
//! transaction (group commit). Reads go to the file directly and do not block. Time is passed in with each call;
//! what must survive the process is stored with wall-clock times.
//!
//! **Opening.** One process at a time has the directory. Database and journal are read and validated first, and no content
//! is modified unless all of it is intact; otherwise [`OpenError`] names the file and what to do. Then what was
//! reserved and never settled is charged at its maximum cost, once, however often opening is interrupted. No other
//! money stays reserved.
//!
//! **What it does not do.** It repairs nothing and guesses nothing. It serves one process; a fleet shares another
//! store.

mod blocks;
mod checkpoint;
mod claims;
mod codec;
mod counts;
mod data_dir;
mod database;
mod directory;
mod durable;
mod fast_map;
mod flusher;
mod import;
mod journal;
mod leases;
mod ledger;
mod open_error;
mod replica;
mod reply;
mod rows;
mod segment;
mod sessions;
mod snapshot;
mod spending;
mod staged_file;
mod switches;
#[cfg(test)]
mod tests;
mod threads;
mod totals;
mod writer;

pub use claims::EmbeddedClaim;
pub use data_dir::create_private_dir;
pub use journal::EmbeddedJournal;
pub use open_error::OpenError;
pub use threads::{SpawnedThread, StoreThread, ThreadSpawner, UnsupervisedThreads};

use crate::StoreError;
use crate::memory::MemoryQuotas;
use crate::usage::UsageEvent;
use data_dir::{DATABASE_FILE, DataDir, ValidatedDatabase, rewrite_header};
use database::ReopenableDatabase;
use leases::StoredLeases;
use reply::ReplyReceiver;
use rows::{Batch, View, catch_panic};
use seawall_core::budget::{BudgetLedger, BudgetLimits, BudgetSource};
use seawall_core::money::Money;
use seawall_core::quota::QuotaGroup;
use seawall_core::time::Now;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use writer::DatabaseWriter;

/// Makes the group of a list of rate limits, if they are valid.
pub type KeyGroup = fn(&[Box<str>]) -> Option<QuotaGroup>;

/// How a data directory is used.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// The budget caps: for the leases of a fleet, and for this node's own ledger.
    pub limits: BudgetLimits,
    /// Where this node's money comes from: its caps, or leases.
    pub source: BudgetSource,
    /// The page cache of the database, in bytes.
    pub cache_bytes: usize,
    /// A journal segment that has reached this length is followed by a new one, in bytes.
    pub segment_bytes: u64,
    /// The limits whose counts are stored here; none where they are stored elsewhere. Existing counts are kept.
    pub groups: Option<Vec<QuotaGroup>>,
    /// Makes the group of the rate limits that keys in this directory have agreed. These groups are added to `groups`, so that
    /// their counts are known from the start.
    pub key_group: Option<KeyGroup>,
    /// Spreads callers over the shards of the rate limiter.
    pub seed: u64,
    /// Starts the threads that write.
    pub threads: Arc<dyn ThreadSpawner>,
}

impl EmbeddedOptions {
    /// The defaults for a single node with these budget limits.
    #[must_use]
    pub fn new(limits: BudgetLimits) -> Self {
        Self {
            limits,
            source: BudgetSource::Caps,
            cache_bytes: 2 << 20,
            segment_bytes: 16 << 20,
            groups: None,
            key_group: None,
            seed: 0,
            threads: Arc::new(UnsupervisedThreads),
        }
    }
}

/// What was found when a data directory was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// The directory was new.
    pub created: bool,
    /// The number of journal records that were replayed.
    pub replayed: usize,
    /// Calls that were in flight when the last process ended; they were charged at their maximum cost.
    pub charged: Vec<UsageEvent>,
    /// The end of an interrupted write that was never acknowledged: its file, and how many bytes were cut off.
    pub truncated: Option<(PathBuf, u64)>,
    /// Other users may access the directory, which existed before.
    pub is_accessible_to_others: bool,
}

impl OpenReport {
    /// The cost of the calls that were charged at their maximum.
    #[must_use]
    pub fn charged_cost(&self) -> Money {
        self.charged.iter().fold(Money::ZERO, |sum, call| sum.saturating_add(call.cost))
    }
}

/// An open data directory.
#[derive(Debug)]
pub struct OpenedStore {
    /// The store itself.
    pub store: EmbeddedStore,
    /// This node's ledger as it was left, without open reservations.
    pub budget_ledger: BudgetLedger,
    /// The journal to which the ledger writes from now on.
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
    shared: Arc<EmbeddedState>,
}

/// The fields are in their drop order: the thread ends, the file is closed, the directory is unlocked.
#[derive(Debug)]
struct EmbeddedState {
    writer: DatabaseWriter,
    database: Arc<ReopenableDatabase>,
    leases: Arc<Mutex<StoredLeases>>,
    options: EmbeddedOptions,
    /// The limits by which counts are stored from now on.
    groups: Mutex<Option<Vec<QuotaGroup>>>,
    /// Why the database cannot be written, while that lasts.
    write_error: Arc<Mutex<Option<StoreError>>>,
    /// The number of journal segments in a row whose checkpoint failed.
    failed_checkpoints: Arc<AtomicU64>,
    /// The segment up to which the last checkpoint was scheduled.
    scheduled: AtomicU64,
    data_dir: Arc<DataDir>,
}

impl EmbeddedStore {
    /// Opens a data directory, and creates it if it is missing.
    pub fn open(data_dir: &Path, options: EmbeddedOptions, now: Now) -> Result<OpenedStore, OpenError> {
        // The database panics on some kinds of damage, on reading and even on closing a file that was refused.
        let opened = catch_unwind(AssertUnwindSafe(|| Self::open_checked(data_dir, options, now)));
        opened.unwrap_or_else(|_| {
            Err(OpenError::damaged(&data_dir.join(DATABASE_FILE), "its pages are invalid"))
        })
    }

    fn open_checked(
        data_dir: &Path,
        mut options: EmbeddedOptions,
        now: Now,
    ) -> Result<OpenedStore, OpenError> {
        let data_dir = Arc::new(DataDir::lock(data_dir)?);
        let segments = segment::list(data_dir.path())?;
        let validated = data_dir.open_database(options.cache_bytes, !segments.is_empty())?;
        let damaged = |error: StoreError| OpenError::damaged(&validated.path, error);
        let leases = catch_panic(|| {
            StoredLeases::load(&mut View::new(&validated.database)?, options.limits.clone(), now.monotonic)
        });
        let leases = leases.map_err(damaged)?;
        if let (Some(groups), Some(key_group)) = (&mut options.groups, options.key_group) {
            let limits = catch_panic(|| directory::key_limits(&mut View::new(&validated.database)?));
            let of_keys = limits.map_err(damaged)?;
            let is_new = |group: &QuotaGroup| groups.iter().all(|known| known.name() != group.name());
            let added: Vec<QuotaGroup> =
                of_keys.iter().filter_map(|limits| key_group(limits)).filter(is_new).collect();
            groups.extend(added);
        }
        let mut recovery = checkpoint::Recovery::read(&data_dir, &validated, &segments, &options)?;
        let charged = recovery.charge_open_reservations(now.utc);
        let ValidatedDatabase { database, file, path, created } = validated;
        // Nothing has been modified up to here.
        file.apply_staged().map_err(|error| OpenError::unusable(&path, &error))?;
        let number = recovery.next_segment();
        let report = OpenReport {
            created,
            replayed: recovery.replayed,
            charged,
            truncated: recovery.truncated.take(),
            is_accessible_to_others: data_dir.is_accessible_to_others(),
        };
        let segment = journal::create_segment(&data_dir, number)
            .map_err(|error| OpenError::unusable(&segment::segment_path(data_dir.path(), number), &error))?;
        let unusable =
            |error: StoreError| OpenError::Unusable { path: path.clone(), reason: error.to_string().into() };
        catch_panic(|| recovery.commit(&database, number, now.utc)).map_err(&unusable)?;
        checkpoint::delete_before(data_dir.path(), number);
        let database = Arc::new(ReopenableDatabase::new(database, data_dir.path(), options.cache_bytes));
        let (leases, write_error) = (Arc::new(Mutex::new(leases)), Arc::default());
        let writer = DatabaseWriter::start(
            &*options.threads,
            Arc::clone(&data_dir),
            Arc::clone(&database),
            Arc::clone(&leases),
            Arc::clone(&write_error),
        );
        let writer = writer.map_err(|error| OpenError::unusable(&path, &error))?;
        let (seed, stores_counts) = (options.seed, options.groups.is_some());
        let groups = Mutex::new(options.groups.clone());
        let shared = Arc::new(EmbeddedState {
            writer,
            database,
            leases,
            options,
            groups,
            write_error,
            failed_checkpoints: Arc::default(),
            scheduled: AtomicU64::default(),
            data_dir,
        });
        let journal = EmbeddedJournal::new(&shared, segment, number);
        let journal = journal.map_err(|error| OpenError::unusable(&path, &error))?;
        let (budget_ledger, counts) = recovery.into_parts();
        let quotas = if stores_counts { counts.into_quotas(seed, now).map_err(unusable)? } else { None };
        Ok(OpenedStore { store: Self { shared }, budget_ledger, journal, quotas, report })
    }

    /// The number of journal segments in a row whose checkpoint failed.
    #[must_use]
    pub fn failed_checkpoints(&self) -> u64 {
        self.shared.failed_checkpoints.load(Ordering::Acquire)
    }

    /// Why the database cannot be written, while that lasts. An error that [is transient](StoreError::is_transient) is retried
    /// by [`retry_failed`](Self::retry_failed); others stay until the directory is opened again.
    #[must_use]
    pub fn write_error(&self) -> Option<StoreError> {
        crate::lock(&self.shared.write_error).clone()
    }

    /// Retries what failed because of the disk: reopening and writing the database, and checkpoints of journal
    /// segments. It does not block. Call it every few seconds.
    pub fn retry_failed(&self) {
        match self.write_error() {
            Some(error) if error.is_transient() => {
                self.shared.writer.write_then(|batch, _| rewrite_header(batch), |_| {});
            }
            Some(_) => {}
            None if self.failed_checkpoints() > 0 => checkpoint::reschedule(&self.shared),
            None => {}
        }
    }

    /// Changes the limits by which counts are stored, if any are stored.
    pub fn set_groups(&self, groups: Vec<QuotaGroup>) {
        if let Some(current) = &mut *crate::lock(&self.shared.groups) {
            *current = groups;
        }
    }

    /// Runs the work on the writer thread, and waits until it is durable.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Batch<'_>, &mut StoredLeases) -> Result<T, StoreError> + Send + 'static,
    ) -> ReplyReceiver<T> {
        self.shared.writer.write(work)
    }

    /// Reads what has been committed.
    fn read<T>(&self, work: impl FnOnce(&mut View) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.shared.database.with(|database| work(&mut View::new(database)?))
    }
}
