//! A minute of outages for a chat application, through Seawall and through a plain reverse proxy, side by side.
//!
//! Both receive the same requests at the same times, and both stand in front of models that fail alike: they throttle,
//! go down and cut streams by one schedule. In between both are restarted, and an abusive client floods. A strict
//! client judges every answer, and the report states what Seawall promises and whether it held.
//!
//! It runs on demand, in one process, on free ports of the loopback address, and leaves nothing behind. It does not
//! measure performance, and it says nothing about real models.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `schedule` | the schedule of outages |
//! | `traffic` | the schedule of requests |
//! | `validator` | classifies responses |
//! | `caller`, `client` | sends requests |
//! | `demo_gateway`, `seawall` | the gateway under demonstration |
//! | `plain_proxy` | the plain reverse proxy to compare with |
//! | `models` | the models behind both |
//! | `score`, `promise`, `report` | the results |
//! | `progress` | the progress display |
//! | `demo_run` | runs the demonstration |

mod caller;
mod demo_gateway;
mod demo_run;
mod models;
mod picture;
mod plain_proxy;
mod progress;
mod promise;
mod report;
mod schedule;
mod score;
mod seawall;
#[cfg(test)]
mod tests;
mod traffic;

pub use demo_gateway::{LedgerBalance, ReportedCalls};
pub use progress::ProgressMode;
pub use promise::{LedgerComparison, Promise};
pub use report::{DemoReport, LatencyPercentiles, OutageReport, SideReport};
pub use schedule::Outage;
pub use score::OutcomeCounts;

use demo_run::{DemoSetup, run_demo};
use models::ModelServers;
use plain_proxy::{PlainProxy, ProxyTimeouts, UPSTREAM_IDLE_TIMEOUT};
use schedule::OutageSchedule;
use seawall::{DRAIN_TIMEOUT, Seawall};
use seawall_core::money::Money;
use seawall_core::setting::SettingError;
use seawall_core::time::UtcTime;
use seawall_gateway::{ServeError, TokioRuntime};
use seawall_pipeline::{Runtime as _, Timer as _};
use std::io;
use std::time::Duration;

const NANOS_PER_CENT: u64 = 10_000_000;
/// Additional time that a demonstration may take after the last request is sent.
const FINISH_ALLOWANCE: Duration = Duration::from_secs(30);

/// Options of a demonstration, not yet validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemoOptions {
    /// How long requests are sent: from 10 to 1200 seconds. Outages take a fixed share of it.
    pub seconds: u64,
    /// The seed of requests, their times and faults.
    pub seed: u64,
}

/// Validated options.
#[derive(Clone, Copy, Debug)]
pub struct DemoSettings {
    seconds: u64,
    seed: u64,
}

impl DemoOptions {
    /// Validates the options.
    pub fn check(self) -> Result<DemoSettings, SettingError> {
        let Self { seconds, seed } = self;
        if (10..=1_200).contains(&seconds) {
            return Ok(DemoSettings { seconds, seed });
        }
        Err(SettingError::new("seconds", format!("{seconds} must be between 10 and 1200")))
    }
}

impl DemoSettings {
    fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// The daily budget: what customers need if all goes well, with some to spare, and less than a flood would cost.
    const fn cents(&self) -> u64 {
        10 + self.seconds
    }

    const fn cap(&self) -> Money {
        Money::from_nanos(self.cents() * NANOS_PER_CENT)
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// A schedule is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Seawall refuses its settings.
    #[error("invalid settings: {0}")]
    Settings(String),
    /// Seawall does not start.
    #[error("cannot start Seawall: {0}")]
    Gateway(Box<ServeError>),
    /// The data directory cannot be created.
    #[error("cannot create the data directory: {0}")]
    StateDirectory(io::Error),
    /// A port cannot be bound, or a listener has failed.
    #[error("cannot listen: {0}")]
    Listen(io::Error),
    /// Seawall's ledger cannot be read.
    #[error("cannot read the ledger: {0}")]
    Ledger(io::Error),
    /// The models' bill cannot be read.
    #[error("cannot read the models' bill: {0}")]
    Bill(io::Error),
}

/// Runs the demonstration. Needs a multi-threaded runtime. Cancelling it leaves no directory behind.
pub async fn run(settings: &DemoSettings, mode: ProgressMode) -> Result<DemoReport, DemoError> {
    let runtime = TokioRuntime::new();
    let wait = wait_past_midnight(runtime.now().utc, settings.duration() + FINISH_ALLOWANCE);
    if !wait.is_zero() {
        let display = progress::DemoProgress::new(mode, OutageSchedule { duration: settings.duration() });
        display.print_line(&format!(
            "Waiting {} s until midnight (UTC), because the run must not span two daily ledgers.",
            wait.as_secs()
        ));
        runtime.sleep_until(runtime.monotonic() + wait).await;
        display.clear();
    }
    let schedule = OutageSchedule { duration: settings.duration() };
    let front_models = ModelServers::start(schedule, settings.seed).await?;
    let started_at = runtime.monotonic();
    let plain_models = ModelServers::start(schedule, settings.seed).await?;
    let timeouts = ProxyTimeouts { idle_timeout: UPSTREAM_IDLE_TIMEOUT, drain: DRAIN_TIMEOUT };
    let plain = PlainProxy::start(plain_models.address, runtime, timeouts).map_err(DemoError::Listen)?;
    let front = Seawall::start(front_models.address, settings.cents(), schedule.duration, runtime).await?;
    run_demo(
        DemoSetup { runtime, schedule, started_at, front, front_models, plain, plain_models },
        settings,
        mode,
    )
    .await
}

/// How long to wait so that the run does not cross midnight: each day has a ledger of its own.
#[must_use]
pub fn wait_past_midnight(now: UtcTime, takes: Duration) -> Duration {
    let left = UtcTime::start_of_day(now.day().saturating_add(1)).since(now);
    if left > takes { Duration::ZERO } else { left + Duration::from_secs(1) }
}
