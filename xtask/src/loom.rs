//! `cargo xtask loom`: the models of the lock-free code (tests named `loom_*`), under every interleaving
//! within a bound on preemptions.

use crate::steps::in_steps;
use crate::workspace::{cargo, target_dir};
use std::process::Command;

pub(crate) const STEP: &str = "loom models";

/// Runs the models alone.
pub(crate) fn run() -> anyhow::Result<()> {
    in_steps(|steps| steps.command(STEP, &mut models()))
}

/// The command that runs the models. It is no error if there are none.
pub(crate) fn models() -> Command {
    // Optimised, since a model is run many thousand times. The other unit tests are compiled, and excluded by name.
    let mut command = cargo(["test", "-p", "seawall-core", "--lib", "--release", "loom_"]);
    command
        .env("RUSTFLAGS", "--cfg loom")
        // Other flags rebuild every crate; a separate target directory keeps the usual builds warm.
        .env("CARGO_TARGET_DIR", target_dir("loom"))
        // Nearly every real race shows within three preemptions; without a bound a model can run for days.
        .env("LOOM_MAX_PREEMPTIONS", "3");
    command
}
