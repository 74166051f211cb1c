//! `cargo xtask mutants`: mutation testing of seawall-core.
//!
//! cargo-mutants generates and runs the mutants. This module selects them, since cargo-mutants can run shards of its
//! list but no random sample. Every mutant takes a build, so all of them would take hours.

mod sample;
mod score;

use crate::steps::{Steps, in_steps};
use crate::workspace::{cargo, has_cargo_subcommand, target_dir};
use anyhow::{Context as _, ensure};
use score::MutationScore;
use serde_json::Value;
use std::fs;

/// Exit statuses of cargo-mutants after a complete run: all caught, some missed, some timed out.
const FINISHED: [i32; 3] = [0, 2, 3];

/// Runs `size` mutants chosen by `seed`, of these modules or of all.
pub(crate) fn run(size: usize, seed: u64, modules: &[String]) -> anyhow::Result<()> {
    in_steps(|steps| {
        if !has_cargo_subcommand("mutants") {
            steps.command("install cargo-mutants", &mut cargo(["install", "cargo-mutants", "--locked"]))?;
        }
        let mut all = steps.action("list mutants", list)?;
        all.retain(|name| is_in(name, modules));
        ensure!(!all.is_empty(), "no mutants in {}", modules.join(", "));
        let total = all.len();
        let chosen = sample::choose(all, size, seed);
        let step = format!("run {} of {total} mutants (seed {seed})", chosen.len());
        let score = steps.action(&step, || run_each(&chosen))?;
        check_score(steps, &score)
    })
}

fn check_score(steps: &mut Steps, score: &MutationScore) -> anyhow::Result<()> {
    steps.action("score", || {
        println!("{score}");
        ensure!(score.is_enough(), "the tests of seawall-core detect too few mutants");
        Ok(())
    })
}

/// Whether a mutant, whose name begins with its file, is of one of these modules; true if none are given.
fn is_in(name: &str, modules: &[String]) -> bool {
    let is_of = |module: &String| {
        let path = name.split_once("/src/").map_or("", |(_, path)| path);
        path.strip_prefix(module.as_str()).is_some_and(|rest| rest.starts_with(['/', '.']))
    };
    modules.is_empty() || modules.iter().any(is_of)
}

/// The names of all mutants of seawall-core.
fn list() -> anyhow::Result<Vec<String>> {
    let mut command = cargo(["mutants", "--list", "--json", "-p", "seawall-core"]);
    let output = command.output().context("cannot start cargo mutants")?;
    ensure!(output.status.success(), "cargo mutants --list: {}", String::from_utf8_lossy(&output.stderr));
    let mutants: Vec<Value> =
        serde_json::from_slice(&output.stdout).context("cargo mutants --list wrote no list")?;
    let name = |mutant: &Value| mutant["name"].as_str().map(str::to_owned).context("a mutant has no name");
    let mut names = mutants.iter().map(name).collect::<anyhow::Result<Vec<_>>>()?;
    names.dedup();
    Ok(names)
}

/// Runs the unit tests against each of the named mutants.
fn run_each(names: &[String]) -> anyhow::Result<MutationScore> {
    let directory = target_dir("mutants");
    fs::create_dir_all(&directory).context("cannot create the results directory")?;
    let mut command = cargo(["mutants", "-p", "seawall-core", "--jobs", "2"]);
    command.arg("--output").arg(&directory);
    for name in names {
        // A name contains file, line and column, so the whole of it selects one mutant.
        command.args(["--re", &pattern_of(name)]);
    }
    command.args(["--", "--lib"]);
    // Fewer cases than usual: a mutant shows early, and there are hundreds of runs.
    let status = command.env("PROPTEST_CASES", "64").status().context("cannot start cargo mutants")?;
    ensure!(status.code().is_some_and(|code| FINISHED.contains(&code)), "cargo mutants failed with {status}");
    let outcomes =
        fs::read(directory.join("mutants.out/outcomes.json")).context("cargo mutants left no outcomes")?;
    let score = MutationScore::from_outcomes(&serde_json::from_slice(&outcomes)?)?;
    // A few more may have run: two mutants of one expression can have the same name.
    ensure!(score.tried() >= names.len() as u64, "expected {} mutants, got {}", names.len(), score.tried());
    Ok(score)
}

/// A regular expression that matches exactly `name`.
fn pattern_of(name: &str) -> String {
    let mut pattern = String::from("^");
    for character in name.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('$');
    pattern
}

#[cfg(test)]
mod tests {
    use super::{is_in, pattern_of};

    #[test]
    fn mutants_are_found_by_the_module_they_are_in() {
        let modules = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let [directory, file] =
            ["crates/core/src/budget/book.rs:1:2: x", "crates/core/src/rollout.rs:1:2: x"];
        assert!(is_in(directory, &modules(&["budget"])) && is_in(file, &modules(&["queue", "rollout"])));
        assert!(!is_in(directory, &modules(&["bud"])) && !is_in(file, &modules(&["budget"])));
        assert!(is_in(directory, &[]));
    }

    #[test]
    fn a_name_becomes_a_pattern_for_itself_alone() {
        let name = "src/a.rs:4:3: replace * with + in <impl Add for T>::add -> Option<[u8; 2]>";
        let pattern = r"^src/a\.rs:4:3: replace \* with \+ in <impl Add for T>::add -> Option<\[u8; 2\]>$";
        assert_eq!(pattern_of(name), pattern);
    }
}
