//! What outlives the process: opens the store and keeps the books in order.

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

/// How often the books are looked after.
const EVERY: Duration = Duration::from_millis(500);
/// So many parts of the limits, of 64, are tidied up each time: all of them in eight seconds.
const PARTS: usize = 4;
/// How many at a time.
const MOST: usize = 1_024;

/// Where state is kept, and what was found there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// In memory: it ends with the process.
    Memory,
    /// In a folder.
    Folder {
        /// Which.
        path: PathBuf,
        /// What was found in it.
        report: Box<OpenReport>,
    },
}

/// Why state cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The folder cannot be used.
    #[error(transparent)]
    Folder(#[from] OpenError),
    /// The thread cannot be started.
    #[error("cannot start the thread that keeps the books: {0}")]
    Thread(std::io::Error),
}

/// Keeps the books until it is told to stop.
pub(crate) struct Keeper {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    swept: Swept,
}

/// The limits in which callers are forgotten who have nothing left in any window.
type Swept = Arc<OnceLock<Weak<Path<TokioRuntime>>>>;

impl Keeper {
    /// Tidies up the limits of this path, too.
    pub(crate) fn sweep(&self, path: &Arc<Path<TokioRuntime>>) {
        // There is one path for each keeper.
        let _ = self.swept.set(Arc::downgrade(path));
    }
}

/// What was opened.
pub(crate) struct Keeping {
    pub(crate) books: Books,
    pub(crate) kept: Kept,
    pub(crate) keeper: Keeper,
    /// The limits as they were left, where the folder keeps them.
    pub(crate) quotas: Option<MemoryQuotas>,
    /// The folder, where there is one. Whoever holds it keeps it open.
    pub(crate) store: Option<Arc<EmbeddedStore>>,
}

/// The books of these settings, and who keeps them.
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
            // Limits that a fleet shares are kept there.
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
        // Without a runtime the books only remember more than they need.
        if let Ok(tokio) = tokio::runtime::Builder::new_current_thread().enable_time().build() {
            tokio.block_on(tend(&tended, stopped, runtime, &sweeps));
        }
        // The folder is closed when the last call has been written down.
        drop(held);
    });
    let thread = Some(thread.map_err(KeepError::Thread)?);
    Ok(Keeping { books, kept, keeper: Keeper { stop, thread, swept }, quotas, store })
}

/// Keeps the books in order. A folder learns from its journal which calls have ended. Books in memory remember them for
/// somebody, and nobody wants them.
async fn tend(books: &Books, mut stopped: watch::Receiver<bool>, runtime: TokioRuntime, swept: &Swept) {
    let mut was_failing = false;
    for part in 0_usize.. {
        was_failing = look_at_journal(books, was_failing);
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

/// Tries a journal again that could not be written, and tells operators once when it fails and once when it works again.
/// Returns whether it fails.
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

impl Drop for Keeper {
    fn drop(&mut self) {
        // Nobody listens only if the thread has ended already.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
