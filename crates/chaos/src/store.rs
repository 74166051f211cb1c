//! The store that the nodes share: a real `redis-server` that keeps nothing on disk.

use crate::process::{Process, Signal};
use anyhow::{Context as _, bail};
use seawall_core::chance::SeededChance;
use seawall_core::handle::{Runtime as _, Timer as _};
use seawall_gateway::TokioRuntime;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// Ports that no system hands out by itself, so that nobody takes ours while the server is dead.
const PORTS: (u16, u16) = (20_000, 30_000);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const MOST_LOOKS: u32 = 500;

/// A server that can be killed and frozen.
pub(crate) struct Store {
    pub(crate) address: SocketAddr,
    folder: PathBuf,
    process: Mutex<Option<Process>>,
    runtime: TokioRuntime,
}

impl Store {
    /// Starts it on a free port.
    pub(crate) async fn start(folder: &Path, runtime: TokioRuntime) -> anyhow::Result<Self> {
        let folder = folder.join("store");
        std::fs::create_dir(&folder)?;
        let address = free_address(runtime).context("there is no free port for redis-server")?;
        let store = Self { address, folder, process: Mutex::new(None), runtime };
        *store.process.lock().await = Some(store.begin().await?);
        Ok(store)
    }

    async fn begin(&self) -> anyhow::Result<Process> {
        let mut command = Command::new("redis-server");
        command.args(["--port", &self.address.port().to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", "no", "--loglevel", "warning", "--dir"]).arg(&self.folder);
        command.stdout(Stdio::null());
        let process = Process::start(&mut command, &self.folder.join("errors.txt"))?;
        for _ in 0..MOST_LOOKS {
            if TcpStream::connect(self.address).await.is_ok() {
                return Ok(process);
            }
            self.runtime.sleep_until(self.runtime.monotonic() + LOOK_EVERY).await;
        }
        bail!("redis-server does not answer")
    }

    /// Kills it; it is back, empty, after this time.
    pub(crate) async fn kill(&self, away: Duration) -> anyhow::Result<()> {
        let mut process = self.process.lock().await;
        *process = None;
        self.runtime.sleep_until(self.runtime.monotonic() + away).await;
        *process = Some(self.begin().await?);
        Ok(())
    }

    /// Has it stand still for this time.
    pub(crate) async fn freeze(&self, away: Duration) -> anyhow::Result<()> {
        let process = self.process.lock().await;
        let Some(running) = process.as_ref() else { return Ok(()) };
        running.signal(Signal::Freeze)?;
        self.runtime.sleep_until(self.runtime.monotonic() + away).await;
        running.signal(Signal::Thaw)
    }
}

fn free_address(runtime: TokioRuntime) -> Option<SocketAddr> {
    let mut chance = SeededChance::new(runtime.draw().bits());
    let mut port = || {
        let above = chance.draw().below(u64::from(PORTS.1 - PORTS.0));
        PORTS.0.saturating_add(u16::try_from(above).unwrap_or(0))
    };
    let mut tries = std::iter::repeat_with(|| SocketAddr::from(([127, 0, 0, 1], port()))).take(100);
    tries.find(|address| TcpListener::bind(address).is_ok())
}
