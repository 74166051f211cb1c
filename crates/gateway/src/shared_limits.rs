//! Limits that a fleet shares in Redis, and their upkeep.
//!
//! **When it acts.** Each request is decided by one script, or by this node's own share of the limits while the store
//! is unavailable. Settlements go through a bounded queue to a separate task, so no request waits for them. Once a
//! second this node sends a heartbeat and counts the other nodes. While the store does not answer, it is probed five
//! times a second, and a silent connection is replaced. The size of the fleet is saved in the data directory, so that
//! a node that starts without the store can compute its share.
//!
//! **What it does not do.** No request waits longer than the store's timeout, and none is rejected because the store is
//! unavailable. A settlement is dropped and counted if the queue is full, or if a slow store has not taken it a few
//! seconds after shutdown began: the reserved units then stay charged.

use crate::fleet_memory::FleetMemory;
use crate::runtime::TokioRuntime;
use crate::secret::{SecretError, fetch};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use seawall_config::RedisSettings;
use seawall_core::breaker::NodeId;
use seawall_core::deadline::Deadline;
use seawall_core::quota::{GroupId, LimitId, LimitView, QuotaGroup, QuotaScope};
use seawall_core::runtime::timeout_at;
use seawall_core::setting::SettingError;
use seawall_core::time::Now;
use seawall_pipeline::{
    FleetQuotas, LimitRules, PendingDecision, Runtime as _, SharedDecision, SharedReservation, Timer as _,
};
use seawall_store::redis::{
    Placement, RedisBoard, RedisConnection, RedisOptions, RedisQuotaReservation, RedisQuotas,
};
use seawall_store::{
    AdmissionRequest, Board as _, NodeView, Quotas as _, Settlement, SharedQuotaReservation, SharedQuotas,
    SharedQuotasOptions, SharedStoreState, StoreStateObserver,
};
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Capacity of the settlement queue.
const QUEUE_CAPACITY: usize = 65_536;
/// Settlements sent to the store concurrently. One after the other, a store that is a millisecond away would take only
/// a thousand a second.
const SETTLE_CONCURRENCY: usize = 64;
/// How long shutdown may take to settle what is queued.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval between two heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between two probes of a store that did not answer.
const PROBE_INTERVAL: Duration = Duration::from_millis(200);
/// A node without a heartbeat for this long is not counted.
const HEARTBEAT_TTL: Duration = Duration::from_secs(5);

type SharedRedisQuotas = SharedQuotas<RedisQuotas<TokioRuntime>, TokioRuntime>;
type RedisReservationHandle = SharedQuotaReservation<RedisQuotaReservation>;

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
    /// The thread for Redis cannot be started.
    #[error("cannot start the thread for redis: {0}")]
    Thread(std::io::Error),
}

/// A runtime that may be dropped anywhere, even inside another runtime: dropping does not wait for its tasks.
struct BackgroundRuntime(Option<tokio::runtime::Runtime>);

impl BackgroundRuntime {
    fn new() -> Result<Self, SharedError> {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self(Some(tokio.map_err(SharedError::Thread)?)))
    }
}

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        if let Some(tokio) = self.0.take() {
            tokio.shutdown_background();
        }
    }
}

pub(crate) struct RedisLimits {
    store: Arc<SharedRedisQuotas>,
    /// Every group that ever existed, in order of appearance. A group keeps its index, whatever else changes.
    groups: Mutex<Vec<QuotaGroup>>,
    settlements: mpsc::Sender<(RedisReservationHandle, Settlement, Now)>,
    dropped: Arc<AtomicU64>,
}

/// The upkeep task of shared limits. It must run until the gateway ends.
pub(crate) struct SharedLimitsMaintenance {
    store: Arc<SharedRedisQuotas>,
    board: RedisBoard<TokioRuntime>,
    node: NodeId,
    runtime: TokioRuntime,
    settlements: mpsc::Receiver<(RedisReservationHandle, Settlement, Now)>,
    dropped: Arc<AtomicU64>,
    fleet: FleetMemory,
}

/// A handle to read the state of the shared store.
#[derive(Clone)]
pub(crate) struct SharedStoreProbe {
    store: Arc<SharedRedisQuotas>,
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
        let counts = self.store.stats();
        SharedStoreStatus {
            is_up: self.store.store_state() != SharedStoreState::Unreachable,
            local_decisions: counts.local_decisions,
            lost_settlements: counts.lost_settlements.saturating_add(self.dropped.load(Ordering::Relaxed)),
        }
    }
}

/// The thread that owns the connection. When dropped, it settles what is queued and ends.
pub(crate) struct SharedThread {
    shutdown_sender: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    pub(crate) status: SharedStoreProbe,
}

impl Drop for SharedThread {
    fn drop(&mut self) {
        // This fails only if the thread has ended already.
        let _ = self.shutdown_sender.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts to connect, and maintains the shared limits until the thread is dropped.
pub(crate) fn start(
    settings: &RedisSettings,
    directory: &str,
    rules: &LimitRules,
    runtime: TokioRuntime,
) -> Result<(RedisLimits, SharedThread), SharedError> {
    let mut tokio = BackgroundRuntime::new()?;
    let (limits, maintenance, status) = {
        let _inside = tokio.0.as_ref().map(tokio::runtime::Runtime::enter);
        open(settings, directory, rules, runtime)?
    };
    let (shutdown_sender, mut shutdown_receiver) = watch::channel(false);
    let thread = std::thread::Builder::new().name("redis".to_owned()).spawn(move || {
        let Some(tokio) = tokio.0.take() else { return };
        tokio.block_on(maintenance.run(async move {
            // An error means that the sender was dropped, which also ends the task.
            let _ = shutdown_receiver.wait_for(|is_shutdown| *is_shutdown).await;
        }));
    });
    let thread = Some(thread.map_err(SharedError::Thread)?);
    Ok((limits, SharedThread { shutdown_sender, thread, status }))
}

/// Checks these settings as far as that is possible without a connection to the store.
pub(crate) fn check(settings: &RedisSettings, runtime: TokioRuntime) -> Result<(), SharedError> {
    let tokio = BackgroundRuntime::new()?;
    let _inside = tokio.0.as_ref().map(tokio::runtime::Runtime::enter);
    RedisConnection::new(&redis_options(settings)?, runtime)?;
    Ok(())
}

fn redis_options(settings: &RedisSettings) -> Result<RedisOptions, SharedError> {
    let read = |path: &String| {
        let pem = std::fs::read(path).map_err(|error| SharedError::CaFile(path.clone(), error))?;
        let mut certificates = CertificateDer::pem_slice_iter(&pem);
        let is_some = certificates.next().is_some_and(|certificate| certificate.is_ok());
        if is_some { Ok(pem) } else { Err(SharedError::NoCertificate(path.clone())) }
    };
    Ok(RedisOptions {
        servers: vec![with_password(&settings.url, settings)?],
        ca_certificates: settings.ca_file.as_ref().map(read).transpose()?,
        cluster: settings.cluster,
        prefix: settings.prefix.clone(),
        operation_timeout: settings.operation_timeout,
        ..RedisOptions::default()
    })
}

fn open(
    settings: &RedisSettings,
    directory: &str,
    rules: &LimitRules,
    runtime: TokioRuntime,
) -> Result<(RedisLimits, SharedLimitsMaintenance, SharedStoreProbe), SharedError> {
    let connection = RedisConnection::new(&redis_options(settings)?, runtime)?;
    let groups = rules.groups();
    let is_per_caller = |group: &QuotaGroup| {
        rules.tiers.iter().chain(&rules.by_address).any(|rule| rule.name() == group.name())
    };
    let placements = groups.iter().map(|group| {
        (group.clone(), if is_per_caller(group) { Placement::Partition } else { Placement::Fleet })
    });
    let quotas = RedisQuotas::new(connection.clone(), placements.collect())?;
    let node = NodeId(runtime.draw().bits());
    let fleet = FleetMemory::read(Path::new(directory), settings.fleet_size);
    let options = SharedQuotasOptions {
        node,
        operation_timeout: settings.operation_timeout,
        fleet_size: fleet.nodes(),
        seed: runtime.draw().bits(),
    };
    let store =
        Arc::new(SharedQuotas::new(quotas, groups.clone(), options, runtime, Box::new(StderrObserver))?);
    let (settlements, receiver) = mpsc::channel(QUEUE_CAPACITY);
    let dropped = Arc::new(AtomicU64::new(0));
    let limits = RedisLimits {
        store: Arc::clone(&store),
        groups: Mutex::new(groups),
        settlements,
        dropped: Arc::clone(&dropped),
    };
    let status = SharedStoreProbe { store: Arc::clone(&store), dropped: Arc::clone(&dropped) };
    let board = RedisBoard::new(connection);
    let maintenance =
        SharedLimitsMaintenance { store, board, node, runtime, settlements: receiver, dropped, fleet };
    Ok((limits, maintenance, status))
}

/// The URL, with the password from its own setting inserted.
fn with_password(url: &str, settings: &RedisSettings) -> Result<String, SharedError> {
    let Some(reference) = &settings.password else { return Ok(url.to_owned()) };
    let secret = fetch(reference)?;
    let encoded: String = secret.expose().bytes().map(percent_encode).collect();
    let Some((scheme, rest)) = url.split_once("://") else { return Ok(url.to_owned()) };
    // A user name in the URL stays.
    let (user, host) = rest.split_once('@').unwrap_or(("", rest));
    let user = user.split(':').next().unwrap_or_default();
    Ok(format!("{scheme}://{user}:{encoded}@{host}"))
}

fn percent_encode(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
}

/// Reports to standard error, once per change of state.
struct StderrObserver;

impl StoreStateObserver for StderrObserver {
    fn changed(&self, _: SharedStoreState, to: SharedStoreState, why: &str) {
        let (state, consequence) = match to {
            SharedStoreState::Reachable => ("reachable", "limits are enforced across the fleet"),
            SharedStoreState::Recovering => (
                "reachable again, but its counts are incomplete",
                "until the longest window has passed, this node also enforces its own share of every limit",
            ),
            SharedStoreState::Unreachable => {
                ("unavailable", "this node enforces its own share of every limit")
            }
        };
        eprintln!("seawall: redis is {state} ({why}): {consequence}");
    }
}

impl SharedLimitsMaintenance {
    /// Settles, sends heartbeats and probes, until `shutdown` completes. Then settles what is queued, as far as the store
    /// takes it in time, and removes this node from the fleet.
    pub(crate) async fn run(mut self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = std::pin::pin!(shutdown);
        let mut sequence = 0;
        let mut due = self.runtime.monotonic();
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                () = self.runtime.sleep_until(due) => {
                    sequence += 1;
                    let wait = if self.send_heartbeat(sequence).await { HEARTBEAT_INTERVAL } else { PROBE_INTERVAL };
                    due = self.runtime.monotonic() + wait;
                }
                1.. = self.settlements.recv_many(&mut batch, SETTLE_CONCURRENCY) => {
                    settle(&self.store, std::mem::take(&mut batch)).await;
                }
            }
        }
        let store = &self.store;
        let left =
            drain(&mut self.settlements, self.runtime, DRAIN_TIMEOUT, |batch| settle(store, batch)).await;
        self.dropped.fetch_add(left, Ordering::Relaxed);
        let now = self.runtime.now();
        self.store.store().return_expired_chunks(now).await;
        // A node that cannot sign off is dropped when its heartbeat expires.
        let _ = self.board.leave(self.node, now).await;
    }

    /// Sends a heartbeat. Returns whether the store answered.
    async fn send_heartbeat(&mut self, sequence: u64) -> bool {
        let now = self.runtime.now();
        if !self.store.tick(now).await {
            return false;
        }
        self.store.store().return_expired_chunks(now).await;
        let view = NodeView { sequence, ..NodeView::default() };
        if self.board.publish(self.node, &view, HEARTBEAT_TTL, now).await.is_ok()
            && let Ok(fleet) = self.board.read(now).await
        {
            let nodes = u32::try_from(fleet.len()).unwrap_or(u32::MAX);
            self.store.set_fleet_size(self.fleet.record_count(nodes, now.monotonic));
        }
        true
    }
}

/// Settles these concurrently.
async fn settle(store: &SharedRedisQuotas, batch: Vec<(RedisReservationHandle, Settlement, Now)>) {
    // A failed settlement is counted by the store client and stays charged.
    let each =
        batch.into_iter().map(|(reservation, spent, now)| Box::pin(store.settle(reservation, spent, now)));
    let mut under_way: Vec<_> = each.collect();
    poll_fn(|context| {
        under_way.retain_mut(|settling| settling.as_mut().poll(context).is_pending());
        if under_way.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Closes the queue and settles what is in it, for at most this long. Returns the number left over.
async fn drain<T, Settling: Future<Output = ()>>(
    settlements: &mut mpsc::Receiver<T>,
    runtime: TokioRuntime,
    limit: Duration,
    settle: impl Fn(Vec<T>) -> Settling,
) -> u64 {
    settlements.close();
    let end = Deadline::after(runtime.monotonic(), limit);
    let mut batch = Vec::new();
    loop {
        let count = settlements.recv_many(&mut batch, SETTLE_CONCURRENCY).await;
        if count == 0 {
            return 0;
        }
        if timeout_at(&runtime, end, settle(std::mem::take(&mut batch))).await.is_none() {
            return (count + settlements.len()) as u64;
        }
    }
}

/// The units that one request reserved.
struct RedisReservation {
    reservation: RedisReservationHandle,
    settlements: mpsc::Sender<(RedisReservationHandle, Settlement, Now)>,
    dropped: Arc<AtomicU64>,
}

impl SharedReservation for RedisReservation {
    fn settle(self: Box<Self>, spent: Settlement, now: Now) {
        if self.settlements.try_send((self.reservation, spent, now)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl RedisLimits {
    fn groups(&self) -> MutexGuard<'_, Vec<QuotaGroup>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FleetQuotas for RedisLimits {
    fn reserve<'a>(&'a self, ask: AdmissionRequest<'a>, now: Now) -> PendingDecision<'a> {
        Box::pin(async move {
            let reservation = |reservation| -> Box<dyn SharedReservation> {
                Box::new(RedisReservation {
                    reservation,
                    settlements: self.settlements.clone(),
                    dropped: Arc::clone(&self.dropped),
                })
            };
            match self.store.reserve(&ask, now).await {
                Ok(decision) => decision.map(reservation),
                // The store client falls back to the local share, so an error here means an invalid request.
                Err(_) => SharedDecision::TooLarge {
                    limit: LimitId { group: GroupId::from_index(u16::MAX), quota: 0 },
                    capacity: 0,
                },
            }
        })
    }

    fn view<'a>(
        &'a self,
        partition: u64,
        scopes: &'a [QuotaScope],
        now: Now,
    ) -> Pin<Box<dyn Future<Output = Vec<LimitView>> + Send + 'a>> {
        Box::pin(async move {
            self.store.view(partition, scopes, now).await.map(|views| views.to_vec()).unwrap_or_default()
        })
    }

    fn name(&self, limit: LimitId) -> Option<Box<str>> {
        let groups = self.groups();
        let group = groups.get(usize::from(limit.group.index()))?;
        group.quotas().get(limit.quota).map(|quota| quota.name().into())
    }

    fn group(&self, name: &str) -> Option<GroupId> {
        let index = self.groups().iter().position(|group| group.name() == name)?;
        u16::try_from(index).ok().map(GroupId::from_index)
    }

    fn change_limits(&self, wanted: Vec<QuotaGroup>, now: Now) -> Result<(), SettingError> {
        let mut groups = self.groups();
        let mut changed = groups.clone();
        for group in wanted {
            match changed.iter_mut().find(|known| known.name() == group.name()) {
                Some(known) => *known = group,
                None => changed.push(group),
            }
        }
        self.store.change_limits(changed.clone(), now)?;
        *groups = changed;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{SETTLE_CONCURRENCY, drain};
    use crate::runtime::TokioRuntime;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::sync::mpsc;

    fn settlements(waiting: usize) -> mpsc::Receiver<usize> {
        let (sender, receiver) = mpsc::channel(1_000);
        (0..waiting).for_each(|number| sender.try_send(number).unwrap());
        receiver
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    #[test]
    fn shutdown_settles_everything_queued() {
        let settled = AtomicUsize::new(0);
        let left = run(async {
            let settle = |batch: Vec<usize>| {
                assert!(batch.len() <= SETTLE_CONCURRENCY);
                settled.fetch_add(batch.len(), Ordering::Relaxed);
                async {}
            };
            drain(
                &mut settlements(3 * SETTLE_CONCURRENCY + 1),
                TokioRuntime::new(),
                Duration::from_secs(60),
                settle,
            )
            .await
        });
        assert_eq!((left, settled.into_inner()), (0, 3 * SETTLE_CONCURRENCY + 1));
    }

    #[test]
    fn an_unresponsive_store_does_not_block_shutdown() {
        let waiting = 3 * SETTLE_CONCURRENCY + 1;
        let never = |_: Vec<usize>| std::future::pending::<()>();
        let left = run(async {
            drain(&mut settlements(waiting), TokioRuntime::new(), Duration::from_millis(20), never).await
        });
        assert_eq!(left, waiting as u64);
    }
}
