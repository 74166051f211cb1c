//! Opens the stores of a node: the one place that chooses backends.
//!
//! A node keeps its ledger in a data directory or in memory. Its limits are kept in the same place, or in a store that the
//! nodes of a fleet share. Which shared store that is follows from the scheme of its URL. A new backend is a folder
//! that implements the traits, and a line in `SharedBackend::of`.

use crate::durable::DurableStore;
use crate::embedded::{
    EmbeddedOptions, EmbeddedStore, KeyGroup, OpenError, OpenReport, OpenedStore, ThreadSpawner,
};
use crate::local_fallback::{FleetStores, StoreStateObserver};
use crate::memory::MemoryQuotas;
use crate::node_ledger::{NoJournal, NodeLedger};
use crate::quotas::{Placement, Quotas};
use crate::redis;
use seawall_core::breaker::NodeId;
use seawall_core::budget::{BudgetLedger, BudgetLimits};
use seawall_core::quota::QuotaGroup;
use seawall_core::runtime::Runtime;
use seawall_core::setting::SettingError;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a node's stores are opened with.
pub struct StoreOptions {
    /// The data directory. Without one, state is kept in memory and lost when the process ends.
    pub data_dir: Option<PathBuf>,
    /// The store that the nodes of a fleet share, if there is one. It then keeps the limits.
    pub shared: Option<SharedStoreOptions>,
    /// The daily budgets.
    pub budget: BudgetLimits,
    /// The limits, and where a shared store keeps their counts.
    pub groups: Vec<(QuotaGroup, Placement)>,
    /// Makes the groups of limits that keys in the data directory have agreed.
    pub key_group: Option<KeyGroup>,
    /// Spreads callers over the shards of tables in memory.
    pub seed: u64,
    /// Starts the threads that write to the data directory.
    pub threads: Arc<dyn ThreadSpawner>,
}

/// How to reach a store that a fleet shares, and how to go on without it.
pub struct SharedStoreOptions {
    /// The URL, with the credentials. Its scheme decides about the backend.
    pub url: String,
    /// The CA certificates that may sign the server's TLS certificate, in PEM; without them, those of the system.
    pub ca_certificates: Option<Vec<u8>>,
    /// Whether the server is a cluster.
    pub cluster: bool,
    /// The prefix of every key, so that two fleets can share a server.
    pub prefix: String,
    /// The timeout of one operation.
    pub operation_timeout: Duration,
    /// The id of this node.
    pub node: NodeId,
    /// The number of nodes to assume before they have been counted.
    pub fleet_size: u32,
    /// Is notified when the store becomes unreachable, and when it recovers.
    pub observer: Box<dyn StoreStateObserver>,
}

/// The open stores of a node.
pub struct OpenedStores {
    /// The ledger of this node.
    pub ledger: NodeLedger,
    /// Rate limits, idempotency keys and callers' daily budgets.
    pub quotas: Arc<dyn Quotas>,
    /// The stores that the fleet shares, if there are any; the quotas are among them.
    pub fleet: Option<FleetStores>,
    /// The data directory, and what recovery found in it. It stays open as long as a reference exists.
    pub data_dir: Option<(Arc<dyn DurableStore>, Box<OpenReport>)>,
}

/// Why the stores of a node cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenStoresError {
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] OpenError),
    /// The limits cannot be enforced.
    #[error(transparent)]
    Limits(SettingError),
    /// The settings of the shared store are invalid.
    #[error("the shared store: {0}")]
    Shared(SettingError),
}

/// The backends of shared stores.
enum SharedBackend {
    Redis,
}

impl SharedBackend {
    fn of(url: &str) -> Result<Self, SettingError> {
        match url.split_once("://") {
            Some(("redis" | "rediss", _)) => Ok(Self::Redis),
            _ => Err(SettingError::new("url", "must start with redis:// or rediss://")),
        }
    }
}

/// Opens the stores of a node. With a shared store, it must be called inside a Tokio runtime, which also runs the tasks of
/// the connection; whether the server can be reached is not waited for.
pub fn open<R: Runtime>(options: StoreOptions, runtime: R) -> Result<OpenedStores, OpenStoresError> {
    let StoreOptions { data_dir, shared, budget, groups, key_group, seed, threads } = options;
    let all_groups = || groups.iter().map(|(group, _)| group.clone()).collect::<Vec<_>>();
    let (ledger, quotas, data_dir) = match data_dir {
        None => {
            let budget_ledger = BudgetLedger::new(budget).seeded(seed);
            (NodeLedger::with_ledger(budget_ledger, NoJournal), None, None)
        }
        Some(path) => {
            // The directory stores the limits only where the fleet does not share them.
            let options = EmbeddedOptions {
                groups: shared.is_none().then(all_groups),
                key_group,
                seed,
                threads,
                ..EmbeddedOptions::new(budget)
            };
            let OpenedStore { store, budget_ledger, journal, quotas, report } =
                EmbeddedStore::open(&path, options, runtime.now())?;
            let ledger = NodeLedger::with_ledger(budget_ledger.seeded(seed), journal);
            (ledger, quotas, Some((Arc::new(store) as Arc<dyn DurableStore>, Box::new(report))))
        }
    };
    let fleet = shared.map(|shared| open_shared(shared, &groups, seed, runtime)).transpose();
    let fleet = fleet.map_err(OpenStoresError::Shared)?;
    let quotas: Arc<dyn Quotas> = match (&fleet, quotas) {
        (Some(fleet), _) => Arc::clone(&fleet.quotas) as Arc<dyn Quotas>,
        (None, Some(quotas)) => Arc::new(quotas),
        (None, None) => Arc::new(MemoryQuotas::new(all_groups(), seed).map_err(OpenStoresError::Limits)?),
    };
    Ok(OpenedStores { ledger, quotas, fleet, data_dir })
}

/// Checks the options of a shared store as far as that is possible without a connection. Must be called inside a Tokio
/// runtime.
pub fn check_shared<R: Runtime>(options: &SharedStoreOptions, runtime: R) -> Result<(), SettingError> {
    match SharedBackend::of(&options.url)? {
        SharedBackend::Redis => redis::check(options, runtime),
    }
}

fn open_shared<R: Runtime>(
    options: SharedStoreOptions,
    groups: &[(QuotaGroup, Placement)],
    seed: u64,
    runtime: R,
) -> Result<FleetStores, SettingError> {
    match SharedBackend::of(&options.url)? {
        SharedBackend::Redis => redis::open(options, groups, seed, runtime),
    }
}

#[cfg(test)]
mod tests {
    use super::{OpenStoresError, SharedStoreOptions, StoreOptions, open};
    use crate::embedded::UnsupervisedThreads;
    use crate::local_fallback::{SharedStoreState, StoreStateObserver};
    use crate::quotas::{AdmissionRequest, AdmitDecision, Placement};
    use seawall_core::breaker::NodeId;
    use seawall_core::budget::BudgetOptions;
    use seawall_core::quota::{Quota, QuotaGroup, QuotaKey, QuotaScope, QuotaUnit, QuotaUnits};
    use seawall_core::random::Draw;
    use seawall_core::runtime::{Runtime, Timer};
    use seawall_core::time::{Now, Timestamp};
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::time::Duration;

    #[derive(Clone, Copy)]
    struct Frozen;

    impl Runtime for Frozen {
        fn now(&self) -> Now {
            Now::default()
        }

        fn draw(&self) -> Draw {
            Draw::MIDDLE
        }
    }

    impl Timer for Frozen {
        fn monotonic(&self) -> Timestamp {
            Timestamp::ZERO
        }

        fn sleep_until(&self, _: Timestamp) -> impl Future<Output = ()> + Send + 'static {
            std::future::pending()
        }
    }

    struct Silent;

    impl StoreStateObserver for Silent {
        fn changed(&self, _: SharedStoreState, _: SharedStoreState, _: &str) {}
    }

    fn options(data_dir: Option<PathBuf>, shared: Option<SharedStoreOptions>) -> StoreOptions {
        let minute = Quota::sliding("minute", QuotaUnit::Request, 1, Duration::from_secs(60), 0).unwrap();
        let group = QuotaGroup::new("tier", vec![minute]).unwrap();
        let budget = BudgetOptions::default().check().unwrap();
        let (groups, threads) = (vec![(group, Placement::Partition)], Arc::new(UnsupervisedThreads));
        StoreOptions { data_dir, shared, budget, groups, key_group: None, seed: 1, threads }
    }

    #[test]
    fn stores_of_one_node_decide_at_once_and_only_a_directory_is_durable() {
        let directory = std::env::temp_dir().join(format!("seawall-open-{}", std::process::id()));
        for data_dir in [None, Some(directory.clone())] {
            let is_durable = data_dir.is_some();
            let opened = open(options(data_dir, None), Frozen).unwrap();
            assert_eq!((opened.data_dir.is_some(), opened.fleet.is_some()), (is_durable, false));
            let scopes = [QuotaScope { group: opened.quotas.group("tier").unwrap(), key: QuotaKey(1) }];
            let units = QuotaUnits::REQUEST;
            let request = AdmissionRequest { partition: 1, scopes: &scopes, units, money: None, claim: None };
            let decide = || opened.quotas.reserve(&request, Now::default()).now_or_never().unwrap().unwrap();
            assert!(matches!(decide(), AdmitDecision::Granted { .. }));
            assert!(matches!(decide(), AdmitDecision::RateLimited(_)));
        }
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_shared_store_of_an_unknown_kind_is_rejected() {
        let shared = SharedStoreOptions {
            url: "memcached://cache:11211".into(),
            ca_certificates: None,
            cluster: false,
            prefix: String::new(),
            operation_timeout: Duration::from_millis(25),
            node: NodeId(1),
            fleet_size: 1,
            observer: Box::new(Silent),
        };
        let error = open(options(None, Some(shared)), Frozen).map(drop).unwrap_err();
        assert!(matches!(error, OpenStoresError::Shared(_)));
        assert_eq!(error.to_string(), "the shared store: url: must start with redis:// or rediss://");
    }
}
