//! `cargo xtask agents`: coding agents, unmodified, each doing one small task through the gateway.
//!
//! Installs what is missing, runs the end-to-end test of each agent and prints a table. All agents run, even if one fails. Tests that
//! count requests per refusal are part of `cargo xtask test`.

use crate::client::{agent_version, install_missing_agents};
use crate::requirement;
use crate::test::FEATURES;
use crate::workspace::cargo;
use anyhow::{Context as _, bail, ensure};
use std::time::{Duration, Instant};

/// An agent: the directory that it is installed in, and its test.
const AGENTS: [(&str, &str); 5] = [
    ("claude-code", "agents::tasks::claude_code_writes_a_file"),
    ("codex", "agents::tasks::codex_writes_a_file"),
    ("gemini-cli", "agents::tasks::gemini_cli_writes_a_file"),
    ("opencode", "agents::tasks::opencode_writes_a_file"),
    ("aider", "agents::tasks::aider_writes_a_file"),
];

/// One agent's result.
struct AgentRow {
    name: &'static str,
    took: Duration,
    succeeded: bool,
}

/// Runs these agents; all of them if none is named.
pub(crate) fn run(names: &[String]) -> anyhow::Result<()> {
    if let Some(unknown) = names.iter().find(|name| AGENTS.iter().all(|(known, _)| known != name)) {
        bail!("{unknown} is none of {}", AGENTS.map(|(name, _)| name).join(", "));
    }
    let selected =
        || AGENTS.into_iter().filter(|(name, _)| names.is_empty() || names.iter().any(|n| n == name));
    requirement::install_missing()?;
    install_missing_agents(&selected().map(|(name, _)| name).collect::<Vec<_>>())?;
    let tests = || {
        let mut command = cargo(["test", "--quiet", "-p", "seawall-cli", "--test", "program"]);
        // Those of `cargo xtask test`, so that nothing is built twice.
        command.args(FEATURES);
        command
    };
    let built = tests().arg("--no-run").status();
    ensure!(built.context("cannot start cargo")?.success(), "the tests do not compile");
    let mut rows = Vec::new();
    for (name, test) in selected() {
        let mut command = tests();
        command.args(["--", "--include-ignored", "--exact", test]);
        let started = now();
        let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
        rows.push(AgentRow { name, took: now() - started, succeeded: status.success() });
    }
    print!("\n{}", table(&rows));
    let failed: Vec<_> = rows.iter().filter(|row| !row.succeeded).map(|row| row.name).collect();
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Each agent runs twice: with a target of its own dialect, and with a translation.
fn table(rows: &[AgentRow]) -> String {
    let line = |row: &AgentRow| {
        let result = if row.succeeded { "ok" } else { "FAILED" };
        let version = agent_version(row.name).unwrap_or_default();
        format!("{:12} {version:10} {:>6.1} s  {result}\n", row.name, row.took.as_secs_f64())
    };
    rows.iter().map(line).collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the time of an agent is shown to a person and decides nothing"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::{AGENTS, AgentRow, agent_version, run, table};
    use std::time::Duration;

    #[test]
    fn every_agent_can_be_installed_and_an_unknown_one_is_refused() {
        for (name, _) in AGENTS {
            assert!(agent_version(name).is_some(), "{name}");
        }
        let error = run(&["copilot".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("copilot is none of claude-code, codex"), "{error}");
    }

    #[test]
    fn the_table_has_the_version_and_the_result() {
        let row = |name, succeeded| AgentRow { name, took: Duration::from_millis(1_250), succeeded };
        let text = table(&[row("codex", true), row("aider", false)]);
        let version = agent_version("codex").unwrap();
        assert!(text.starts_with("codex") && text.contains(version) && text.ends_with("FAILED\n"), "{text}");
    }
}
