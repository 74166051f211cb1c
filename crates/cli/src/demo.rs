//! `seawall demo`.

use crate::{Failed, signals};
use anyhow::{Context as _, anyhow};
use clap::Args;
use seawall_demo::{DemoOptions, DemoSettings, Report, Show};
use std::io::{self, IsTerminal as _, Write as _};
use tokio::signal::unix::SignalKind;

#[derive(Args)]
pub(crate) struct DemoArguments {
    /// How long questions are asked, from 10 to 1200; outages take their share of it.
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// What questions, their moments and the lots of faults follow from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Prints one JSON object at the end, and nothing before.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &DemoArguments) -> Result<(), Failed> {
    let options = DemoOptions { seconds: arguments.seconds, seed: arguments.seed };
    let settings = options.check().map_err(|error| Failed::BadInput(error.into()))?;
    let show = match (arguments.json, io::stdout().is_terminal()) {
        (true, _) => Show::Nothing,
        (false, true) => Show::Terminal,
        (false, false) => Show::Lines,
    };
    let report = play(&settings, show).map_err(Failed::Broken)?;
    let text = if arguments.json { report.json() + "\n" } else { report.text() };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failed::Broken(error.into()))?;
    match report.exit_code() {
        0 => Ok(()),
        _ => Err(Failed::Broken(anyhow!("a promise did not hold"))),
    }
}

fn play(settings: &DemoSettings, show: Show) -> anyhow::Result<Report> {
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
