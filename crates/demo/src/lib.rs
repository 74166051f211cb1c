//! A shop's minute of outages, through Seawall and through a plain proxy, side by side.
//!
//! The same questions go to both at the same moments, and both stand in front of models that fail alike: they throttle,
//! die and cut streams by one schedule. In between both are restarted, and one caller floods. Every answer is judged by
//! a strict client, every number is counted, and at the end stands what Seawall promises and whether it held.
//!
//! It runs when somebody asks for it, in one process, on free ports of the loopback address, and leaves nothing behind.
//! It will not measure speed, and it says nothing about real models.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `timetable` | when what goes wrong |
//! | `traffic` | who asks what, and when |
//! | `judge` | what a caller got |
//! | `caller`, `client` | how a caller asks |
//! | `front`, `seawall` | who makes the promises |
//! | `plain` | whom it is compared with |
//! | `models` | the models behind both |
//! | `score`, `promise`, `report` | what it comes to |
//! | `show` | what is seen meanwhile |
//! | `play` | the play itself |

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
/// What a demonstration may take beyond the time in which questions are asked.
const LAST_ANSWERS: Duration = Duration::from_secs(30);

/// How it is to be played; anyone can write this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemoOptions {
    /// How long questions are asked: from 10 to 1200 seconds. Outages take their share of it.
    pub seconds: u64,
    /// What questions, their moments and the lots of faults follow from.
    pub seed: u64,
}

/// Options that make sense.
#[derive(Clone, Copy, Debug)]
pub struct DemoSettings {
    seconds: u64,
    seed: u64,
}

impl DemoOptions {
    /// Refuses what makes no sense.
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

    /// What may be spent: what the shop needs if all goes well, with some to spare, and less than a flood would.
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
    /// A schedule makes no sense.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Seawall refuses its settings.
    #[error("the settings are refused: {0}")]
    Settings(String),
    /// Seawall does not start.
    #[error("Seawall does not start: {0}")]
    Gateway(Box<ServeError>),
    /// There is no folder for its state.
    #[error("cannot make a folder for the state: {0}")]
    Folder(io::Error),
    /// A port cannot be had, or who listened there has failed.
    #[error("cannot listen: {0}")]
    Listen(io::Error),
    /// Seawall's books cannot be read.
    #[error("cannot read the books: {0}")]
    Books(io::Error),
    /// The models' bill cannot be read.
    #[error("cannot read the models' bill: {0}")]
    Bill(io::Error),
}

/// Plays it. Needs a runtime of some threads; dropped in the middle, it leaves no folder behind.
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

/// How long to wait so that no midnight comes in between: what was spent yesterday is in other books.
#[must_use]
pub fn until_one_day_holds_it(now: UtcTime, takes: Duration) -> Duration {
    let left = UtcTime::start_of_day(now.day().saturating_add(1)).since(now);
    if left > takes { Duration::ZERO } else { left + Duration::from_secs(1) }
}
