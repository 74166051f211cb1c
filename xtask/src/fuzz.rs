//! `cargo xtask fuzz`: throws bytes at the readers of dialects and settings for a while.
//!
//! cargo-fuzz steers by coverage, which needs a nightly compiler; the property tests do the same blindly with the
//! usual one. What it finds is kept under `fuzz/artifacts`, what it learns under `fuzz/corpus`.

use crate::steps::in_steps;
use crate::workspace::{cargo, has_cargo_subcommand, root, target_folder};
use anyhow::Context as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const TARGETS: [&str; 4] = ["requests", "answers", "streams", "settings"];

/// Runs each target for so many seconds.
pub(crate) fn run(seconds: u32) -> anyhow::Result<()> {
    in_steps(|steps| {
        if !has_cargo_subcommand("fuzz") {
            steps.command("install cargo-fuzz", &mut cargo(["install", "cargo-fuzz", "--locked"]))?;
        }
        for target in TARGETS {
            fs::create_dir_all(corpus(target)).context("cannot make the folder for what is learnt")?;
            steps.command(&format!("fuzz {target}"), &mut fuzz(target, seconds))?;
        }
        Ok(())
    })
}

fn corpus(target: &str) -> PathBuf {
    root().join("fuzz/corpus").join(target)
}

/// What a target begins with: files of the kind that it reads.
fn beginnings(target: &str) -> &'static [&'static str] {
    match target {
        "settings" => &["crates/config/profiles", "crates/config/tests/settings/mistakes"],
        _ => &["crates/wire/tests/golden/anthropic", "crates/wire/tests/golden/openai"],
    }
}

fn fuzz(target: &str, seconds: u32) -> Command {
    // By its name through rustup: the compiler that runs xtask is another one.
    let mut command = Command::new("cargo");
    command
        .current_dir(root())
        .args(["+nightly", "fuzz", "run", "--target-dir"])
        .arg(target_folder("fuzz"))
        .arg(target)
        // What is learnt goes into the first folder; the others are where to begin.
        .arg(corpus(target))
        .args(beginnings(target))
        .arg("--")
        .arg(format!("-max_total_time={seconds}"))
        // Longer than any golden file, short enough to be quick.
        .arg("-max_len=8192")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO");
    command
}
