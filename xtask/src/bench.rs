//! `cargo xtask bench`: the benchmarks, built the way the program is shipped.

use crate::steps::in_steps;
use crate::workspace::cargo;
use std::ffi::OsString;

/// Runs seawall-bench with `arguments`.
pub(crate) fn run(arguments: &[OsString]) -> anyhow::Result<()> {
    // Any other profile would measure a program nobody runs.
    let mut command = cargo(["run", "--profile", "dist", "-p", "seawall-bench", "--"]);
    in_steps(|steps| steps.command("benchmarks", command.args(arguments)))
}
