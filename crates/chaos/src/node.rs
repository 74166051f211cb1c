//! One of the two gateways: a process, its directory and its ports.

use crate::history::{History, ProcessLifetime, TimeSpan};
use crate::process::{start_ready, wait};
use crate::setting::{DRAIN_TIMEOUT, NodeSettings};
use anyhow::Context as _;
use seawall_core::deadline::Deadline;
use seawall_core::runtime::{Timer as _, timeout_at};
use seawall_core::time::Timestamp;
use seawall_gateway::TokioRuntime;
use seawall_testkit::client::get;
use seawall_testkit::{
    ChildProcess, ReservedPort, Signal, open_descriptors, parse_billionths, resident_bytes,
};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};

/// Extra time that a node's shutdown may take on a busy machine.
const STOP_MARGIN: Duration = Duration::from_secs(4);
/// Timeout for reading metrics.
const METRICS_TIMEOUT: Duration = Duration::from_secs(2);

/// The address of a process's metrics, once it is ready.
type AdminAddress = std::sync::Mutex<Option<SocketAddr>>;

pub(crate) struct GatewayNode {
    number: usize,
    pub(crate) port: ReservedPort,
    pub(crate) directory: PathBuf,
    program: PathBuf,
    process: Mutex<Option<ChildProcess>>,
    /// Its admin listener, since its last start.
    admin: AdminAddress,
    runtime: TokioRuntime,
    history: History,
}

/// The ledger of a node, from its metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeMetrics {
    pub(crate) posted: u64,
    pub(crate) held: u64,
    /// The cost of calls beyond their reservations; part of what is posted.
    pub(crate) overrun: u64,
    /// Calls in flight.
    pub(crate) in_flight: u64,
    pub(crate) local_decisions: u64,
    /// Whether the shared store decides limits.
    pub(crate) is_shared: bool,
}

impl GatewayNode {
    /// A node that is not started yet.
    pub(crate) fn new(
        number: usize,
        directory: &Path,
        program: &Path,
        runtime: TokioRuntime,
        history: History,
    ) -> anyhow::Result<Self> {
        let directory = directory.join(format!("node-{number}"));
        fs::create_dir(&directory).context("cannot create a node directory")?;
        Ok(Self {
            number,
            port: ReservedPort::reserve()?,
            directory,
            program: program.to_owned(),
            process: Mutex::new(None),
            admin: AdminAddress::new(None),
            runtime,
            history,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address
    }

    /// The file with its standard error.
    pub(crate) fn errors(&self) -> PathBuf {
        self.directory.join("errors.txt")
    }

    fn settings_file(&self) -> PathBuf {
        self.directory.join("seawall.toml")
    }

    /// Writes its settings atomically, so that it never reads half of them.
    pub(crate) fn write(&self, settings: &NodeSettings<'_>) -> anyhow::Result<()> {
        let new = self.directory.join("seawall.toml.new");
        fs::write(&new, settings.text())?;
        fs::rename(new, self.settings_file()).context("cannot write settings")
    }

    pub(crate) async fn start(&self) -> anyhow::Result<()> {
        let mut process = self.process.lock().await;
        self.start_process(&mut process).await
    }

    async fn start_process(&self, process: &mut MutexGuard<'_, Option<ChildProcess>>) -> anyhow::Result<()> {
        let mut command = Command::new(&self.program);
        command.args(["serve", "--json", "--config"]).arg(self.settings_file());
        let (started, ready) = start_ready(&mut command, &self.errors(), self.runtime).await?;
        let admin = ready["admin"].as_str().and_then(|url| url.strip_prefix("http://")?.parse().ok());
        *self.admin.lock().unwrap_or_else(PoisonError::into_inner) = admin;
        let id = started.id();
        **process = Some(started);
        self.history.observations().processes.push(ProcessLifetime {
            node: self.number,
            id,
            span: TimeSpan { from: self.runtime.monotonic(), to: None },
            descriptors: (open_descriptors(id, &[]).unwrap_or(0), None),
            memory: (None, 0),
        });
        Ok(())
    }

    /// Stops it gracefully and waits for its end. Its requests in flight may finish.
    pub(crate) async fn stop(&self) -> anyhow::Result<()> {
        let mut process = self.process.lock().await;
        self.stop_process(&mut process).await
    }

    async fn stop_process(&self, process: &mut MutexGuard<'_, Option<ChildProcess>>) -> anyhow::Result<()> {
        let Some(mut running) = process.take() else { return Ok(()) };
        let (number, from) = (self.number, self.runtime.monotonic());
        let index = {
            let mut observations = self.history.observations();
            observations.stops.push((number, TimeSpan { from, to: None }));
            observations.stops.len() - 1
        };
        running.signal(Signal::TERM)?;
        let status = wait(&mut running, DRAIN_TIMEOUT + STOP_MARGIN, self.runtime).await;
        drop(running);
        let now = self.runtime.monotonic();
        let mut observations = self.history.observations();
        observations.stops[index].1.to = Some(now);
        self.record_exit(&mut observations, now);
        match status {
            Some(status) if status.success() => {}
            Some(status) => {
                observations
                    .process_failures
                    .push(format!("node {number} exited with {status} after SIGTERM"));
            }
            None => observations.process_failures.push(format!(
                "node {number} did not exit within {:?} after SIGTERM",
                DRAIN_TIMEOUT + STOP_MARGIN
            )),
        }
        Ok(())
    }

    fn record_exit(&self, observations: &mut crate::history::Observations, now: Timestamp) {
        if let Some(process_record) = observations.process_of(self.number) {
            process_record.span.to = Some(now);
        }
    }

    /// Stops it gracefully, and starts it again with the same directory.
    pub(crate) async fn stop_and_start(&self) -> anyhow::Result<()> {
        let mut process = self.process.lock().await;
        self.stop_process(&mut process).await?;
        self.start_process(&mut process).await
    }

    /// Kills it, and starts it again with the same directory.
    pub(crate) async fn kill_and_start(&self) -> anyhow::Result<()> {
        let mut process = self.process.lock().await;
        if let Some(mut running) = process.take() {
            // Recorded before the kill, so that no request that is cut off by it ends before the recorded time.
            let from = self.runtime.monotonic();
            self.history.observations().kills.push((self.number, TimeSpan { from, to: None }));
            running.kill();
            let now = self.runtime.monotonic();
            let mut observations = self.history.observations();
            if let Some((_, span)) = observations.kills.last_mut() {
                span.to = Some(now);
            }
            self.record_exit(&mut observations, now);
        }
        self.start_process(&mut process).await
    }

    /// Makes it reload its settings, if it runs.
    pub(crate) async fn reload(&self) -> anyhow::Result<()> {
        let process = self.process.lock().await;
        process.as_ref().map_or(Ok(()), |running| running.signal(Signal::HUP))
    }

    /// Its process id; `None` while it is being started or ended.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.process.try_lock().ok()?.as_ref().map(ChildProcess::id)
    }

    /// Its ledger; `None` while it is being started.
    pub(crate) async fn metrics(&self) -> Option<NodeMetrics> {
        let deadline = Deadline::after(self.runtime.monotonic(), METRICS_TIMEOUT);
        let admin = (*self.admin.lock().unwrap_or_else(PoisonError::into_inner))?;
        let metrics = timeout_at(&self.runtime, deadline, get(admin, "/metrics")).await?.ok()?;
        parse_metrics(&String::from_utf8_lossy(&metrics))
    }

    /// Checks its process: its memory, and whether it has ended by itself.
    pub(crate) fn check_process(&self, fifth: Duration) {
        // It is being started or ended right now.
        let Ok(mut process) = self.process.try_lock() else { return };
        let Some(running) = process.as_mut() else { return };
        let (ended, now) = (running.exit_status(), self.runtime.monotonic());
        let mut observations = self.history.observations();
        if let Some(status) = ended {
            *process = None;
            self.record_exit(&mut observations, now);
            observations
                .process_failures
                .push(format!("node {} exited unexpectedly with {status}", self.number));
            return;
        }
        if let (Some(process_record), Some(memory)) =
            (observations.process_of(self.number), resident_bytes(running.id()))
        {
            if process_record.memory.0.is_none() && now - process_record.span.from >= fifth {
                process_record.memory.0 = Some(memory);
            }
            process_record.memory.1 = memory;
        }
    }
}

/// Money is in dollars on the page, and in nano-dollars here.
fn value_of(name: &str, value: &str) -> Option<u64> {
    if name.ends_with("_usd") { parse_billionths(value) } else { value.trim().parse().ok() }
}

fn parse_metrics(metrics: &str) -> Option<NodeMetrics> {
    // One line for each tier or target, or one in total.
    let read = |name: &str| -> Option<u64> {
        let of =
            |line: &str| line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' '])).map(str::len);
        let lines = metrics.lines().filter(|line| of(line).is_some());
        let values: Option<Vec<u64>> = lines.map(|line| value_of(name, line.rsplit_once(' ')?.1)).collect();
        values.filter(|values| !values.is_empty()).map(|values| values.iter().sum())
    };
    Some(NodeMetrics {
        posted: read("seawall_budget_posted_usd")?,
        held: read("seawall_budget_held_usd")?,
        overrun: read("seawall_budget_overrun_usd").unwrap_or(0),
        in_flight: read("seawall_in_flight")?,
        local_decisions: read("seawall_shared_store_local_decisions_total").unwrap_or(0),
        is_shared: read("seawall_shared_store_up") == Some(1),
    })
}

#[cfg(test)]
mod tests {
    use super::{NodeMetrics, parse_metrics};

    #[test]
    fn metrics_are_parsed() {
        let text = "# HELP x\nseawall_budget_posted_usd{tier=\"prime\"} 0.000000012\n\
                    seawall_budget_posted_usd{tier=\"guest\"} 0.000000003\nseawall_budget_held_usd 0.000000007\n\
                    seawall_in_flight{target=\"a\"} 2\nseawall_in_flight_limit{target=\"a\"} 100\n";
        assert_eq!(
            parse_metrics(text),
            Some(NodeMetrics { posted: 15, held: 7, in_flight: 2, ..NodeMetrics::default() })
        );
        let text = format!("{text}seawall_shared_store_local_decisions_total 3\n");
        assert_eq!(parse_metrics(&text).map(|metrics| metrics.local_decisions), Some(3));
        assert!(
            parse_metrics(&format!("{text}seawall_shared_store_up 1\n"))
                .is_some_and(|metrics| metrics.is_shared)
        );
        assert_eq!(parse_metrics("seawall_budget_posted_usd 12\n"), None);
    }
}
