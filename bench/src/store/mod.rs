//! `cargo xtask bench store`: the cost of the stores, each compared with a peer in the same run.

mod embedded;
mod failover;
mod keeping;
mod memory;
mod redis;

pub(crate) use failover::{FailoverArguments, run as fail_over};
pub(crate) use keeping::{KeepingArguments, run as keep};

use crate::measure::{Case, Measured, take_turns};
use crate::report::{Gate, Outcome};

/// A figure with its name and unit.
type Figure = (&'static str, f64, &'static str);

/// The cases of one store, and the evaluation of their figures.
#[derive(Default)]
pub(crate) struct Part<'a> {
    pub(crate) cases: Vec<Case<'a>>,
    pub(crate) figures: Vec<fn(&[Measured]) -> Figure>,
    pub(crate) judge: Vec<fn(&[Measured]) -> Gate>,
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

pub(crate) fn run(arguments: &StoreArguments) -> anyhow::Result<Outcome> {
    let server = redis::Bench::start()?;
    let folder = embedded::part()?;
    let mut cases = memory::cases()?;
    cases.extend(folder.cases);
    cases.extend(server.cases()?);
    let measured = take_turns(cases, arguments.rounds);
    let (mut figures, mut gates) = server.judge(&measured)?;
    figures.extend(folder.figures.iter().map(|figure| figure(&measured)));
    gates.extend(folder.judge.iter().map(|judge| judge(&measured)));
    Ok(Outcome { measured, figures, gates })
}
