//! Child processes of a run. Their standard error goes to a file, to be read at the end.

use anyhow::Context as _;
use seawall_core::deadline::Deadline;
use seawall_core::runtime::{Timer as _, timeout_at};
use seawall_gateway::TokioRuntime;
use seawall_testkit::{ChildProcess, read_ready_line};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// Timeout for a process to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// Polling interval for the end of a process.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Starts a process; its standard error is appended to a file.
pub(crate) fn start(command: &mut Command, errors: &Path) -> anyhow::Result<ChildProcess> {
    let file = fs::OpenOptions::new().create(true).append(true).open(errors)?;
    ChildProcess::start(command.stdin(Stdio::null()).stderr(file))
}

/// Starts a process that reports on its first line of output that it is ready, and where.
pub(crate) async fn start_ready(
    command: &mut Command,
    errors: &Path,
    runtime: TokioRuntime,
) -> anyhow::Result<(ChildProcess, Value)> {
    let mut process = start(command.stdout(Stdio::piped()), errors)?;
    let output = process.take_stdout().context("no standard output")?;
    let line = tokio::task::spawn_blocking(move || read_ready_line(output));
    let line = timeout_at(&runtime, Deadline::after(runtime.monotonic(), READY_TIMEOUT), line).await;
    let ready = line.with_context(|| format!("{command:?} was not ready in time"))??;
    let ready = ready.with_context(|| format!("{command:?}; see {}", errors.display()))?;
    Ok((process, ready))
}

/// Waits for the end of a process, for at most this long.
pub(crate) async fn wait(
    process: &mut ChildProcess,
    timeout: Duration,
    runtime: TokioRuntime,
) -> Option<ExitStatus> {
    let deadline = runtime.monotonic() + timeout;
    loop {
        if let Some(status) = process.exit_status() {
            return Some(status);
        }
        if runtime.monotonic() >= deadline {
            return None;
        }
        runtime.sleep_until(runtime.monotonic() + POLL_INTERVAL).await;
    }
}
