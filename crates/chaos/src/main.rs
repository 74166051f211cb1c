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
//! | `process`, `node`, `lone`, `model`, `store` | the processes |
//! | `setting` | the settings of a node |
//! | `caller`, `strangers` | authenticated and unauthenticated clients |
//! | `history`, `ledger` | recorded events, and persisted ledgers and logs |
//! | `law` | the invariants |
//! | `run`, `show` | the run, and its progress display |

mod caller;
mod history;
mod law;
mod ledger;
mod lone;
mod model;
mod node;
mod process;
mod run;
mod schedule;
mod setting;
mod show;
mod store;
mod strangers;
mod traffic;

use anyhow::{Context as _, anyhow, ensure};
use clap::Parser;
use law::Law;
use run::{RunOptions, run};
use seawall_core::handle::{Runtime as _, Timer as _};
use seawall_demo::until_one_day_holds_it;
use seawall_gateway::TokioRuntime;
use show::Screen;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Additional time that a run may take beyond its minutes.
const LAST_ANSWERS: Duration = Duration::from_secs(60);

/// Random faults against running gateways, and the laws that must hold whatever happens.
#[derive(Parser)]
#[command(name = "seawall-chaos")]
struct Arguments {
    /// How long questions are asked.
    #[arg(long, value_name = "N", default_value = "1")]
    minutes: NonZeroU32,
    /// What faults, questions and their times follow from; without it, one that nobody could foresee.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// The program under test; without it, `seawall` beside this one.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

fn main() -> ExitCode {
    match start(Arguments::parse()) {
        Ok(laws) if laws.iter().all(Law::held) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("seawall-chaos: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn start(arguments: Arguments) -> anyhow::Result<Vec<Law>> {
    let runtime = TokioRuntime::new();
    let beside = || Ok::<_, anyhow::Error>(std::env::current_exe()?.with_file_name("seawall"));
    let options = RunOptions {
        minutes: arguments.minutes.get(),
        // Short enough to be typed again.
        seed: arguments.seed.unwrap_or_else(|| runtime.draw().below(1_000_000)),
        program: arguments.program.map_or_else(beside, Ok)?,
    };
    ensure!(options.program.is_file(), "there is no program {}", options.program.display());
    println!("seed {}, {} min", options.seed, options.minutes);
    let name = format!("seawall-chaos-{}-{:08x}", std::process::id(), runtime.draw().below(1 << 32));
    let folder = std::env::temp_dir().join(name);
    fs::create_dir(&folder).context("cannot make a folder")?;
    let screen = Screen::new(Duration::from_secs(60) * options.minutes);
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let laws = tokio.block_on(until_told(&options, &folder, runtime, &screen));
    screen.close();
    for law in laws.iter().flatten() {
        print!("{law}");
    }
    if laws.as_ref().is_ok_and(|laws| laws.iter().all(Law::held)) {
        fs::remove_dir_all(&folder).context("cannot remove the folder")?;
    } else {
        println!("seed {}; what the programs left is in {}", options.seed, folder.display());
    }
    laws
}

/// Runs until the end or until a signal to stop; then ends everything that was started.
async fn until_told(
    options: &RunOptions,
    folder: &Path,
    runtime: TokioRuntime,
    screen: &Screen,
) -> anyhow::Result<Vec<Law>> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let running = async {
        let whole = Duration::from_secs(60) * options.minutes;
        let wait = until_one_day_holds_it(runtime.now().utc, whole + LAST_ANSWERS);
        if !wait.is_zero() {
            screen.say("waiting for midnight (UTC): the books of one day are to hold it all");
            runtime.sleep_until(runtime.monotonic() + wait).await;
        }
        run(options, folder, runtime, screen).await
    };
    tokio::select! {
        laws = running => laws,
        _ = interrupt.recv() => Err(anyhow!("interrupted")),
        _ = terminate.recv() => Err(anyhow!("terminated")),
    }
}
