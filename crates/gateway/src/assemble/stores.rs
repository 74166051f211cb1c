//! The stores of a gateway, open from its start to its end.

use super::error::ServeError;
use crate::runtime::TokioRuntime;
use crate::shared_limits::{SharedStoreProbe, SharedStoreSetup};
use crate::store_maintenance::{self, MaintainedStore, StorageReport};
use crate::supervisor::Supervisor;
use seawall_config::Settings;
use seawall_pipeline::callers::{CallerDirectory, DirectoryLookup};
use seawall_pipeline::event::EventSinks;
use seawall_pipeline::{LimitRules, QuotaStore};
use seawall_store::{DurableStore, Ledger, MemoryLedger, NoJournal, NodeLedger};
use std::sync::Arc;

/// The open stores. Clones share them.
#[derive(Clone)]
pub(crate) struct GatewayStores {
    pub(crate) quotas: Arc<QuotaStore>,
    pub(crate) ledger: NodeLedger,
    /// All calls of this node: the durable ledger, or one in memory.
    pub(crate) calls: Arc<dyn Ledger>,
    /// The durable state of this node, if there is any.
    pub(crate) durable: Option<Arc<dyn DurableStore>>,
    /// The callers in the durable state.
    pub(crate) caller_directory: Option<Arc<dyn CallerDirectory>>,
    pub(crate) report: StorageReport,
    /// The state of the store that a fleet shares, if there is one.
    pub(crate) shared: Option<SharedStoreProbe>,
}

impl GatewayStores {
    /// Opens the stores of these settings, and starts their threads.
    pub(super) fn open(
        settings: &Settings,
        limits: &LimitRules,
        runtime: TokioRuntime,
        events: &Arc<EventSinks>,
        supervisor: &Supervisor,
    ) -> Result<Self, ServeError> {
        let (setup, shared) = SharedStoreSetup::new(&settings.store, runtime, events)?.unzip();
        let open = || store_maintenance::open(settings, limits, shared, runtime, events, supervisor);
        let opened = match &setup {
            Some(setup) => setup.enter(open),
            None => open(),
        };
        let MaintainedStore { ledger, calls, report, quotas, fleet, store: durable } = opened?;
        let (quotas, shared) = match setup.zip(fleet) {
            Some((setup, fleet)) => {
                let (settlements, probe) = setup.start(fleet, runtime, supervisor)?;
                (QuotaStore::remote(quotas, settlements), Some(probe))
            }
            None => (QuotaStore::in_process(quotas), None),
        };
        let caller_directory =
            durable.clone().map(|store| Arc::new(StoredCallers(store)) as Arc<dyn CallerDirectory>);
        Ok(Self { quotas: Arc::new(quotas), ledger, calls, durable, caller_directory, report, shared })
    }

    /// Stores for a check of settings: in memory, and without threads.
    pub(super) fn in_memory(settings: &Settings, limits: &LimitRules) -> Result<Self, ServeError> {
        Ok(Self {
            quotas: Arc::new(QuotaStore::local(limits.groups(), 0)?),
            ledger: NodeLedger::new(settings.budget.limits.clone(), NoJournal),
            calls: Arc::new(MemoryLedger::new(settings.budget.limits.clone())),
            durable: None,
            caller_directory: None,
            report: StorageReport::Memory,
            shared: None,
        })
    }
}

/// Looks up callers in the durable state.
struct StoredCallers(Arc<dyn DurableStore>);

impl CallerDirectory for StoredCallers {
    fn find(&self, hash: &[u8; 32]) -> DirectoryLookup<'_> {
        CallerDirectory::find(&*self.0, hash)
    }
}
