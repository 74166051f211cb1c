//! `cargo xtask ci`: everything a change must pass, the cheap checks first.

use crate::steps::in_steps;
use crate::test::Selection;
use crate::workspace::{cargo, has_cargo_subcommand};
use crate::{chaos, docs, test};
use std::io::{self, IsTerminal};

/// Runs all checks.
pub(crate) fn run() -> anyhow::Result<()> {
    in_steps(|steps| {
        // rustfmt colours its differences even in a file.
        let colours = if io::stdout().is_terminal() { "auto" } else { "never" };
        steps.command("format", &mut cargo(["fmt", "--all", "--check", "--", "--color", colours]))?;
        steps.action("generated files", docs::check)?;
        let mut lints = cargo(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]);
        steps.command("lints", &mut lints)?;
        let mut documentation = cargo(["doc", "--workspace", "--no-deps", "--locked"]);
        steps.command("documentation", documentation.env("RUSTDOCFLAGS", "-D warnings"))?;
        if has_cargo_subcommand("deny") {
            // Advisories are left out: they change without the code, and would turn an old commit red.
            steps
                .command("bans and licences", &mut cargo(["deny", "check", "bans", "licenses", "sources"]))?;
        } else {
            steps.skip(
                "bans and licences",
                "cargo-deny is not installed; the house tests still check bans and licences",
            );
        }
        test::add_steps(steps, &Selection::default())?;
        chaos::add_steps(steps, &["--minutes".into(), "1".into()])
    })
}
