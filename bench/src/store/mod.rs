//! `cargo xtask bench store`: the cost of the stores, each compared with a peer in the same run.

mod embedded;
mod failover;
mod ledger;
mod memory;
mod redis;

pub(crate) use failover::{FailoverArguments, run as fail_over};
pub(crate) use ledger::{LedgerBenchArguments, run as run_ledger};

use crate::measure::{Case, Measurement, run_alternating};
use crate::report::{BenchGate, BenchReport};

/// A figure with its name and unit.
type Figure = (&'static str, f64, &'static str);

/// The cases of one store, and the evaluation of their figures.
#[derive(Default)]
pub(crate) struct StoreCases<'a> {
    pub(crate) cases: Vec<Case<'a>>,
    pub(crate) figures: Vec<fn(&[Measurement]) -> Figure>,
    pub(crate) gates: Vec<fn(&[Measurement]) -> BenchGate>,
}

#[derive(clap::Args)]
pub(crate) struct StoreArguments {
    /// Rounds; every case runs once in each.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Prints JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &StoreArguments) -> anyhow::Result<BenchReport> {
    let server = redis::RedisBench::start()?;
    let embedded = embedded::store_cases()?;
    let mut cases = memory::cases()?;
    cases.extend(embedded.cases);
    cases.extend(server.cases()?);
    let measured = run_alternating(cases, arguments.rounds);
    let (mut figures, mut gates) = server.evaluate(&measured)?;
    figures.extend(embedded.figures.iter().map(|figure| figure(&measured)));
    gates.extend(embedded.gates.iter().map(|gate| gate(&measured)));
    Ok(BenchReport { measured, figures, gates })
}
