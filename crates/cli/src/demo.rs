//! `seawall demo`.

use crate::output::write_file;
use crate::{CommandError, signals};
use anyhow::{Context as _, anyhow};
use clap::Args;
use seawall_demo::{DemoOptions, DemoReport, DemoSettings, ProgressMode};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use tokio::signal::unix::SignalKind;

#[derive(Args)]
pub(crate) struct DemoArguments {
    /// Duration of the traffic in seconds, from 10 to 1200; the outages are scaled to it.
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Seed of the random traffic and faults.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print only one JSON object, at the end.
    #[arg(long)]
    json: bool,
    /// Also write a picture of the results (SVG) to this file, replacing it.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(arguments: &DemoArguments) -> Result<(), CommandError> {
    let options = DemoOptions { seconds: arguments.seconds, seed: arguments.seed };
    let settings = options.check().map_err(|error| CommandError::InvalidInput(error.into()))?;
    let show = match (arguments.json, io::stdout().is_terminal()) {
        (true, _) => ProgressMode::Off,
        (false, true) => ProgressMode::Terminal,
        (false, false) => ProgressMode::Lines,
    };
    let report = play(&settings, show).map_err(CommandError::Failed)?;
    if let Some(path) = &arguments.svg {
        write_file(path, &report.svg(), true)?;
    }
    let text = if arguments.json { report.json() + "\n" } else { report.text() };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| CommandError::Failed(error.into()))?;
    match report.exit_code() {
        0 => Ok(()),
        _ => Err(CommandError::Failed(anyhow!("a promise did not hold"))),
    }
}

fn play(settings: &DemoSettings, show: ProgressMode) -> anyhow::Result<DemoReport> {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    tokio.context("cannot start a runtime")?.block_on(async {
        let (mut interrupt, mut terminate) =
            (signals(SignalKind::interrupt())?, signals(SignalKind::terminate())?);
        tokio::select! {
            report = seawall_demo::run(settings, show) => Ok(report?),
            _ = interrupt.recv() => Err(anyhow!("interrupted")),
            _ = terminate.recv() => Err(anyhow!("terminated")),
        }
    })
}
