//! Store maintenance: opens the store, expires reservations, retries failed writes and sweeps idle limits.

use crate::runtime::TokioRuntime;
use seawall_config::{Settings, StoreKind};
use seawall_core::budget::BudgetBook;
use seawall_core::quota::QuotaGroup;
use seawall_pipeline::{Path, Runtime as _, Timer as _};
use seawall_store::embedded::{EmbeddedOptions, EmbeddedStore, OpenError, OpenReport, Opened};
use seawall_store::{Books, MemoryQuotas, NoJournal};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// Interval between two maintenance runs.
const EVERY: Duration = Duration::from_millis(500);
/// Shards of the limits swept per run, of 64: all of them in eight seconds.
const PARTS: usize = 4;
/// Runs between two retries of failed disk writes: one retry every two seconds.
const MENDS_EVERY: usize = 4;
/// Ledger events taken at a time.
const MOST: usize = 1_024;

/// Where state is stored, and what recovery found there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// In memory: state is lost when the process ends.
    Memory,
    /// In a state directory.
    Folder {
        /// The state directory.
        path: PathBuf,
        /// What recovery found in it.
        report: Box<OpenReport>,
    },
}

/// Why the store cannot be opened or maintained.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The state directory cannot be used.
    #[error(transparent)]
    Folder(#[from] OpenError),
    /// The maintenance thread cannot be started.
    #[error("cannot start the thread that keeps the books: {0}")]
    Thread(std::io::Error),
}

/// The maintenance thread. It stops when this is dropped.
pub(crate) struct Keeper {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    swept: Swept,
}

/// The path whose limits are swept: callers with nothing left in any window are evicted.
type Swept = Arc<OnceLock<Weak<Path<TokioRuntime>>>>;

impl Keeper {
    /// Also sweeps the limits of this path.
    pub(crate) fn sweep(&self, path: &Arc<Path<TokioRuntime>>) {
        // Set only once: a keeper serves one path.
        let _ = self.swept.set(Arc::downgrade(path));
    }
}

/// An open store with its ledger and its maintenance thread.
pub(crate) struct Keeping {
    pub(crate) books: Books,
    pub(crate) kept: Kept,
    pub(crate) keeper: Keeper,
    /// The recovered limits, if the state directory stores them.
    pub(crate) quotas: Option<MemoryQuotas>,
    /// The embedded store, if there is one. It stays open as long as a reference exists.
    pub(crate) store: Option<Arc<EmbeddedStore>>,
}

/// Opens the ledger for these settings and starts its maintenance thread.
pub(crate) fn open(
    settings: &Settings,
    groups: Vec<QuotaGroup>,
    runtime: TokioRuntime,
) -> Result<Keeping, KeepError> {
    let (limits, seed) = (settings.budget.limits.clone(), runtime.draw().below(u64::MAX));
    let (books, kept, store, quotas) = match settings.store.kind {
        StoreKind::Memory => {
            let book = BudgetBook::new(limits).seeded(seed);
            (Books::with_book(book, NoJournal), Kept::Memory, None, None)
        }
        StoreKind::Embedded | StoreKind::Redis => {
            let path = PathBuf::from(&settings.store.folder);
            // With Redis, the limits are stored there and not in the state directory.
            let groups = (settings.store.kind == StoreKind::Embedded).then_some(groups);
            let options = EmbeddedOptions { groups, seed, ..EmbeddedOptions::new(limits) };
            let opened = EmbeddedStore::open(&path, options, runtime.now())?;
            let Opened { store, book, journal, quotas, report } = opened;
            let kept = Kept::Folder { path, report: Box::new(report) };
            (Books::with_book(book.seeded(seed), journal), kept, Some(Arc::new(store)), quotas)
        }
    };
    let (stop, stopped) = watch::channel(false);
    let (tended, held) = (books.clone(), store.clone());
    let swept = Swept::default();
    let sweeps = swept.clone();
    let thread = std::thread::Builder::new().name("keeper".to_owned()).spawn(move || {
        // Without a runtime there is no maintenance: the ledger only uses more memory than needed.
        if let Ok(tokio) = tokio::runtime::Builder::new_current_thread().enable_time().build() {
            tokio.block_on(tend(&tended, held.as_deref(), stopped, runtime, &sweeps));
        }
        // The directory is closed after the last call has been written.
        drop(held);
    });
    let thread = Some(thread.map_err(KeepError::Thread)?);
    Ok(Keeping { books, kept, keeper: Keeper { stop, thread, swept }, quotas, store })
}

/// Runs maintenance until stopped. The embedded store learns from its journal which calls have ended. The ledger in
/// memory also queues events for a consumer; there is none, so they are discarded.
async fn tend(
    books: &Books,
    store: Option<&EmbeddedStore>,
    mut stopped: watch::Receiver<bool>,
    runtime: TokioRuntime,
    swept: &Swept,
) {
    let (mut was_failing, mut was_unwritten) = (false, false);
    for part in 0_usize.. {
        was_failing = look_at_journal(books, was_failing);
        if let Some(store) = store {
            was_unwritten = look_at_store(store, was_unwritten, part.is_multiple_of(MENDS_EVERY));
        }
        if let Some(path) = swept.get().and_then(Weak::upgrade) {
            (0..PARTS).for_each(|more| {
                path.limits().sweep(part.wrapping_mul(PARTS).wrapping_add(more), runtime.now());
            });
        }
        books.expire(runtime.now());
        while !books.take_events(MOST).is_empty() {}
        tokio::select! {
            biased;
            _ = stopped.changed() => return,
            () = runtime.sleep_until(runtime.monotonic() + EVERY) => {}
        }
    }
}

/// Retries a failed journal. Reports to standard error once when it fails and once when it has recovered. Returns
/// whether it is failing.
fn look_at_journal(books: &Books, was_failing: bool) -> bool {
    books.retry_journal();
    match (books.journal_error(), was_failing) {
        (Some(error), false) => {
            eprintln!("seawall: {error}: no model is asked until the journal can be written; check the disk");
            true
        }
        (None, true) => {
            eprintln!("seawall: the journal is written again");
            false
        }
        (error, _) => error.is_some(),
    }
}

/// Why the state directory cannot be written, and what the operator should do.
pub(crate) fn store_problem(store: &EmbeddedStore) -> Option<String> {
    let untaken = store.untaken_segments();
    match store.write_error() {
        Some(error) if error.may_pass() => Some(format!(
            "{error}: keys, sessions and closed calls are not saved; check the disk, it is tried again"
        )),
        Some(error) => Some(format!("{error}: nothing is saved but the journal; check the disk and restart")),
        None if untaken > 0 => Some(format!(
            "{untaken} journal segments could not be taken into the books; check the disk, it is tried again"
        )),
        None => None,
    }
}

/// Retries failed writes if `is_time`. Reports to standard error once when the directory cannot be written and once
/// when it can be again. Returns whether it is failing.
fn look_at_store(store: &EmbeddedStore, was_failing: bool, is_time: bool) -> bool {
    if is_time {
        store.mend();
    }
    let problem = store_problem(store);
    match (&problem, was_failing) {
        (Some(problem), false) => eprintln!("seawall: {problem}"),
        (None, true) => eprintln!("seawall: the state directory is written again"),
        _ => {}
    }
    problem.is_some()
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // This fails only if the thread has ended already.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
