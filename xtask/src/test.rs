//! `cargo xtask test`: every test, with one command.

use crate::steps::{Steps, in_steps};
use crate::workspace::{cargo, has_cargo_subcommand};
use crate::{client, loom, requirement};
use std::num::NonZeroU32;
use std::process::Command;

/// The tests to run, and the number of property-test cases.
#[derive(Default)]
pub(crate) struct Selection {
    /// Cases per property test; `None` uses proptest's default.
    pub(crate) cases: Option<NonZeroU32>,
    /// Parts of test names; empty means every test.
    pub(crate) filters: Vec<String>,
}

/// Features that are off in a plain build, because the vendor's SDKs take minutes, and on wherever code is judged or
/// shipped.
pub(crate) const FEATURES: [&str; 2] = ["--features", "seawall-cli/aws,seawall-drs/aws,seawall-drs/fake,seawall-drs/redis"];

/// Runs the selected tests.
pub(crate) fn run(selection: &Selection) -> anyhow::Result<()> {
    in_steps(|steps| add_steps(steps, selection))
}

/// The steps of a test run; `ci` ends with the same ones.
pub(crate) fn add_steps(steps: &mut Steps, selection: &Selection) -> anyhow::Result<()> {
    steps
        .action("requirements", || requirement::install_missing().and_then(|()| client::install_missing()))?;
    steps
        .command("tests", &mut with_cases(unit_and_integration_tests(&selection.filters), selection.cases))?;
    let mut documentation = cargo(["test", "--workspace", "--doc"]);
    documentation.args(FEATURES).arg("--").args(&selection.filters);
    steps.command("documentation tests", &mut with_cases(documentation, selection.cases))?;
    if selection.filters.is_empty() {
        // Separately, because the tables are too large to be built into everything else.
        let arguments = ["test", "-p", "seawall-core", "--features", "exact-tokens", "--test", "tokens"];
        steps.command("exact token counts", &mut cargo(arguments))?;
        steps.command(loom::STEP, &mut loom::models())
    } else {
        // The test runner combines names with OR, so a filter cannot narrow `loom_` down.
        steps.skip(loom::STEP, "a filter was given; `cargo xtask loom` runs them");
        Ok(())
    }
}

fn unit_and_integration_tests(filters: &[String]) -> Command {
    let mut command = if has_cargo_subcommand("nextest") {
        let mut nextest = cargo(["nextest", "run", "--workspace"]);
        if !filters.is_empty() {
            // The filter may match a doc test, which the next step runs.
            nextest.arg("--no-tests=warn");
        }
        nextest
    } else {
        cargo(["test", "--workspace", "--lib", "--bins", "--tests"])
    };
    // One run should report all failures.
    command.args(FEATURES).arg("--no-fail-fast").arg("--").args(filters);
    command
}

fn with_cases(mut command: Command, cases: Option<NonZeroU32>) -> Command {
    if let Some(cases) = cases {
        command.env("PROPTEST_CASES", cases.to_string());
    }
    command
}
