//! Seawall as the demonstration runs it: in this process, with the `demo` profile, a small budget and a temporary state
//! directory.
//!
//! Only this module starts, stops and reads a gateway.

use crate::DemoError;
use crate::demo_gateway::{DemoGateway, LedgerBalance, ReportedCalls};
use crate::traffic::{CUSTOMERS, DemoClient};
use seawall_config::{Settings, SettingsInput, load};
use seawall_gateway::{RunningGateway, ServeOptions, Supervisor, TokioRuntime, serve};
use seawall_model::engine::Profile;
use seawall_pipeline::{Runtime as _, Tier};
use seawall_testkit::client::get;
use seawall_testkit::{ReservedPort, parse_billionths};
use serde_json::Value;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The route that callers name.
pub(crate) const ROUTE: &str = "manga";
/// Drain timeout.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// A gateway on a port.
pub(crate) struct Seawall {
    settings: Settings,
    listening: Option<RunningGateway>,
    directory: StateDirectory,
    port: ReservedPort,
}

impl Seawall {
    /// Listens in front of `models`, with a daily budget of `cents`.
    pub(crate) async fn start(
        models: SocketAddr,
        cents: u64,
        duration: Duration,
        runtime: TokioRuntime,
    ) -> Result<Self, DemoError> {
        let (directory, port) = (
            StateDirectory::new(runtime).map_err(DemoError::StateDirectory)?,
            ReservedPort::reserve().map_err(DemoError::Listen)?,
        );
        let text = settings((port.address, models), &directory.0, cents, duration);
        let loaded =
            load(&SettingsInput::from_file("the demonstration's settings", &text, runtime.now().utc));
        let settings = loaded.map_err(|problems| DemoError::Settings(problems.to_string()))?.settings;
        let mut seawall = Self { settings, listening: None, directory, port };
        seawall.restart().await?;
        Ok(seawall)
    }
}

impl DemoGateway for Seawall {
    fn address(&self) -> SocketAddr {
        self.port.address
    }

    async fn stop(&mut self) -> Result<(), DemoError> {
        let Some(listening) = self.listening.take() else { return Ok(()) };
        // It waits for requests in flight, which need this thread.
        let stopped = tokio::task::spawn_blocking(|| listening.shut_down()).await;
        stopped.map_err(|error| DemoError::Listen(io::Error::other(error)))
    }

    async fn restart(&mut self) -> Result<(), DemoError> {
        let customers = (0..CUSTOMERS).map(|number| (Tier::Prime, DemoClient::Customer(number).key()));
        let keys = customers.chain([(Tier::Standard, DemoClient::Abusive.key())]).collect();
        let options = ServeOptions {
            settings: std::sync::Arc::new(self.settings.clone()),
            simulated: None,
            keys,
            supervisor: Supervisor::default(),
            diagnostics: None,
        };
        let started = tokio::task::spawn_blocking(|| serve(options)).await;
        let started = started.map_err(|error| DemoError::Listen(io::Error::other(error)))?;
        self.listening = Some(started.map_err(|error| DemoError::Gateway(Box::new(error)))?);
        Ok(())
    }

    async fn ledger_balance(&self) -> Result<LedgerBalance, DemoError> {
        let stopped = || DemoError::Ledger(io::Error::other("the gateway is stopped"));
        let admin = self.listening.as_ref().ok_or_else(stopped)?.admin_address();
        let metrics = get(admin, "/metrics").await.map_err(DemoError::Ledger)?;
        let metrics = String::from_utf8_lossy(&metrics);
        let read = |name: &str| {
            // One line for each tier.
            let lines = metrics.lines().filter(|line| line.starts_with(&format!("{name}{{")));
            let values: Option<Vec<u64>> =
                lines.map(|line| parse_billionths(line.rsplit_once(' ')?.1)).collect();
            let missing = || DemoError::Ledger(io::Error::other(format!("{name} is missing")));
            values.filter(|values| !values.is_empty()).map(|values| values.iter().sum()).ok_or_else(missing)
        };
        Ok(LedgerBalance {
            posted: read("seawall_budget_posted_usd")?,
            held: read("seawall_budget_held_usd")?,
        })
    }

    fn reported_calls(&self) -> Result<ReportedCalls, DemoError> {
        let lines = fs::read_to_string(self.directory.log()).map_err(DemoError::Ledger)?;
        reported_calls_in(&lines).map_err(|error| DemoError::Ledger(error.into()))
    }
}

/// The amount posted for answered requests by the usage that the model reported, from the access log.
///
/// A request with one attempt has cost exactly that. A request with several may also have paid for an attempt that was
/// cut off, whose usage is unknown; there the usage of the last attempt is priced.
fn reported_calls_in(lines: &str) -> Result<ReportedCalls, serde_json::Error> {
    let mut reported = ReportedCalls::default();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line)?;
        // A degraded answer is complete, and is billed like any other.
        if line["outcome"] != "answered" && line["outcome"] != "degraded" {
            continue;
        }
        let number = |key: &str| line[key].as_u64().unwrap_or_default();
        let price = match line["target"].as_str().and_then(Profile::named) {
            Some(model) if number("attempts") > 1 => {
                let tokens = |kind: &str| line["tokens"][kind].as_u64().unwrap_or_default();
                let input = tokens("input").saturating_mul(model.input_price);
                input.saturating_add(tokens("output").saturating_mul(model.output_price))
            }
            _ => number("cost_nanos"),
        };
        reported.calls = reported.calls.saturating_add(1);
        reported.nano_dollars = reported.nano_dollars.saturating_add(price);
    }
    Ok(reported)
}

/// Differences from the `demo` profile: timeouts for callers that wait ten seconds, breakers that probe again within
/// the demonstration, and a budget for customers but not for a flood.
fn settings(
    (listen, models): (SocketAddr, SocketAddr),
    directory: &Path,
    cents: u64,
    duration: Duration,
) -> String {
    let text = |path: PathBuf| Value::from(path.to_string_lossy()).to_string();
    let key = Value::from(format!("file:{}", key_in(directory).display())).to_string();
    let dollars = |cents: u64| format!("${}.{:02}/day", cents / 100, cents % 100);
    let open_for = (duration / 15).max(Duration::from_secs(1)).as_millis();
    format!(
        r#"
        profile = "demo"
        server = {{ listen = "{listen}", cores = 1, drain_delay = "0s", drain_timeout = "{drain}s" }}
        admin.listen = "127.0.0.1:0"
        store.data_dir = {state}
        telemetry.access_log = {log}
        targets.sonnet = {{ provider = "anthropic", base_url = "http://{models}", api_key = {key} }}
        targets.haiku = {{ provider = "anthropic", base_url = "http://{models}", api_key = {key} }}
        routes.{ROUTE}.start_timeout = "2s"
        deadlines = {{ api = "10s", attempt = "5s", connect = "2s", stream_idle = "5s" }}
        breakers.sonnet.open_for = "{open_for}ms"
        breakers.haiku.open_for = "{open_for}ms"

        [budget]
        day = "{day}"
        caller_day = "{caller_day}"
        shares = {{ prime = "80%", standard = "15%", guest = "5%" }}
        "#,
        drain = DRAIN_TIMEOUT.as_secs(),
        state = text(directory.join("state")),
        log = text(log_in(directory)),
        day = dollars(cents),
        caller_day = dollars(cents / 5),
    )
}

fn log_in(directory: &Path) -> PathBuf {
    directory.join("access.log")
}

/// A directory that is removed when this is dropped.
struct StateDirectory(PathBuf);

impl StateDirectory {
    fn new(runtime: TokioRuntime) -> io::Result<Self> {
        let name = format!("seawall-demo-{}-{:016x}", std::process::id(), runtime.draw().bits());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path)?;
        // The models require a key, as real ones do; these accept any.
        fs::write(key_in(&path), "any-key-will-do")?;
        Ok(Self(path))
    }

    fn log(&self) -> PathBuf {
        log_in(&self.0)
    }
}

fn key_in(directory: &Path) -> PathBuf {
    directory.join("model-key")
}

impl Drop for StateDirectory {
    fn drop(&mut self) {
        // A directory that cannot be removed is left to the system's cleanup of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::{StateDirectory, reported_calls_in, settings};
    use crate::demo_gateway::ReportedCalls;
    use seawall_config::{SettingsInput, load};
    use seawall_core::money::Money;
    use seawall_core::time::UtcTime;
    use seawall_gateway::TokioRuntime;
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn the_settings_of_every_length_are_valid() {
        for (seconds, cents, open_for) in [(10, 20, 1_000), (60, 75, 4_000), (1_200, 1_210, 80_000)] {
            let address = "127.0.0.1:7700".parse().unwrap();
            let text = settings(
                (address, address),
                Path::new("/tmp/a 'directory'"),
                cents,
                Duration::from_secs(seconds),
            );
            let loaded = load(&SettingsInput::from_file("demo", &text, UtcTime::from_civil(2026, 11, 16)));
            let settings = loaded.map_err(|problems| problems.to_string()).unwrap().settings;
            assert_eq!(settings.server.drain_timeout, Duration::from_secs(5));
            assert_eq!(settings.store.data_dir, "/tmp/a 'directory'/state");
            assert!(text.contains(&format!("{}", Money::from_nanos(cents * 10_000_000))), "{text}");
            assert!(text.contains(&format!("\"{open_for}ms\"")), "{text}");
        }
    }

    #[test]
    fn reported_is_what_was_posted_for_one_attempt_and_the_price_of_the_last_of_several() {
        let lines = r#"{"outcome":"answered","target":"haiku","attempts":1,"tokens":{"input":9,"output":9},"cost_nanos":7}
{"outcome":"answered","target":"sonnet","attempts":2,"tokens":{"input":10,"output":2},"cost_nanos":999999}
{"outcome":"interrupted","target":"sonnet","attempts":1,"tokens":{"input":10,"output":2},"cost_nanos":5}
{"outcome":"rejected","reason":"rate_limited","attempts":0,"tokens":{"input":0,"output":0},"cost_nanos":0}
"#;
        assert_eq!(
            reported_calls_in(lines).unwrap(),
            ReportedCalls { calls: 2, nano_dollars: 7 + 10 * 3_000 + 2 * 15_000 }
        );
        assert!(reported_calls_in("{no").is_err());
    }

    #[test]
    fn a_data_directory_is_removed_on_drop() {
        let directory = StateDirectory::new(TokioRuntime::new()).unwrap();
        let path = directory.0.clone();
        std::fs::write(directory.log(), "x").unwrap();
        assert!(path.is_dir());
        drop(directory);
        assert!(!path.exists());
    }
}
