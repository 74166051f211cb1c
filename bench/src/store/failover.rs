//! `cargo xtask failover`: the Redis master dies under load, and its sentinels promote the replica.
//!
//! Three nodes share their limits on one server, which has a replica and three sentinels. The master is killed without
//! warning. No request may fail; the nodes decide by their local share of each limit until they have found the new
//! master.

use crate::measure::{now, progress, since};
use crate::proxy::child::{Running, TEST_CORE, free_address, pause};
use anyhow::{Context as _, ensure};
use seawall_core::breaker::NodeId;
use seawall_core::handle::{Runtime as _, Timer as _};
use seawall_core::quota::{Cost, GroupId, Quota, QuotaGroup, QuotaKey, Scope, Unit};
use seawall_gateway::TokioRuntime;
use seawall_store::redis::{Placement, RedisLink, RedisOptions, RedisQuotas};
use seawall_store::{AdmitDecision, AwayObserver, AwayOptions, QuotaAsk, Quotas, SharedQuotas, Standing};
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
    /// After how long a silent master counts as down, for its sentinels.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(100..5_000))]
    down_after_millis: u64,
}

struct Silent;

impl AwayObserver for Silent {
    fn changed(&self, _: Standing, _: Standing, _: &str) {}
}

type Node = SharedQuotas<RedisQuotas<TokioRuntime>, TokioRuntime>;

/// Servers in a temporary directory, removed at the end.
struct Servers {
    master: Option<Running>,
    others: Vec<Running>,
    sentinels: Vec<SocketAddr>,
    folder: PathBuf,
}

impl Servers {
    fn start(down_after_millis: u64) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("seawall-failover-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let mut servers = Self { master: None, others: Vec::new(), sentinels: Vec::new(), folder };
        let address = free_address()?;
        servers.master = Some(servers.server(address, &[])?);
        let port = address.port().to_string();
        let replica = free_address()?;
        let follows = ["--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"];
        let replica = servers.server(replica, &follows)?;
        servers.others.push(replica);
        for number in 0..SENTINELS {
            let at = free_address()?;
            let folder = servers.folder.join(number.to_string());
            std::fs::create_dir_all(&folder)?;
            let settings = format!(
                "port {}\nbind 127.0.0.1\ndir {}\nsentinel monitor {MASTER} 127.0.0.1 {port} 2\n\
                 sentinel down-after-milliseconds {MASTER} {down_after_millis}\n\
                 sentinel failover-timeout {MASTER} 4000\n",
                at.port(),
                folder.display(),
            );
            let file = folder.join("sentinel.conf");
            std::fs::write(&file, settings)?;
            let words = [file.as_os_str().to_owned(), "--sentinel".into()];
            let mut sentinel = Running::start(TEST_CORE, Path::new("redis-server"), words)?;
            sentinel.listens_at(at)?;
            servers.others.push(sentinel);
            servers.sentinels.push(at);
        }
        Ok(servers)
    }

    fn server(&self, at: SocketAddr, more: &[&str]) -> anyhow::Result<Running> {
        let port = at.port().to_string();
        let folder = self.folder.display().to_string();
        let words = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir", &folder];
        let mut server = Running::start(TEST_CORE, Path::new("redis-server"), [&words, more].concat())?;
        server.listens_at(at)?;
        Ok(server)
    }

    /// Waits until every sentinel knows the replica and the other sentinels.
    fn know_each_other(&self) -> anyhow::Result<()> {
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
                ensure!(since(began) < Duration::from_secs(40), "the sentinels do not find each other");
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
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn run(arguments: &FailoverArguments) -> anyhow::Result<ExitCode> {
    println!("starting a master, a replica and {SENTINELS} sentinels");
    let mut servers = Servers::start(arguments.down_after_millis)?;
    servers.know_each_other()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let seen = runtime.block_on(under_load(&mut servers, arguments.seconds))?;
    seen.print();
    let is_fine = seen.errors == 0 && seen.back.len() as u64 == NODES;
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Default)]
struct Seen {
    requests: u64,
    errors: u64,
    /// By caller.
    admitted: Vec<u64>,
    latencies: Vec<Duration>,
    /// The time after the kill at which each node used a master again.
    back: Vec<Duration>,
    /// Requests between the kill and the recovery of the last node, and how many of them were decided by local shares.
    meanwhile: (u64, u64),
}

impl Seen {
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
            let place = (latencies.len() as f64 * part) as usize;
            latencies.get(place).or(latencies.last()).copied().unwrap_or_default()
        };
        let list = |spans: &[Duration]| {
            let texts: Vec<String> =
                spans.iter().map(|span| format!("{:.2} s", span.as_secs_f64())).collect();
            texts.join(", ")
        };
        let (requests, alone) = self.meanwhile;
        println!("the new master answered each node after  {}", list(&self.back));
        println!("decided meanwhile                        {requests}, of them {alone} by shares");
        println!("decided in all                           {}", self.requests);
        let most = self.admitted.iter().max().copied().unwrap_or(0);
        let least = self.admitted.iter().min().copied().unwrap_or(0);
        println!("admitted per caller                      {least} to {most} of {LIMIT}");
        println!("delay, p50, p99, p99.9, longest          {:?}", [at(0.5), at(0.99), at(0.999), at(1.0)]);
        println!("errors                                   {}", self.errors);
    }
}

async fn under_load(servers: &mut Servers, seconds: u64) -> anyhow::Result<Seen> {
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
            tasks.spawn(ask_on(Arc::clone(node), runtime, until, task));
        }
    }
    let bar = progress(seconds * 10);
    let alone = |nodes: &[Arc<Node>]| nodes.iter().map(|node| node.counts().decided_alone).sum::<u64>();
    let (mut killed, mut before, mut seen) = (None, 0, Seen::default());
    let mut back: Vec<Option<Duration>> = vec![None; nodes.len()];
    let mut gone = vec![false; nodes.len()];
    for tenth in 0..seconds * 10 {
        bar.inc(1);
        bar.set_message(if killed.is_none() { "the master answers" } else { "the master is dead" });
        runtime.sleep_until(runtime.monotonic() + Duration::from_millis(100)).await;
        if tenth == 30 {
            servers.master = None;
            killed = Some(now());
            before = alone(&nodes);
        }
        for (place, node) in nodes.iter().enumerate() {
            if tenth % 10 == 3 * place as u64 {
                node.tick(runtime.now()).await;
            }
            gone[place] |= node.standing() == Standing::Away;
            if gone[place] && back[place].is_none() && node.standing() != Standing::Away {
                back[place] = killed.map(since);
            }
        }
        if seen.meanwhile.1 == 0 && back.iter().all(Option::is_some) {
            seen.meanwhile.1 = alone(&nodes) - before;
        }
    }
    bar.finish_and_clear();
    let last = back.iter().flatten().max().copied().unwrap_or_default();
    while let Some(done) = tasks.join_next().await {
        let (own, moments) = done.context("a task of the load ended early")?;
        if let Some(killed) = killed {
            let meanwhile = moments.iter().filter(|at| **at >= killed && **at - killed <= last).count();
            seen.meanwhile.0 += meanwhile as u64;
        }
        seen.add(own);
    }
    seen.back = back.into_iter().flatten().collect();
    Ok(seen)
}

fn node(servers: &Servers, number: u64, runtime: TokioRuntime) -> anyhow::Result<Node> {
    let options = RedisOptions {
        servers: servers.sentinels.iter().map(|at| format!("redis://{at}")).collect(),
        sentinel_master: Some(MASTER.to_owned()),
        ..RedisOptions::default()
    };
    let minute = Quota::sliding("minute", Unit::Request, LIMIT, Duration::from_secs(60), 0)?;
    let group = QuotaGroup::new("tier", vec![minute])?;
    let link = RedisLink::new(&options, runtime)?;
    let store = RedisQuotas::new(link, vec![(group.clone(), Placement::Home)])?;
    let fleet_size = u32::try_from(NODES)?;
    let away =
        AwayOptions { node: NodeId(number), answer_within: options.answer_within, fleet_size, seed: 1 };
    Ok(SharedQuotas::new(store, vec![group], away, runtime, Box::new(Silent))?)
}

/// Sends requests for one caller after the other until the end. Also returns the time of each request.
async fn ask_on(
    node: Arc<Node>,
    runtime: TokioRuntime,
    until: Instant,
    first: usize,
) -> (Seen, Vec<Instant>) {
    let mut seen = Seen { admitted: vec![0; CALLERS], ..Seen::default() };
    let mut moments = Vec::new();
    let mut caller = first * CALLERS / TASKS;
    while now() < until {
        caller = (caller + 1) % CALLERS;
        let home = caller as u64;
        let scopes = [Scope { group: GroupId::at(0), key: QuotaKey(home) }];
        let ask = QuotaAsk { home, scopes: &scopes, cost: Cost::REQUEST, money: None, claim: None };
        let began = now();
        match node.reserve(&ask, runtime.now()).await {
            Ok(AdmitDecision::Granted { .. }) => seen.admitted[caller] += 1,
            Ok(_) => {}
            Err(_) => seen.errors += 1,
        }
        seen.latencies.push(since(began));
        seen.requests += 1;
        moments.push(now());
        runtime.sleep_until(runtime.monotonic() + PAUSE).await;
    }
    (seen, moments)
}
