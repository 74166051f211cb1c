//! The cost of the policy state machines, each compared with a peer in the same run if there is one.

mod framing;
mod plan;
mod tokens;

pub(crate) use crate::measure::median_of;
use crate::measure::{Case, Measured, take_turns};
use crate::report::{Gate, Outcome};

/// The cases of one machine, and the gates on their figures.
#[derive(Default)]
pub(crate) struct Part<'a> {
    pub(crate) cases: Vec<Case<'a>>,
    /// Computes the figures and gates of this machine from all measurements.
    pub(crate) judge: Vec<fn(&[Measured]) -> Gate>,
}

pub(crate) fn run(rounds: u32) -> Outcome {
    let parts: Vec<Part<'_>> = vec![framing::part(), plan::part(), tokens::part()];
    let (mut cases, mut judges) = (Vec::new(), Vec::new());
    for part in parts {
        cases.extend(part.cases);
        judges.extend(part.judge);
    }
    let measured = take_turns(cases, rounds);
    let gates = judges.iter().map(|judge| judge(&measured)).collect();
    Outcome { measured, figures: Vec::new(), gates }
}
