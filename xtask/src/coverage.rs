//! `cargo xtask coverage`: which lines of seawall-drs its tests run.

use crate::requirement;
use crate::steps::in_steps;
use crate::workspace::{cargo, has_cargo_subcommand};

/// The least share of lines, in percent.
const MIN_LINES: &str = "80";

/// Runs the tests with counters and prints the share of lines by file.
pub(crate) fn run() -> anyhow::Result<()> {
    in_steps(|steps| {
        steps.action("requirements", requirement::install_missing_for_coverage)?;
        if !has_cargo_subcommand("llvm-cov") {
            steps.command("install cargo-llvm-cov", &mut cargo(["install", "cargo-llvm-cov", "--locked"]))?;
        }
        let mut measure = cargo(["llvm-cov", "-p", "seawall-drs", "--features", "aws,fake,redis"]);
        // The fake is part of the tests, and covering it says nothing about the crate.
        measure.args(["--ignore-filename-regex", "/fake/", "--fail-under-lines", MIN_LINES]);
        measure.env("LLVM_COV", "llvm-cov-22").env("LLVM_PROFDATA", "llvm-profdata-22");
        steps.command("coverage", &mut measure)
    })
}
