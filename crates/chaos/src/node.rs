//! One of the two gateways: a process, its directory and its ports.

use crate::history::{History, Life, Span};
use crate::process::{Process, Signal, descriptors, memory};
use crate::setting::{DRAIN, NodeSettings};
use anyhow::Context as _;
use seawall_core::deadline::Deadline;
use seawall_core::handle::{Timer as _, within};
use seawall_core::time::Timestamp;
use seawall_demo::client::get;
use seawall_demo::port::Port;
use seawall_gateway::TokioRuntime;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};

/// Extra time that a node's shutdown may take on a busy machine.
const SLACK: Duration = Duration::from_secs(4);
/// Timeout for reading metrics.
const READ_WITHIN: Duration = Duration::from_secs(2);

/// The address of a process's metrics, once it is ready.
type AdminAddress = std::sync::Mutex<Option<SocketAddr>>;

pub(crate) struct Node {
    number: usize,
    pub(crate) port: Port,
    pub(crate) folder: PathBuf,
    program: PathBuf,
    process: Mutex<Option<Process>>,
    /// Its admin listener, since its last start.
    admin: AdminAddress,
    runtime: TokioRuntime,
    history: History,
}

/// The ledger of a node, from its metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Books {
    pub(crate) posted: u64,
    pub(crate) held: u64,
    /// The cost of calls beyond their reservations; part of what is posted.
    pub(crate) overrun: u64,
    /// Calls in flight.
    pub(crate) in_flight: u64,
    pub(crate) decided_alone: u64,
    /// Whether the shared store decides limits.
    pub(crate) is_shared: bool,
}

impl Node {
    /// A node that is not started yet.
    pub(crate) fn new(
        number: usize,
        folder: &Path,
        program: &Path,
        runtime: TokioRuntime,
        history: History,
    ) -> anyhow::Result<Self> {
        let folder = folder.join(format!("node-{number}"));
        fs::create_dir(&folder).context("cannot make a folder for a node")?;
        Ok(Self {
            number,
            port: Port::free()?,
            folder,
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
        self.folder.join("errors.txt")
    }

    fn file(&self) -> PathBuf {
        self.folder.join("seawall.toml")
    }

    /// Writes its settings atomically, so that it never reads half of them.
    pub(crate) fn write(&self, settings: &NodeSettings<'_>) -> anyhow::Result<()> {
        let new = self.folder.join("seawall.toml.new");
        fs::write(&new, settings.text())?;
        fs::rename(new, self.file()).context("cannot write settings")
    }

    pub(crate) async fn start(&self) -> anyhow::Result<()> {
        let mut process = self.process.lock().await;
        self.begin(&mut process).await
    }

    async fn begin(&self, process: &mut MutexGuard<'_, Option<Process>>) -> anyhow::Result<()> {
        let mut command = Command::new(&self.program);
        command.args(["serve", "--json", "--config"]).arg(self.file());
        let (started, ready) = Process::start_ready(&mut command, &self.errors(), self.runtime).await?;
        let admin = ready["admin"].as_str().and_then(|url| url.strip_prefix("http://")?.parse().ok());
        *self.admin.lock().unwrap_or_else(PoisonError::into_inner) = admin;
        let id = started.id();
        **process = Some(started);
        self.history.seen().lives.push(Life {
            node: self.number,
            id,
            span: Span { from: self.runtime.monotonic(), to: None },
            descriptors: (descriptors(id, &[]).unwrap_or(0), None),
            memory: (None, 0),
        });
        Ok(())
    }

    /// Stops it gracefully and waits for its end. Its requests in flight may finish.
    pub(crate) async fn stop(&self) -> anyhow::Result<()> {
        let mut process = self.process.lock().await;
        self.end(&mut process).await
    }

    async fn end(&self, process: &mut MutexGuard<'_, Option<Process>>) -> anyhow::Result<()> {
        let Some(mut running) = process.take() else { return Ok(()) };
        let (number, from) = (self.number, self.runtime.monotonic());
        let place = {
            let mut seen = self.history.seen();
            seen.stops.push((number, Span { from, to: None }));
            seen.stops.len() - 1
        };
        running.signal(Signal::Terminate)?;
        let status = running.wait(DRAIN + SLACK, self.runtime).await;
        drop(running);
        let now = self.runtime.monotonic();
        let mut seen = self.history.seen();
        seen.stops[place].1.to = Some(now);
        self.close_life(&mut seen, now);
        match status {
            Some(status) if status.success() => {}
            Some(status) => {
                seen.misdeeds.push(format!("node {number} was told to stop and ended with {status}"));
            }
            None => seen
                .misdeeds
                .push(format!("node {number} was told to stop and had not after {:?}", DRAIN + SLACK)),
        }
        Ok(())
    }

    fn close_life(&self, seen: &mut crate::history::Seen, now: Timestamp) {
        if let Some(life) = seen.life_of(self.number) {
            life.span.to = Some(now);
        }
    }

    /// Stops it gracefully, and starts it again with the same directory.
    pub(crate) async fn stop_and_start(&self) -> anyhow::Result<()> {
        let mut process = self.process.lock().await;
        self.end(&mut process).await?;
        self.begin(&mut process).await
    }

    /// Kills it, and starts it again with the same directory.
    pub(crate) async fn kill_and_start(&self) -> anyhow::Result<()> {
        let mut process = self.process.lock().await;
        if let Some(mut running) = process.take() {
            // Recorded before the kill, so that no request that is cut off by it ends before the recorded time.
            let from = self.runtime.monotonic();
            self.history.seen().kills.push((self.number, Span { from, to: None }));
            running.kill();
            let now = self.runtime.monotonic();
            let mut seen = self.history.seen();
            if let Some((_, span)) = seen.kills.last_mut() {
                span.to = Some(now);
            }
            self.close_life(&mut seen, now);
        }
        self.begin(&mut process).await
    }

    /// Makes it reload its settings, if it runs.
    pub(crate) async fn reread(&self) -> anyhow::Result<()> {
        let process = self.process.lock().await;
        process.as_ref().map_or(Ok(()), |running| running.signal(Signal::Reread))
    }

    /// Its process id; `None` while it is being started or ended.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.process.try_lock().ok()?.as_ref().map(Process::id)
    }

    /// Its ledger; `None` while it is being started.
    pub(crate) async fn books(&self) -> Option<Books> {
        let late = Deadline::after(self.runtime.monotonic(), READ_WITHIN);
        let admin = (*self.admin.lock().unwrap_or_else(PoisonError::into_inner))?;
        let metrics = within(&self.runtime, late, get(admin, "/metrics")).await?.ok()?;
        books_in(&String::from_utf8_lossy(&metrics))
    }

    /// Checks its process: its memory, and whether it has ended by itself.
    pub(crate) fn look(&self, fifth: Duration) {
        // It is being started or ended right now.
        let Ok(mut process) = self.process.try_lock() else { return };
        let Some(running) = process.as_mut() else { return };
        let (ended, now) = (running.ended(), self.runtime.monotonic());
        let mut seen = self.history.seen();
        if let Some(status) = ended {
            *process = None;
            self.close_life(&mut seen, now);
            seen.misdeeds.push(format!("node {} ended by itself with {status}", self.number));
            return;
        }
        if let (Some(life), Some(memory)) = (seen.life_of(self.number), memory(running.id())) {
            if life.memory.0.is_none() && now - life.span.from >= fifth {
                life.memory.0 = Some(memory);
            }
            life.memory.1 = memory;
        }
    }
}

fn books_in(metrics: &str) -> Option<Books> {
    // One line for each tier or target, or one in total.
    let read = |name: &str| -> Option<u64> {
        let of =
            |line: &str| line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' '])).map(str::len);
        let lines = metrics.lines().filter(|line| of(line).is_some());
        let values: Option<Vec<u64>> =
            lines.map(|line| line.rsplit_once(' ')?.1.trim().parse().ok()).collect();
        values.filter(|values| !values.is_empty()).map(|values| values.iter().sum())
    };
    Some(Books {
        posted: read("seawall_budget_posted_nanodollars")?,
        held: read("seawall_budget_held_nanodollars")?,
        overrun: read("seawall_budget_overrun_nanodollars").unwrap_or(0),
        in_flight: read("seawall_in_flight")?,
        decided_alone: read("seawall_shared_store_decided_alone_total").unwrap_or(0),
        is_shared: read("seawall_shared_store_here") == Some(1),
    })
}

#[cfg(test)]
mod tests {
    use super::{Books, books_in};

    #[test]
    fn books_are_read_from_metrics() {
        let text = "# HELP x\nseawall_budget_posted_nanodollars{tier=\"prime\"} 12\n\
                    seawall_budget_posted_nanodollars{tier=\"guest\"} 3\nseawall_budget_held_nanodollars 7\n\
                    seawall_in_flight{target=\"a\"} 2\nseawall_in_flight_limit{target=\"a\"} 100\n";
        assert_eq!(books_in(text), Some(Books { posted: 15, held: 7, in_flight: 2, ..Books::default() }));
        let text = format!("{text}seawall_shared_store_decided_alone_total 3\n");
        assert_eq!(books_in(&text).map(|books| books.decided_alone), Some(3));
        assert!(
            books_in(&format!("{text}seawall_shared_store_here 1\n")).is_some_and(|books| books.is_shared)
        );
        assert_eq!(books_in("seawall_budget_posted_nanodollars 12\n"), None);
    }
}
