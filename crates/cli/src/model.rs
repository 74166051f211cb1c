//! `seawall model`.

use crate::{Failed, signals};
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use seawall_model::engine::{Engine, ModelOptions, Pace, Profile, read_faults};
use seawall_model::server::ModelServer;
use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::SignalKind;

/// How long answers in flight may take to finish after a signal.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(crate) struct ModelArguments {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7710")]
    listen: SocketAddr,
    /// A file with the schedule of faults, in TOML or JSON; docs/model.md tells how it is written.
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// What texts and lots follow from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Whether it takes its time.
    #[arg(long, value_enum, default_value_t = PaceName::Real)]
    pace: PaceName,
    /// Prints the line that says it is ready as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum PaceName {
    /// As a real model would.
    Real,
    /// Everything at once, for benchmarks.
    Instant,
}

pub(crate) fn run(arguments: &ModelArguments) -> Result<(), Failed> {
    let engine = engine(arguments).map_err(Failed::BadInput)?;
    serve(arguments, engine).map_err(Failed::Broken)
}

fn engine(arguments: &ModelArguments) -> anyhow::Result<Engine> {
    let pace = match arguments.pace {
        PaceName::Real => Pace::Real,
        PaceName::Instant => Pace::Instant,
    };
    let Some(file) = &arguments.faults else {
        return Ok(Engine::new(ModelOptions { seed: arguments.seed, faults: Vec::new(), pace })?);
    };
    let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let engine = read_faults(&text)
        .and_then(|faults| Engine::new(ModelOptions { seed: arguments.seed, faults, pace }));
    engine.with_context(|| file.display().to_string())
}

fn serve(arguments: &ModelArguments, engine: Engine) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before the address is printed, so that a signal right after it does not kill the process.
        let (mut interrupt, mut terminate) =
            (signals(SignalKind::interrupt())?, signals(SignalKind::terminate())?);
        let server = ModelServer::bind(engine, arguments.listen)
            .await
            .with_context(|| format!("cannot listen on {}", arguments.listen))?;
        tell_ready(server.address()?, arguments.json)?;
        let stop = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        server.run(stop, GRACE).await;
        Ok(())
    })
}

fn tell_ready(address: SocketAddr, as_json: bool) -> io::Result<()> {
    let url = format!("http://{address}");
    let models: Vec<_> = Profile::all().iter().map(|profile| profile.name).collect();
    let line = if as_json {
        serde_json::json!({ "ready": true, "url": url, "models": models }).to_string()
    } else {
        format!(
            "simulated model ready: {url} (Anthropic, OpenAI and Bedrock; models: {}), bill: {url}/admin/bill",
            models.join(", ")
        )
    };
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
