//! Steps, one after the other, each with a heading and a duration.
//!
//! The first step that fails ends the run, and its exit status becomes that of xtask. The table of durations is printed
//! in either case: a slow step is worth knowing about even when a later one failed.

use anyhow::Context as _;
use std::io::{self, IsTerminal};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// A step that ended without success.
#[derive(Debug, thiserror::Error)]
#[error("{step} failed with exit status {status}")]
struct StepFailed {
    step: String,
    status: u8,
}

/// The exit status for `error`: the failed step's own, or 1.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(error.downcast_ref::<StepFailed>().map_or(1, |failed| failed.status))
}

/// The steps so far.
pub(crate) struct Steps {
    rows: Vec<StepRow>,
}

struct StepRow {
    step: String,
    took: Duration,
    result: &'static str,
}

/// Runs `body` and prints the table of its steps, however it ends.
pub(crate) fn in_steps(body: impl FnOnce(&mut Steps) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut steps = Steps { rows: Vec::new() };
    let outcome = body(&mut steps);
    print!("\n{}", steps.table());
    outcome
}

impl Steps {
    /// Runs a program; its output is passed through.
    pub(crate) fn command(&mut self, step: &str, command: &mut Command) -> anyhow::Result<()> {
        self.action(step, || {
            let status = command.status().with_context(|| format!("{step}: cannot start {command:?}"))?;
            if status.success() {
                return Ok(());
            }
            // A program ended by a signal has no status of its own, and 0 would mean success.
            let status = status.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0);
            Err(StepFailed { step: step.to_owned(), status: status.unwrap_or(1) }.into())
        })
    }

    /// Runs a step inside this program.
    pub(crate) fn action<T>(
        &mut self,
        step: &str,
        action: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        println!("\n{}", bold(&format!("== {step}")));
        let started = now();
        let outcome = action();
        let result = if outcome.is_ok() { "ok" } else { "FAILED" };
        self.rows.push(StepRow { step: step.to_owned(), took: now() - started, result });
        outcome
    }

    /// Records that a step was skipped, and prints why.
    pub(crate) fn skip(&mut self, step: &str, why: &str) {
        println!("\n{}\nskipped: {why}", bold(&format!("== {step}")));
        self.rows.push(StepRow { step: step.to_owned(), took: Duration::ZERO, result: "skipped" });
    }

    fn table(&self) -> String {
        let width = self.rows.iter().map(|row| row.step.len()).max().unwrap_or(0).max("total".len());
        let line = |step: &str, took: Duration, result: &str| {
            let text = format!("{step:width$}  {:>8.1} s  {result}", took.as_secs_f64());
            format!("{}\n", text.trim_end())
        };
        let mut table: String = self.rows.iter().map(|row| line(&row.step, row.took, row.result)).collect();
        table.push_str(&line("total", self.rows.iter().map(|row| row.took).sum(), ""));
        table
    }
}

/// Bold on a terminal, plain in a file or a pipe.
fn bold(text: &str) -> String {
    if io::stdout().is_terminal() { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
}

#[expect(clippy::disallowed_methods, reason = "the time of a step is shown to a person and decides nothing")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::{StepRow, Steps, exit_code, in_steps};
    use std::process::{Command, ExitCode};
    use std::time::Duration;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_first_failing_step_stops_the_run_and_gives_its_status() {
        let mut reached = Vec::new();
        let outcome = in_steps(|steps| {
            steps.command("first", &mut shell("exit 0"))?;
            reached.push("first");
            steps.command("second", &mut shell("exit 42"))?;
            reached.push("second");
            Ok(())
        });
        let error = outcome.unwrap_err();
        assert_eq!(error.to_string(), "second failed with exit status 42");
        assert_eq!(exit_code(&error), ExitCode::from(42));
        assert_eq!(reached, ["first"]);
    }

    #[test]
    fn a_killed_or_missing_program_is_a_failure() {
        let killed = in_steps(|steps| steps.command("killed", &mut shell("kill -9 $$"))).unwrap_err();
        assert_eq!(exit_code(&killed), ExitCode::from(1));
        let missing =
            in_steps(|steps| steps.command("missing", &mut Command::new("no-such-program"))).unwrap_err();
        assert!(missing.to_string().starts_with("missing: cannot start"), "{missing}");
    }

    #[test]
    fn the_table_lines_up_and_adds_up() {
        let row = |step: &str, millis, result| StepRow {
            step: step.to_owned(),
            took: Duration::from_millis(millis),
            result,
        };
        let steps = Steps {
            rows: vec![row("format", 1_200, "ok"), row("bans", 0, "skipped"), row("lints", 61_050, "FAILED")],
        };
        let expected = "format       1.2 s  ok\nbans         0.0 s  skipped\n\
            lints       61.0 s  FAILED\ntotal       62.2 s\n";
        assert_eq!(steps.table(), expected);
    }
}
