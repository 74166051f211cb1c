//! `seawall model`.

use crate::{CommandError, signals};
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use seawall_model::engine::{Engine, ModelOptions, Pace, Profile, read_faults};
use seawall_model::prompt_cache::PromptCacheOptions;
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
pub(crate) struct ModelServerArguments {
    /// Listen address; port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7710")]
    listen: SocketAddr,
    /// File with the fault schedule, in TOML or JSON; see docs/model.md for the format.
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Seed of random texts and faults.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Speed of answers.
    #[arg(long, value_enum, default_value_t = PaceName::Real)]
    pace: PaceName,
    /// Imitate a prompt cache: report input that begins like an earlier prompt as cached, for this many seconds.
    #[arg(long, value_name = "SECONDS")]
    prompt_cache: Option<u64>,
    /// Print the ready message as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum PaceName {
    /// The speed of a real model.
    Real,
    /// No delays, for benchmarks.
    Instant,
}

pub(crate) fn run(arguments: &ModelServerArguments) -> Result<(), CommandError> {
    let engine = engine(arguments).map_err(CommandError::InvalidInput)?;
    serve(arguments, engine).map_err(CommandError::Failed)
}

fn engine(arguments: &ModelServerArguments) -> anyhow::Result<Engine> {
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

fn serve(arguments: &ModelServerArguments, engine: Engine) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before the address is printed, so that a signal right after it does not kill the process.
        let (mut interrupt, mut terminate) =
            (signals(SignalKind::interrupt())?, signals(SignalKind::terminate())?);
        let server = ModelServer::bind(engine, arguments.listen)
            .await
            .with_context(|| format!("cannot listen on {}", arguments.listen))?;
        let server = match arguments.prompt_cache.map(Duration::from_secs) {
            Some(lifetime) => {
                server.with_prompt_cache(PromptCacheOptions { lifetime, ..PromptCacheOptions::default() })
            }
            None => server,
        };
        print_ready(server.address()?, arguments.json)?;
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

fn print_ready(address: SocketAddr, as_json: bool) -> io::Result<()> {
    let url = format!("http://{address}");
    let models: Vec<_> = Profile::all().iter().map(|profile| profile.name).collect();
    let line = if as_json {
        serde_json::json!({ "ready": true, "url": url, "models": models }).to_string()
    } else {
        format!(
            "simulated model ready: {url} (Anthropic, OpenAI, Bedrock and Gemini; models: {}), bill: {url}/admin/bill",
            models.join(", ")
        )
    };
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
