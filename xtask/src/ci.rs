//! `cargo xtask ci`: everything a change must pass, the cheap checks first.

use crate::steps::in_steps;
use crate::test::{FEATURES, Selection};
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
        let mut lints = cargo(["clippy", "--workspace", "--all-targets", "--locked"]);
        lints.args(FEATURES).args(["--", "-D", "warnings"]);
        steps.command("lints", &mut lints)?;
        // A plain build has no AWS, and must be free of warnings too.
        let plain = ["clippy", "-p", "seawall-cli", "-p", "seawall-drs", "--locked", "--", "-D", "warnings"];
        steps.command("lints without AWS", &mut cargo(plain))?;
        let mut documentation = cargo(["doc", "--workspace", "--no-deps", "--locked"]);
        documentation.args(FEATURES).env("RUSTDOCFLAGS", "-D warnings");
        steps.command("documentation", &mut documentation)?;
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
