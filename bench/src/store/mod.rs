//! What keeping things costs, each store beside a peer in the same run.

mod embedded;

use crate::measure::{Case, Measured, take_turns};
use crate::report::{Gate, Outcome};

/// A figure with its name and unit.
type Figure = (&'static str, f64, &'static str);

/// The cases of one store, and what is made of their figures.
#[derive(Default)]
pub(crate) struct Part<'a> {
    pub(crate) cases: Vec<Case<'a>>,
    pub(crate) figures: Vec<fn(&[Measured]) -> Figure>,
    pub(crate) judge: Vec<fn(&[Measured]) -> Gate>,
}

pub(crate) fn run(rounds: u32) -> anyhow::Result<Outcome> {
    let parts: Vec<Part<'_>> = vec![embedded::part()?];
    let (mut cases, mut figures, mut judges) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        cases.extend(part.cases);
        figures.extend(part.figures);
        judges.extend(part.judge);
    }
    let measured = take_turns(cases, rounds);
    let figures = figures.iter().map(|figure| figure(&measured)).collect();
    let gates = judges.iter().map(|judge| judge(&measured)).collect();
    Ok(Outcome { measured, figures, gates })
}
