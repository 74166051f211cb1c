//! Chaos test: random faults against running gateways, and invariants that must hold whatever happens.
//!
//! Two real gateways share a real `redis-server` in front of two model servers, each in a process of its own. Callers
//! of every tier send requests in every dialect. Meanwhile models fail, the shared store dies and freezes, nodes are
//! stopped and killed, limits change and a caller floods: all drawn from one seed. The report lists which invariants
//! held; the exit status is 1 if one was violated.
//!
//! It is run by hand, on free ports of the loopback address, and ends everything that it has started. It does not
//! measure performance, and its traffic is not modelled on any real application.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `schedule`, `traffic` | the schedule of faults and of requests, from the seed |
//! | `process`, `node`, `standalone`, `model`, `store` | the processes |
//! | `setting` | the settings of a node |
//! | `caller`, `unauthenticated` | authenticated and unauthenticated clients |
//! | `history`, `ledger` | recorded events, and persisted ledgers and logs |
//! | `invariant` | the invariants |
//! | `run`, `progress` | the run, and its progress display |

mod caller;
mod history;
mod invariant;
mod ledger;
mod model;
mod node;
mod process;
mod progress;
mod run;
mod schedule;
mod setting;
mod standalone;
mod store;
mod traffic;
mod unauthenticated;

use anyhow::{Context as _, anyhow, ensure};
use clap::Parser;
use invariant::InvariantResult;
use progress::ChaosProgress;
use run::{RunOptions, run};
use seawall_core::runtime::{Runtime as _, Timer as _};
use seawall_demo::wait_past_midnight;
use seawall_gateway::TokioRuntime;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Additional time that a run may take beyond its minutes.
const FINISH_ALLOWANCE: Duration = Duration::from_secs(60);

/// Random faults against running gateways, and the invariants that must hold.
#[derive(Parser)]
#[command(name = "seawall-chaos")]
struct Arguments {
    /// How long to send requests, in minutes.
    #[arg(long, value_name = "N", default_value = "1")]
    minutes: NonZeroU32,
    /// Seed of faults and requests; random by default.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// The program under test; by default `seawall` in the directory of this program.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

fn main() -> ExitCode {
    match start(Arguments::parse()) {
        Ok(results) if results.iter().all(InvariantResult::held) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("seawall-chaos: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn start(arguments: Arguments) -> anyhow::Result<Vec<InvariantResult>> {
    let runtime = TokioRuntime::new();
    let default_program = || Ok::<_, anyhow::Error>(std::env::current_exe()?.with_file_name("seawall"));
    let options = RunOptions {
        minutes: arguments.minutes.get(),
        // Short enough to be typed again.
        seed: arguments.seed.unwrap_or_else(|| runtime.draw().below(1_000_000)),
        program: arguments.program.map_or_else(default_program, Ok)?,
    };
    ensure!(options.program.is_file(), "program not found: {}", options.program.display());
    println!("seed {}, {} min", options.seed, options.minutes);
    let name = format!("seawall-chaos-{}-{:08x}", std::process::id(), runtime.draw().below(1 << 32));
    let directory = std::env::temp_dir().join(name);
    fs::create_dir(&directory).context("cannot create a temporary directory")?;
    let progress = ChaosProgress::new(Duration::from_secs(60) * options.minutes);
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let results = tokio.block_on(run_until_signal(&options, &directory, runtime, &progress));
    progress.clear();
    for result in results.iter().flatten() {
        print!("{result}");
    }
    if results.as_ref().is_ok_and(|results| results.iter().all(InvariantResult::held)) {
        fs::remove_dir_all(&directory).context("cannot remove the temporary directory")?;
    } else {
        println!("seed {}; logs and state are kept in {}", options.seed, directory.display());
    }
    results
}

/// Runs until the end or until a signal to stop; then ends everything that was started.
async fn run_until_signal(
    options: &RunOptions,
    directory: &Path,
    runtime: TokioRuntime,
    progress: &ChaosProgress,
) -> anyhow::Result<Vec<InvariantResult>> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let running = async {
        let duration = Duration::from_secs(60) * options.minutes;
        let wait = wait_past_midnight(runtime.now().utc, duration + FINISH_ALLOWANCE);
        if !wait.is_zero() {
            progress
                .print_line("waiting until midnight (UTC), because the run must not span two daily ledgers");
            runtime.sleep_until(runtime.monotonic() + wait).await;
        }
        run(options, directory, runtime, progress).await
    };
    tokio::select! {
        results = running => results,
        _ = interrupt.recv() => Err(anyhow!("interrupted")),
        _ = terminate.recv() => Err(anyhow!("terminated")),
    }
}
