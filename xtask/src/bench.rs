//! `cargo xtask bench`: the benchmarks, built the way the program is shipped.

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
            // It starts the program it finds beside itself.
            steps.command("the program", &mut cargo(["build", "--profile", "dist", "-p", "seawall-cli"]))?;
        }
        // Any other profile would measure a program nobody runs.
        let mut command = cargo(["run", "--profile", "dist", "-p", "seawall-bench", "--"]);
        steps.command("benchmarks", command.args(arguments))
    })
}
