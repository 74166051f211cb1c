//! The shared store: a real `redis-server` without persistence, behind a TCP forwarder.

use crate::process::start;
use anyhow::{Context as _, bail};
use seawall_core::random::SeededRandom;
use seawall_core::runtime::{Runtime as _, Timer as _};
use seawall_gateway::TokioRuntime;
use seawall_testkit::{ChildProcess, Signal, redis_server_command};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

/// Ports outside the system's ephemeral range, so that no other process takes ours while the server is down.
const PORTS: (u16, u16) = (20_000, 30_000);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const MAX_POLLS: u32 = 500;

/// A server that can be killed and suspended.
pub(crate) struct ForwardedRedis {
    /// The address that nodes use: the forwarder's.
    pub(crate) address: SocketAddr,
    server: SocketAddr,
    forwarder: Forwarder,
    directory: PathBuf,
    process: Mutex<Option<ChildProcess>>,
    runtime: TokioRuntime,
}

impl ForwardedRedis {
    /// Starts it on a free port.
    pub(crate) async fn start(directory: &Path, runtime: TokioRuntime) -> anyhow::Result<Self> {
        let directory = directory.join("store");
        std::fs::create_dir(&directory)?;
        let server = free_address(runtime).context("no free port for redis-server")?;
        let forwarder = Forwarder::start(server).await?;
        let store = Self {
            address: forwarder.address,
            server,
            forwarder,
            directory,
            process: Mutex::new(None),
            runtime,
        };
        *store.process.lock().await = Some(store.start_process().await?);
        Ok(store)
    }

    async fn start_process(&self) -> anyhow::Result<ChildProcess> {
        let mut command = redis_server_command(self.server.port(), &self.directory);
        let process = start(&mut command, &self.directory.join("errors.txt"))?;
        for _ in 0..MAX_POLLS {
            if TcpStream::connect(self.server).await.is_ok() {
                return Ok(process);
            }
            self.runtime.sleep_until(self.runtime.monotonic() + POLL_INTERVAL).await;
        }
        bail!("redis-server does not accept connections")
    }

    /// Kills it; it is restarted, empty, after this time.
    pub(crate) async fn kill(&self, outage: Duration) -> anyhow::Result<()> {
        let mut process = self.process.lock().await;
        *process = None;
        self.runtime.sleep_until(self.runtime.monotonic() + outage).await;
        *process = Some(self.start_process().await?);
        Ok(())
    }

    /// Silently drops the existing connections of nodes, without a reset; new ones work.
    pub(crate) fn lose_connections(&self) {
        self.forwarder.lost.send_modify(|times| *times += 1);
    }

    /// Suspends it for this time.
    pub(crate) async fn pause(&self, outage: Duration) -> anyhow::Result<()> {
        let process = self.process.lock().await;
        let Some(running) = process.as_ref() else { return Ok(()) };
        running.signal(Signal::STOP)?;
        self.runtime.sleep_until(self.runtime.monotonic() + outage).await;
        running.signal(Signal::CONT)
    }
}

/// Forwards connections to the server, until the existing ones are dropped.
struct Forwarder {
    address: SocketAddr,
    lost: watch::Sender<u32>,
    _accepting: JoinSet<()>,
}

impl Forwarder {
    async fn start(server: SocketAddr) -> anyhow::Result<Self> {
        let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let address = listener.local_addr()?;
        let (lost, watch) = watch::channel(0);
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((node, _)) = listener.accept().await {
                let mut lost = watch.clone();
                lost.mark_unchanged();
                connections.spawn(async move { forward(node, server, lost).await });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, lost, _accepting: accepting })
    }
}

async fn forward(mut node: TcpStream, server: SocketAddr, mut lost: watch::Receiver<u32>) {
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut node, &mut server) => return,
        _ = lost.changed() => {}
    }
    // Discard further bytes and send nothing, not even a reset, like a network that has dropped the connection.
    let (mut swallowed, mut nothing) = ([0; 4_096], [0; 4_096]);
    loop {
        let read = tokio::select! {
            read = node.read(&mut swallowed) => read,
            read = server.read(&mut nothing) => read,
        };
        if !read.is_ok_and(|bytes| bytes > 0) {
            return;
        }
    }
}

fn free_address(runtime: TokioRuntime) -> Option<SocketAddr> {
    let mut chance = SeededRandom::new(runtime.draw().bits());
    let mut port = || {
        let above = chance.draw().below(u64::from(PORTS.1 - PORTS.0));
        PORTS.0.saturating_add(u16::try_from(above).unwrap_or(0))
    };
    let mut tries = std::iter::repeat_with(|| SocketAddr::from(([127, 0, 0, 1], port()))).take(100);
    tries.find(|address| TcpListener::bind(address).is_ok())
}
