//! The results, as tables and as JSON.

use super::cases::{BURST, Goal, ONE_CALLER, PLAIN, ProxyCase};
use super::gates;
use super::requests::BenchRequestKind;
use super::target::{DIRECT, HOP, HYPER_HOP, NGINX, NO_LOG, SEAWALL};
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
pub(crate) struct ResultRow {
    pub(crate) case: &'static str,
    pub(crate) target: &'static str,
    pub(crate) cpu: Option<Goal>,
    pub(crate) rounds: Vec<Round>,
}

impl ResultRow {
    pub(crate) fn new(case: ProxyCase, target: &'static str) -> Self {
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

pub(crate) struct MemoryUse {
    pub(crate) target: &'static str,
    pub(crate) idle: f64,
    pub(crate) loaded: f64,
}

/// The results of one run.
#[derive(Default)]
pub(crate) struct ProxyResults {
    pub(crate) rows: Vec<ResultRow>,
    pub(crate) memory: Vec<MemoryUse>,
    pub(crate) calls: Vec<(BenchRequestKind, &'static str, f64)>,
    pub(crate) callers: Option<CallersResult>,
    /// The number of requests that the gated target had served when its memory was read.
    pub(crate) requests: u64,
}

impl ProxyResults {
    fn row(&self, case: &str, target: &str) -> Option<&ResultRow> {
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

    fn added(&self, row: &ResultRow) -> Option<f64> {
        Some(row.against(self.row(row.case, DIRECT)?, |own, direct| own.p50 - direct.p50))
    }

    /// The CPU time of the minimal hop with hyper's client, relative to that with our own.
    fn hyper_ratio(&self, case: &str) -> Option<f64> {
        let (hyper, own) = (self.row(case, HYPER_HOP)?, self.row(case, HOP)?);
        Some(hyper.against(own, |hyper, own| hyper.cpu / own.cpu))
    }

    fn cpu_over(&self, case: &str, target: &str, other: &str) -> Option<f64> {
        Some(self.row(case, target)?.against(self.row(case, other)?, |own, other| own.cpu - other.cpu))
    }

    pub(crate) fn calls_of(&self, kind: BenchRequestKind, target: &str) -> Option<f64> {
        self.calls.iter().find(|call| call.0 == kind && call.1 == target).map(|call| call.2)
    }

    /// An estimate of many callers relative to one over sockets: the extra cost measured without sockets, added to the
    /// cost of one caller with them.
    fn estimated_many_callers(&self) -> Option<f64> {
        let (found, one) = (self.callers?, self.row(ONE_CALLER, SEAWALL)?.median(|round| round.cpu));
        Some((one + (found.many_ns - found.one_ns) / 1e3) / one)
    }

    /// Informative figures without a bound.
    fn informational(&self) -> Vec<(&'static str, f64)> {
        let callers = |figure: fn(&CallersResult) -> f64| self.callers.as_ref().map(figure);
        let informational = [
            ("plain CPU over the minimal hop, µs", self.cpu_over(PLAIN, SEAWALL, HOP)),
            ("burst CPU over the minimal hop, µs", self.cpu_over(BURST, SEAWALL, HOP)),
            ("plain CPU, hyper's client ÷ ours", self.hyper_ratio(PLAIN)),
            ("burst CPU, hyper's client ÷ ours", self.hyper_ratio(BURST)),
            ("plain CPU of the log, µs", self.cpu_over(PLAIN, SEAWALL, NO_LOG)),
            ("one caller, no socket, µs", callers(|found| found.one_ns / 1e3)),
            ("many callers, no socket, µs", callers(|found| found.many_ns / 1e3)),
            ("many ÷ one, with sockets, estimated", self.estimated_many_callers()),
        ];
        informational.into_iter().filter_map(|(name, figure)| Some((name, figure?))).collect()
    }
}

/// A figure, or a dash if there is none.
fn format_figure(figure: Option<f64>, digits: usize) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.digits$}"))
}

pub(crate) fn tables(results: &ProxyResults) -> String {
    let mut text = String::new();
    let mut case = "";
    // Writing to a string cannot fail.
    for row in &results.rows {
        if row.case != case {
            case = row.case;
            let _ = writeln!(
                text,
                "{case:<34} {:>9} {:>8} {:>9} {:>8} {:>9} {:>9} {:>8}",
                "req/s", "÷ nginx", "CPU µs", "× nginx", "p50 µs", "added", "× nginx"
            );
        }
        let ratio = |figure: fn(&Round) -> f64| format_figure(results.ratio(case, row.target, figure), 2);
        let _ = writeln!(
            text,
            "  {:<32} {:>9.0} {:>8} {:>9.1} {:>8} {:>9.0} {:>9} {:>8}",
            row.target,
            row.median(|round| round.rate),
            ratio(|round| round.rate),
            row.median(|round| round.cpu),
            ratio(|round| round.cpu),
            row.median(|round| round.p50),
            format_figure(results.added(row), 0),
            format_figure(results.added_ratio(case, row.target), 2),
        );
    }
    if !results.memory.is_empty() {
        let _ = writeln!(text, "{:<34} {:>9} {:>8}", "", "MiB idle", "loaded");
    }
    for memory in &results.memory {
        let _ = writeln!(text, "  {:<32} {:>9.1} {:>8.1}", memory.target, memory.idle, memory.loaded);
    }
    for (kind, target, figure) in &results.calls {
        let name = format!("system calls, {target}, {}", kind.name());
        let _ = writeln!(text, "  {name:<32} {figure:>9.1}");
    }
    if results.requests > 0 {
        let _ = writeln!(text, "requests before memory was read: {}", results.requests);
    }
    for (name, figure) in results.informational() {
        let _ = writeln!(text, "{name:<34} {figure:>9.2}");
    }
    text.push_str(&gates::table(&results.gates()));
    text
}

pub(crate) fn json(results: &ProxyResults) -> Value {
    let row = |row: &ResultRow| {
        let rounds = row.rounds.iter();
        let rounds: Vec<_> = rounds
            .map(|round| json!({ "per_second": round.rate, "cpu_us": round.cpu, "p50_us": round.p50 }))
            .collect();
        json!({
            "case": row.case, "target": row.target, "rounds": rounds,
            "per_second_to_nginx": results.ratio(row.case, row.target, |round| round.rate),
            "cpu_to_nginx": results.ratio(row.case, row.target, |round| round.cpu),
            "added_p50_us": results.added(row),
            "added_p50_to_nginx": results.added_ratio(row.case, row.target),
        })
    };
    let memory = |memory: &MemoryUse| json!({ "target": memory.target, "idle_mib": memory.idle, "loaded_mib": memory.loaded });
    let calls = |call: &(BenchRequestKind, &str, f64)| json!({ "kind": call.0.name(), "target": call.1, "per_request": call.2 });
    let figure_json = |(name, figure): &(&str, f64)| json!({ "name": name, "figure": figure });
    json!({
        "rows": results.rows.iter().map(row).collect::<Vec<_>>(),
        "memory": results.memory.iter().map(memory).collect::<Vec<_>>(),
        "system_calls": results.calls.iter().map(calls).collect::<Vec<_>>(),
        "callers": results.callers,
        "informational": results.informational().iter().map(figure_json).collect::<Vec<_>>(),
        "gates": results.gates().iter().map(gates::json).collect::<Vec<_>>(),
        "requests": results.requests,
    })
}

#[cfg(test)]
mod tests {
    use super::{MemoryUse, ProxyResults, ResultRow, Round, json, tables};
    use crate::callers::CallersResult;
    use crate::proxy::cases::{MANY_CALLERS, ONE_CALLER, PLAIN, ProxyCase, all};
    use crate::proxy::requests::BenchRequestKind;

    fn case(name: &str) -> ProxyCase {
        all().into_iter().find(|case| case.name == name).unwrap()
    }

    fn row(name: &str, target: &'static str, cpu: [f64; 3]) -> ResultRow {
        let rounds = cpu.map(|cpu| Round { rate: 1e6 / cpu, cpu, p50: cpu }).to_vec();
        ResultRow { rounds, ..ResultRow::new(case(name), target) }
    }

    fn results() -> ProxyResults {
        ProxyResults {
            rows: vec![
                row(PLAIN, "direct", [1.0; 3]),
                row(PLAIN, "nginx", [10.0, 20.0, 30.0]),
                row(PLAIN, "seawall", [20.0, 40.0, 61.0]),
                row(ONE_CALLER, "seawall", [10.0, 20.0, 30.0]),
                row(MANY_CALLERS, "seawall", [12.0, 24.0, 60.0]),
            ],
            memory: vec![MemoryUse { target: "seawall", idle: 10.0, loaded: 70.0 }],
            calls: vec![(BenchRequestKind::Plain, "seawall", 4.5)],
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
        let text = tables(&results());
        let line = |start: &str| {
            let line = text.lines().rev().find(|line| line.starts_with(start)).unwrap_or_default();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        for (start, end) in [
            ("CPU ÷ nginx: plain, saturated", "2.00 ≤ 1.8 ≤ 1.5 MISSED"),
            ("requests a second ÷ nginx", "0.50 ≥ 0.6 ≥ 0.65 MISSED"),
            ("CPU, 10,000 keys ÷ one key", "1.20 ≤ 1.3 ≤ 1.1 holds"),
            ("many callers ÷ one, no socket", "1.50 ≤ 1.3 ≤ 1.1 MISSED"),
            ("bytes per idle caller", "100.00 ≤ 128 holds"),
            ("system calls per plain request", "4.50 ≤ 7 ≤ 5 holds, aim met"),
            ("memory idle", "10.00 ≤ 30 ≤ 16 holds, aim met"),
            ("memory after", "70.00 ≤ 60 ≤ 25 MISSED"),
            ("many ÷ one, with sockets, estimated", "1.02"),
        ] {
            assert!(line(start).ends_with(end), "{start}: {} in {text}", line(start));
        }
    }

    #[test]
    fn programs_get_the_same() {
        let json = json(&results());
        assert_eq!(json["gates"][0]["holds"], false);
        assert_eq!(json["system_calls"][0]["per_request"], 4.5);
        assert_eq!(json["callers"]["callers"], 1_000_000);
    }

    #[test]
    fn what_was_not_measured_has_no_gate() {
        let nothing = ProxyResults::default();
        assert!(nothing.gates().is_empty());
        assert!(!tables(&nothing).contains("MISSED"));
    }
}
