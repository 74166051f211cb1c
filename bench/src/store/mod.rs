//! `cargo xtask bench store`: what decisions cost that a store takes.

mod failover;
mod memory;
mod redis;

pub(crate) use failover::{FailoverArguments, run as fail_over};

use crate::measure::take_turns;
use crate::report::Outcome;

#[derive(clap::Args)]
pub(crate) struct StoreArguments {
    /// Rounds; every case runs once in each.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Prints JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &StoreArguments) -> anyhow::Result<Outcome> {
    let server = redis::Bench::start()?;
    let mut cases = memory::cases()?;
    cases.extend(server.cases()?);
    let measured = take_turns(cases, arguments.rounds);
    let (figures, gates) = server.judge(&measured)?;
    Ok(Outcome { measured, figures, gates })
}
