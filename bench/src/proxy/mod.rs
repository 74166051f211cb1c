//! `cargo xtask bench proxy`: the cost of a request through Seawall compared with nginx and a minimal hop, in one run.
//!
//! The program under test has a core of its own; the load and the responder share the other. Targets alternate in every
//! round, and the gates apply to the median of the ratios within each round. Seawall runs with everything enabled:
//! keys, limits, budget with its journal, breakers, counters, a log in a file, the admin listener.

mod calls;
mod cases;
pub(crate) mod child;
mod content;
mod gates;
mod hop;
mod hyper_hop;
mod load;
mod message;
mod report;
mod requests;
mod responder;
mod target;
mod token;

pub(crate) use hop::HopClient;
pub(crate) use load::LoadArguments;

use crate::callers::CallersResult;
use anyhow::{Context as _, bail, ensure};
use cases::{ProxyCase, ProxyPart};
use child::{LOAD_CORE, PinnedProcess, TEST_CORE, pinned, program};
use load::LoadResult;
use report::{MemoryUse, ProxyResults, ResultRow, Round};
use requests::{BenchCredential, BenchDialect, BenchRequest, BenchRequestKind};
use seawall_testkit::free_address;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use target::{BenchPrograms, HOP, NGINX, ProxyTarget, SEAWALL};

/// What to measure, and how long.
#[derive(clap::Args)]
pub(crate) struct ProxyArguments {
    /// Rounds; every target runs every case once in each.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of load per case and target in a round.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Only this part; may be given more than once.
    #[arg(long, value_name = "NAME", value_enum)]
    only: Vec<ProxyPart>,
    /// The program to measure; without it, the one beside this program.
    #[arg(long, value_name = "FILE")]
    seawall: Option<PathBuf>,
    /// Prints JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Only generates load, without results; used to collect a PGO profile.
    #[arg(long, conflicts_with = "json")]
    only_load: bool,
}

impl ProxyArguments {
    fn has(&self, part: ProxyPart) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// The targets whose system calls are counted.
const COUNTED: &[&str] = &[NGINX, HOP, SEAWALL];

/// The length of the warm-up round, as a share of the others. It is discarded: caches, pools and branch predictors
/// fill.
const WARM_UP_SHARE: f64 = 1.0 / 3.0;

/// A request and how it is sent.
#[derive(Clone, Copy)]
struct LoadSpec {
    request: BenchRequest,
    seconds: f64,
    rate: Option<f64>,
    count: Option<u64>,
    connections: u32,
    callers: usize,
}

/// Measures and prints; succeeds if every gate holds.
pub(crate) fn run(arguments: &ProxyArguments) -> anyhow::Result<ExitCode> {
    ensure!((0.1..=60.0).contains(&arguments.seconds), "--seconds must be from 0.1 to 60");
    ensure!(std::thread::available_parallelism()?.get() >= 2, "this needs two cores");
    ensure!(program("taskset").is_some(), "taskset is missing: apt-get install util-linux");
    let responder = free_address()?;
    let programs = BenchPrograms::find(arguments.seawall.clone(), responder)?;
    let listen = ["responder".to_owned(), "--listen".to_owned(), responder.to_string()];
    let mut running = PinnedProcess::start(LOAD_CORE, &programs.bench, listen)?;
    running.wait_until_listening(responder)?;
    warn_if_busy();
    let results = measure(&programs, arguments)?;
    if arguments.only_load {
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.json {
        println!("{:#}", report::json(&results));
    } else {
        print!("{}", report::tables(&results));
    }
    let holds = results.gates().iter().all(gates::ProxyGate::holds);
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Warns if other processes use the cores: ratios tolerate that, but not well.
fn warn_if_busy() {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
    if load > 1.0 {
        eprintln!("this machine is busy (load {load}); figures of this run are unreliable");
    }
}

fn measure(programs: &BenchPrograms, arguments: &ProxyArguments) -> anyhow::Result<ProxyResults> {
    let cases: Vec<ProxyCase> = cases::all().into_iter().filter(|case| arguments.has(case.part)).collect();
    let mut names: Vec<&'static str> = Vec::new();
    let counted: &[&'static str] = if arguments.has(ProxyPart::Calls) { COUNTED } else { &[] };
    for name in cases.iter().flat_map(|case| case.targets).chain(counted) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let targets = programs.start_all(&names)?;
    let mut results = ProxyResults::default();
    for part in ProxyPart::ALL.into_iter().filter(|part| arguments.has(*part)) {
        let cases: Vec<ProxyCase> = cases.iter().filter(|case| case.part == part).copied().collect();
        let turns: usize = cases.iter().map(|case| case.targets.len()).sum();
        let seconds = turns as f64 * arguments.seconds * (f64::from(arguments.rounds) + WARM_UP_SHARE);
        eprintln!("{}: {}, about {seconds:.0} s of load", part.name(), part.description());
        measure_part(programs, &targets, &cases, arguments, &mut results)?;
        match part {
            ProxyPart::Core => results.memory = memory(&targets)?,
            ProxyPart::Calls => results.calls = count_calls(programs, &targets)?,
            ProxyPart::Callers => results.callers = Some(without_sockets(programs, arguments.rounds)?),
            ProxyPart::Dialects | ProxyPart::Token | ProxyPart::Cross => {}
        }
    }
    Ok(results)
}

fn measure_part(
    programs: &BenchPrograms,
    targets: &[ProxyTarget],
    cases: &[ProxyCase],
    arguments: &ProxyArguments,
    results: &mut ProxyResults,
) -> anyhow::Result<()> {
    let first_row = results.rows.len();
    for case in cases {
        results.rows.extend(case.targets.iter().map(|target| ResultRow::new(*case, target)));
    }
    for round in 0..=arguments.rounds {
        let mut row = first_row;
        for case in cases {
            let count = case.targets.len();
            // The first target rotates, so that no target always follows the same neighbour.
            for turn in 0..count {
                let index = (turn + round as usize) % count;
                let name = case.targets[index];
                let target = targets.iter().find(|target| target.name == name);
                let target = target.with_context(|| format!("{name} was not started"))?;
                let share = if round == 0 { WARM_UP_SHARE } else { 1.0 };
                let seconds = arguments.seconds * share;
                let ProxyCase { request, rate, connections, callers, .. } = *case;
                let spec = LoadSpec { request, seconds, rate, count: None, connections, callers };
                let (measured, answered) =
                    measure_once(programs, target, spec).with_context(|| format!("{name}: {}", case.name))?;
                if name == SEAWALL && case.part == ProxyPart::Core {
                    results.requests += answered;
                }
                if round > 0 {
                    results.rows[row + index].rounds.push(measured);
                }
            }
            row += count;
        }
    }
    Ok(())
}

fn measure_once(
    programs: &BenchPrograms,
    target: &ProxyTarget,
    spec: LoadSpec,
) -> anyhow::Result<(Round, u64)> {
    let cpu = || target.running.as_ref().map_or(Ok(0.0), PinnedProcess::cpu_micros);
    let before = cpu()?;
    let loaded = load(programs, target.address, spec)?;
    let requests = loaded.requests as f64;
    ensure!(loaded.requests > 0, "no request was answered");
    let round = Round { rate: requests / loaded.seconds, cpu: (cpu()? - before) / requests, p50: loaded.p50 };
    target.empty_log()?;
    Ok((round, loaded.requests))
}

fn memory(targets: &[ProxyTarget]) -> anyhow::Result<Vec<MemoryUse>> {
    let mut memory = Vec::new();
    for target in targets {
        let Some(running) = &target.running else { continue };
        let loaded = running.resident_mib()?;
        memory.push(MemoryUse { target: target.name, idle: target.idle_mib, loaded });
    }
    Ok(memory)
}

fn count_calls(
    programs: &BenchPrograms,
    targets: &[ProxyTarget],
) -> anyhow::Result<Vec<(BenchRequestKind, &'static str, f64)>> {
    let mut calls = Vec::new();
    for kind in [BenchRequestKind::Plain, BenchRequestKind::Burst] {
        let (dialect, credential) = (BenchDialect::Anthropic, BenchCredential::Key);
        let request = BenchRequest { kind, dialect, model: dialect, credential };
        for target in targets.iter().filter(|target| COUNTED.contains(&target.name)) {
            if let Some(figure) = calls::calls_per_request(programs, target, request)? {
                calls.push((kind, target.name, figure));
            }
        }
    }
    Ok(calls)
}

/// Many callers compared with one, in a separate process on the core of the programs under test.
fn without_sockets(programs: &BenchPrograms, rounds: u32) -> anyhow::Result<CallersResult> {
    let mut command = pinned(TEST_CORE, &programs.bench);
    let output = command.args(["callers", "--json", "--rounds", &rounds.to_string()]).output()?;
    if !output.status.success() {
        bail!("many callers without sockets failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("its result cannot be read")
}

/// Runs the load in a separate process, so that it can be pinned to its own core.
fn load(programs: &BenchPrograms, to: SocketAddr, spec: LoadSpec) -> anyhow::Result<LoadResult> {
    let BenchRequest { kind, dialect, model, credential } = spec.request;
    let mut command = pinned(LOAD_CORE, &programs.bench);
    command.args(["load", "--to", &to.to_string(), "--kind", kind.name(), "--credential", credential.name()]);
    command.args(["--dialect", dialect.name(), "--model", model.name()]);
    command.args(["--seconds", &spec.seconds.to_string(), "--connections", &spec.connections.to_string()]);
    command.args(["--callers", &spec.callers.to_string()]);
    if let Some(rate) = spec.rate {
        command.args(["--rate", &rate.to_string()]);
    }
    if let Some(count) = spec.count {
        command.args(["--count", &count.to_string()]);
    }
    let output = command.output().context("cannot start the load")?;
    if !output.status.success() {
        bail!("the load failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("the load's result cannot be read")
}

/// The responder as a subcommand.
pub(crate) fn respond(listen: SocketAddr) -> anyhow::Result<ExitCode> {
    on_one_thread(responder::run(listen))?;
    Ok(ExitCode::SUCCESS)
}

/// The minimal hop as a subcommand.
pub(crate) fn hop(listen: SocketAddr, upstream: SocketAddr, client: HopClient) -> anyhow::Result<ExitCode> {
    on_one_thread(hop::run(listen, upstream, client))?;
    Ok(ExitCode::SUCCESS)
}

/// The load as a subcommand.
pub(crate) fn send_load(arguments: LoadArguments) -> anyhow::Result<ExitCode> {
    println!("{}", serde_json::to_string(&on_one_thread(load::run(arguments))?)?);
    Ok(ExitCode::SUCCESS)
}

fn on_one_thread<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// The only place that spawns a task: a connection, which ends with its process at the latest.
#[expect(clippy::disallowed_methods, reason = "connections are what these programs are for")]
fn start(connection: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(connection);
}
