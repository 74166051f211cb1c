//! `cargo xtask fuzz`: fuzzes the parsers of dialects and settings for a while.
//!
//! cargo-fuzz is guided by coverage, which needs a nightly compiler; the property tests do the same without guidance on
//! the usual one. Findings are stored under `fuzz/artifacts`, the corpus under `fuzz/corpus`.

use crate::steps::in_steps;
use crate::workspace::{cargo, has_cargo_subcommand, root, target_dir};
use anyhow::Context as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const TARGETS: [&str; 4] = ["requests", "answers", "streams", "settings"];

/// Runs each target for this many seconds.
pub(crate) fn run(seconds: u32) -> anyhow::Result<()> {
    in_steps(|steps| {
        if !has_cargo_subcommand("fuzz") {
            steps.command("install cargo-fuzz", &mut cargo(["install", "cargo-fuzz", "--locked"]))?;
        }
        for target in TARGETS {
            fs::create_dir_all(corpus(target)).context("cannot create the corpus directory")?;
            steps.command(&format!("fuzz {target}"), &mut fuzz(target, seconds))?;
        }
        Ok(())
    })
}

fn corpus(target: &str) -> PathBuf {
    root().join("fuzz/corpus").join(target)
}

/// The seed corpus of a target: files of the kind that it parses.
fn seed_corpus(target: &str) -> &'static [&'static str] {
    match target {
        "settings" => &["crates/config/profiles", "crates/config/tests/settings/mistakes"],
        _ => &["crates/wire/tests/golden/anthropic", "crates/wire/tests/golden/openai"],
    }
}

fn fuzz(target: &str, seconds: u32) -> Command {
    // Through rustup by name, because xtask runs under another toolchain.
    let mut command = Command::new("cargo");
    command
        .current_dir(root())
        .args(["+nightly", "fuzz", "run", "--target-dir"])
        .arg(target_dir("fuzz"))
        .arg(target)
        // New inputs go into the first directory; the others are the seed corpus.
        .arg(corpus(target))
        .args(seed_corpus(target))
        .arg("--")
        .arg(format!("-max_total_time={seconds}"))
        // Longer than any golden file, short enough to be quick.
        .arg("-max_len=8192")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO");
    command
}
