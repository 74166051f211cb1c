//! `cargo xtask dist`: the shipped program, built with profile-guided optimisation (PGO).
//!
//! It is built with instrumentation, run under the load of the benchmark of whole requests, and built again with the
//! collected profile: code that is used together is placed together, and cold code elsewhere. That matters most at low
//! request rates, when the CPU caches no longer hold the program between two requests.

use crate::requirement;
use crate::steps::in_steps;
use crate::workspace::{cargo, target_folder};
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
        let host = steps.action("this machine", host)?;
        let (counting, guided) = (target_folder("counting"), target_folder("guided"));
        let (counts, merged) = (counting.join("counts"), guided.join("counts.profdata"));
        steps.action("old counts", || remove(&counts))?;
        let flag = |name: &str, path: &Path| OsString::from(format!("-C{name}={}", path.display()));
        let generate = flag("profile-generate", &counts);
        steps.command("the program with counters", &mut build(&host, &counting, generate))?;
        let mut load =
            cargo(["run", "--profile", "dist", "-p", "seawall-bench", "--", "proxy", "--only-load"]);
        load.args(["core", "dialects", "token", "cross"].iter().flat_map(|part| ["--only", part]));
        load.args(["--rounds", "1", "--seconds", "1", "--seawall"]).arg(program(&host, &counting));
        steps.command("the load", &mut load)?;
        steps.action("a folder for the program", || Ok(fs::create_dir_all(&guided)?))?;
        let mut merge = Command::new(merger()?);
        steps.command("the counts", merge.arg("merge").arg("-o").arg(&merged).arg(&counts))?;
        steps.command("the program", &mut build(&host, &guided, flag("profile-use", &merged)))?;
        println!("\nthe program: {}", program(&host, &guided).display());
        Ok(())
    })
}

fn merger() -> anyhow::Result<&'static str> {
    let is_here = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    MERGERS.iter().find(is_here).copied().context("llvm-profdata is missing: apt-get install llvm-19")
}

/// Builds for an explicit target, so that the flags do not apply to build scripts and proc macros.
fn build(host: &str, folder: &Path, flags: OsString) -> Command {
    let mut command =
        cargo(["build", "--profile", "dist", "-p", "seawall-cli", "--target", host, "--target-dir"]);
    command.arg(folder).env("RUSTFLAGS", flags);
    command
}

fn program(host: &str, folder: &Path) -> PathBuf {
    folder.join(host).join("dist").join("seawall")
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

/// The compiler's name of this platform.
fn host() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc tells no host")?;
    println!("{host}");
    Ok(host.to_owned())
}
