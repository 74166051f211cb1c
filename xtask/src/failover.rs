//! `cargo xtask failover`: the master of a shared store dies under load.

use crate::requirement;
use crate::steps::in_steps;
use crate::workspace::cargo;
use std::ffi::OsString;

/// Starts the servers and the load, and prints the result. It takes half a minute, so CI leaves it out.
pub(crate) fn run(arguments: &[OsString]) -> anyhow::Result<()> {
    in_steps(|steps| {
        steps.action("requirements", requirement::install_missing)?;
        let mut command = cargo(["run", "--release", "-p", "seawall-bench", "--", "failover"]);
        steps.command("failover", command.args(arguments))
    })
}
