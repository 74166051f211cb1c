//! Plays an engine's scripts over real sockets.
//!
//! Serves `POST /v1/messages`, `GET /livez` and `GET /bill` (what was delivered so far, as JSON) over HTTP/1.1 and
//! HTTP/2 without TLS on one port. Any key is accepted, in either of the headers that clients send it in. When a
//! caller goes away its script is dropped with the connection, and nothing more is billed.
//!
//! It keeps nothing on disk and limits nobody.

mod body;
mod clock;
mod line;
mod service;
#[cfg(test)]
mod tests;

use crate::bill::Bill;
use crate::engine::{Ask, Engine, Script};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use line::Line;
use service::Service;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long to leave a listener alone that cannot take a connection, such as for want of file handles.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_millis(10);

/// A simulated model at an address.
#[derive(Debug)]
pub struct ModelServer {
    listener: TcpListener,
    model: Arc<Model>,
}

impl ModelServer {
    /// Takes the address; port 0 takes a free port. Callers are served once it [runs](Self::run).
    pub async fn bind(engine: Engine, address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let model = Model { engine, started: clock::now(), asked: AtomicU64::new(0), bill: Mutex::default() };
        Ok(Self { listener, model: Arc::new(model) })
    }

    /// The address that was taken.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// A way to read the bill while the server runs.
    #[must_use]
    pub fn meter(&self) -> Meter {
        Meter(Arc::clone(&self.model))
    }

    /// Serves until `stop` is there, then gives running answers `grace` to end, and drops the rest.
    pub async fn run(self, stop: impl Future<Output = ()>, grace: Duration) {
        let mut stop = pin!(stop);
        let mut connections = JoinSet::new();
        let watcher = GracefulShutdown::new();
        loop {
            tokio::select! {
                () = &mut stop => break,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => self.open(stream, &watcher, &mut connections),
                    Err(_) => clock::sleep_until(clock::now() + PAUSE_AFTER_REFUSAL).await,
                },
            }
        }
        drop(self.listener);
        tokio::select! {
            () = watcher.shutdown() => {}
            () = clock::sleep_until(clock::now() + grace) => {}
        }
        connections.shutdown().await;
    }

    fn open(&self, stream: TcpStream, watcher: &GracefulShutdown, connections: &mut JoinSet<()>) {
        // Whoever is already gone need not be served.
        let Ok(line) = Line::of(&stream) else { return };
        let service = Service { model: Arc::clone(&self.model), line: Arc::new(line) };
        let builder = auto::Builder::new(TokioExecutor::new());
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let watched = watcher.watch(connection);
        connections.spawn(async move {
            // How a connection ends is the caller's doing or a fault that was asked for.
            let _ = watched.await;
        });
    }
}

/// Reads the bill of a server.
#[derive(Clone, Debug)]
pub struct Meter(Arc<Model>);

impl Meter {
    /// What was delivered so far.
    #[must_use]
    pub fn bill(&self) -> Bill {
        self.0.with_bill(|bill| bill.clone())
    }
}

/// What all connections share.
#[derive(Debug)]
struct Model {
    engine: Engine,
    started: Instant,
    asked: AtomicU64,
    bill: Mutex<Bill>,
}

impl Model {
    fn script(&self, body: &[u8], now: Instant) -> Script {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let script = self.engine.script(&Ask { number, at: now - self.started, body });
        if let Some(profile) = script.profile {
            self.with_bill(|bill| bill.ask(profile));
        }
        script
    }

    fn with_bill<T>(&self, act: impl FnOnce(&mut Bill) -> T) -> T {
        // Nothing panics while it holds the bill; if it did, a number would be missing and no law broken.
        act(&mut self.bill.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
