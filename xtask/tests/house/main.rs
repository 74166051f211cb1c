//! Rules of this repository that no compiler checks, as tests.
//!
//! Each rule is a pure function from its input to a list of messages, one for each violation. The functions are also
//! tested on made-up input, so that a rule which finds nothing is known to be able to find something.

mod bans;
mod clean;
mod edges;
mod graph;
mod licences;
mod names;
mod reasons;
mod size;

use anyhow::{Context as _, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the workspace.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}

/// The output of a program that is run at the root.
fn output_of(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program).args(arguments).current_dir(root()).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {}: {stderr}", arguments.join(" "));
    String::from_utf8(output.stdout).with_context(|| format!("{program} wrote something that is not text"))
}

/// The output of the cargo of this build.
fn cargo(arguments: &[&str]) -> anyhow::Result<String> {
    output_of(env!("CARGO"), arguments)
}

/// Reads a file of the workspace.
fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))
}

/// The files that are or would be committed, relative to the root.
fn files() -> anyhow::Result<Vec<String>> {
    if root().join(".git").exists() {
        let listed = output_of("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let is_there = |path: &&str| root().join(path).is_file();
        return Ok(listed.split_terminator('\0').filter(is_there).map(str::to_owned).collect());
    }
    // An unpacked archive has no git index; everything but build output belongs to it.
    let mut found = Vec::new();
    walk(&root(), "", &mut found)?;
    Ok(found)
}

fn walk(directory: &Path, prefix: &str, found: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_build_output = ["target", "mutants.out"].iter().any(|start| name.starts_with(start))
            || ["node_modules", ".venv"].contains(&name.as_str());
        let kind = entry.file_type()?;
        if kind.is_dir() && !is_build_output {
            walk(&entry.path(), &format!("{prefix}{name}/"), found)?;
        } else if kind.is_file() {
            found.push(format!("{prefix}{name}"));
        }
    }
    Ok(())
}

/// Fails with all violations at once.
fn expect_none(violations: &[String]) -> anyhow::Result<()> {
    ensure!(violations.is_empty(), "\n  {}", violations.join("\n  "));
    Ok(())
}

#[test]
fn an_archive_and_a_checkout_hold_the_same_sources() -> anyhow::Result<()> {
    let mut walked = Vec::new();
    walk(&root(), "", &mut walked)?;
    for path in files()?.iter().filter(|path| path.ends_with(".rs")) {
        assert!(walked.contains(path), "{path} is not found without git");
    }
    Ok(())
}

/// The first command of the README is `cargo run`, which requires that there is exactly one program.
#[cfg(test)]
#[test]
fn cargo_runs_the_one_program_there_is() -> anyhow::Result<()> {
    let metadata: serde_json::Value =
        serde_json::from_str(&cargo(&["metadata", "--locked", "--no-deps", "--format-version", "1"])?)?;
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let default_members = list(&metadata["workspace_default_members"]);
    let mut programs = Vec::new();
    for package in
        list(&metadata["packages"]).iter().filter(|package| default_members.contains(&package["id"]))
    {
        for target in list(&package["targets"]) {
            if list(&target["kind"]).contains(&"bin".into()) {
                programs.push(target["name"].as_str().unwrap_or_default().to_owned());
            }
        }
    }
    ensure!(programs == ["seawall"], "programs of the default members: {programs:?}");
    Ok(())
}
