//! A minute of outages for a shop, through Seawall and through a plain reverse proxy, side by side.
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
//! | `timetable` | the schedule of outages |
//! | `traffic` | the schedule of requests |
//! | `judge` | classifies responses |
//! | `caller`, `client` | sends requests |
//! | `front`, `seawall` | the gateway under demonstration |
//! | `plain` | the plain reverse proxy to compare with |
//! | `models` | the models behind both |
//! | `score`, `promise`, `report` | the results |
//! | `show` | the progress display |
//! | `play` | runs the demonstration |

mod caller;
pub mod client;
mod front;
pub mod judge;
mod models;
mod plain;
mod play;
pub mod port;
mod promise;
mod report;
mod score;
mod seawall;
mod show;
#[cfg(test)]
mod tests;
mod timetable;
mod traffic;

pub use caller::has_hint;
pub use front::{Books, Told};
pub use promise::{Ledger, Promise};
pub use report::{FirstText, OutageReport, Report, SideReport};
pub use score::Counts;
pub use show::Show;
pub use timetable::Outage;

use models::Models;
use plain::{Plain, SILENCE, Waits};
use play::{Stage, play};
use seawall::{DRAIN, Seawall};
use seawall_core::money::Money;
use seawall_core::setting::SettingError;
use seawall_core::time::UtcTime;
use seawall_gateway::{ServeError, TokioRuntime};
use seawall_pipeline::{Runtime as _, Timer as _};
use std::io;
use std::time::Duration;
use timetable::Timetable;

const NANOS_PER_CENT: u64 = 10_000_000;
/// Additional time that a demonstration may take after the last request is sent.
const LAST_ANSWERS: Duration = Duration::from_secs(30);

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
        Err(SettingError::new("seconds", format!("{seconds} is not between 10 and 1200")))
    }
}

impl DemoSettings {
    fn whole(&self) -> Duration {
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
    #[error("the settings are refused: {0}")]
    Settings(String),
    /// Seawall does not start.
    #[error("Seawall does not start: {0}")]
    Gateway(Box<ServeError>),
    /// The state directory cannot be created.
    #[error("cannot make a folder for the state: {0}")]
    Folder(io::Error),
    /// A port cannot be bound, or a listener has failed.
    #[error("cannot listen: {0}")]
    Listen(io::Error),
    /// Seawall's ledger cannot be read.
    #[error("cannot read the books: {0}")]
    Books(io::Error),
    /// The models' bill cannot be read.
    #[error("cannot read the models' bill: {0}")]
    Bill(io::Error),
}

/// Runs the demonstration. Needs a multi-threaded runtime. Cancelling it leaves no directory behind.
pub async fn run(settings: &DemoSettings, show: Show) -> Result<Report, DemoError> {
    let runtime = TokioRuntime::new();
    let wait = until_one_day_holds_it(runtime.now().utc, settings.whole() + LAST_ANSWERS);
    if !wait.is_zero() {
        let screen = show::Screen::new(show, Timetable { whole: settings.whole() });
        screen.say(&format!(
            "Waiting {} s for midnight (UTC): the books of one day are to hold it all.",
            wait.as_secs()
        ));
        runtime.sleep_until(runtime.monotonic() + wait).await;
        screen.close();
    }
    let timetable = Timetable { whole: settings.whole() };
    let front_models = Models::start(timetable, settings.seed).await?;
    let zero = runtime.monotonic();
    let plain_models = Models::start(timetable, settings.seed).await?;
    let waits = Waits { silence: SILENCE, drain: DRAIN };
    let plain = Plain::start(plain_models.address, runtime, waits).map_err(DemoError::Listen)?;
    let front = Seawall::start(front_models.address, settings.cents(), timetable.whole, runtime).await?;
    play(Stage { runtime, timetable, zero, front, front_models, plain, plain_models }, settings, show).await
}

/// How long to wait so that the run does not cross midnight: each day has a ledger of its own.
#[must_use]
pub fn until_one_day_holds_it(now: UtcTime, takes: Duration) -> Duration {
    let left = UtcTime::start_of_day(now.day().saturating_add(1)).since(now);
    if left > takes { Duration::ZERO } else { left + Duration::from_secs(1) }
}
