//! `cargo xtask chaos`: random faults against running gateways.

use crate::requirement;
use crate::steps::{Steps, in_steps};
use crate::workspace::{cargo, target_dir};
use std::ffi::OsString;
use std::process::Command;

/// Builds the programs and runs the chaos test.
pub(crate) fn run(arguments: &[OsString]) -> anyhow::Result<()> {
    in_steps(|steps| {
        steps.action("requirements", requirement::install_missing)?;
        add_steps(steps, arguments)
    })
}

/// The steps of a run; `ci` has the same ones, for a minute.
pub(crate) fn add_steps(steps: &mut Steps, arguments: &[OsString]) -> anyhow::Result<()> {
    // In one build, so that both use the same features of shared crates.
    let mut build = cargo(["build", "--locked", "-p", "seawall-cli", "-p", "seawall-chaos"]);
    steps.command("chaos: build", &mut build)?;
    let mut chaos = Command::new(target_dir("debug").join("seawall-chaos"));
    steps.command("chaos", chaos.args(arguments))
}
