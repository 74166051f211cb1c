//! System calls per request: countable without noise, and most of what a proxy costs.

use super::child::{PinnedProcess, TEST_CORE, program};
use super::requests::{BenchRequest, CALLERS};
use super::target::{BenchPrograms, ProxyTarget};
use super::{LoadSpec, load};
use crate::measure::{now, since};
use anyhow::{Context as _, ensure};
use seawall_testkit::pause;
use std::time::Duration;

/// Number of requests to count over; enough that the calls for connecting are negligible.
const REQUESTS: u64 = 4_000;

/// System calls per request; `None` if strace is not installed.
pub(crate) fn calls_per_request(
    programs: &BenchPrograms,
    target: &ProxyTarget,
    request: BenchRequest,
) -> anyhow::Result<Option<f64>> {
    let (Some(strace), Some(running)) = (program("strace"), &target.running) else { return Ok(None) };
    let summary = programs.directory.join("calls");
    let id = running.id().to_string();
    let to = summary.display().to_string();
    // Tracing slows the process down drastically, so only the count is used and no times.
    let tracer = PinnedProcess::start(TEST_CORE, &strace, ["-c", "-f", "-qq", "-o", &to, "-p", &id])?;
    let started = now();
    while running.status("TracerPid:")? == "0" {
        ensure!(since(started) < Duration::from_secs(5), "strace does not attach");
        pause(Duration::from_millis(20));
    }
    let spec = LoadSpec {
        request,
        seconds: 60.0,
        rate: None,
        count: Some(REQUESTS),
        connections: 32,
        callers: CALLERS,
    };
    let loaded = load(programs, target.address, spec)?;
    tracer.interrupt()?;
    let text = std::fs::read_to_string(&summary).context("strace wrote no summary")?;
    let calls = total(&text).context("strace's summary has no total")?;
    Ok(Some(calls / loaded.requests as f64))
}

/// The total number of calls, from the last line of strace's summary.
fn total(summary: &str) -> Option<f64> {
    let line = summary.lines().rev().find(|line| line.trim_end().ends_with("total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn the_total_is_read_with_and_without_errors() {
        let with = "100.00    0.012345           1     12345       123 total\n";
        let without = "100.00    0.012345           1     12345           total\n";
        for text in [with, without] {
            assert!(total(text).is_some_and(|calls| (calls - 12_345.0).abs() < 0.5));
        }
    }
}
