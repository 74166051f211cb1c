//! `seawall serve`.

use crate::reload::Reload;
use crate::settings::{Origins, Overrides, colours};
use crate::{Failed, counted, signals};
use anyhow::Context as _;
use clap::Args;
use seawall_config::{Loaded, Provider, Settings, StoreKind, Written, shown_span, unfollowed};
use seawall_core::evaluator::{Protection, Switch};
use seawall_core::money::Money;
use seawall_core::vocabulary::Mode;
use seawall_gateway::identity::issue::random_key;
use seawall_gateway::{Kept, Listening, ServeOptions, SimulatedModel, TokioRuntime, serve};
use seawall_model::engine::{Engine, ModelOptions, Pace};
use seawall_model::server::ModelServer;
use seawall_model::shared::SharedModel;
use seawall_pipeline::{Tier, Timer};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind};

/// How long the simulated model may take to finish after the gateway has ended.
const MODEL_GRACE: Duration = Duration::from_secs(1);
/// How often the settings file is checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(crate) struct ServeArguments {
    /// The file with the settings; without it the demo profile holds.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// The folder where state is kept, in place of store.folder.
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<String>,
    /// Where to listen, in place of server.listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Where operators ask, in place of admin.listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,
    /// Prints the line that says it is ready as JSON.
    #[arg(long)]
    json: bool,
}

/// The signals to shut down and to reload.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

pub(crate) fn run(arguments: &ServeArguments) -> Result<(), Failed> {
    let mut origins = Origins::new(arguments.config.as_deref(), &arguments.overrides);
    if let Some(address) = arguments.listen {
        origins.set("server.listen", address.to_string());
    }
    if let Some(address) = arguments.admin_listen {
        origins.set("admin.listen", address.to_string());
    }
    if let Some(folder) = &arguments.data_dir {
        origins.set("store.folder", folder.clone());
    }
    let Loaded { settings, warnings, written } = origins.load_or_fail()?;
    if !warnings.is_empty() {
        eprint!("{}", warnings.render(colours()));
    }
    drop(warnings);
    eprint!("{}", not_followed(&written));
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let tokio = tokio.context("cannot start a runtime").map_err(Failed::Broken)?;
    let written = Arc::new(written);
    let reload = Reload::new(origins, Arc::clone(&written));
    tokio.block_on(start(arguments, reload, Arc::new(settings), &written))
}

async fn start(
    arguments: &ServeArguments,
    reload: Reload,
    settings: Arc<Settings>,
    written: &Arc<Written>,
) -> Result<(), Failed> {
    // Before the address is printed, so that a signal right after it does not kill the process.
    let signals = Signals {
        interrupt: signals(SignalKind::interrupt()).map_err(Failed::Broken)?,
        terminate: signals(SignalKind::terminate()).map_err(Failed::Broken)?,
        hangup: signals(SignalKind::hangup()).map_err(Failed::Broken)?,
    };
    let runtime = TokioRuntime::new();
    let model = simulated_model(&settings, &runtime)?;
    // The model's own server is for reading its bill, setting its faults, or calling it directly.
    let server = match &model {
        Some(model) => Some(model_server(model.clone()).await?),
        None => None,
    };
    let address = server.as_ref().map(|(_, address)| *address);
    let made_up = made_up_key(&settings)?;
    let keys = made_up.iter().map(|key| (Tier::Prime, key.clone())).collect();
    let options = ServeOptions { settings: Arc::clone(&settings), simulated: model, keys, diagnostics: true };
    let listening = serve(options).map_err(|error| {
        if error.is_bad_input() { Failed::BadInput(error.into()) } else { Failed::Broken(error.into()) }
    })?;
    listening.show(written);
    let origin = match (&arguments.config, arguments.overrides.profile()) {
        (Some(file), _) => format!("file {}", file.display()),
        (None, Some(profile)) => format!("profile {profile}, no file"),
        (None, None) => "profile demo, no file".to_owned(),
    };
    let ready = Ready { listening: &listening, simulated: address, made_up, settings: &settings, origin };
    ready.tell(arguments.json).map_err(|error| Failed::Broken(error.into()))?;
    // The gateway has its own copy now.
    drop(settings);
    let until_stopped = tend(listening, reload, signals, runtime);
    match server {
        None => until_stopped.await,
        // It outlives the gateway, so that its bill can be read to the end.
        Some((server, _)) => server.run(until_stopped, MODEL_GRACE).await,
    }
    Ok(())
}

/// Reloads settings until a shutdown signal, and then shuts down.
async fn tend(listening: Listening, mut reload: Reload, mut signals: Signals, runtime: TokioRuntime) {
    let signal = loop {
        tokio::select! {
            biased;
            _ = signals.interrupt.recv() => break "SIGINT",
            _ = signals.terminate.recv() => break "SIGTERM",
            _ = signals.hangup.recv() => reload.now(&listening),
            () = runtime.sleep_until(runtime.monotonic() + LOOK_EVERY) => reload.look(&listening),
        }
    };
    let (drain_timeout, began) = (listening.drain_timeout(), runtime.monotonic());
    eprintln!("seawall: {signal} received: draining, for at most {}", shown_span(drain_timeout));
    // This waits for requests in flight, so it must not block the threads that run them.
    let mut stopped = tokio::task::spawn_blocking(|| listening.stop());
    tokio::select! {
        biased;
        // It ends by itself; nothing can be done about one that did not.
        _ = &mut stopped => {
            let took = Duration::from_millis((runtime.monotonic() - began).as_millis().try_into().unwrap_or(u64::MAX));
            eprintln!("seawall: drained in {}", shown_span(took));
            return;
        }
        _ = signals.interrupt.recv() => {}
        _ = signals.terminate.recv() => {}
    }
    // A second signal ends the process at once. Calls in flight are charged at their worst case at the next start.
    eprintln!("seawall: told to stop again: ending at once");
    end_at_once()
}

#[expect(clippy::disallowed_methods, reason = "who says it twice does not want anything to be settled first")]
fn end_at_once() -> ! {
    std::process::exit(1)
}

/// A warning about settings without effect, so that operators do not rely on them.
fn not_followed(written: &Written) -> String {
    let keys: Vec<String> = unfollowed(written).into_iter().map(|change| change.key).collect();
    if keys.is_empty() { String::new() } else { format!("seawall: not followed yet: {}\n", keys.join(", ")) }
}

/// A simulated model in this process, if a target needs one.
pub(crate) fn simulated_model(
    settings: &Settings,
    runtime: &TokioRuntime,
) -> Result<Option<SimulatedModel>, Failed> {
    if settings.targets.values().all(|target| target.provider != Provider::Simulated) {
        return Ok(None);
    }
    let engine = Engine::new(ModelOptions { seed: 1, faults: Vec::new(), pace: Pace::Real });
    let engine = engine.map_err(|error| Failed::Broken(error.into()))?;
    Ok(Some(SimulatedModel::new(engine, runtime.timer())))
}

/// The model's own server, on a free loopback port.
async fn model_server<T: Timer>(model: SharedModel<T>) -> Result<(Box<ModelServer<T>>, SocketAddr), Failed> {
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = ModelServer::bind_shared(model, free).await.context("cannot listen for the simulated model");
    let server = server.map_err(Failed::Broken)?;
    let address = server.address().map_err(|error| Failed::Broken(error.into()))?;
    Ok((Box::new(server), address))
}

/// A key for this run if none is configured and every model is simulated, so that no real money is at stake.
pub(crate) fn made_up_key(settings: &Settings) -> Result<Option<String>, Failed> {
    let is_play = settings.targets.values().all(|target| target.provider == Provider::Simulated);
    if !is_play || !settings.callers.keys.is_empty() {
        return Ok(None);
    }
    random_key().map(Some).map_err(|error| Failed::Broken(error.into()))
}

/// The output when the gateway is ready.
struct Ready<'a> {
    listening: &'a Listening,
    simulated: Option<SocketAddr>,
    made_up: Option<String>,
    settings: &'a Settings,
    /// The source of the settings.
    origin: String,
}

impl Ready<'_> {
    /// Where state is stored, and what recovery found there.
    fn state(&self) -> String {
        let Kept::Folder { path, report } = self.listening.kept() else { return "memory".to_owned() };
        let mut text = format!("folder {}", path.display());
        if !report.charged.is_empty() {
            let worst: Money =
                report.charged.iter().fold(Money::ZERO, |sum, call| sum.saturating_add(call.cost));
            let calls = counted(report.charged.len(), "call");
            text += &format!("; {calls} cut off by the last end, charged at the worst ({worst})");
        }
        if let Some((file, bytes)) = &report.cut {
            text += &format!("; {bytes} bytes of a write that never ended were cut from {}", file.display());
        }
        if report.is_open_to_others {
            text += &format!("; other users may look into it: chmod 700 {}", path.display());
        }
        text
    }

    /// Protections that are off, so that operators do not rely on them.
    fn off(&self) -> Vec<String> {
        let settings = self.settings;
        let mut off = Vec::new();
        let mut note = |is_off: bool, what: &str| {
            if is_off {
                off.push(what.to_owned());
            }
        };
        note(settings.server.tls.is_none(), "TLS");
        note(settings.store.kind != StoreKind::Redis, "sharing limits through Redis");
        note(settings.budget.per_node, "one budget for all nodes");
        note(settings.admin.credential.is_none(), "a credential for operators");
        note(!settings.callers.guests, "guests");
        note(!settings.retry.hedge.enabled, "hedging");
        for protection in Protection::ALL {
            let mode = settings.protections.mode(protection);
            note(mode != Mode::Enforce, &format!("{} ({mode})", protection.name()));
        }
        note(!settings.protections.is_on(Switch::ModelInvocation), "all models");
        off
    }

    /// A warning if any host on the network is served without a credential.
    fn open_to_guests(&self) -> Option<String> {
        let address = self.listening.address();
        let is_open = self.settings.callers.guests && !address.ip().to_canonical().is_loopback();
        is_open.then(|| {
            format!("on: whoever can reach {address} is served without a credential (callers.guests)")
        })
    }

    /// Commands to paste into a shell: the chat without a key, and two vendors' libraries with one.
    fn tell_how(&self, out: &mut impl Write, url: &str, key: &str) -> io::Result<()> {
        let Some(model) = self.settings.routes.keys().next() else { return Ok(()) };
        let ask = r#"messages=[{"role":"user","content":"おすすめの漫画は？"}]"#;
        writeln!(out, "try:")?;
        writeln!(out, "  curl {url}/chat -d '{{\"message\":\"おすすめの漫画は？\"}}'")?;
        writeln!(
            out,
            "  python3 -c 'import anthropic; print(anthropic.Anthropic(base_url=\"{url}\", api_key=\"{key}\")\
             .messages.create(model=\"{model}\", max_tokens=200, {ask}).content[0].text)'"
        )?;
        writeln!(
            out,
            "  python3 -c 'import openai; print(openai.OpenAI(base_url=\"{url}/v1\", api_key=\"{key}\")\
             .chat.completions.create(model=\"{model}\", {ask}).choices[0].message.content)'"
        )
    }

    fn tell(&self, json: bool) -> io::Result<()> {
        let scheme = if self.settings.server.tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", self.listening.address());
        let admin = format!("http://{}", self.listening.admin_address());
        let model = self.simulated.map(|address| format!("http://{address}"));
        let routes: Vec<&str> = self.settings.routes.keys().map(String::as_str).collect();
        let mut out = io::stdout().lock();
        if json {
            let line = serde_json::json!({
                "ready": true, "url": url, "admin": admin, "models": routes, "simulated_model": model, "key": self.made_up,
                "state": self.state(), "settings": self.origin, "off": self.off(), "guests": self.open_to_guests(),
            });
            writeln!(out, "{line}")?;
        } else {
            let faces = "Anthropic, OpenAI, Bedrock, /chat";
            writeln!(out, "seawall ready:   {url} ({faces}; models: {})", routes.join(", "))?;
            writeln!(out, "health:          {url}/livez, {url}/readyz; {url}/openapi.json")?;
            writeln!(out, "for operators:   {admin}/admin/status, {admin}/metrics")?;
            if let Some(model) = model {
                writeln!(out, "simulated model: {model}, bill: {model}/admin/bill")?;
            }
            writeln!(out, "settings:        {}", self.origin)?;
            writeln!(out, "state:           {}", self.state())?;
            writeln!(out, "off:             {}", self.off().join(", "))?;
            if let Some(warning) = self.open_to_guests() {
                writeln!(out, "guests:          {warning}")?;
            }
            if let Some(key) = &self.made_up {
                writeln!(out, "key:             {key} (good for this run)")?;
                self.tell_how(&mut out, &url, key)?;
            }
        }
        out.flush()
    }
}
