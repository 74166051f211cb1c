//! The cost of the policy state machines, each compared with a peer in the same run if there is one.

mod framing;
mod plan;
mod tokens;

pub(crate) use crate::measure::median_of;
use crate::measure::{Case, Measurement, run_alternating};
use crate::report::{BenchGate, BenchReport};

/// The cases of one machine, and the gates on their figures.
#[derive(Default)]
pub(crate) struct PolicyCases<'a> {
    pub(crate) cases: Vec<Case<'a>>,
    /// Computes the figures and gates of this machine from all measurements.
    pub(crate) gates: Vec<fn(&[Measurement]) -> BenchGate>,
}

pub(crate) fn run(rounds: u32) -> BenchReport {
    let parts: Vec<PolicyCases<'_>> = vec![framing::cases(), plan::cases(), tokens::cases()];
    let (mut cases, mut gate_functions) = (Vec::new(), Vec::new());
    for part in parts {
        cases.extend(part.cases);
        gate_functions.extend(part.gates);
    }
    let measured = run_alternating(cases, rounds);
    let gates = gate_functions.iter().map(|gate| gate(&measured)).collect();
    BenchReport { measured, figures: Vec::new(), gates }
}
