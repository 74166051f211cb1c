//! Shared code of parent and child.

use seawall_core::budget::BudgetOptions;
use seawall_core::money::Money;
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_store::embedded::EmbeddedOptions;
use seawall_testkit::ChildProcess;
pub(crate) use seawall_testkit::block_on as wait;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

/// The variable with the child's role.
pub(crate) const ROLE: &str = "SEAWALL_CHILD_ROLE";
/// The variable with the child's data directory.
pub(crate) const DATA_DIR: &str = "SEAWALL_CHILD_DATA_DIR";
/// The variable with the number of processes that ran there before.
pub(crate) const ROUND: &str = "SEAWALL_CHILD_ROUND";
/// The prefix of lines that a child itself has written, as opposed to the test harness.
pub(crate) const REPORT_PREFIX: &str = "@ ";

/// The daily cap: little enough to run out.
pub(crate) const CAP: u64 = 400_000;
/// The number of rounds that share a day.
pub(crate) const ROUNDS_A_DAY: u64 = 8;

/// A deterministic pseudo-random generator.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// The time at which a round takes place.
pub(crate) fn time_of_round(round: u64) -> Now {
    let day = UtcTime::from_civil(2026, 11, 15).day() + round / ROUNDS_A_DAY;
    let utc = UtcTime::start_of_day(day) + Duration::from_secs(3_600);
    Now::new(Timestamp::ZERO + Duration::from_secs(100), utc)
}

pub(crate) fn options() -> EmbeddedOptions {
    let day = Money::from_nanos(CAP);
    let limits = BudgetOptions {
        day,
        caller_day: day,
        shares: [0.01, 99.98, 0.01],
        session_input: u64::MAX,
        session_output: u64::MAX,
        ..BudgetOptions::default()
    };
    // So small that checkpoints run all the time.
    EmbeddedOptions { segment_bytes: 20_000, ..EmbeddedOptions::new(limits.check().unwrap()) }
}

/// Starts this program again, in a role.
pub(crate) fn command(role: &str, data_dir: &Path, round: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child::run_role", "--nocapture"]);
    command.env(ROLE, role).env(DATA_DIR, data_dir).env(ROUND, round.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// A child process that is killed at the end of the test, also on a panic.
pub(crate) struct Running {
    child: ChildProcess,
    lines: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = ChildProcess::start(&mut command).unwrap();
        let lines = BufReader::new(child.take_stdout().unwrap());
        Self { child, lines }
    }

    /// The next line that the child itself has written; none when it has ended.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        // A truncated line does not count as a report.
        while self.lines.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
            if let Some(own) = line.split_once(REPORT_PREFIX).map(|(_, own)| own.trim_end()) {
                return Some(own.to_owned());
            }
            line.clear();
        }
        None
    }

    /// Kills it with SIGKILL, so that it cannot settle anything. Returns what it had still written.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill();
        std::iter::from_fn(|| self.line()).collect()
    }
}
