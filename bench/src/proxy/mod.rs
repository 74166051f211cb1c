//! `cargo xtask bench proxy`: what a request through Seawall costs beside nginx and a bare hop, in one run.
//!
//! The program under test has a core of its own; the load and the responder share the other. Targets take turns in
//! every round, and what is judged is the median of the ratios inside each round.

mod answers;
mod calls;
pub(crate) mod child;
mod hop;
mod load;
mod message;
mod report;
mod responder;
mod target;

pub(crate) use load::LoadArguments;

use answers::Kind;
use anyhow::{Context as _, bail, ensure};
use child::{LOAD_CORE, Running, free_address, pinned, program};
use load::LoadResult;
use report::{Findings, Memory, Round, Row};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use target::{Places, Target};

/// How long to measure.
#[derive(clap::Args)]
pub(crate) struct ProxyArguments {
    /// Rounds; every target runs every case once in each.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of load per case and target in a round.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// The program to measure; without it, the one beside this program.
    #[arg(long, value_name = "FILE")]
    seawall: Option<PathBuf>,
    /// Prints JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// A kind of request and how it is asked.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    kind: Kind,
    seconds: f64,
    rate: Option<f64>,
    count: Option<u64>,
    connections: u32,
}

/// One case: its name, and how to ask.
struct Case {
    name: &'static str,
    ask: Ask,
}

const PLAIN: &str = "plain, saturated";
const BURST: &str = "burst stream, saturated";
const STEADY: &str = "plain, 1,000 a second";
const PACED: &str = "paced stream, 200 starts a second";

fn cases(seconds: f64) -> [Case; 4] {
    let case = |name, kind, rate, connections| Case {
        name,
        ask: Ask { kind, seconds, rate, count: None, connections },
    };
    [
        case(PLAIN, Kind::Plain, None, 32),
        case(BURST, Kind::Burst, None, 32),
        case(STEADY, Kind::Plain, Some(1_000.0), 32),
        // A stream takes a quarter of a second, so some fifty are open at once.
        case(PACED, Kind::Paced, Some(200.0), 128),
    ]
}

/// Measures and prints; succeeds if every gate holds.
pub(crate) fn run(arguments: &ProxyArguments) -> anyhow::Result<ExitCode> {
    ensure!((0.1..=60.0).contains(&arguments.seconds), "--seconds must be from 0.1 to 60");
    ensure!(std::thread::available_parallelism()?.get() >= 2, "this needs two cores");
    ensure!(program("taskset").is_some(), "taskset is missing: apt-get install util-linux");
    let responder = free_address()?;
    let places = Places::find(arguments.seawall.clone(), responder)?;
    let listen = ["responder".to_owned(), "--listen".to_owned(), responder.to_string()];
    let mut running = Running::start(LOAD_CORE, &places.bench, listen)?;
    running.listens_at(responder)?;
    let targets = places.start_all()?;
    let findings = measure(&places, &targets, arguments)?;
    if arguments.json {
        println!("{:#}", report::json(&findings));
    } else {
        print!("{}", report::tables(&findings));
    }
    let holds = findings.gates().iter().all(report::Gate::holds);
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn measure(places: &Places, targets: &[Target], arguments: &ProxyArguments) -> anyhow::Result<Findings> {
    let cases = cases(arguments.seconds);
    let mut rows: Vec<Row> =
        cases.iter().flat_map(|case| targets.iter().map(|target| Row::new(case.name, target.name))).collect();
    let mut requests = 0;
    let count = targets.len();
    // The first round does not count: caches, pools and branch predictors fill.
    for round in 0..=arguments.rounds {
        for (case_index, case) in cases.iter().enumerate() {
            // Who begins changes, so that nobody always follows the same neighbour.
            for turn in 0..count {
                let index = (turn + round as usize) % count;
                let target = &targets[index];
                let ask =
                    if round == 0 { Ask { seconds: case.ask.seconds / 2.0, ..case.ask } } else { case.ask };
                let (measured, answered) = measure_once(places, target, ask)
                    .with_context(|| format!("{}: {}", target.name, case.name))?;
                if target.name == target::SEAWALL {
                    requests += answered;
                }
                if round > 0 {
                    rows[case_index * count + index].rounds.push(measured);
                }
            }
        }
    }
    let mut memory = Vec::new();
    for target in targets {
        let Some(running) = &target.running else { continue };
        let loaded = running.resident_mib()?;
        memory.push(Memory { target: target.name, idle: target.idle_mib, loaded });
    }
    let mut calls = Vec::new();
    for kind in [Kind::Plain, Kind::Burst] {
        for target in targets {
            if let Some(figure) = calls::per_request(places, target, kind)? {
                calls.push((kind, target.name, figure));
            }
        }
    }
    Ok(Findings { rows, memory, calls, requests })
}

fn measure_once(places: &Places, target: &Target, ask: Ask) -> anyhow::Result<(Round, u64)> {
    let cpu = || target.running.as_ref().map_or(Ok(0.0), Running::cpu_micros);
    let before = cpu()?;
    let loaded = load(places, target.address, ask)?;
    let requests = loaded.requests as f64;
    ensure!(loaded.requests > 0, "nothing was answered");
    let round = Round { rate: requests / loaded.seconds, cpu: (cpu()? - before) / requests, p50: loaded.p50 };
    Ok((round, loaded.requests))
}

/// Runs the load in a process of its own, so that its core is its own, too.
fn load(places: &Places, to: SocketAddr, ask: Ask) -> anyhow::Result<LoadResult> {
    let mut command = pinned(LOAD_CORE, &places.bench);
    command.args(["load", "--to", &to.to_string(), "--kind", ask.kind.name()]);
    command.args(["--seconds", &ask.seconds.to_string(), "--connections", &ask.connections.to_string()]);
    if let Some(rate) = ask.rate {
        command.args(["--rate", &rate.to_string()]);
    }
    if let Some(count) = ask.count {
        command.args(["--count", &count.to_string()]);
    }
    let output = command.output().context("cannot start the load")?;
    if !output.status.success() {
        bail!("the load failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("the load's result cannot be read")
}

/// The responder as a program.
pub(crate) fn respond(listen: SocketAddr) -> anyhow::Result<ExitCode> {
    on_one_thread(responder::run(listen))?;
    Ok(ExitCode::SUCCESS)
}

/// The bare hop as a program.
pub(crate) fn hop(listen: SocketAddr, upstream: SocketAddr) -> anyhow::Result<ExitCode> {
    on_one_thread(hop::run(listen, upstream))?;
    Ok(ExitCode::SUCCESS)
}

/// The load as a program.
pub(crate) fn send_load(arguments: LoadArguments) -> anyhow::Result<ExitCode> {
    println!("{}", serde_json::to_string(&on_one_thread(load::run(arguments))?)?);
    Ok(ExitCode::SUCCESS)
}

fn on_one_thread<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// The one place that starts a task: a connection, which ends with its program at the latest.
#[expect(clippy::disallowed_methods, reason = "connections are what these programs are for")]
fn start(connection: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(connection);
}
