//! The results, as tables and as JSON.

use super::answers::Kind;
use super::cases::{BURST, Case, Goal, ONE_CALLER, PLAIN};
use super::gates;
use super::target::{DIRECT, HOP, NGINX, NO_LOG, SEAWALL};
use crate::callers::CallersResult;
use crate::measure::median;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// One target in one case and round.
#[derive(Clone, Copy)]
pub(crate) struct Round {
    /// Requests per second.
    pub(crate) rate: f64,
    /// Microseconds of CPU time per request.
    pub(crate) cpu: f64,
    /// In microseconds.
    pub(crate) p50: f64,
}

/// All rounds of one target in one case.
pub(crate) struct Row {
    pub(crate) case: &'static str,
    pub(crate) target: &'static str,
    pub(crate) cpu: Option<Goal>,
    pub(crate) rounds: Vec<Round>,
}

impl Row {
    pub(crate) fn new(case: Case, target: &'static str) -> Self {
        Self { case: case.name, target, cpu: case.cpu, rounds: Vec::new() }
    }

    fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect())
    }

    /// The median of `figure` applied to this and another target's results within each round.
    fn against(&self, other: &Self, figure: impl Fn(&Round, &Round) -> f64) -> f64 {
        median(self.rounds.iter().zip(&other.rounds).map(|(own, other)| figure(own, other)).collect())
    }
}

pub(crate) struct Memory {
    pub(crate) target: &'static str,
    pub(crate) idle: f64,
    pub(crate) loaded: f64,
}

/// The results of one run.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) rows: Vec<Row>,
    pub(crate) memory: Vec<Memory>,
    pub(crate) calls: Vec<(Kind, &'static str, f64)>,
    pub(crate) callers: Option<CallersResult>,
    /// The number of requests that the gated target had served when its memory was read.
    pub(crate) requests: u64,
}

impl Findings {
    fn row(&self, case: &str, target: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.case == case && row.target == target)
    }

    pub(crate) fn ratio(&self, case: &str, target: &str, figure: impl Fn(&Round) -> f64) -> Option<f64> {
        let (own, peer) = (self.row(case, target)?, self.row(case, NGINX)?);
        Some(own.against(peer, |own, peer| figure(own) / figure(peer)))
    }

    /// The ratio of one case to another, for the same target.
    pub(crate) fn case_ratio(
        &self,
        case: &str,
        other: &str,
        target: &str,
        figure: impl Fn(&Round) -> f64,
    ) -> Option<f64> {
        let (own, peer) = (self.row(case, target)?, self.row(other, target)?);
        Some(own.against(peer, |own, peer| figure(own) / figure(peer)))
    }

    /// The latency that a target adds to the median of the direct path, relative to what nginx adds.
    pub(crate) fn added_ratio(&self, case: &str, target: &str) -> Option<f64> {
        let (own, peer, direct) = (self.row(case, target)?, self.row(case, NGINX)?, self.row(case, DIRECT)?);
        let rounds = own.rounds.iter().zip(&peer.rounds).zip(&direct.rounds);
        Some(median(
            rounds.map(|((own, peer), direct)| (own.p50 - direct.p50) / (peer.p50 - direct.p50)).collect(),
        ))
    }

    fn added(&self, row: &Row) -> Option<f64> {
        Some(row.against(self.row(row.case, DIRECT)?, |own, direct| own.p50 - direct.p50))
    }

    fn cpu_over(&self, case: &str, target: &str, other: &str) -> Option<f64> {
        Some(self.row(case, target)?.against(self.row(case, other)?, |own, other| own.cpu - other.cpu))
    }

    pub(crate) fn calls_of(&self, kind: Kind, target: &str) -> Option<f64> {
        self.calls.iter().find(|call| call.0 == kind && call.1 == target).map(|call| call.2)
    }

    /// An estimate of many callers relative to one over sockets: the extra cost measured without sockets, added to the
    /// cost of one caller with them.
    fn reckoned_many_callers(&self) -> Option<f64> {
        let (found, one) = (self.callers?, self.row(ONE_CALLER, SEAWALL)?.median(|round| round.cpu));
        Some((one + (found.many_ns - found.one_ns) / 1e3) / one)
    }

    /// Informative figures without a bound.
    fn asides(&self) -> Vec<(&'static str, f64)> {
        let callers = |figure: fn(&CallersResult) -> f64| self.callers.as_ref().map(figure);
        let asides = [
            ("plain CPU over the bare hop, µs", self.cpu_over(PLAIN, SEAWALL, HOP)),
            ("burst CPU over the bare hop, µs", self.cpu_over(BURST, SEAWALL, HOP)),
            ("plain CPU of the log, µs", self.cpu_over(PLAIN, SEAWALL, NO_LOG)),
            ("one caller, no socket, µs", callers(|found| found.one_ns / 1e3)),
            ("many callers, no socket, µs", callers(|found| found.many_ns / 1e3)),
            ("many ÷ one, with sockets, reckoned", self.reckoned_many_callers()),
        ];
        asides.into_iter().filter_map(|(name, figure)| Some((name, figure?))).collect()
    }
}

/// A figure, or a dash if there is none.
fn shown(figure: Option<f64>, digits: usize) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.digits$}"))
}

pub(crate) fn tables(findings: &Findings) -> String {
    let mut text = String::new();
    let mut case = "";
    // Writing to a string cannot fail.
    for row in &findings.rows {
        if row.case != case {
            case = row.case;
            let _ = writeln!(
                text,
                "{case:<34} {:>9} {:>8} {:>9} {:>8} {:>9} {:>9} {:>8}",
                "req/s", "÷ nginx", "CPU µs", "× nginx", "p50 µs", "added", "× nginx"
            );
        }
        let ratio = |figure: fn(&Round) -> f64| shown(findings.ratio(case, row.target, figure), 2);
        let _ = writeln!(
            text,
            "  {:<32} {:>9.0} {:>8} {:>9.1} {:>8} {:>9.0} {:>9} {:>8}",
            row.target,
            row.median(|round| round.rate),
            ratio(|round| round.rate),
            row.median(|round| round.cpu),
            ratio(|round| round.cpu),
            row.median(|round| round.p50),
            shown(findings.added(row), 0),
            shown(findings.added_ratio(case, row.target), 2),
        );
    }
    if !findings.memory.is_empty() {
        let _ = writeln!(text, "{:<34} {:>9} {:>8}", "", "MiB idle", "loaded");
    }
    for memory in &findings.memory {
        let _ = writeln!(text, "  {:<32} {:>9.1} {:>8.1}", memory.target, memory.idle, memory.loaded);
    }
    for (kind, target, figure) in &findings.calls {
        let name = format!("system calls, {target}, {}", kind.name());
        let _ = writeln!(text, "  {name:<32} {figure:>9.1}");
    }
    if findings.requests > 0 {
        let _ = writeln!(text, "requests before memory was read: {}", findings.requests);
    }
    for (name, figure) in findings.asides() {
        let _ = writeln!(text, "{name:<34} {figure:>9.2}");
    }
    text.push_str(&gates::table(&findings.gates()));
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
    let memory = |memory: &Memory| json!({ "target": memory.target, "idle_mib": memory.idle, "loaded_mib": memory.loaded });
    let calls =
        |call: &(Kind, &str, f64)| json!({ "kind": call.0.name(), "target": call.1, "per_request": call.2 });
    let aside = |(name, figure): &(&str, f64)| json!({ "name": name, "figure": figure });
    json!({
        "rows": findings.rows.iter().map(row).collect::<Vec<_>>(),
        "memory": findings.memory.iter().map(memory).collect::<Vec<_>>(),
        "system_calls": findings.calls.iter().map(calls).collect::<Vec<_>>(),
        "callers": findings.callers,
        "asides": findings.asides().iter().map(aside).collect::<Vec<_>>(),
        "gates": findings.gates().iter().map(gates::json).collect::<Vec<_>>(),
        "requests": findings.requests,
    })
}

#[cfg(test)]
mod tests {
    use super::{Findings, Memory, Round, Row, json, tables};
    use crate::callers::CallersResult;
    use crate::proxy::answers::Kind;
    use crate::proxy::cases::{Case, MANY_CALLERS, ONE_CALLER, PLAIN, all};

    fn case(name: &str) -> Case {
        all().into_iter().find(|case| case.name == name).unwrap()
    }

    fn row(name: &str, target: &'static str, cpu: [f64; 3]) -> Row {
        let rounds = cpu.map(|cpu| Round { rate: 1e6 / cpu, cpu, p50: cpu }).to_vec();
        Row { rounds, ..Row::new(case(name), target) }
    }

    fn findings() -> Findings {
        Findings {
            rows: vec![
                row(PLAIN, "direct", [1.0; 3]),
                row(PLAIN, "nginx", [10.0, 20.0, 30.0]),
                row(PLAIN, "seawall", [20.0, 40.0, 61.0]),
                row(ONE_CALLER, "seawall", [10.0, 20.0, 30.0]),
                row(MANY_CALLERS, "seawall", [12.0, 24.0, 60.0]),
            ],
            memory: vec![Memory { target: "seawall", idle: 10.0, loaded: 70.0 }],
            calls: vec![(Kind::Plain, "seawall", 4.5)],
            callers: Some(CallersResult {
                callers: 1_000_000,
                one_ns: 1_000.0,
                many_ns: 1_500.0,
                ratio: 1.5,
                bytes: 100.0,
            }),
            requests: 3,
        }
    }

    #[test]
    fn gates_are_judged_inside_each_round() {
        let text = tables(&findings());
        let line = |start: &str| {
            let line = text.lines().rev().find(|line| line.starts_with(start)).unwrap_or_default();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        for (start, end) in [
            ("CPU ÷ nginx: plain, saturated", "2.00 ≤ 1.8 ≤ 1.5 BROKEN"),
            ("requests a second ÷ nginx", "0.50 ≥ 0.6 ≥ 0.65 BROKEN"),
            ("CPU, 10,000 keys ÷ one key", "1.20 ≤ 1.3 ≤ 1.1 holds"),
            ("many callers ÷ one, no socket", "1.50 ≤ 1.3 ≤ 1.1 BROKEN"),
            ("bytes per idle caller", "100.00 ≤ 128 holds"),
            ("system calls per plain request", "4.50 ≤ 7 ≤ 5 holds, aim met"),
            ("memory idle", "10.00 ≤ 30 ≤ 16 holds, aim met"),
            ("memory after", "70.00 ≤ 60 ≤ 25 BROKEN"),
            ("many ÷ one, with sockets, reckoned", "1.02"),
        ] {
            assert!(line(start).ends_with(end), "{start}: {} in {text}", line(start));
        }
    }

    #[test]
    fn programs_get_the_same() {
        let json = json(&findings());
        assert_eq!(json["gates"][0]["holds"], false);
        assert_eq!(json["system_calls"][0]["per_request"], 4.5);
        assert_eq!(json["callers"]["callers"], 1_000_000);
    }

    #[test]
    fn what_was_not_measured_has_no_gate() {
        let nothing = Findings::default();
        assert!(nothing.gates().is_empty());
        assert!(!tables(&nothing).contains("BROKEN"));
    }
}
