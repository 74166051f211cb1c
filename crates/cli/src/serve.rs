//! `seawall serve`.

use crate::{Failed, signals};
use anyhow::{Context as _, anyhow, bail};
use clap::{Args, ValueEnum};
use seawall_core::breaker::BreakerProfile;
use seawall_core::money::{Money, Price};
use seawall_gateway::{ServeOptions, Shape, TargetAddress, TokioRuntime, serve};
use seawall_model::engine::{Engine, ModelOptions, Pace};
use seawall_model::server::ModelServer;
use seawall_pipeline::{Runtime as _, Tier};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;
use tokio::signal::unix::SignalKind;

/// What the simulated model gets to end once nobody asks it any more.
const MODEL_GRACE: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(crate) struct ServeArguments {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7700")]
    listen: SocketAddr,
    /// The strong model as MODEL@URL, such as claude-sonnet@http://127.0.0.1:8080. Without it, a simulated one.
    #[arg(long, value_name = "MODEL@URL", requires = "fast")]
    strong: Option<String>,
    /// The fast model, tried when the strong one cannot answer.
    #[arg(long, value_name = "MODEL@URL", requires = "strong")]
    fast: Option<String>,
    /// The name that callers use for the model.
    #[arg(long, value_name = "NAME", default_value = "manga")]
    alias: String,
    /// A key that may ask, as TIER=KEY with the tier prime, standard or guest. Without any, one is made up and told.
    #[arg(long = "key", value_name = "TIER=KEY")]
    keys: Vec<String>,
    /// The most that a day (UTC) may cost, such as 5000 or 0.25.
    #[arg(long, value_name = "DOLLARS", default_value = "5000", value_parser = Money::parse, allow_hyphen_values = true)]
    budget: Money,
    /// One runtime per core, or one for all.
    #[arg(long, value_enum, default_value_t = ShapeName::PerCore)]
    shape: ShapeName,
    /// How many cores to use; all of them without it.
    #[arg(long, value_name = "N")]
    cores: Option<usize>,
    /// Where lines about requests go.
    #[arg(long, value_enum, default_value_t = LogName::Stdout)]
    log: LogName,
    /// How long requests under way may take to finish once it is told to stop, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    grace: u64,
    /// Multiplies every limit on requests, for load tests: the limits are kept and counted, but hold nobody up.
    #[arg(long, value_name = "N", default_value = "1")]
    scale_limits: NonZeroU32,
    /// Prints the line that says it is ready as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ShapeName {
    /// A single-threaded runtime, a listener and a pool per core.
    PerCore,
    /// One runtime whose threads share the work.
    Shared,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogName {
    /// One JSON object per line.
    Stdout,
    /// Nowhere.
    None,
}

pub(crate) fn run(arguments: &ServeArguments) -> Result<(), Failed> {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let tokio = tokio.context("cannot start a runtime").map_err(Failed::Broken)?;
    tokio.block_on(start(arguments))
}

async fn start(arguments: &ServeArguments) -> Result<(), Failed> {
    // Before the address is told, so that a signal sent right after it is not the end of us.
    let mut interrupt = signals(SignalKind::interrupt()).map_err(Failed::Broken)?;
    let mut terminate = signals(SignalKind::terminate()).map_err(Failed::Broken)?;
    let keys = keys(&arguments.keys).map_err(Failed::BadInput)?;
    let (simulated, targets) = targets(arguments).await?;
    let cores =
        arguments.cores.or_else(|| std::thread::available_parallelism().ok().map(Into::into)).unwrap_or(1);
    let options = ServeOptions {
        address: arguments.listen,
        shape: match arguments.shape {
            ShapeName::PerCore => Shape::PerCore(cores),
            ShapeName::Shared => Shape::Shared(cores),
        },
        alias: arguments.alias.clone(),
        targets,
        keys: keys.clone(),
        budget: arguments.budget,
        log: match arguments.log {
            LogName::Stdout => Some(Box::new(io::stdout())),
            LogName::None => None,
        },
        grace: Duration::from_secs(arguments.grace),
        scale_limits: arguments.scale_limits,
    };
    let listening = serve(options).map_err(|error| {
        if error.is_bad_input() { Failed::BadInput(error.into()) } else { Failed::Broken(error.into()) }
    })?;
    tell_ready(listening.address(), &simulated, &keys, arguments)
        .map_err(|error| Failed::Broken(error.into()))?;
    let stop = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    // The gateway waits for requests under way, so it must not hold up those who run them.
    let stop = async {
        stop.await;
        let stopped = tokio::task::spawn_blocking(|| listening.stop());
        // It ends by itself; there is nothing to do about one that did not.
        let _ = stopped.await;
    };
    match simulated {
        Simulated::No => stop.await,
        // The simulated model outlives the gateway: requests under way need it to finish.
        Simulated::Yes(server, _) => server.run(stop, MODEL_GRACE).await,
    }
    Ok(())
}

enum Simulated {
    No,
    Yes(Box<ModelServer>, SocketAddr),
}

async fn targets(arguments: &ServeArguments) -> Result<(Simulated, Vec<TargetAddress>), Failed> {
    if let (Some(strong), Some(fast)) = (&arguments.strong, &arguments.fast) {
        let targets = [("strong", strong), ("fast", fast)].map(|(name, place)| place_of(name, place));
        let targets = targets.into_iter().collect::<anyhow::Result<_>>().map_err(Failed::BadInput)?;
        return Ok((Simulated::No, targets));
    }
    let engine = Engine::new(ModelOptions { seed: 1, faults: Vec::new(), pace: Pace::Real });
    let engine = engine.map_err(|error| Failed::Broken(error.into()))?;
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = ModelServer::bind(engine, free).await.context("cannot listen for the simulated model");
    let server = server.map_err(Failed::Broken)?;
    let address = server.address().map_err(|error| Failed::Broken(error.into()))?;
    let url = format!("http://{address}");
    let targets = vec![target("strong", "sonnet", &url), target("fast", "haiku", &url)];
    Ok((Simulated::Yes(Box::new(server), address), targets))
}

fn place_of(name: &str, place: &str) -> anyhow::Result<TargetAddress> {
    let (model, url) = place.split_once('@').ok_or_else(|| anyhow!("--{name} {place}: must be MODEL@URL"))?;
    if model.is_empty() {
        bail!("--{name} {place}: names no model");
    }
    Ok(target(name, model, url))
}

fn target(name: &str, model: &str, url: &str) -> TargetAddress {
    let (price, breaker) = if name == "strong" {
        (Price::per_million(Money::from_dollars(3), Money::from_dollars(15)), BreakerProfile::Sonnet)
    } else {
        let (input, output) = (Money::from_nanos(250_000_000), Money::from_nanos(1_250_000_000));
        (Price::per_million(input, output), BreakerProfile::Haiku)
    };
    let api_key = std::env::var("ANTHROPIC_API_KEY").unwrap_or_else(|_| "simulated".to_owned());
    TargetAddress {
        name: name.to_owned(),
        model: model.to_owned(),
        url: url.to_owned(),
        api_key,
        price,
        breaker,
    }
}

fn keys(given: &[String]) -> anyhow::Result<Vec<(Tier, String)>> {
    if given.is_empty() {
        let runtime = TokioRuntime::new();
        let half = || runtime.draw().below(u64::MAX);
        return Ok(vec![(Tier::Prime, format!("sk-demo-{:016x}{:016x}", half(), half()))]);
    }
    let read = |text: &String| {
        let (tier, key) = text.split_once('=').context("--key must be TIER=KEY")?;
        let tier = Tier::ALL.into_iter().find(|known| known.name() == tier);
        Ok((tier.context("--key: the tier must be prime, standard or guest")?, key.to_owned()))
    };
    given.iter().map(read).collect()
}

fn tell_ready(
    address: SocketAddr,
    simulated: &Simulated,
    keys: &[(Tier, String)],
    arguments: &ServeArguments,
) -> io::Result<()> {
    let url = format!("http://{address}");
    let model = match simulated {
        Simulated::No => None,
        Simulated::Yes(_, address) => Some(format!("http://{address}")),
    };
    // A key that was given is known to who gave it, and shown to nobody else.
    let made_up = arguments.keys.is_empty().then(|| keys[0].1.as_str());
    let mut out = io::stdout().lock();
    if arguments.json {
        let line = serde_json::json!({
            "ready": true, "url": url, "model": arguments.alias, "simulated_model": model, "key": made_up,
        });
        writeln!(out, "{line}")?;
    } else {
        writeln!(out, "seawall ready:   {url}/v1/messages (model: {})", arguments.alias)?;
        writeln!(out, "health, metrics: {url}/livez, {url}/readyz, {url}/metrics")?;
        if let Some(model) = model {
            writeln!(out, "simulated model: {model}, bill: {model}/admin/bill")?;
        }
        if let Some(key) = made_up {
            writeln!(out, "key:             {key}")?;
        }
    }
    out.flush()
}
