//! Runs benchmark cases alternately.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

/// One benchmark case.
pub(crate) struct Case<'a> {
    pub(crate) name: &'static str,
    /// Decisions per round.
    pub(crate) decisions: u32,
    /// Takes this many decisions and returns a value that depends on them, so that they are not optimised away.
    pub(crate) run: Box<dyn FnMut(u32) -> u64 + 'a>,
}

/// Nanoseconds per decision, by round.
pub(crate) struct Measurement {
    pub(crate) name: &'static str,
    pub(crate) rounds: Vec<f64>,
}

impl Measurement {
    pub(crate) fn median(&self) -> f64 {
        median(self.rounds.clone())
    }

    /// The median of the ratios to another case within each round.
    pub(crate) fn ratio_to(&self, other: &Self) -> f64 {
        median(self.rounds.iter().zip(&other.rounds).map(|(own, other)| own / other).collect())
    }
}

pub(crate) fn median_of(measured: &[Measurement], name: &str) -> f64 {
    measured.iter().find(|case| case.name == name).map_or(f64::INFINITY, Measurement::median)
}

/// The only clock of the benchmark.
pub(crate) use seawall_testkit::now;

pub(crate) fn since(start: Instant) -> Duration {
    now() - start
}

/// Runs every case once per round, after one warm-up round that is discarded.
pub(crate) fn run_alternating(mut cases: Vec<Case<'_>>, rounds: u32) -> Vec<Measurement> {
    let mut measured: Vec<Measurement> =
        cases.iter().map(|case| Measurement { name: case.name, rounds: Vec::new() }).collect();
    let progress = progress((u64::from(rounds) + 1) * cases.len() as u64);
    let mut kept = 0;
    for round in 0..=rounds {
        for (case, measured) in cases.iter_mut().zip(&mut measured) {
            progress.set_message(case.name);
            let start = now();
            kept ^= (case.run)(case.decisions);
            let spent = since(start);
            if round > 0 {
                measured.rounds.push(spent.as_nanos() as f64 / f64::from(case.decisions));
            }
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    std::hint::black_box(kept);
    measured
}

pub(crate) fn progress(length: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}");
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// The median; the mean of the two middle values if the count is even.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    if values.is_empty() {
        return f64::NAN;
    }
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// Resident memory of this process; `None` if the kernel does not report it.
pub(crate) fn resident_bytes() -> Option<usize> {
    let statistics = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = statistics.lines().find(|line| line.starts_with("Rss:"))?;
    let kibibytes: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1_024)
}

#[cfg(test)]
mod tests {
    use super::{Measurement, median};

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_two_in_it() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn a_ratio_is_taken_inside_each_round() {
        let ours = Measurement { name: "ours", rounds: vec![10.0, 200.0, 30.0] };
        let theirs = Measurement { name: "theirs", rounds: vec![5.0, 100.0, 15.0] };
        assert!((ours.ratio_to(&theirs) - 2.0).abs() < 1e-9);
        assert!((ours.median() - 30.0).abs() < 1e-9);
    }
}
