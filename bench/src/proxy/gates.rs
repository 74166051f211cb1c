//! Gates (bounds that must hold) and goals.

use super::cases::{BURST, MANY_CALLERS, ONE_CALLER, OPENAI_BURST, PLAIN, STEADY};
use super::report::{ProxyResults, Round};
use super::requests::BenchRequestKind;
use super::target::SEAWALL;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a figure has an upper or a lower bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BoundKind {
    AtMost,
    AtLeast,
}

/// A figure with its bounds.
pub(crate) struct ProxyGate {
    name: Cow<'static, str>,
    figure: f64,
    sense: BoundKind,
    gate: f64,
    aim: Option<f64>,
}

impl ProxyGate {
    fn new(
        name: impl Into<Cow<'static, str>>,
        figure: Option<f64>,
        gate: f64,
        aim: Option<f64>,
    ) -> Option<Self> {
        Some(Self { name: name.into(), figure: figure?, sense: BoundKind::AtMost, gate, aim })
    }

    fn at_least(self) -> Self {
        Self { sense: BoundKind::AtLeast, ..self }
    }

    /// Whether the bound holds. NaN satisfies no bound.
    pub(crate) fn holds(&self) -> bool {
        self.is_within(self.gate)
    }

    fn is_within(&self, bound: f64) -> bool {
        match self.sense {
            BoundKind::AtMost => self.figure <= bound,
            BoundKind::AtLeast => self.figure >= bound,
        }
    }
}

impl ProxyResults {
    /// The gates for Seawall with everything enabled. A figure that was not measured has no gate.
    pub(crate) fn gates(&self) -> Vec<ProxyGate> {
        let memory = self.memory.iter().find(|memory| memory.target == SEAWALL);
        let rate = self.ratio(PLAIN, SEAWALL, |round| round.rate);
        let over_keys = self.case_ratio(MANY_CALLERS, ONE_CALLER, SEAWALL, |round| round.cpu);
        let over_anthropic = self.case_ratio(OPENAI_BURST, BURST, SEAWALL, |round| round.cpu);
        let mut gates: Vec<ProxyGate> = self
            .rows
            .iter()
            .filter(|row| row.target == SEAWALL)
            .filter_map(|row| {
                let goal = row.cpu?;
                let figure = self.ratio(row.case, SEAWALL, |round: &Round| round.cpu);
                ProxyGate::new(format!("CPU ÷ nginx: {}", row.case), figure, goal.gate, Some(goal.aim))
            })
            .collect();
        let others = [
            ProxyGate::new("requests a second ÷ nginx", rate, 0.6, Some(0.65)).map(ProxyGate::at_least),
            ProxyGate::new(
                "added p50 at 1,000/s ÷ nginx's",
                self.added_ratio(STEADY, SEAWALL),
                1.4,
                Some(1.3),
            ),
            ProxyGate::new("CPU, 10,000 keys ÷ one key", over_keys, 1.3, Some(1.1)),
            ProxyGate::new("CPU, burst stream: OpenAI ÷ Anthropic", over_anthropic, 1.2, Some(1.0)),
            ProxyGate::new(
                "many callers ÷ one, no socket",
                self.callers.map(|found| found.ratio),
                1.3,
                Some(1.1),
            ),
            ProxyGate::new("bytes per idle caller", self.callers.map(|found| found.bytes), 128.0, None),
            ProxyGate::new(
                "system calls per plain request",
                self.calls_of(BenchRequestKind::Plain, SEAWALL),
                7.0,
                Some(5.0),
            ),
            ProxyGate::new(
                "system calls per burst stream",
                self.calls_of(BenchRequestKind::Burst, SEAWALL),
                12.0,
                Some(8.0),
            ),
            ProxyGate::new("memory idle, MiB", memory.map(|memory| memory.idle), 30.0, Some(16.0)),
            ProxyGate::new(
                "memory after the load, MiB",
                memory.map(|memory| memory.loaded),
                60.0,
                Some(25.0),
            ),
        ];
        gates.extend(others.into_iter().flatten());
        gates
    }
}

pub(crate) fn table(gates: &[ProxyGate]) -> String {
    let mut text = format!("{:<50} {:>8} {:>7} {:>7}\n", "", "figure", "gate", "aim");
    for gate in gates {
        let sign = if gate.sense == BoundKind::AtMost { '≤' } else { '≥' };
        let bound = |bound: f64| format!("{sign} {bound}");
        let result = match (gate.holds(), gate.aim.is_some_and(|aim| gate.is_within(aim))) {
            (false, _) => "MISSED",
            (true, false) => "holds",
            (true, true) => "holds, aim met",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<50} {:>8.2} {:>7} {:>7}  {result}",
            gate.name,
            gate.figure,
            bound(gate.gate),
            gate.aim.map_or_else(String::new, bound),
        );
    }
    text
}

pub(crate) fn json(gate: &ProxyGate) -> Value {
    let sense = if gate.sense == BoundKind::AtMost { "at_most" } else { "at_least" };
    json!({
        "name": gate.name, "figure": gate.figure, "sense": sense, "gate": gate.gate, "aim": gate.aim,
        "holds": gate.holds(), "meets_aim": gate.aim.map(|aim| gate.is_within(aim)),
    })
}

#[cfg(test)]
mod tests {
    use super::{ProxyGate, json, table};

    #[test]
    fn a_figure_on_its_bound_holds_and_one_beyond_does_not() {
        let at = |figure| ProxyGate::new("most", Some(figure), 2.0, Some(1.0)).unwrap();
        assert!(at(2.0).holds() && !at(2.1).holds() && !at(f64::NAN).holds());
        assert!(
            at(2.0).at_least().holds() && !at(1.9).at_least().holds() && !at(f64::NAN).at_least().holds()
        );
        assert!(ProxyGate::new("unknown", None, 2.0, None).is_none());
    }

    #[test]
    fn the_table_shows_missed_held_and_met() {
        for (figure, result) in [(2.1, "MISSED"), (2.0, "  holds\n"), (1.0, "holds, aim met")] {
            let gate = ProxyGate::new("most", Some(figure), 2.0, Some(1.0)).unwrap();
            assert!(table(&[gate]).contains(result), "{figure}");
        }
        let least = ProxyGate::new("least", Some(0.5), 0.6, None).unwrap().at_least();
        assert!(table(&[least]).contains("≥ 0.6"));
    }

    #[test]
    fn programs_read_whether_gate_and_aim_are_met() {
        let read = json(&ProxyGate::new("most", Some(1.5), 2.0, Some(1.0)).unwrap());
        assert_eq!((&read["holds"], &read["meets_aim"]), (&true.into(), &false.into()));
        assert_eq!(read["sense"], "at_most");
    }
}
