//! `cargo xtask bench`: the benchmarks, built with the profile of the shipped program.

use crate::requirement;
use crate::steps::in_steps;
use crate::workspace::cargo;
use std::ffi::OsString;

/// Runs seawall-bench with `arguments`.
pub(crate) fn run(arguments: &[OsString]) -> anyhow::Result<()> {
    in_steps(|steps| {
        let is = |name: &str| arguments.first().is_some_and(|first| first == name);
        if is("proxy") || is("model") {
            steps.action("requirements", requirement::install_missing_for_proxy_bench)?;
            // The benchmark starts the program in its own directory.
            steps.command("the program", &mut cargo(["build", "--profile", "dist", "-p", "seawall-cli"]))?;
        }
        // Any other profile would measure a program that is not shipped.
        let mut command = cargo(["run", "--profile", "dist", "-p", "seawall-bench", "--"]);
        steps.command("benchmarks", command.args(arguments))
    })
}
