//! `cargo xtask dist`: the shipped program, built with profile-guided optimisation (PGO).
//!
//! It is built with instrumentation, run under the load of the benchmark of whole requests, and built again with the
//! collected profile: code that is used together is placed together, and cold code elsewhere. That matters most at low
//! request rates, when the CPU caches no longer hold the program between two requests.

use crate::requirement;
use crate::steps::in_steps;
use crate::workspace::{cargo, target_dir};
use anyhow::Context as _;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Any of these can read the compiler's profiles. The newest one present is used.
const MERGERS: [&str; 4] = ["llvm-profdata-22", "llvm-profdata-21", "llvm-profdata-20", "llvm-profdata-19"];

/// Builds the program and prints its path.
pub(crate) fn run() -> anyhow::Result<()> {
    in_steps(|steps| {
        steps.action("requirements", requirement::install_missing_for_dist)?;
        let host = steps.action("host platform", host)?;
        let (instrumented, optimised) = (target_dir("counting"), target_dir("guided"));
        let (profiles, merged_profile) = (instrumented.join("counts"), optimised.join("counts.profdata"));
        steps.action("remove old profiles", || remove(&profiles))?;
        let flag = |name: &str, path: &Path| OsString::from(format!("-C{name}={}", path.display()));
        let generate = flag("profile-generate", &profiles);
        steps.command("instrumented build", &mut build(&host, &instrumented, generate))?;
        let mut load =
            cargo(["run", "--profile", "dist", "-p", "seawall-bench", "--", "proxy", "--only-load"]);
        load.args(["core", "dialects", "token", "cross"].iter().flat_map(|part| ["--only", part]));
        load.args(["--rounds", "1", "--seconds", "1", "--seawall"]).arg(program(&host, &instrumented));
        steps.command("profiling load", &mut load)?;
        steps.action("output directory", || Ok(fs::create_dir_all(&optimised)?))?;
        let mut merge = Command::new(merger()?);
        steps.command("merge profiles", merge.arg("merge").arg("-o").arg(&merged_profile).arg(&profiles))?;
        steps.command(
            "optimised build",
            &mut build(&host, &optimised, flag("profile-use", &merged_profile)),
        )?;
        println!("\nthe program: {}", program(&host, &optimised).display());
        Ok(())
    })
}

fn merger() -> anyhow::Result<&'static str> {
    let is_here = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    MERGERS.iter().find(is_here).copied().context("llvm-profdata is missing: apt-get install llvm-19")
}

/// Builds for an explicit target, so that the flags do not apply to build scripts and proc macros.
fn build(host: &str, directory: &Path, flags: OsString) -> Command {
    let mut command =
        cargo(["build", "--profile", "dist", "-p", "seawall-cli", "--features", "aws", "--target", host]);
    command.arg("--target-dir").arg(directory).env("RUSTFLAGS", flags);
    command
}

fn program(host: &str, directory: &Path) -> PathBuf {
    directory.join(host).join("dist").join("seawall")
}

fn remove(directory: &Path) -> anyhow::Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    }
    Ok(())
}

/// The compiler's name of this platform.
fn host() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let host =
        text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc -vV prints no host")?;
    println!("{host}");
    Ok(host.to_owned())
}
