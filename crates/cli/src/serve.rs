//! `seawall serve`.

use crate::ready_report::ReadyReport;
use crate::reload::{SettingsReload, report_unimplemented, report_warnings};
use crate::settings::{Overrides, SettingsLoader, use_colours};
use crate::{CommandError, count_of, signals};
use anyhow::Context as _;
use clap::Args;
use seawall_config::{
    DiagnosticFormat, LoadedInput, LoadedSettings, ProblemCode, Provider, Settings, format_duration,
    unimplemented_settings,
};
use seawall_core::money::Money;
use seawall_gateway::identity::key_management::random_key;
use seawall_gateway::{
    Diagnostics, DiagnosticsOptions, RunningGateway, ServeOptions, ShutdownStage, SimulatedModel, Supervisor,
    TokioRuntime, diagnostic, serve,
};
use seawall_model::engine::{Engine, ModelOptions, Pace};
use seawall_model::server::ModelServer;
use seawall_model::shared::SharedModel;
use seawall_pipeline::{Tier, Timer};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind};

/// How long the simulated model may take to finish after the gateway has ended.
const MODEL_GRACE: Duration = Duration::from_secs(1);
/// How often the settings file is checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(crate) struct ServeArguments {
    /// Settings file. Default: seawall.toml in this directory if there is one, otherwise the profile `demo`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// Data directory; overrides store.data_dir.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Listen address; overrides server.listen. Port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Listen address of the admin API; overrides admin.listen. Port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,
    /// Print the ready message as JSON.
    #[arg(long)]
    json: bool,
}

/// The signals to shut down and to reload.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

pub(crate) fn run(arguments: &ServeArguments) -> Result<(), CommandError> {
    let mut loader = SettingsLoader::new(arguments.config.as_deref(), &arguments.overrides);
    if let Some(address) = arguments.listen {
        loader.set("server.listen", address.to_string());
    }
    if let Some(address) = arguments.admin_listen {
        loader.set("admin.listen", address.to_string());
    }
    if let Some(directory) = &arguments.data_dir {
        loader.set("store.data_dir", directory.clone());
    }
    let LoadedSettings { settings, warnings, input } = loader.load_or_fail()?;
    let (runtime, telemetry) = (TokioRuntime::new(), &settings.telemetry);
    let environment =
        ServeEnvironment { runtime, supervisor: Supervisor::new(runtime), origin: loader.origin() };
    let colours = telemetry.diagnostics == DiagnosticFormat::Text && use_colours();
    let options =
        DiagnosticsOptions { format: telemetry.diagnostics, level: telemetry.diagnostics_level, colours };
    let diagnostics = Diagnostics::install(options, runtime, &environment.supervisor);
    let diagnostics = diagnostics.map_err(|error| CommandError::Failed(error.into()))?;
    report_warnings(&warnings.without(ProblemCode::NotImplemented), colours);
    drop(warnings);
    report_unimplemented(unimplemented_settings(&input).into_iter().map(|change| change.key));
    let mut tokio = tokio::runtime::Builder::new_multi_thread();
    let tokio = tokio.worker_threads(1).thread_name("main-worker").enable_all().build();
    let tokio = tokio.context("cannot start a runtime").map_err(CommandError::Failed)?;
    let input = Arc::new(input);
    let reload = SettingsReload::new(loader, Arc::clone(&input), colours);
    let outcome =
        tokio.block_on(start(arguments.json, &environment, diagnostics, reload, Arc::new(settings), &input));
    // The last diagnostics are written before `main` reports a failure.
    environment.supervisor.stop_through(ShutdownStage::Diagnostics, Duration::ZERO);
    outcome
}

/// What `serve` shares with everything that it starts.
struct ServeEnvironment {
    runtime: TokioRuntime,
    supervisor: Supervisor,
    /// The source of the settings.
    origin: String,
}

async fn start(
    json: bool,
    environment: &ServeEnvironment,
    diagnostics: Diagnostics,
    reload: SettingsReload,
    settings: Arc<Settings>,
    input: &Arc<LoadedInput>,
) -> Result<(), CommandError> {
    // Before the address is printed, so that a signal right after it does not kill the process.
    let signals = Signals {
        interrupt: signals(SignalKind::interrupt()).map_err(CommandError::Failed)?,
        terminate: signals(SignalKind::terminate()).map_err(CommandError::Failed)?,
        hangup: signals(SignalKind::hangup()).map_err(CommandError::Failed)?,
    };
    let runtime = environment.runtime;
    let model = simulated_model(&settings, &runtime)?;
    // The model's own server is for reading its bill, setting its faults, or calling it directly.
    let server = match &model {
        Some(model) => Some(model_server(model.clone()).await?),
        None => None,
    };
    let address = server.as_ref().map(|(_, address)| *address);
    let demo_key = generate_demo_key(&settings)?;
    let keys = demo_key.iter().map(|key| (Tier::Prime, key.clone())).collect();
    let options = ServeOptions {
        settings: Arc::clone(&settings),
        simulated: model,
        keys,
        supervisor: environment.supervisor.clone(),
        diagnostics: Some(diagnostics),
    };
    let gateway = serve(options).map_err(|error| {
        if error.is_bad_input() {
            CommandError::InvalidInput(error.into())
        } else {
            CommandError::Failed(error.into())
        }
    })?;
    gateway.publish_settings(input);
    let origin = &environment.origin;
    let ready = ReadyReport { gateway: &gateway, simulated: address, demo_key, settings: &settings, origin };
    ready.print(json).map_err(|error| CommandError::Failed(error.into()))?;
    // The gateway has its own copy now.
    drop(settings);
    let until_stopped = run_until_shutdown(gateway, reload, signals, environment);
    match server {
        None => until_stopped.await,
        // It outlives the gateway, so that its bill can be read to the end.
        Some((server, _)) => server.run(until_stopped, MODEL_GRACE).await,
    }
    Ok(())
}

/// Reloads settings until a shutdown signal, and then shuts down.
async fn run_until_shutdown(
    gateway: RunningGateway,
    mut reload: SettingsReload,
    mut signals: Signals,
    environment: &ServeEnvironment,
) {
    let runtime = environment.runtime;
    let signal = loop {
        tokio::select! {
            biased;
            _ = signals.interrupt.recv() => break "SIGINT",
            _ = signals.terminate.recv() => break "SIGTERM",
            _ = signals.hangup.recv() => hang_up(&gateway, &mut reload),
            () = runtime.sleep_until(runtime.monotonic() + POLL_INTERVAL) => reload.poll(&gateway),
        }
    };
    delay_drain(&gateway, &mut reload, &mut signals, signal, runtime).await;
    // This waits for requests in flight, so it must not block the threads that run them.
    let mut stopped = tokio::task::spawn_blocking(move || gateway.shut_down_after(signal));
    tokio::select! {
        biased;
        // It ends by itself; nothing can be done about one that did not.
        _ = &mut stopped => return,
        _ = signals.interrupt.recv() => {}
        _ = signals.terminate.recv() => {}
    }
    diagnostic!(
        SHUTDOWN_FORCED,
        "another signal received: exiting now; calls in flight are charged at their maximum cost at the next start"
    );
    environment.supervisor.stop(ShutdownStage::Diagnostics, Duration::ZERO);
    exit_now()
}

/// SIGHUP: opens log files again, and reloads settings, secrets and certificates.
fn hang_up(gateway: &RunningGateway, reload: &mut SettingsReload) {
    gateway.reopen_logs();
    reload.reload_now(gateway);
}

/// Reports that the gateway is not ready, and lets it serve requests for `server.drain_delay`: a load balancer needs that
/// time to notice. Another signal skips it.
async fn delay_drain(
    gateway: &RunningGateway,
    reload: &mut SettingsReload,
    signals: &mut Signals,
    signal: &'static str,
    runtime: TokioRuntime,
) {
    gateway.report_not_ready();
    let delay = gateway.drain_delay();
    if delay.is_zero() {
        return;
    }
    diagnostic!(
        DRAIN_DELAY_STARTED,
        signal,
        drain_delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
        "{signal} received: not ready any more, still serving requests for {}",
        format_duration(delay)
    );
    let until = runtime.monotonic() + delay;
    let is_skipped = loop {
        tokio::select! {
            biased;
            _ = signals.interrupt.recv() => break true,
            _ = signals.terminate.recv() => break true,
            _ = signals.hangup.recv() => hang_up(gateway, reload),
            () = runtime.sleep_until(until) => break false,
        }
    };
    let how = if is_skipped { "skipped by another signal" } else { "over" };
    diagnostic!(DRAIN_DELAY_ENDED, is_skipped, "drain delay {how}: closing the listeners");
}

#[expect(clippy::disallowed_methods, reason = "a second signal asks for an immediate exit")]
fn exit_now() -> ! {
    std::process::exit(1)
}

/// The daily budget as text.
pub(crate) fn describe_budget(settings: &Settings) -> String {
    match settings.budget.limits.day_cap(0) {
        Money::MAX => "no daily budget (set budget.day to limit what models may cost)".to_owned(),
        cap => format!("daily budget {cap}"),
    }
}

/// A simulated model in this process, if a target needs one.
pub(crate) fn simulated_model(
    settings: &Settings,
    runtime: &TokioRuntime,
) -> Result<Option<SimulatedModel>, CommandError> {
    if settings.targets.values().all(|target| target.provider != Provider::Simulated) {
        return Ok(None);
    }
    let engine = Engine::new(ModelOptions { seed: 1, faults: Vec::new(), pace: Pace::Real });
    let engine = engine.map_err(|error| CommandError::Failed(error.into()))?;
    Ok(Some(SimulatedModel::new(engine, runtime.timer())))
}

/// The model's own server, on a free loopback port.
async fn model_server<T: Timer>(
    model: SharedModel<T>,
) -> Result<(Box<ModelServer<T>>, SocketAddr), CommandError> {
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = ModelServer::bind_shared(model, any_port)
        .await
        .context("cannot start the server of the simulated model");
    let server = server.map_err(CommandError::Failed)?;
    let address = server.address().map_err(|error| CommandError::Failed(error.into()))?;
    Ok((Box::new(server), address))
}

/// A key for this run if none is configured and every model is simulated, so that no real money is at stake.
pub(crate) fn generate_demo_key(settings: &Settings) -> Result<Option<String>, CommandError> {
    let is_simulated = settings.targets.values().all(|target| target.provider == Provider::Simulated);
    if !is_simulated || !settings.callers.keys.is_empty() {
        return Ok(None);
    }
    random_key().map(Some).map_err(|error| CommandError::Failed(error.into()))
}

/// What recovery did when a data directory was opened: the number and cost of calls that it charged, and the file whose
/// incomplete end it removed, with its length.
pub(crate) fn describe_recovery(
    (calls, max_cost): (usize, Money),
    truncated: Option<&(PathBuf, u64)>,
) -> Vec<String> {
    let mut found = Vec::new();
    if calls > 0 {
        let (calls, verb) = (count_of(calls, "call"), if calls == 1 { "was" } else { "were" });
        found.push(format!(
            "{calls} {verb} in flight when the last process ended; charged at maximum cost ({max_cost})"
        ));
    }
    if let Some((file, bytes)) = truncated {
        found.push(format!("removed {bytes} bytes of an incomplete write from {}", file.display()));
    }
    found
}
