//! The results, as a table and as JSON.

use crate::measure::Measurement;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A figure with an upper bound.
pub(crate) struct BenchGate {
    pub(crate) name: &'static str,
    pub(crate) figure: f64,
    pub(crate) bound: f64,
}

impl BenchGate {
    pub(crate) fn holds(&self) -> bool {
        self.figure <= self.bound
    }
}

/// The results of one run.
pub(crate) struct BenchReport {
    pub(crate) measured: Vec<Measurement>,
    /// Other figures with their units.
    pub(crate) figures: Vec<(&'static str, f64, &'static str)>,
    pub(crate) gates: Vec<BenchGate>,
}

pub(crate) fn table(outcome: &BenchReport) -> String {
    let mut text = String::new();
    for measured in &outcome.measured {
        let min = measured.rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let max = measured.rounds.iter().copied().fold(0.0, f64::max);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<44} {:>7.1} ns  ({min:.1} to {max:.1})", measured.name, measured.median());
    }
    for (name, figure, unit) in &outcome.figures {
        let _ = writeln!(text, "{name:<44} {figure:>7.1} {unit}");
    }
    for gate in &outcome.gates {
        let result = if gate.holds() { "holds" } else { "MISSED" };
        let _ = writeln!(text, "{:<44} {:>7.2} of at most {}: {result}", gate.name, gate.figure, gate.bound);
    }
    text
}

pub(crate) fn json(outcome: &BenchReport) -> Value {
    let measured = |case: &Measurement| json!({ "name": case.name, "median_ns": case.median(), "rounds_ns": case.rounds });
    let figure =
        |(name, figure, unit): &(&str, f64, &str)| json!({ "name": name, "figure": figure, "unit": unit });
    let gate = |gate: &BenchGate| json!({ "name": gate.name, "figure": gate.figure, "bound": gate.bound, "holds": gate.holds() });
    json!({
        "cases": outcome.measured.iter().map(measured).collect::<Vec<_>>(),
        "figures": outcome.figures.iter().map(figure).collect::<Vec<_>>(),
        "gates": outcome.gates.iter().map(gate).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::{BenchGate, BenchReport, json, table};
    use crate::measure::Measurement;

    #[test]
    fn a_missed_gate_shows_in_both_forms() {
        let outcome = BenchReport {
            measured: vec![Measurement { name: "case", rounds: vec![1.0, 3.0, 2.0] }],
            figures: vec![("bytes", 7.0, "B")],
            gates: vec![BenchGate { name: "ratio", figure: 4.0, bound: 3.0 }],
        };
        assert!(table(&outcome).contains("4.00 of at most 3: MISSED"));
        assert!(table(&outcome).contains("2.0 ns  (1.0 to 3.0)"));
        let json = json(&outcome);
        assert_eq!(json["gates"][0]["holds"], false);
        assert_eq!(json["cases"][0]["median_ns"], 2.0);
        assert_eq!(json["figures"][0]["unit"], "B");
    }
}
