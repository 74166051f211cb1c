//! `cargo xtask failover`: the Redis master dies under load, and its sentinels promote the replica.
//!
//! Three nodes share their limits on one server, which has a replica and three sentinels. The master is killed without
//! warning. No request may fail; the nodes decide by their local share of each limit until they have found the new
//! master.

use crate::measure::{now, progress, since};
use crate::proxy::child::{PinnedProcess, TEST_CORE};
use anyhow::{Context as _, ensure};
use seawall_core::breaker::NodeId;
use seawall_core::quota::{GroupId, Quota, QuotaGroup, QuotaKey, QuotaScope, QuotaUnit, QuotaUnits};
use seawall_core::runtime::{Runtime as _, Timer as _};
use seawall_gateway::TokioRuntime;
use seawall_store::redis::{Placement, RedisConnection, RedisOptions, RedisQuotas};
use seawall_store::{
    AdmissionRequest, AdmitDecision, Quotas, SharedQuotas, SharedQuotasOptions, SharedStoreState,
    StoreStateObserver,
};
use seawall_testkit::{free_address, pause};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NODES: u64 = 3;
const SENTINELS: usize = 3;
const CALLERS: usize = 24;
/// The limit per caller and minute; the load reaches it.
const LIMIT: u32 = 400;
const TASKS: usize = 4;
const PAUSE: Duration = Duration::from_millis(10);
/// The name under which sentinels know the master.
const MASTER: &str = "seawall";

#[derive(clap::Args)]
pub(crate) struct FailoverArguments {
    /// How long to send load.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(10..55))]
    seconds: u64,
    /// down-after-milliseconds of the sentinels.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(100..5_000))]
    down_after_millis: u64,
}

struct NoOpObserver;

impl StoreStateObserver for NoOpObserver {
    fn changed(&self, _: SharedStoreState, _: SharedStoreState, _: &str) {}
}

type Node = SharedQuotas<RedisQuotas<TokioRuntime>, TokioRuntime>;

/// Servers in a temporary directory, removed at the end.
struct Servers {
    master: Option<PinnedProcess>,
    others: Vec<PinnedProcess>,
    sentinels: Vec<SocketAddr>,
    directory: PathBuf,
}

impl Servers {
    fn start(down_after_millis: u64) -> anyhow::Result<Self> {
        let directory = std::env::temp_dir().join(format!("seawall-failover-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let mut servers = Self { master: None, others: Vec::new(), sentinels: Vec::new(), directory };
        let address = free_address()?;
        servers.master = Some(servers.server(address, &[])?);
        let port = address.port().to_string();
        let replica = free_address()?;
        let follows = ["--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"];
        let replica = servers.server(replica, &follows)?;
        servers.others.push(replica);
        for number in 0..SENTINELS {
            let at = free_address()?;
            let directory = servers.directory.join(number.to_string());
            std::fs::create_dir_all(&directory)?;
            let settings = format!(
                "port {}\nbind 127.0.0.1\ndir {}\nsentinel monitor {MASTER} 127.0.0.1 {port} 2\n\
                 sentinel down-after-milliseconds {MASTER} {down_after_millis}\n\
                 sentinel failover-timeout {MASTER} 4000\n",
                at.port(),
                directory.display(),
            );
            let file = directory.join("sentinel.conf");
            std::fs::write(&file, settings)?;
            let arguments = [file.as_os_str().to_owned(), "--sentinel".into()];
            let mut sentinel = PinnedProcess::start(TEST_CORE, Path::new("redis-server"), arguments)?;
            sentinel.wait_until_listening(at)?;
            servers.others.push(sentinel);
            servers.sentinels.push(at);
        }
        Ok(servers)
    }

    fn server(&self, at: SocketAddr, more: &[&str]) -> anyhow::Result<PinnedProcess> {
        let port = at.port().to_string();
        let directory = self.directory.display().to_string();
        let arguments = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir", &directory];
        let mut server =
            PinnedProcess::start(TEST_CORE, Path::new("redis-server"), [&arguments, more].concat())?;
        server.wait_until_listening(at)?;
        Ok(server)
    }

    /// Waits until every sentinel knows the replica and the other sentinels.
    fn wait_for_discovery(&self) -> anyhow::Result<()> {
        let began = now();
        for sentinel in &self.sentinels {
            let mut connection = redis::Client::open(format!("redis://{sentinel}"))?.get_connection()?;
            loop {
                let known: Vec<String> =
                    redis::cmd("SENTINEL").arg("master").arg(MASTER).query(&mut connection)?;
                let count = |name: &str| {
                    let value = known.chunks(2).find(|pair| pair.first().is_some_and(|key| key == name));
                    value.and_then(|pair| pair.get(1)?.parse::<usize>().ok()).unwrap_or(0)
                };
                if count("num-slaves") == 1 && count("num-other-sentinels") == SENTINELS - 1 {
                    break;
                }
                ensure!(since(began) < Duration::from_secs(40), "the sentinels did not discover each other");
                pause(Duration::from_millis(100));
            }
        }
        Ok(())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.others.clear();
        self.master = None;
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

pub(crate) fn run(arguments: &FailoverArguments) -> anyhow::Result<ExitCode> {
    println!("starting a master, a replica and {SENTINELS} sentinels");
    let mut servers = Servers::start(arguments.down_after_millis)?;
    servers.wait_for_discovery()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(under_load(&mut servers, arguments.seconds))?;
    result.print();
    let is_fine = result.errors == 0 && result.recovered_after.len() as u64 == NODES;
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Default)]
struct FailoverResult {
    requests: u64,
    errors: u64,
    /// By caller.
    admitted: Vec<u64>,
    latencies: Vec<Duration>,
    /// The time after the kill at which each node used a master again.
    recovered_after: Vec<Duration>,
    /// Requests between the kill and the recovery of the last node, and how many of them were decided by local shares.
    during_outage: (u64, u64),
}

impl FailoverResult {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.admitted.resize(other.admitted.len(), 0);
        self.admitted.iter_mut().zip(&other.admitted).for_each(|(all, more)| *all += more);
        self.latencies.extend(other.latencies);
    }

    fn print(&self) {
        let mut latencies = self.latencies.clone();
        latencies.sort_unstable();
        let at = |part: f64| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list")]
            let index = (latencies.len() as f64 * part) as usize;
            latencies.get(index).or(latencies.last()).copied().unwrap_or_default()
        };
        let list = |spans: &[Duration]| {
            let texts: Vec<String> =
                spans.iter().map(|span| format!("{:.2} s", span.as_secs_f64())).collect();
            texts.join(", ")
        };
        let (requests, local) = self.during_outage;
        println!("recovery time of each node               {}", list(&self.recovered_after));
        println!("decisions during the outage              {requests}, of them {local} local");
        println!("decisions in total                       {}", self.requests);
        let max = self.admitted.iter().max().copied().unwrap_or(0);
        let min = self.admitted.iter().min().copied().unwrap_or(0);
        println!("admitted per caller                      {min} to {max} of {LIMIT}");
        println!("latency, p50, p99, p99.9, max            {:?}", [at(0.5), at(0.99), at(0.999), at(1.0)]);
        println!("errors                                   {}", self.errors);
    }
}

async fn under_load(servers: &mut Servers, seconds: u64) -> anyhow::Result<FailoverResult> {
    let runtime = TokioRuntime::new();
    let until = now() + Duration::from_secs(seconds);
    let nodes: Vec<Arc<Node>> = (0..NODES)
        .map(|number| node(servers, number, runtime).map(Arc::new))
        .collect::<anyhow::Result<_>>()?;
    let mut tasks = tokio::task::JoinSet::new();
    for node in &nodes {
        // Each node finds the master before it receives requests.
        node.tick(runtime.now()).await;
        for task in 0..TASKS {
            tasks.spawn(send_requests(Arc::clone(node), runtime, until, task));
        }
    }
    let bar = progress(seconds * 10);
    let local = |nodes: &[Arc<Node>]| nodes.iter().map(|node| node.stats().local_decisions).sum::<u64>();
    let (mut killed, mut before, mut result) = (None, 0, FailoverResult::default());
    let mut recovered_after: Vec<Option<Duration>> = vec![None; nodes.len()];
    let mut was_away = vec![false; nodes.len()];
    for tenth in 0..seconds * 10 {
        bar.inc(1);
        bar.set_message(if killed.is_none() { "master up" } else { "master down" });
        runtime.sleep_until(runtime.monotonic() + Duration::from_millis(100)).await;
        if tenth == 30 {
            servers.master = None;
            killed = Some(now());
            before = local(&nodes);
        }
        for (index, node) in nodes.iter().enumerate() {
            if tenth % 10 == 3 * index as u64 {
                node.tick(runtime.now()).await;
            }
            was_away[index] |= node.store_state() == SharedStoreState::Unreachable;
            if was_away[index]
                && recovered_after[index].is_none()
                && node.store_state() != SharedStoreState::Unreachable
            {
                recovered_after[index] = killed.map(since);
            }
        }
        if result.during_outage.1 == 0 && recovered_after.iter().all(Option::is_some) {
            result.during_outage.1 = local(&nodes) - before;
        }
    }
    bar.finish_and_clear();
    let last = recovered_after.iter().flatten().max().copied().unwrap_or_default();
    while let Some(done) = tasks.join_next().await {
        let (own, moments) = done.context("a task of the load ended early")?;
        if let Some(killed) = killed {
            let meanwhile = moments.iter().filter(|at| **at >= killed && **at - killed <= last).count();
            result.during_outage.0 += meanwhile as u64;
        }
        result.add(own);
    }
    result.recovered_after = recovered_after.into_iter().flatten().collect();
    Ok(result)
}

fn node(servers: &Servers, number: u64, runtime: TokioRuntime) -> anyhow::Result<Node> {
    let options = RedisOptions {
        servers: servers.sentinels.iter().map(|at| format!("redis://{at}")).collect(),
        sentinel_master: Some(MASTER.to_owned()),
        ..RedisOptions::default()
    };
    let minute = Quota::sliding("minute", QuotaUnit::Request, LIMIT, Duration::from_secs(60), 0)?;
    let group = QuotaGroup::new("tier", vec![minute])?;
    let link = RedisConnection::new(&options, runtime)?;
    let store = RedisQuotas::new(link, vec![(group.clone(), Placement::Partition)])?;
    let fleet_size = u32::try_from(NODES)?;
    let away = SharedQuotasOptions {
        node: NodeId(number),
        operation_timeout: options.operation_timeout,
        fleet_size,
        seed: 1,
    };
    Ok(SharedQuotas::new(store, vec![group], away, runtime, Box::new(NoOpObserver))?)
}

/// Sends requests for one caller after the other until the end. Also returns the time of each request.
async fn send_requests(
    node: Arc<Node>,
    runtime: TokioRuntime,
    until: Instant,
    first: usize,
) -> (FailoverResult, Vec<Instant>) {
    let mut result = FailoverResult { admitted: vec![0; CALLERS], ..FailoverResult::default() };
    let mut moments = Vec::new();
    let mut caller = first * CALLERS / TASKS;
    while now() < until {
        caller = (caller + 1) % CALLERS;
        let partition = caller as u64;
        let scopes = [QuotaScope { group: GroupId::from_index(0), key: QuotaKey(partition) }];
        let ask = AdmissionRequest {
            partition,
            scopes: &scopes,
            units: QuotaUnits::REQUEST,
            money: None,
            claim: None,
        };
        let began = now();
        match node.reserve(&ask, runtime.now()).await {
            Ok(AdmitDecision::Granted { .. }) => result.admitted[caller] += 1,
            Ok(_) => {}
            Err(_) => result.errors += 1,
        }
        result.latencies.push(since(began));
        result.requests += 1;
        moments.push(now());
        runtime.sleep_until(runtime.monotonic() + PAUSE).await;
    }
    (result, moments)
}
