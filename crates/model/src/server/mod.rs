//! Plays an engine's scripts over real sockets.
//!
//! Serves three dialects over HTTP/1.1 and HTTP/2 without TLS on one port: `POST /v1/messages` and its `count_tokens`,
//! `POST /v1/chat/completions`, `POST /model/{id}/` with `invoke`, `invoke-with-response-stream`, `converse`,
//! `converse-stream` and `count-tokens`, and `GET /v1/models`. Any key is accepted, in any of the ways in which clients send
//! one. When a caller goes away its script is dropped with the connection, and nothing more is billed.
//!
//! For who runs it: `GET /livez`, `GET /admin/bill` (what was delivered so far), `GET /admin/calls` (the latest requests and
//! what became of them), `POST /admin/faults` (another schedule from now on, timed from now) and `POST /admin/reset`
//! (forgets bill and calls).
//!
//! It keeps nothing on disk and limits nobody.

mod admin;
mod body;
mod clock;
mod line;
mod service;
#[cfg(test)]
mod tests;

use crate::bill::Bill;
use crate::calls::{CallEnd, CallList};
use crate::engine::{Ask, Engine, ModelCall, Profile, Script};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use line::Line;
use seawall_wire::chat::Usage;
use service::Service;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
        Ok(Self { listener, model: Arc::new(Model::new(engine)) })
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
        self.0.with_books(|books| books.bill.clone())
    }
}

/// What all connections share.
#[derive(Debug)]
struct Model {
    /// Replaced as a whole.
    behaviour: Mutex<Behaviour>,
    started: Instant,
    in_flight: AtomicU64,
    /// How many were refused before anybody was asked.
    refused: AtomicU64,
    books: Mutex<Books>,
}

/// The behaviour in force, since when, and which request was the first under it.
#[derive(Clone, Debug)]
struct Behaviour {
    engine: Arc<Engine>,
    began: Instant,
    first: u64,
}

#[derive(Debug, Default)]
struct Books {
    /// How many have asked.
    asked: u64,
    bill: Bill,
    calls: CallList,
    /// The minute of the model's time in which somebody asked last, and how often.
    minute: (u64, u64),
}

/// A request that is being answered; dropped, it no longer is.
#[derive(Debug)]
struct OpenCall {
    model: Arc<Model>,
    number: u64,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.model.in_flight.fetch_sub(1, Ordering::Relaxed);
        // Whoever was served to the end has said so before.
        self.model.with_books(|books| books.calls.end(self.number, CallEnd::CallerGone));
    }
}

impl OpenCall {
    fn deliver(&self, profile: &Profile, usage: Usage) {
        self.model.with_books(|books| {
            books.bill.deliver(profile, usage);
            books.calls.deliver(self.number, usage, profile.price_of(usage));
        });
    }

    fn complete(&self, profile: Option<&Profile>) {
        self.model.with_books(|books| {
            if let Some(profile) = profile {
                books.bill.complete(profile);
            }
            books.calls.end(self.number, CallEnd::Complete);
        });
    }

    fn broken(&self) {
        self.model.with_books(|books| books.calls.end(self.number, CallEnd::Broken));
    }
}

impl Model {
    fn new(engine: Engine) -> Self {
        let now = clock::now();
        Self {
            behaviour: Mutex::new(Behaviour { engine: Arc::new(engine), began: now, first: 0 }),
            started: now,
            in_flight: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            books: Mutex::default(),
        }
    }

    fn script(self: &Arc<Self>, call: &ModelCall, body: &[u8], now: Instant) -> (Script, OpenCall) {
        let in_flight = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        let Behaviour { engine, began, first } = self.lock_behaviour().clone();
        let at = now - began;
        let minute = at.as_secs() / 60;
        let (number, this_minute) = self.with_books(|books| {
            let number = books.asked;
            books.asked += 1;
            books.calls.begin(number, now - self.started, call);
            books.minute = if books.minute.0 == minute { (minute, books.minute.1 + 1) } else { (minute, 1) };
            (number, books.minute.1)
        });
        let open = OpenCall { model: Arc::clone(self), number };
        let place = number.saturating_sub(first);
        let script = engine.script(&Ask { number, place, at, in_flight, this_minute, call, body });
        self.with_books(|books| {
            books.calls.decide(number, &script);
            if let Some(profile) = script.profile {
                books.bill.ask(profile);
            }
        });
        (script, open)
    }

    fn set_engine(&self, engine: Engine) {
        let first = self.with_books(|books| books.asked);
        *self.lock_behaviour() = Behaviour { engine: Arc::new(engine), began: clock::now(), first };
    }

    fn lock_behaviour(&self) -> MutexGuard<'_, Behaviour> {
        self.behaviour.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_books<T>(&self, act: impl FnOnce(&mut Books) -> T) -> T {
        // Nothing panics while it holds the books; if it did, a number would be missing and no law broken.
        act(&mut self.books.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
