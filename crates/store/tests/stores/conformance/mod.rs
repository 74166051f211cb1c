//! What every store has to do.
//!
//! Each function takes a way to make an empty store. It plays random sequences of operations against one, and against the
//! machines of `core` or a few lines that keep everything; each answer must be the same, step by step. Then threads do the
//! same thing to one store at once, and what went in must be what came out. A function says what it has found, so that
//! broken stores can be tried, too.
//!
//! Time is told with every operation. It begins at a moment of the calendar and moves in whole milliseconds; both clocks
//! move together. A store with a clock of its own needs a way to be told the time.

mod answers;
mod board;
mod claims;
mod directory;
mod drive;
mod ledger;
mod line;
mod probes;
mod quotas;
mod sessions;
mod switches;

pub(crate) use answers::answers;
pub(crate) use board::board;
pub(crate) use claims::claims;
pub(crate) use directory::directory;
pub(crate) use drive::{Drive, Parked};
pub(crate) use ledger::ledger;
pub(crate) use line::line;
pub(crate) use probes::probes;
pub(crate) use quotas::quotas;
pub(crate) use sessions::sessions;
pub(crate) use switches::switches;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use seawall_core::time::{Now, Timestamp, UtcTime};
use std::fmt::Debug;
use std::time::Duration;

/// What is wrong with a store, if anything.
pub(crate) type Verdict = Result<(), String>;

/// What one sequence has shown.
pub(crate) type Step = Result<(), TestCaseError>;

/// How many random sequences to try, and how many threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) cases: u32,
    pub(crate) threads: u64,
}

impl Default for Effort {
    /// What `PROPTEST_CASES` says, or what takes a moment for a store in memory.
    fn default() -> Self {
        Self { cases: Config::default().cases, threads: 8 }
    }
}

/// When every sequence begins: some time after the origin of both clocks, in the middle of a day.
fn start() -> Now {
    let noon = UtcTime::from_civil(2026, 11, 15) + Duration::from_secs(12 * 3_600);
    Now::new(Timestamp::ZERO + Duration::from_secs(1_000_000), noon)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Tries sequences until one shows that something is wrong, and then the shortest that does.
fn explore<S: Strategy>(effort: Effort, sequences: &S, play: impl Fn(S::Value) -> Step) -> Verdict
where
    S::Value: Debug,
{
    let config = Config { cases: effort.cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(sequences, play).map_err(|problem| problem.to_string())
}

/// Lets threads do something at once; returns what each of them came to.
fn at_once<T: Send>(threads: u64, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let gate = std::sync::Barrier::new(usize::try_from(threads).unwrap());
    std::thread::scope(|scope| {
        let one = |number| {
            let (gate, work) = (&gate, &work);
            scope.spawn(move || {
                gate.wait();
                work(number)
            })
        };
        let running: Vec<_> = (0..threads).map(one).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Two things that have to be the same.
#[expect(clippy::needless_pass_by_value, reason = "what is compared is mostly made where it is compared")]
fn same<T: Debug + PartialEq>(what: &str, seen: T, expected: T) -> Verdict {
    if seen == expected { Ok(()) } else { Err(format!("{what}: {seen:?} instead of {expected:?}")) }
}
