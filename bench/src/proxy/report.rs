//! What was found, for people and for programs.

use super::answers::Kind;
use super::target::{DIRECT, HOP, NGINX, NO_LOG, SEAWALL};
use super::{BURST, PACED, PLAIN, STEADY};
use crate::measure::median;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// One target under one case in one round.
#[derive(Clone, Copy)]
pub(crate) struct Round {
    /// Requests a second.
    pub(crate) rate: f64,
    /// Microseconds of processor time per request.
    pub(crate) cpu: f64,
    /// Microseconds.
    pub(crate) p50: f64,
}

/// All rounds of one target under one case.
pub(crate) struct Row {
    pub(crate) case: &'static str,
    pub(crate) target: &'static str,
    pub(crate) rounds: Vec<Round>,
}

impl Row {
    pub(crate) fn new(case: &'static str, target: &'static str) -> Self {
        Self { case, target, rounds: Vec::new() }
    }

    fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect())
    }

    /// The median of what `figure` makes of this and another target's figures inside each round.
    fn against(&self, other: &Self, figure: impl Fn(&Round, &Round) -> f64) -> f64 {
        median(self.rounds.iter().zip(&other.rounds).map(|(own, other)| figure(own, other)).collect())
    }
}

pub(crate) struct Memory {
    pub(crate) target: &'static str,
    pub(crate) idle: f64,
    pub(crate) loaded: f64,
}

/// Everything one run found.
pub(crate) struct Findings {
    pub(crate) rows: Vec<Row>,
    pub(crate) memory: Vec<Memory>,
    pub(crate) calls: Vec<(Kind, &'static str, f64)>,
    /// What the gated target had answered when its memory was read.
    pub(crate) requests: u64,
}

#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

pub(crate) struct Gate {
    name: &'static str,
    figure: f64,
    bound: Bound,
}

impl Gate {
    pub(crate) fn holds(&self) -> bool {
        match self.bound {
            Bound::AtMost(most) => self.figure <= most,
            Bound::AtLeast(least) => self.figure >= least,
        }
    }
}

impl Findings {
    fn row(&self, case: &str, target: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.case == case && row.target == target)
    }

    fn ratio(&self, case: &str, target: &str, figure: impl Fn(&Round) -> f64) -> Option<f64> {
        let (own, peer) = (self.row(case, target)?, self.row(case, NGINX)?);
        Some(own.against(peer, |own, peer| figure(own) / figure(peer)))
    }

    /// What a target adds to the median of going direct, over what nginx adds.
    fn added_ratio(&self, case: &str, target: &str) -> Option<f64> {
        let (own, peer, direct) = (self.row(case, target)?, self.row(case, NGINX)?, self.row(case, DIRECT)?);
        let rounds = own.rounds.iter().zip(&peer.rounds).zip(&direct.rounds);
        Some(median(
            rounds.map(|((own, peer), direct)| (own.p50 - direct.p50) / (peer.p50 - direct.p50)).collect(),
        ))
    }

    fn added(&self, row: &Row) -> f64 {
        self.row(row.case, DIRECT)
            .map_or(0.0, |direct| row.against(direct, |own, direct| own.p50 - direct.p50))
    }

    fn cpu_over(&self, case: &str, target: &str, other: &str) -> Option<f64> {
        Some(self.row(case, target)?.against(self.row(case, other)?, |own, other| own.cpu - other.cpu))
    }

    fn calls_of(&self, kind: Kind, target: &str) -> Option<f64> {
        self.calls.iter().find(|call| call.0 == kind && call.1 == target).map(|call| call.2)
    }

    /// The bounds, with every protection, the counters and the log on. What could not be measured has no gate.
    pub(crate) fn gates(&self) -> Vec<Gate> {
        use Bound::{AtLeast, AtMost};
        let memory = self.memory.iter().find(|memory| memory.target == SEAWALL);
        let cpu = |round: &Round| round.cpu;
        [
            ("CPU per plain request ÷ nginx", self.ratio(PLAIN, SEAWALL, cpu), AtMost(1.8)),
            ("requests a second ÷ nginx", self.ratio(PLAIN, SEAWALL, |round| round.rate), AtLeast(0.6)),
            ("added p50 at 1,000/s ÷ nginx's", self.added_ratio(STEADY, SEAWALL), AtMost(1.4)),
            ("CPU per burst stream ÷ nginx", self.ratio(BURST, SEAWALL, cpu), AtMost(2.8)),
            ("CPU per paced stream ÷ nginx", self.ratio(PACED, SEAWALL, cpu), AtMost(1.3)),
            ("system calls per plain request", self.calls_of(Kind::Plain, SEAWALL), AtMost(7.0)),
            ("system calls per burst stream", self.calls_of(Kind::Burst, SEAWALL), AtMost(12.0)),
            ("memory idle, MiB", memory.map(|memory| memory.idle), AtMost(30.0)),
            ("memory after the load, MiB", memory.map(|memory| memory.loaded), AtMost(60.0)),
        ]
        .into_iter()
        .filter_map(|(name, figure, bound)| figure.map(|figure| Gate { name, figure, bound }))
        .collect()
    }

    /// What is worth knowing and has no bound.
    fn asides(&self) -> Vec<(&'static str, f64)> {
        let asides = [
            ("plain CPU over the bare hop, µs", self.cpu_over(PLAIN, SEAWALL, HOP)),
            ("burst CPU over the bare hop, µs", self.cpu_over(BURST, SEAWALL, HOP)),
            ("plain CPU of the log, µs", self.cpu_over(PLAIN, SEAWALL, NO_LOG)),
        ];
        asides.into_iter().filter_map(|(name, figure)| Some((name, figure?))).collect()
    }
}

pub(crate) fn tables(findings: &Findings) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for case in [PLAIN, BURST, STEADY, PACED] {
        let _ = writeln!(
            text,
            "{case:<34} {:>9} {:>8} {:>9} {:>8} {:>9} {:>9} {:>8}",
            "req/s", "÷ nginx", "CPU µs", "× nginx", "p50 µs", "added", "× nginx"
        );
        for row in findings.rows.iter().filter(|row| row.case == case) {
            let ratio =
                |figure: fn(&Round) -> f64| findings.ratio(case, row.target, figure).unwrap_or(f64::NAN);
            let _ = writeln!(
                text,
                "  {:<32} {:>9.0} {:>8.2} {:>9.1} {:>8.2} {:>9.0} {:>9.0} {:>8.2}",
                row.target,
                row.median(|round| round.rate),
                ratio(|round| round.rate),
                row.median(|round| round.cpu),
                ratio(|round| round.cpu),
                row.median(|round| round.p50),
                findings.added(row),
                findings.added_ratio(case, row.target).unwrap_or(f64::NAN),
            );
        }
    }
    let _ = writeln!(text, "{:<34} {:>9} {:>8} {:>9} {:>8}", "", "MiB idle", "loaded", "calls", "burst");
    for memory in &findings.memory {
        let calls = |kind| findings.calls_of(kind, memory.target).unwrap_or(f64::NAN);
        let _ = writeln!(
            text,
            "  {:<32} {:>9.1} {:>8.1} {:>9.1} {:>8.1}",
            memory.target,
            memory.idle,
            memory.loaded,
            calls(Kind::Plain),
            calls(Kind::Burst)
        );
    }
    let _ =
        writeln!(text, "requests before memory was read: {}; every body as it was sent", findings.requests);
    for (name, figure) in findings.asides() {
        let _ = writeln!(text, "{name:<34} {figure:>9.2}");
    }
    for gate in findings.gates() {
        let verdict = if gate.holds() { "holds" } else { "BROKEN" };
        let (word, bound) = match gate.bound {
            Bound::AtMost(bound) => ("most", bound),
            Bound::AtLeast(bound) => ("least", bound),
        };
        let _ = writeln!(text, "{:<34} {:>9.2} of at {word} {bound}: {verdict}", gate.name, gate.figure);
    }
    text
}

pub(crate) fn json(findings: &Findings) -> Value {
    let row = |row: &Row| {
        let rounds = row.rounds.iter();
        let rounds: Vec<_> = rounds
            .map(|round| json!({ "per_second": round.rate, "cpu_us": round.cpu, "p50_us": round.p50 }))
            .collect();
        json!({
            "case": row.case, "target": row.target, "rounds": rounds,
            "per_second_to_nginx": findings.ratio(row.case, row.target, |round| round.rate),
            "cpu_to_nginx": findings.ratio(row.case, row.target, |round| round.cpu),
            "added_p50_us": findings.added(row),
            "added_p50_to_nginx": findings.added_ratio(row.case, row.target),
        })
    };
    let gate = |gate: &Gate| {
        let (kind, bound) = match gate.bound {
            Bound::AtMost(bound) => ("at_most", bound),
            Bound::AtLeast(bound) => ("at_least", bound),
        };
        json!({ "name": gate.name, "figure": gate.figure, kind: bound, "holds": gate.holds() })
    };
    let memory = |memory: &Memory| json!({ "target": memory.target, "idle_mib": memory.idle, "loaded_mib": memory.loaded });
    let calls =
        |call: &(Kind, &str, f64)| json!({ "kind": call.0.name(), "target": call.1, "per_request": call.2 });
    json!({
        "rows": findings.rows.iter().map(row).collect::<Vec<_>>(),
        "memory": findings.memory.iter().map(memory).collect::<Vec<_>>(),
        "system_calls": findings.calls.iter().map(calls).collect::<Vec<_>>(),
        "asides": findings.asides().iter().map(|(name, figure)| json!({ "name": name, "figure": figure })).collect::<Vec<_>>(),
        "gates": findings.gates().iter().map(gate).collect::<Vec<_>>(),
        "requests": findings.requests,
    })
}

#[cfg(test)]
mod tests {
    use super::{Findings, Memory, Round, Row, json, tables};
    use crate::proxy::answers::Kind;

    #[test]
    fn gates_are_judged_inside_each_round_and_shown_in_both_forms() {
        let row = |case, target, cpu: [f64; 3]| {
            let rounds = cpu.map(|cpu| Round { rate: 1e6 / cpu, cpu, p50: cpu }).to_vec();
            Row { case, target, rounds }
        };
        let findings = Findings {
            rows: vec![
                row(super::PLAIN, "direct", [1.0; 3]),
                row(super::PLAIN, "nginx", [10.0, 20.0, 30.0]),
                row(super::PLAIN, "seawall", [20.0, 40.0, 61.0]),
            ],
            memory: vec![Memory { target: "seawall", idle: 10.0, loaded: 70.0 }],
            calls: vec![(Kind::Plain, "seawall", 4.5)],
            requests: 3,
        };
        let text = tables(&findings);
        for line in
            ["2.00 of at most 1.8: BROKEN", "0.50 of at least 0.6: BROKEN", "4.50 of at most 7: holds"]
        {
            assert!(text.contains(line), "{line} in {text}");
        }
        let json = json(&findings);
        assert_eq!(json["gates"][0]["holds"], false);
        assert_eq!(json["system_calls"][0]["per_request"], 4.5);
    }
}
