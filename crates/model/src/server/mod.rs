//! Serves a simulated model over real sockets.
//!
//! It serves three dialects over HTTP/1.1 and HTTP/2 without TLS on one port: `POST /v1/messages` and its
//! `count_tokens`, `POST /v1/chat/completions`, `POST /model/{id}/` with `invoke`, `invoke-with-response-stream`,
//! `converse`, `converse-stream` and `count-tokens`, and `GET /v1/models`. Any key is accepted, in any of the forms in
//! which clients send one. When a caller disconnects, its script is dropped with the connection, and nothing more is
//! billed.
//!
//! Admin endpoints: `GET /livez`, `GET /admin/bill` (what was delivered so far), `GET /admin/calls` (the latest
//! requests and their outcomes), `POST /admin/faults` (replaces the fault schedule, timed from now) and
//! `POST /admin/reset` (clears bill and call log). Paths under `/admin` are refused to cross-site web pages (module
//! `guard`).
//!
//! It writes nothing to disk and has no limits of its own.

mod admin;
mod body;
mod clock;
mod guard;
mod service;
mod socket;
#[cfg(test)]
mod tests;

pub use crate::shared::Meter;
pub use clock::ServerTimer;

use crate::engine::Engine;
use crate::prompt_cache::PromptCacheOptions;
use crate::shared::SharedModel;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use seawall_core::runtime::Timer;
use service::ModelService;
use socket::ResettableSocket;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The pause after a failed `accept`, for example when file descriptors are exhausted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(10);

/// A simulated model that listens on an address.
#[derive(Debug)]
pub struct ModelServer<T = ServerTimer> {
    listener: TcpListener,
    model: SharedModel<T>,
}

impl ModelServer {
    /// Creates a model in real time and binds the address; port 0 selects a free port. Requests are served once it
    /// [runs](Self::run).
    pub async fn bind(engine: Engine, address: SocketAddr) -> io::Result<Self> {
        Self::bind_shared(SharedModel::new(engine, ServerTimer::new()), address).await
    }
}

impl<T: Timer> ModelServer<T> {
    /// Binds the address for a model that is also used by others.
    pub async fn bind_shared(model: SharedModel<T>, address: SocketAddr) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address).await?, model })
    }

    /// The same server of a model with a prompt cache.
    #[must_use]
    pub fn with_prompt_cache(self, options: PromptCacheOptions) -> Self {
        Self { model: self.model.with_prompt_cache(options), ..self }
    }

    /// The bound address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// A handle to read the bill while the server runs.
    #[must_use]
    pub fn meter(&self) -> Meter {
        self.model.meter().clone()
    }

    /// Serves until `stop` resolves, then gives requests in flight `grace` to finish, and drops the rest.
    pub async fn run(self, stop: impl Future<Output = ()>, grace: Duration) {
        let mut stop = pin!(stop);
        let refused_requests = Arc::new(AtomicU64::new(0));
        let mut connections = JoinSet::new();
        let watcher = GracefulShutdown::new();
        loop {
            tokio::select! {
                () = &mut stop => break,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => self.open(stream, &refused_requests, &watcher, &mut connections),
                    Err(_) => clock::sleep(ACCEPT_RETRY_DELAY).await,
                },
            }
        }
        drop(self.listener);
        tokio::select! {
            () = watcher.shutdown() => {}
            () = clock::sleep(grace) => {}
        }
        connections.shutdown().await;
    }

    fn open(
        &self,
        stream: TcpStream,
        refused_requests: &Arc<AtomicU64>,
        watcher: &GracefulShutdown,
        connections: &mut JoinSet<()>,
    ) {
        // The caller has already disconnected.
        let (Ok(socket), Ok(local_address)) = (ResettableSocket::new(&stream), stream.local_addr()) else {
            return;
        };
        let service = ModelService {
            model: self.model.clone(),
            refused_requests: Arc::clone(refused_requests),
            socket: Arc::new(socket),
            local_address,
        };
        let builder = auto::Builder::new(TokioExecutor::new());
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let watched = watcher.watch(connection);
        connections.spawn(async move {
            // A connection ends because of the caller or an injected fault; either way there is nothing to report.
            let _ = watched.await;
        });
    }
}
