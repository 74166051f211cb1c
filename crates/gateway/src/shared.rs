//! Limits that a fleet shares in Redis, and their upkeep.
//!
//! **When it acts.** Each request is decided by one script, or by this node's own share of the limits while the store
//! is unavailable. Settlements go through a bounded queue to a separate task, so no request waits for them. Once a
//! second this node sends a heartbeat and counts the other nodes. While the store does not answer, it is probed five
//! times a second, and a silent connection is replaced. The size of the fleet is saved in the state directory, so that
//! a node which starts without the store knows its share.
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
use seawall_core::handle::within;
use seawall_core::quota::{GroupId, LimitId, LimitView, QuotaGroup, Scope};
use seawall_core::setting::SettingError;
use seawall_core::time::Now;
use seawall_pipeline::{Decided, Deciding, LimitRules, Runtime as _, SharedLimits, SharedTaking, Timer as _};
use seawall_store::redis::{Placement, RedisBoard, RedisLink, RedisOptions, RedisQuotas, RedisReceipt};
use seawall_store::{
    AwayObserver, AwayOptions, Board as _, NodeView, QuotaAsk, Quotas as _, SharedQuotas, SharedReceipt,
    Spent, Standing,
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
const WAITING: usize = 65_536;
/// Settlements sent to the store concurrently. One after the other, a store that is a millisecond away would take only
/// a thousand a second.
const TOGETHER: usize = 64;
/// How long shutdown may take to settle what is queued.
const LAST_SETTLING: Duration = Duration::from_secs(3);
/// Interval between two heartbeats.
const EVERY: Duration = Duration::from_secs(1);
/// Interval between two probes of a store that did not answer.
const SEARCH_EVERY: Duration = Duration::from_millis(200);
/// A node without a heartbeat for this long is not counted.
const LIVES: Duration = Duration::from_secs(5);

type Store = SharedQuotas<RedisQuotas<TokioRuntime>, TokioRuntime>;
type Receipt = SharedReceipt<RedisReceipt>;

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
    #[error("store.redis.ca_file: {0}: there is no certificate in PEM in it")]
    NoCertificate(String),
    /// The thread for Redis cannot be started.
    #[error("cannot start the thread for redis: {0}")]
    Thread(std::io::Error),
}

/// A runtime that may be dropped anywhere, even inside another runtime: dropping does not wait for its tasks.
struct Background(Option<tokio::runtime::Runtime>);

impl Background {
    fn new() -> Result<Self, SharedError> {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self(Some(tokio.map_err(SharedError::Thread)?)))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(tokio) = self.0.take() {
            tokio.shutdown_background();
        }
    }
}

/// The limits in Redis.
pub(crate) struct RedisLimits {
    store: Arc<Store>,
    /// Every group that ever existed, in order of appearance. A group keeps its index, whatever else changes.
    groups: Mutex<Vec<QuotaGroup>>,
    line: mpsc::Sender<(Receipt, Spent, Now)>,
    dropped: Arc<AtomicU64>,
}

/// The upkeep task of shared limits. It must run until the gateway ends.
pub(crate) struct SharedKeeper {
    store: Arc<Store>,
    board: RedisBoard<TokioRuntime>,
    node: NodeId,
    runtime: TokioRuntime,
    line: mpsc::Receiver<(Receipt, Spent, Now)>,
    dropped: Arc<AtomicU64>,
    fleet: FleetMemory,
}

/// A handle to read the state of the shared store.
#[derive(Clone)]
pub(crate) struct SharedStatus {
    store: Arc<Store>,
    dropped: Arc<AtomicU64>,
}

/// The state of the shared store at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedStanding {
    /// Whether the store decides requests.
    pub(crate) is_here: bool,
    /// Requests that this node decided without the store.
    pub(crate) decided_alone: u64,
    /// Settlements that did not reach the store.
    pub(crate) unsettled: u64,
}

impl SharedStatus {
    pub(crate) fn read(&self) -> SharedStanding {
        let counts = self.store.counts();
        SharedStanding {
            is_here: self.store.standing() != Standing::Away,
            decided_alone: counts.decided_alone,
            unsettled: counts.unsettled.saturating_add(self.dropped.load(Ordering::Relaxed)),
        }
    }
}

/// The thread that owns the connection. When dropped, it settles what is queued and ends.
pub(crate) struct SharedThread {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    pub(crate) status: SharedStatus,
}

impl Drop for SharedThread {
    fn drop(&mut self) {
        // This fails only if the thread has ended already.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts to connect, and maintains the shared limits until the thread is dropped.
pub(crate) fn start(
    settings: &RedisSettings,
    folder: &str,
    rules: &LimitRules,
    runtime: TokioRuntime,
) -> Result<(RedisLimits, SharedThread), SharedError> {
    let mut tokio = Background::new()?;
    let (limits, keeper, status) = {
        let _inside = tokio.0.as_ref().map(tokio::runtime::Runtime::enter);
        open(settings, folder, rules, runtime)?
    };
    let (stop, mut stopped) = watch::channel(false);
    let thread = std::thread::Builder::new().name("redis".to_owned()).spawn(move || {
        let Some(tokio) = tokio.0.take() else { return };
        tokio.block_on(keeper.run(async move {
            // An error means that the sender is gone, which also means the end.
            let _ = stopped.wait_for(|is_told| *is_told).await;
        }));
    });
    let thread = Some(thread.map_err(SharedError::Thread)?);
    Ok((limits, SharedThread { stop, thread, status }))
}

/// Checks these settings as far as that is possible without a connection to the store.
pub(crate) fn check(settings: &RedisSettings, runtime: TokioRuntime) -> Result<(), SharedError> {
    let tokio = Background::new()?;
    let _inside = tokio.0.as_ref().map(tokio::runtime::Runtime::enter);
    RedisLink::new(&redis_options(settings)?, runtime)?;
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
        answer_within: settings.operation_time,
        ..RedisOptions::default()
    })
}

fn open(
    settings: &RedisSettings,
    folder: &str,
    rules: &LimitRules,
    runtime: TokioRuntime,
) -> Result<(RedisLimits, SharedKeeper, SharedStatus), SharedError> {
    let link = RedisLink::new(&redis_options(settings)?, runtime)?;
    let groups = rules.groups();
    let at_home = |group: &QuotaGroup| {
        rules.tiers.iter().chain(&rules.by_address).any(|own| own.name() == group.name())
    };
    let placed = groups
        .iter()
        .map(|group| (group.clone(), if at_home(group) { Placement::Home } else { Placement::Fleet }));
    let quotas = RedisQuotas::new(link.clone(), placed.collect())?;
    let node = NodeId(runtime.draw().bits());
    let fleet = FleetMemory::read(Path::new(folder), settings.fleet_size);
    let away = AwayOptions {
        node,
        answer_within: settings.operation_time,
        fleet_size: fleet.nodes(),
        seed: runtime.draw().bits(),
    };
    let store = Arc::new(SharedQuotas::new(quotas, groups.clone(), away, runtime, Box::new(Told))?);
    let (line, waiting) = mpsc::channel(WAITING);
    let dropped = Arc::new(AtomicU64::new(0));
    let limits = RedisLimits {
        store: Arc::clone(&store),
        groups: Mutex::new(groups),
        line,
        dropped: Arc::clone(&dropped),
    };
    let status = SharedStatus { store: Arc::clone(&store), dropped: Arc::clone(&dropped) };
    let board = RedisBoard::new(link);
    let keeper = SharedKeeper { store, board, node, runtime, line: waiting, dropped, fleet };
    Ok((limits, keeper, status))
}

/// The URL, with the password from its own setting inserted.
fn with_password(url: &str, settings: &RedisSettings) -> Result<String, SharedError> {
    let Some(reference) = &settings.password else { return Ok(url.to_owned()) };
    let secret = fetch(reference)?;
    let encoded: String = secret.expose().bytes().map(encoded).collect();
    let Some((scheme, rest)) = url.split_once("://") else { return Ok(url.to_owned()) };
    // A user name in the URL stays.
    let (user, host) = rest.split_once('@').unwrap_or(("", rest));
    let user = user.split(':').next().unwrap_or_default();
    Ok(format!("{scheme}://{user}:{encoded}@{host}"))
}

fn encoded(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
}

/// Reports to standard error, once per change of state.
struct Told;

impl AwayObserver for Told {
    fn changed(&self, _: Standing, to: Standing, why: &str) {
        let standing = match to {
            Standing::Here => "here: it decides over limits",
            Standing::Learning => "here again, and not believed alone yet",
            Standing::Away => "away: this node decides by its own share",
        };
        eprintln!("seawall: redis is {standing} ({why})");
    }
}

impl SharedKeeper {
    /// Settles, sends heartbeats and probes, until `stop` completes. Then settles what is queued, as far as the store
    /// takes it in time, and removes this node from the fleet.
    pub(crate) async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut sequence = 0;
        let mut due = self.runtime.monotonic();
        let mut some = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = self.runtime.sleep_until(due) => {
                    sequence += 1;
                    let wait = if self.tell(sequence).await { EVERY } else { SEARCH_EVERY };
                    due = self.runtime.monotonic() + wait;
                }
                1.. = self.line.recv_many(&mut some, TOGETHER) => {
                    settle(&self.store, std::mem::take(&mut some)).await;
                }
            }
        }
        let store = &self.store;
        let left = drain(&mut self.line, self.runtime, LAST_SETTLING, |some| settle(store, some)).await;
        self.dropped.fetch_add(left, Ordering::Relaxed);
        let now = self.runtime.now();
        self.store.store().give_back_chunks(now).await;
        // A node that cannot sign off is dropped when its heartbeat expires.
        let _ = self.board.leave(self.node, now).await;
    }

    /// Sends a heartbeat. Returns whether the store answered.
    async fn tell(&mut self, sequence: u64) -> bool {
        let now = self.runtime.now();
        if !self.store.tick(now).await {
            return false;
        }
        self.store.store().give_back_chunks(now).await;
        let view = NodeView { sequence, ..NodeView::default() };
        if self.board.publish(self.node, &view, LIVES, now).await.is_ok()
            && let Ok(fleet) = self.board.read(now).await
        {
            let nodes = u32::try_from(fleet.len()).unwrap_or(u32::MAX);
            self.store.set_fleet_size(self.fleet.counted(nodes, now.monotonic));
        }
        true
    }
}

/// Settles these concurrently.
async fn settle(store: &Store, some: Vec<(Receipt, Spent, Now)>) {
    // A failed settlement is counted by the store client and stays charged.
    let each = some.into_iter().map(|(receipt, spent, now)| Box::pin(store.settle(receipt, spent, now)));
    let mut under_way: Vec<_> = each.collect();
    poll_fn(|context| {
        under_way.retain_mut(|settling| settling.as_mut().poll(context).is_pending());
        if under_way.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Closes the queue and settles what is in it, for at most this long. Returns the number left over.
async fn drain<T, Settling: Future<Output = ()>>(
    line: &mut mpsc::Receiver<T>,
    runtime: TokioRuntime,
    limit: Duration,
    settle: impl Fn(Vec<T>) -> Settling,
) -> u64 {
    line.close();
    let end = Deadline::after(runtime.monotonic(), limit);
    let mut some = Vec::new();
    loop {
        let count = line.recv_many(&mut some, TOGETHER).await;
        if count == 0 {
            return 0;
        }
        if within(&runtime, end, settle(std::mem::take(&mut some))).await.is_none() {
            return (count + line.len()) as u64;
        }
    }
}

/// The units that one request reserved.
struct RedisTaking {
    receipt: Receipt,
    line: mpsc::Sender<(Receipt, Spent, Now)>,
    dropped: Arc<AtomicU64>,
}

impl SharedTaking for RedisTaking {
    fn settle(self: Box<Self>, spent: Spent, now: Now) {
        if self.line.try_send((self.receipt, spent, now)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl RedisLimits {
    fn groups(&self) -> MutexGuard<'_, Vec<QuotaGroup>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedLimits for RedisLimits {
    fn reserve<'a>(&'a self, ask: QuotaAsk<'a>, now: Now) -> Deciding<'a> {
        Box::pin(async move {
            let taking = |receipt| -> Box<dyn SharedTaking> {
                Box::new(RedisTaking { receipt, line: self.line.clone(), dropped: Arc::clone(&self.dropped) })
            };
            match self.store.reserve(&ask, now).await {
                Ok(decision) => decision.map(taking),
                // The store client falls back to the local share, so an error here means an invalid request.
                Err(_) => Decided::TooLarge {
                    limit: LimitId { group: GroupId::at(u16::MAX), quota: 0 },
                    capacity: 0,
                },
            }
        })
    }

    fn view<'a>(
        &'a self,
        home: u64,
        scopes: &'a [Scope],
        now: Now,
    ) -> Pin<Box<dyn Future<Output = Vec<LimitView>> + Send + 'a>> {
        Box::pin(async move {
            self.store.view(home, scopes, now).await.map(|views| views.to_vec()).unwrap_or_default()
        })
    }

    fn name(&self, limit: LimitId) -> Option<Box<str>> {
        let groups = self.groups();
        let group = groups.get(usize::from(limit.group.place()))?;
        group.quotas().get(limit.quota).map(|quota| quota.name().into())
    }

    fn group(&self, name: &str) -> Option<GroupId> {
        let place = self.groups().iter().position(|group| group.name() == name)?;
        u16::try_from(place).ok().map(GroupId::at)
    }

    fn change(&self, wanted: Vec<QuotaGroup>, now: Now) -> Result<(), SettingError> {
        let mut groups = self.groups();
        let mut changed = groups.clone();
        for group in wanted {
            match changed.iter_mut().find(|known| known.name() == group.name()) {
                Some(known) => *known = group,
                None => changed.push(group),
            }
        }
        self.store.change(changed.clone(), now)?;
        *groups = changed;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{TOGETHER, drain};
    use crate::runtime::TokioRuntime;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::sync::mpsc;

    fn line(waiting: usize) -> mpsc::Receiver<usize> {
        let (sender, receiver) = mpsc::channel(1_000);
        (0..waiting).for_each(|number| sender.try_send(number).unwrap());
        receiver
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    #[test]
    fn the_end_settles_all_that_waits() {
        let settled = AtomicUsize::new(0);
        let left = run(async {
            let settle = |some: Vec<usize>| {
                assert!(some.len() <= TOGETHER);
                settled.fetch_add(some.len(), Ordering::Relaxed);
                async {}
            };
            drain(&mut line(3 * TOGETHER + 1), TokioRuntime::new(), Duration::from_secs(60), settle).await
        });
        assert_eq!((left, settled.into_inner()), (0, 3 * TOGETHER + 1));
    }

    #[test]
    fn a_store_that_takes_nothing_does_not_keep_the_gateway_from_ending() {
        let waiting = 3 * TOGETHER + 1;
        let never = |_: Vec<usize>| std::future::pending::<()>();
        let left = run(async {
            drain(&mut line(waiting), TokioRuntime::new(), Duration::from_millis(20), never).await
        });
        assert_eq!(left, waiting as u64);
    }
}
