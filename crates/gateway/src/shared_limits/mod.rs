//! Limits that a fleet shares, and their upkeep.
//!
//! **When it acts.** Each request is decided by the shared store, or by this node's own share of the limits while the store
//! is unavailable. Settlements go through a bounded queue to a separate thread, so no request waits for them. Once a
//! second this node sends a heartbeat and counts the other nodes. While the store does not answer, it is probed five
//! times a second. The size of the fleet is saved in the data directory, so that a node that starts without the store can
//! compute its share.
//!
//! **What it does not do.** It does not know which store that is: `seawall_store::open` chooses it. No request waits longer
//! than the store's timeout, and none is rejected because the store is unavailable. A settlement is dropped and counted
//! if the queue is full, or if a slow store has not taken it a few seconds after shutdown began: the reserved units then
//! stay charged.

mod maintenance;
mod settings;
mod settlements;

use crate::fleet_memory::FleetMemory;
use crate::runtime::TokioRuntime;
use crate::secret::SecretError;
use crate::supervisor::{ShutdownStage, Supervisor, ThreadOptions};
use maintenance::SharedLimitsMaintenance;
use seawall_config::StoreSettings;
use seawall_core::breaker::NodeId;
use seawall_core::setting::SettingError;
use seawall_pipeline::event::{Event, EventSinks};
use seawall_pipeline::{Runtime as _, SettlementQueue};
use seawall_store::{
    FleetQuotas, FleetStores, SharedStoreOptions, SharedStoreState, StoreStateObserver, check_shared,
};
use settlements::QueuedSettlements;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;

/// Capacity of the settlement queue.
const QUEUE_CAPACITY: usize = 65_536;

/// Why shared limits cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    /// A setting is invalid.
    #[error("store.redis: {0}")]
    Setting(#[from] SettingError),
    /// The password cannot be read.
    #[error("store.redis.password: {0}")]
    Secret(#[from] SecretError),
    /// The file with the CA certificates for TLS cannot be read.
    #[error("store.redis.ca_file: {0}: {1}")]
    CaFile(String, std::io::Error),
    /// That file contains no certificate.
    #[error("store.redis.ca_file: {0}: no PEM certificate found")]
    NoCertificate(String),
    /// The thread of the shared store cannot be started.
    #[error("cannot start the thread of the shared store: {0}")]
    Thread(std::io::Error),
}

/// A runtime that may be dropped anywhere, even inside another runtime: dropping does not wait for its tasks.
struct BackgroundRuntime(Option<tokio::runtime::Runtime>);

impl BackgroundRuntime {
    fn new() -> Result<Self, SharedError> {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self(Some(tokio.map_err(SharedError::Thread)?)))
    }

    /// Runs `work` inside this runtime, which connections need for their tasks.
    fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let _inside = self.0.as_ref().map(tokio::runtime::Runtime::enter);
        work()
    }
}

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        if let Some(tokio) = self.0.take() {
            tokio.shutdown_background();
        }
    }
}

/// What is needed before a shared store can be opened.
pub(crate) struct SharedStoreSetup {
    tokio: BackgroundRuntime,
    node: NodeId,
    fleet: FleetMemory,
}

impl SharedStoreSetup {
    /// The options of the shared store, and what runs it. `None` if the settings name no shared store.
    pub(crate) fn new(
        store: &StoreSettings,
        runtime: TokioRuntime,
        events: &Arc<EventSinks>,
    ) -> Result<Option<(Self, SharedStoreOptions)>, SharedError> {
        let Some(shared) = store.shared() else { return Ok(None) };
        let node = NodeId(runtime.draw().bits());
        let fleet = FleetMemory::read(Path::new(&store.data_dir), shared.fleet_size);
        let options = SharedStoreOptions {
            url: settings::with_password(&shared.url, shared.password.as_ref())?,
            ca_certificates: shared.ca_file.as_deref().map(settings::read_certificates).transpose()?,
            cluster: shared.cluster,
            prefix: shared.prefix.clone(),
            operation_timeout: shared.operation_timeout,
            node,
            fleet_size: fleet.nodes(),
            observer: Box::new(StoreEvents { events: Arc::clone(events), store: store.kind.name() }),
        };
        Ok(Some((Self { tokio: BackgroundRuntime::new()?, node, fleet }, options)))
    }

    /// Runs `open` where the shared store can start its connection.
    pub(crate) fn enter<T>(&self, open: impl FnOnce() -> T) -> T {
        self.tokio.enter(open)
    }

    /// Starts the thread that owns the connection and maintains the stores. At shutdown it settles what is queued.
    pub(crate) fn start(
        self,
        stores: FleetStores,
        runtime: TokioRuntime,
        supervisor: &Supervisor,
    ) -> Result<(Box<dyn SettlementQueue>, SharedStoreProbe), SharedError> {
        let Self { tokio, node, fleet } = self;
        let (sender, settlements) = mpsc::channel(QUEUE_CAPACITY);
        let dropped = Arc::<AtomicU64>::default();
        let queue = QueuedSettlements { sender, dropped: Arc::clone(&dropped) };
        let status = SharedStoreProbe { quotas: Arc::clone(&stores.quotas), dropped: Arc::clone(&dropped) };
        let mut maintenance =
            SharedLimitsMaintenance { stores, node, runtime, settlements, dropped, fleet, sequence: 0 };
        let options = ThreadOptions::new("shared-store", ShutdownStage::SharedStore);
        let thread = supervisor.spawn(options, move |shutdown| {
            if let Some(tokio) = &tokio.0 {
                tokio.block_on(maintenance.run(shutdown));
            }
            Ok(())
        });
        thread.map_err(SharedError::Thread)?;
        Ok((Box::new(queue), status))
    }
}

/// Checks these settings as far as that is possible without a connection to the store.
pub(crate) fn check(store: &StoreSettings, runtime: TokioRuntime) -> Result<(), SharedError> {
    match SharedStoreSetup::new(store, runtime, &Arc::default())? {
        Some((setup, options)) => Ok(setup.enter(|| check_shared(&options, runtime))?),
        None => Ok(()),
    }
}

/// A handle to read the state of the shared store.
#[derive(Clone)]
pub(crate) struct SharedStoreProbe {
    quotas: Arc<dyn FleetQuotas>,
    dropped: Arc<AtomicU64>,
}

/// The state of the shared store at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedStoreStatus {
    /// Whether the store decides requests.
    pub(crate) is_up: bool,
    /// Requests that this node decided without the store.
    pub(crate) local_decisions: u64,
    /// Settlements that did not reach the store.
    pub(crate) lost_settlements: u64,
}

impl SharedStoreProbe {
    pub(crate) fn read(&self) -> SharedStoreStatus {
        let counts = self.quotas.counters();
        SharedStoreStatus {
            is_up: self.quotas.state() != SharedStoreState::Unreachable,
            local_decisions: counts.local_decisions,
            lost_settlements: counts.lost_settlements.saturating_add(self.dropped.load(Ordering::Relaxed)),
        }
    }
}

/// Emits each change of state as an event.
struct StoreEvents {
    events: Arc<EventSinks>,
    /// The name of the store.
    store: &'static str,
}

impl StoreStateObserver for StoreEvents {
    fn changed(&self, _: SharedStoreState, to: SharedStoreState, reason: &str) {
        self.events.emit(&Event::SharedStoreChanged { store: self.store, state: to, reason });
    }
}
