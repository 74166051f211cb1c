//! Store maintenance: opens the stores, expires reservations, retries failed writes and sweeps idle limits.

use crate::assemble::ServeError;
use crate::runtime::TokioRuntime;
use crate::supervisor::{ShutdownStage, StopSignal, Supervisor, ThreadOptions};
use seawall_config::{Settings, StoreKind, limit_group};
use seawall_core::quota::QuotaGroup;
use seawall_pipeline::callers::limit_group_name;
use seawall_pipeline::event::{Event, EventSinks};
use seawall_pipeline::{LimitRules, Runtime as _, Timer as _};
use seawall_store::embedded::{OpenError, OpenReport};
use seawall_store::{
    DurableStore, FleetStores, Ledger, MemoryLedger, NodeLedger, OpenedStores, Quotas, SharedStoreOptions,
    StoreOptions,
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
    /// All calls of this node.
    pub(crate) calls: Arc<dyn Ledger>,
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
    events: &Arc<EventSinks>,
    supervisor: &Supervisor,
) -> Result<MaintainedStore, ServeError> {
    let options = StoreOptions {
        data_dir: settings.store.directory().map(Path::to_owned),
        shared,
        budget: settings.budget.limits.clone(),
        groups: limits.placed_groups(),
        key_group: Some(key_group),
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
    let calls: Arc<dyn Ledger> = match &store {
        Some(store) => Arc::clone(store) as Arc<dyn Ledger>,
        None => Arc::new(MemoryLedger::new(settings.budget.limits.clone())),
    };
    let posted_calls = Arc::clone(&calls);
    let (maintained_ledger, open_store, swept_quotas) = (ledger.clone(), store.clone(), Arc::clone(&quotas));
    let data_dir = match &report {
        StorageReport::DataDir { path, .. } => Some(path.clone()),
        StorageReport::Memory => None,
    };
    let events = Arc::clone(events);
    // The thread keeps the directory open, so that it is closed after the last call has been written.
    let thread = supervisor.spawn(ThreadOptions::new("store", ShutdownStage::Store), move |shutdown| {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let (store, data_dir) = (open_store.as_deref(), data_dir.as_deref());
        let checks = StoreChecks { events: &events, data_dir };
        let ledgers = (&maintained_ledger, &*posted_calls);
        tokio.block_on(run(ledgers, store, &checks, shutdown, runtime, &*swept_quotas));
        Ok(())
    });
    thread.map_err(StorageError::Thread)?;
    Ok(MaintainedStore { ledger, calls, report, quotas, fleet, store })
}

/// Runs maintenance until stopped. The embedded store learns from its journal which calls have ended; a ledger in memory is
/// told here.
async fn run(
    (ledger, calls): (&NodeLedger, &dyn Ledger),
    store: Option<&dyn DurableStore>,
    checks: &StoreChecks<'_>,
    shutdown: &mut StopSignal,
    runtime: TokioRuntime,
    quotas: &dyn Quotas,
) {
    let (mut was_failing, mut was_store_failing) = (false, false);
    for run_number in 0_usize.. {
        was_failing = checks.check_journal(ledger, was_failing);
        if let Some(store) = store {
            was_store_failing =
                checks.check_store(store, was_store_failing, run_number.is_multiple_of(RUNS_PER_RETRY));
        }
        // Callers with nothing left in any window are evicted.
        for offset in 0..SHARDS_PER_RUN {
            quotas.sweep(run_number.wrapping_mul(SHARDS_PER_RUN).wrapping_add(offset), runtime.now());
        }
        ledger.expire(runtime.now());
        post_calls(ledger, calls).await;
        tokio::select! {
            biased;
            _ = shutdown.requested() => return,
            () = runtime.sleep_until(runtime.monotonic() + INTERVAL) => {}
        }
    }
}

/// Posts ended calls that the journal does not carry to the ledger.
async fn post_calls(ledger: &NodeLedger, calls: &dyn Ledger) {
    loop {
        let ended = ledger.take_events(EVENT_BATCH);
        if ended.is_empty() {
            return;
        }
        // The ledger is in memory and cannot fail.
        let _ = calls.post(&ended).await;
    }
}

/// The group of a key's rate limits.
pub(crate) fn key_group(limits: &[Box<str>]) -> Option<QuotaGroup> {
    limit_group(&limit_group_name(limits)?, limits.iter().map(AsRef::as_ref)).ok()
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

/// Checks whether the journal and the data directory can be written. A change is one event.
struct StoreChecks<'a> {
    events: &'a EventSinks,
    data_dir: Option<&'a Path>,
}

impl StoreChecks<'_> {
    /// Retries a failed journal. Returns whether it is failing.
    fn check_journal(&self, ledger: &NodeLedger, was_failing: bool) -> bool {
        ledger.retry_journal();
        let problem = ledger.journal_error().map(|error| error.reason().to_owned());
        if problem.is_some() != was_failing {
            let (problem, data_dir) = (problem.as_deref(), self.data_dir);
            self.events.emit(&Event::JournalChanged { problem, data_dir });
        }
        problem.is_some()
    }

    /// Retries failed writes to the data directory if `retry`. Returns whether they are failing.
    fn check_store(&self, store: &dyn DurableStore, was_failing: bool, retry: bool) -> bool {
        if retry {
            store.retry_failed();
        }
        let problem = store_problem(store);
        if problem.is_some() != was_failing {
            self.events.emit(&Event::DataDirChanged { problem: problem.as_deref() });
        }
        problem.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::StoreChecks;
    use crate::diagnostics::DiagnosticSink;
    use crate::diagnostics::tests::events_of;
    use seawall_core::budget::{BudgetOptions, ReservationRequest};
    use seawall_core::history::TokenLimits;
    use seawall_core::money::Money;
    use seawall_core::time::{Now, Timestamp, UtcTime};
    use seawall_core::vocabulary::Tier;
    use seawall_pipeline::event::EventSinks;
    use seawall_store::{CallId, Journal, JournalRecord, LedgerCall, NodeLedger, StoreError};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A journal that fails on request.
    struct Breakable(Arc<AtomicBool>);

    impl Journal for Breakable {
        fn write(&mut self, _: &[JournalRecord]) -> Result<(), StoreError> {
            self.flush()
        }

        fn flush(&mut self) -> Result<(), StoreError> {
            if self.0.load(Ordering::Relaxed) {
                Err(StoreError::unavailable("embedded", "no space"))
            } else {
                Ok(())
            }
        }
    }

    #[test]
    fn a_journal_that_fails_and_recovers_is_reported_once_each() {
        let is_broken = Arc::<AtomicBool>::default();
        let limits = BudgetOptions::default().check().unwrap();
        let ledger = NodeLedger::new(limits, Breakable(Arc::clone(&is_broken)));
        let events = EventSinks::new(vec![Arc::new(DiagnosticSink)]);
        let checks = StoreChecks { events: &events, data_dir: None };
        let mut was_failing = false;
        let request = ReservationRequest {
            caller: 1,
            tier: Tier::Prime,
            session: None,
            limits: TokenLimits::default(),
            input: 1,
            output: 1,
            max_cost: Money::from_nanos(1),
            expires: Timestamp::NEVER,
            windows: Default::default(),
        };
        let call = |attempt| LedgerCall {
            id: CallId { request: 1, attempt },
            model: "sonnet".into(),
            labels: Default::default(),
        };
        let (mut attempt, now) = (0, Now::new(Timestamp::ZERO, UtcTime::from_nanos(0)));
        let mut check = |broken: bool| {
            is_broken.store(broken, Ordering::Relaxed);
            attempt += 1;
            // A journal is found broken by those who write to it.
            let held = ledger.begin(&request, call(attempt), None, now).and_then(|hold| hold.write());
            assert_eq!(held.is_err(), broken);
            events_of(|| was_failing = checks.check_journal(&ledger, was_failing))
        };
        assert_eq!(check(false), [""; 0]);
        assert_eq!(check(true), ["journal_unavailable"]);
        assert_eq!(check(true), [""; 0]);
        assert_eq!(check(false), ["journal_available"]);
        assert_eq!(check(false), [""; 0]);
    }
}
