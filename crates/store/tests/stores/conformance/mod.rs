//! The conformance suite: what every store has to do.
//!
//! Each function takes a factory of empty stores. It runs random sequences of operations against a store and against a
//! reference (the state machines of `core`, or a few lines that keep everything); every result must be the same, step
//! by step. Then threads run the same operations on one store concurrently, and the totals must match. A function
//! returns what it has found instead of panicking, so that broken stores can be tested, too.
//!
//! Time is passed in with every operation. It starts at a fixed date and moves in whole milliseconds; both clocks move
//! together. A store with a clock of its own needs a way to override it.

mod answers;
mod board;
mod claims;
mod directory;
mod drive;
mod ledger;
mod probes;
mod queue;
mod quotas;
mod sessions;
mod switches;

pub(crate) use answers::answers;
pub(crate) use board::board;
pub(crate) use claims::claims;
pub(crate) use directory::directory;
pub(crate) use drive::{Drive, Parked};
pub(crate) use ledger::ledger;
pub(crate) use probes::probes;
pub(crate) use queue::queue;
pub(crate) use quotas::quotas;
pub(crate) use sessions::sessions;
pub(crate) use switches::switches;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use seawall_core::time::{Now, Timestamp, UtcTime};
use std::fmt::Debug;
use std::time::Duration;

/// What is wrong with a store, if anything.
pub(crate) type TestResult = Result<(), String>;

/// The outcome of one sequence.
pub(crate) type Step = Result<(), TestCaseError>;

/// How many random sequences to run, and how many threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) cases: u32,
    pub(crate) threads: u64,
}

impl Default for Effort {
    /// `PROPTEST_CASES`, or the default, which takes a moment for a store in memory.
    fn default() -> Self {
        Self { cases: Config::default().cases, threads: 8 }
    }
}

/// The start of every sequence: some time after the origin of both clocks, in the middle of a day.
fn start() -> Now {
    let noon = UtcTime::from_civil(2026, 11, 15) + Duration::from_secs(12 * 3_600);
    Now::new(Timestamp::ZERO + Duration::from_secs(1_000_000), noon)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Runs sequences until one fails, and shrinks that one.
fn explore<S: Strategy>(effort: Effort, sequences: &S, play: impl Fn(S::Value) -> Step) -> TestResult
where
    S::Value: Debug,
{
    let config = Config { cases: effort.cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(sequences, play).map_err(|problem| problem.to_string())
}

/// Runs threads concurrently; returns the result of each.
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

/// Compares two values that have to be equal.
#[expect(clippy::needless_pass_by_value, reason = "what is compared is mostly made where it is compared")]
fn same<T: Debug + PartialEq>(what: &str, seen: T, expected: T) -> TestResult {
    if seen == expected { Ok(()) } else { Err(format!("{what}: {seen:?} instead of {expected:?}")) }
}
