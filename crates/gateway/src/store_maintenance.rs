//! Store maintenance: opens the stores, expires reservations, retries failed writes and sweeps idle limits.

use crate::assemble::ServeError;
use crate::diagnostic;
use crate::runtime::TokioRuntime;
use crate::supervisor::{ShutdownStage, StopSignal, Supervisor, ThreadOptions};
use seawall_config::{Settings, StoreKind};
use seawall_pipeline::{LimitRules, Runtime as _, Timer as _};
use seawall_store::embedded::{OpenError, OpenReport};
use seawall_store::{
    DurableStore, FleetStores, NodeLedger, OpenedStores, Quotas, SharedStoreOptions, StoreOptions,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Interval between two maintenance runs.
const INTERVAL: Duration = Duration::from_millis(500);
/// Shards of the limits swept per run, of 64: all of them in eight seconds.
const SHARDS_PER_RUN: usize = 4;
/// Runs between two retries of failed disk writes: one retry every two seconds.
const RUNS_PER_RETRY: usize = 4;
/// Ledger events taken at a time.
const EVENT_BATCH: usize = 1_024;

/// Where state is stored, and what recovery found there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageReport {
    /// In memory: state is lost when the process ends.
    Memory,
    /// In a data directory.
    DataDir {
        /// The kind of store: `embedded`, or `redis`, which keeps the ledger in the data directory.
        kind: StoreKind,
        /// The data directory.
        path: PathBuf,
        /// What recovery found in it.
        report: Box<OpenReport>,
    },
}

/// Why the store cannot be opened or maintained.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Directory(#[from] OpenError),
    /// The maintenance thread cannot be started.
    #[error("cannot start the store maintenance thread: {0}")]
    Thread(std::io::Error),
}

/// The open stores with their maintenance thread.
pub(crate) struct MaintainedStore {
    pub(crate) ledger: NodeLedger,
    pub(crate) report: StorageReport,
    pub(crate) quotas: Arc<dyn Quotas>,
    /// The stores that the fleet shares, if there are any.
    pub(crate) fleet: Option<FleetStores>,
    /// The durable state of this node, if there is any. It stays open as long as a reference exists.
    pub(crate) store: Option<Arc<dyn DurableStore>>,
}

/// Opens the stores for these settings and starts their maintenance thread.
pub(crate) fn open(
    settings: &Settings,
    limits: &LimitRules,
    shared: Option<SharedStoreOptions>,
    runtime: TokioRuntime,
    supervisor: &Supervisor,
) -> Result<MaintainedStore, ServeError> {
    let options = StoreOptions {
        data_dir: settings.store.directory().map(Path::to_owned),
        shared,
        budget: settings.budget.limits.clone(),
        groups: limits.placed_groups(),
        seed: runtime.draw().below(u64::MAX),
        threads: Arc::new(supervisor.clone()),
    };
    let OpenedStores { ledger, quotas, fleet, data_dir } = seawall_store::open(options, runtime)?;
    let (store, report) = match data_dir {
        Some((store, report)) => {
            let (kind, path) = (settings.store.kind, PathBuf::from(&settings.store.data_dir));
            (Some(store), StorageReport::DataDir { kind, path, report })
        }
        None => (None, StorageReport::Memory),
    };
    let (maintained_ledger, open_store, swept_quotas) = (ledger.clone(), store.clone(), Arc::clone(&quotas));
    let data_dir = match &report {
        StorageReport::DataDir { path, .. } => Some(path.clone()),
        StorageReport::Memory => None,
    };
    // The thread keeps the directory open, so that it is closed after the last call has been written.
    let thread = supervisor.spawn(ThreadOptions::new("store", ShutdownStage::Store), move |shutdown| {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let (store, data_dir) = (open_store.as_deref(), data_dir.as_deref());
        tokio.block_on(run(&maintained_ledger, store, data_dir, shutdown, runtime, &*swept_quotas));
        Ok(())
    });
    thread.map_err(StorageError::Thread)?;
    Ok(MaintainedStore { ledger, report, quotas, fleet, store })
}

/// Runs maintenance until stopped. The embedded store learns from its journal which calls have ended. The ledger in
/// memory also queues events for a consumer; there is none, so they are discarded.
async fn run(
    ledger: &NodeLedger,
    store: Option<&dyn DurableStore>,
    data_dir: Option<&Path>,
    shutdown: &mut StopSignal,
    runtime: TokioRuntime,
    quotas: &dyn Quotas,
) {
    let (mut was_failing, mut was_store_failing) = (false, false);
    for run_number in 0_usize.. {
        was_failing = check_journal(ledger, data_dir, was_failing);
        if let Some(store) = store {
            was_store_failing =
                check_store(store, was_store_failing, run_number.is_multiple_of(RUNS_PER_RETRY));
        }
        // Callers with nothing left in any window are evicted.
        for offset in 0..SHARDS_PER_RUN {
            quotas.sweep(run_number.wrapping_mul(SHARDS_PER_RUN).wrapping_add(offset), runtime.now());
        }
        ledger.expire(runtime.now());
        while !ledger.take_events(EVENT_BATCH).is_empty() {}
        tokio::select! {
            biased;
            _ = shutdown.requested() => return,
            () = runtime.sleep_until(runtime.monotonic() + INTERVAL) => {}
        }
    }
}

/// Retries a failed journal. Reports once when it fails and once when it has recovered. Returns
/// whether it is failing.
fn check_journal(ledger: &NodeLedger, data_dir: Option<&Path>, was_failing: bool) -> bool {
    ledger.retry_journal();
    match (ledger.journal_error(), was_failing) {
        (Some(error), false) => {
            let location =
                data_dir.map(|path| format!(" (data directory {})", path.display())).unwrap_or_default();
            let reason = error.reason();
            diagnostic!(
                JOURNAL_UNAVAILABLE,
                reason = %reason,
                data_dir = data_dir.map(|path| tracing::field::display(path.display())),
                "no model is called: {reason}{location}"
            );
            true
        }
        (None, true) => {
            diagnostic!(JOURNAL_AVAILABLE, "the journal is writable again");
            false
        }
        (error, _) => error.is_some(),
    }
}

/// Why the data directory cannot be written, and what the operator should do.
pub(crate) fn store_problem(store: &dyn DurableStore) -> Option<String> {
    let failed_segments = store.failed_checkpoints();
    match store.write_error() {
        Some(error) if error.is_transient() => Some(format!(
            "{error}: keys and completed calls are not saved; check the disk (retried automatically)"
        )),
        Some(error) => {
            Some(format!("{error}: only the journal is saved; check the disk and restart the gateway"))
        }
        None if failed_segments > 0 => Some(format!(
            "{failed_segments} journal segments could not be applied to the database; check the disk (retried automatically)"
        )),
        None => None,
    }
}

/// Retries failed writes if `retry`. Reports once when the directory cannot be written and once
/// when it can be again. Returns whether it is failing.
fn check_store(store: &dyn DurableStore, was_failing: bool, retry: bool) -> bool {
    if retry {
        store.retry_failed();
    }
    let problem = store_problem(store);
    match (&problem, was_failing) {
        (Some(problem), false) => diagnostic!(DATA_DIR_UNAVAILABLE, reason = &**problem, "{problem}"),
        (None, true) => diagnostic!(DATA_DIR_AVAILABLE, "the data directory is writable again"),
        _ => {}
    }
    problem.is_some()
}
