//! The run: starts everything, injects the faults, and collects the evidence.

use crate::caller::send;
use crate::history::{AttackResult, History, RequestObservation, TimeSpan};
use crate::invariant::{Evidence, InvariantResult, check_all};
use crate::ledger::{check_prices, read_ledger};
use crate::model::ModelProcess;
use crate::node::GatewayNode;
use crate::progress::ChaosProgress;
use crate::schedule::{
    FALSE_BILLING, InjectedFault, MODELS, NODES, OVERRUN_MODEL, ScheduledFault, excuses_rejection, schedule,
};
use crate::setting::NodeSettings;
use crate::standalone::StandaloneGateway;
use crate::store::ForwardedRedis;
use crate::traffic::{ChaosRequest, schedule_requests};
use crate::unauthenticated::attack;
use anyhow::Context as _;
use seawall_core::random::SeededRandom;
use seawall_core::runtime::Timer as _;
use seawall_core::time::Timestamp;
use seawall_gateway::TokioRuntime;
use seawall_testkit::open_descriptors;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Interval between two readings of ledgers and processes.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The quiet time without requests before the final readings.
const QUIET_TIME: Duration = Duration::from_secs(2);
/// From this part of the cap on, in thousandths, the share of a tier or of a caller may be exhausted.
const LOW_BUDGET: u64 = 400;
const NANOS_PER_CENT: u64 = 10_000_000;

pub(crate) struct RunOptions {
    pub(crate) minutes: u32,
    pub(crate) seed: u64,
    /// The program under test.
    pub(crate) program: PathBuf,
}

/// All running parts.
struct ChaosRun {
    runtime: TokioRuntime,
    started_at: Timestamp,
    duration: Duration,
    cents: u64,
    store: ForwardedRedis,
    standalone: StandaloneGateway,
    models: Vec<ModelProcess>,
    nodes: Vec<GatewayNode>,
    history: History,
}

/// Runs the test, and returns the checked invariants.
pub(crate) async fn run(
    options: &RunOptions,
    directory: &Path,
    runtime: TokioRuntime,
    progress: &ChaosProgress,
) -> anyhow::Result<Vec<InvariantResult>> {
    let duration = Duration::from_secs(60) * options.minutes;
    let run = Arc::new(set_up(options, directory, runtime, duration).await?);
    let faults = schedule(duration, options.seed);
    let requests = schedule_requests(duration, &faults, options.seed);
    let (over, is_over) = watch::channel(false);
    let mut background = JoinSet::new();
    for index in 0..NODES {
        let (run, is_over) = (Arc::clone(&run), is_over.clone());
        background.spawn(async move {
            observe(&run, index, is_over).await;
            Ok(())
        });
    }
    let standalone_run = (Arc::clone(&run), is_over.clone());
    background.spawn(async move {
        standalone_run.0.standalone.send_requests(&standalone_run.0.history, standalone_run.1).await;
        Ok(())
    });
    let injecting = Arc::clone(&run);
    let fault_progress = progress.clone();
    background.spawn(async move { inject_all(&injecting, faults, &fault_progress).await });
    send_all(&run, requests, progress).await;
    progress.print_line("waiting for requests in flight");
    runtime.sleep_until((run.started_at + duration).max(runtime.monotonic())).await;
    runtime.sleep_until(runtime.monotonic() + QUIET_TIME).await;
    let ledgers = final_readings(&run).await;
    // The observers may stop now.
    let _ = over.send(true);
    while let Some(ended) = background.join_next().await {
        ended??;
    }
    let evidence = evidence(&run, ledgers).await?;
    Ok(check_all(&evidence))
}

async fn set_up(
    options: &RunOptions,
    directory: &Path,
    runtime: TokioRuntime,
    duration: Duration,
) -> anyhow::Result<ChaosRun> {
    let history = History::default();
    let store = ForwardedRedis::start(directory, runtime).await?;
    let standalone = StandaloneGateway::start(options, directory, runtime).await?;
    let mut models = Vec::new();
    for number in 0..MODELS {
        let seed = options.seed.wrapping_add(number as u64);
        models.push(ModelProcess::start(number, &options.program, directory, seed, runtime).await?);
    }
    let mut chance = SeededRandom::new(options.seed ^ 0x006d_6f6e_6579);
    let cents = u64::from(options.minutes) * (12 + chance.draw().below(140));
    let mut run = ChaosRun {
        runtime,
        started_at: runtime.monotonic(),
        duration,
        cents,
        store,
        standalone,
        models,
        nodes: Vec::new(),
        history,
    };
    for number in 0..NODES {
        let node = GatewayNode::new(number, directory, &options.program, runtime, run.history.clone())?;
        node.write(&run.settings(&node, 0))?;
        node.start().await?;
        run.nodes.push(node);
    }
    run.started_at = runtime.monotonic();
    run.history.observations().variants.push((run.started_at, 0));
    Ok(run)
}

impl ChaosRun {
    fn settings<'a>(&self, node: &'a GatewayNode, variant: u64) -> NodeSettings<'a> {
        let address = |index: usize| self.models.get(index).map_or(self.store.address, |model| model.address);
        NodeSettings {
            listen: node.address(),
            directory: &node.directory,
            store: Some(self.store.address),
            models: [address(0), address(1)],
            cents: self.cents,
            variant,
        }
    }

    /// Records that counts are about to be lost.
    fn record_count_loss(&self) {
        let now = self.runtime.monotonic();
        self.history.observations().counts_lost_at.get_or_insert(now);
    }

    fn cap(&self) -> u64 {
        self.cents.saturating_mul(NANOS_PER_CENT)
    }
}

/// Sends every request at its time, and waits for the last response.
async fn send_all(run: &Arc<ChaosRun>, requests: Vec<ChaosRequest>, progress: &ChaosProgress) {
    let nodes: Vec<SocketAddr> = run.nodes.iter().map(GatewayNode::address).collect();
    let nodes: Arc<[SocketAddr]> = nodes.into();
    let runtime = run.runtime;
    let mut sending = JoinSet::new();
    for scheduled in requests {
        runtime.sleep_until(run.started_at + scheduled.at).await;
        progress.set_elapsed(runtime.monotonic() - run.started_at);
        let (run, nodes) = (Arc::clone(run), Arc::clone(&nodes));
        sending.spawn(async move {
            let response = send(&scheduled, &nodes, runtime).await;
            let ChaosRequest { caller, dialect, is_streamed, is_hostile, .. } = scheduled;
            run.history.observations().requests.push(RequestObservation {
                caller,
                dialect,
                is_streamed,
                is_hostile,
                response,
            });
        });
        while sending.try_join_next().is_some() {}
    }
    while sending.join_next().await.is_some() {}
}

/// Injects the planned faults, each at its time.
async fn inject_all(
    run: &Arc<ChaosRun>,
    scheduled: Vec<ScheduledFault>,
    progress: &ChaosProgress,
) -> anyhow::Result<()> {
    let mut injecting = JoinSet::new();
    for ScheduledFault { at, fault } in scheduled {
        run.runtime.sleep_until(run.started_at + at).await;
        progress.print_line(&format!("{:5.1} s  {}", at.as_secs_f64(), describe(&fault)));
        let run = Arc::clone(run);
        injecting.spawn(async move { inject(&run, fault).await });
        while let Some(injected) = injecting.try_join_next() {
            injected??;
        }
    }
    while let Some(injected) = injecting.join_next().await {
        injected??;
    }
    Ok(())
}

async fn inject(run: &ChaosRun, fault: InjectedFault) -> anyhow::Result<()> {
    match fault {
        InjectedFault::ModelFaults { model, name, rules } => {
            let is_recovery = rules.as_array().is_none_or(Vec::is_empty);
            if !is_recovery {
                let from = run.runtime.monotonic();
                let span = TimeSpan { from, to: None };
                let mut observations = run.history.observations();
                if excuses_rejection(name) {
                    &mut observations.faulty[model]
                } else {
                    &mut observations.degraded[model]
                }
                .push(span);
                if FALSE_BILLING.contains(&name) {
                    observations.quarantined_since[model].get_or_insert(from);
                    observations.false_billing.push(span);
                }
            }
            run.models[model].set_faults(&rules).await?;
            if is_recovery {
                let (mut observations, now) = (run.history.observations(), run.runtime.monotonic());
                let observations = &mut *observations;
                for span in
                    [&mut observations.faulty[model], &mut observations.degraded[model]].into_iter().flatten()
                {
                    span.to.get_or_insert(now);
                }
                if model == OVERRUN_MODEL {
                    observations.false_billing.iter_mut().for_each(|span| {
                        span.to.get_or_insert(now);
                    });
                }
            }
        }
        InjectedFault::StoreKilled(outage) => {
            run.record_count_loss();
            run.store.kill(outage).await?;
        }
        InjectedFault::StorePaused(outage) => run.store.pause(outage).await?,
        InjectedFault::StoreConnectionsLost(reconnect_timeout) => {
            run.store.lose_connections();
            run.runtime.sleep_until(run.runtime.monotonic() + reconnect_timeout).await;
            for (index, node) in run.nodes.iter().enumerate() {
                // A node that is being restarted cannot be read.
                let is_disconnected = node.metrics().await.is_some_and(|metrics| !metrics.is_shared);
                if is_disconnected {
                    let failure = format!(
                        "node {index} still decides locally {reconnect_timeout:?} after its connections to the store were lost"
                    );
                    run.history.observations().process_failures.push(failure);
                }
            }
        }
        InjectedFault::NodeStopped(node) => {
            run.record_count_loss();
            run.nodes[node].stop_and_start().await.context("restart of a stopped node")?;
        }
        InjectedFault::NodeKilled(node) => {
            run.record_count_loss();
            run.nodes[node].kill_and_start().await.context("restart of a killed node")?;
        }
        InjectedFault::StandaloneKilled(times) => {
            run.standalone.kill(times).await.context("standalone gateway")?;
        }
        InjectedFault::Reload(variant) => {
            run.history.observations().variants.push((run.runtime.monotonic(), variant));
            for node in &run.nodes {
                node.write(&run.settings(node, variant))?;
                node.reload().await?;
            }
        }
        InjectedFault::UnauthenticatedClients(lasts) => {
            let at = |number: usize| attack(&run.nodes[number], number, lasts, run.runtime);
            let results: [Option<AttackResult>; NODES] = tokio::join!(at(0), at(1)).into();
            run.history.observations().attacks.extend(results.into_iter().flatten());
        }
        // Part of the requests.
        InjectedFault::Flood(_) | InjectedFault::HostileCaller(_) => {}
    }
    Ok(())
}

fn describe(fault: &InjectedFault) -> String {
    match fault {
        InjectedFault::ModelFaults { model, name, rules } => {
            let percent = rules[0]["percent"].as_u64().map_or(String::new(), |share| format!(" ({share} %)"));
            format!("model {model}: {name}{percent}")
        }
        InjectedFault::StoreKilled(outage) => format!("redis-server killed, back empty after {outage:.1?}"),
        InjectedFault::StorePaused(outage) => format!("redis-server paused for {outage:.1?}"),
        InjectedFault::StoreConnectionsLost(_) => "connections to Redis lost without a reset".to_owned(),
        InjectedFault::NodeStopped(node) => format!("node {node} stopped and restarted"),
        InjectedFault::NodeKilled(node) => format!("node {node} killed and restarted"),
        InjectedFault::StandaloneKilled(times) => format!("standalone gateway killed {times} times"),
        InjectedFault::Reload(variant) => format!("both nodes reload limits {variant}"),
        InjectedFault::UnauthenticatedClients(lasts) => {
            format!("unfinished, idle and stalled connections for {lasts:.1?}")
        }
        InjectedFault::Flood(lasts) => format!("one caller floods for {lasts:.1?}"),
        InjectedFault::HostileCaller(lasts) => format!("one caller provokes failures for {lasts:.1?}"),
    }
}

/// Reads a node's ledger and checks its process periodically.
async fn observe(run: &ChaosRun, index: usize, mut is_over: watch::Receiver<bool>) {
    let (node, cap) = (&run.nodes[index], run.cap());
    let mut before = run.started_at;
    loop {
        node.check_process(run.duration / 5);
        let now = run.runtime.monotonic();
        if let Some(metrics) = node.metrics().await {
            let mut observations = run.history.observations();
            observations.readings += 1;
            // The cost of calls beyond their reservations is spent; no admission check could have prevented it.
            let sum = metrics.posted.saturating_add(metrics.held).saturating_sub(metrics.overrun);
            let thousandths = |nanos: u64| nanos.saturating_mul(1_000) / cap.max(1);
            observations.max_budget_use = observations.max_budget_use.max(thousandths(sum));
            // It reduces the budget all the same.
            if thousandths(sum.saturating_add(metrics.overrun)) >= LOW_BUDGET {
                observations.budget_low_since[index].get_or_insert(before);
            }
            if sum > cap {
                observations.overdrawn.push(format!("node {index}: {metrics:?} of {cap}"));
            }
            observations.record_local_decisions(index, run.runtime.monotonic(), metrics.local_decisions);
            before = now;
        }
        tokio::select! {
            biased;
            _ = is_over.changed() => return,
            () = run.runtime.sleep_until(run.runtime.monotonic() + POLL_INTERVAL) => {}
        }
    }
}

/// The ledgers of nodes when no requests are in flight any more; also records the open descriptors of their processes.
async fn final_readings(run: &ChaosRun) -> Vec<Option<(u64, u64)>> {
    let mut ledgers = Vec::new();
    let model_ports: Vec<u16> = run.models.iter().map(|model| model.address.port()).collect();
    for (index, node) in run.nodes.iter().enumerate() {
        let last = node.metrics().await;
        if let Some(calls) = last.as_ref().map(|metrics| metrics.in_flight).filter(|calls| *calls > 0) {
            let failure = format!("node {index} has {calls} calls in flight after the last request");
            run.history.observations().process_failures.push(failure);
        }
        ledgers.push(last.map(|metrics| (metrics.posted, metrics.held)));
        if let Some(process) = run.history.observations().process_of(index) {
            process.descriptors.1 = open_descriptors(process.id, &model_ports);
        }
    }
    ledgers
}

/// Stops everything, and reads the persisted state.
async fn evidence(run: &ChaosRun, ledgers: Vec<Option<(u64, u64)>>) -> anyhow::Result<Evidence> {
    let final_processes: Vec<u32> = run
        .history
        .observations()
        .processes
        .iter()
        .filter(|process| process.span.to.is_none())
        .map(|process| process.id)
        .collect();
    for node in &run.nodes {
        node.stop().await?;
    }
    run.standalone.stop().await?;
    let mut evidence = Evidence {
        ledgers,
        observations: run.history.observations().clone(),
        started_at: Some(run.started_at),
        final_processes,
        ..Evidence::default()
    };
    for node in &run.nodes {
        evidence.persisted.push(read_ledger(&node.directory.join("state"), run.cents, run.runtime).await?);
        evidence.prices.push(check_prices(&node.directory.join("access.log"))?);
        evidence.stderr.push(std::fs::read_to_string(node.errors())?);
    }
    for model in &run.models {
        evidence.bills.push(model.billed().await?);
        evidence.stderr.push(std::fs::read_to_string(&model.errors)?);
    }
    Ok(evidence)
}
