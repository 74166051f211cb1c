//! Listening sockets, threads and graceful shutdown.
//!
//! By default each core has one single-threaded runtime, one listener and one pool of upstream connections, so that a
//! request stays on the core that accepted it. Futures are `Send`, so one multi-threaded runtime for all cores is a
//! setting away, and both can be measured.
//!
//! **Shutdown.** The gateway reports that it is not ready, accepts the connections already in the listen backlog, and
//! accepts no new ones. Requests in flight have the drain timeout to finish. What remains after that is ended with an
//! error to the caller, and settled.

use crate::admin::{Admin, AdminListening};
use crate::assemble::{Live, ServeError};
use crate::conversation::{Entrance, Word};
use crate::face::Face;
use crate::keeper::Kept;
use crate::runtime::TokioRuntime;
use crate::sight::Sight;
use crate::stopping::{ConnectionPatience, Cut};
use crate::tls::Door;
use seawall_config::{Settings, Written};
use seawall_core::quota::LimitChange;
use seawall_core::time::Timestamp;
use seawall_pipeline::{Runtime as _, Timer as _};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

/// The listen backlog: connections that may wait to be accepted.
const MOST_WAITING: u16 = 1_024;
/// At shutdown, how long a connection without any request so far may stay open for its first one.
const TIME_TO_ASK: Duration = Duration::from_secs(1);
/// How often that is checked.
const ASKS_AGAIN: Duration = Duration::from_millis(5);

/// Interval between two checks for idle connections and stalled streams.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// Idle timeout while nearly all connections are in use. An HTTP/1.1 connection that has made a request before keeps
/// its usual timeout.
const SCARCE_IDLE: Duration = Duration::from_secs(5);

/// After the drain timeout, how long it may take to tell callers that their answers end here.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How threads and runtimes are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// This many single-threaded runtimes.
    PerCore(usize),
    /// One runtime with this many threads.
    Shared(usize),
}

/// Why a gateway cannot start listening.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {error}")]
    Address {
        /// The address from the settings.
        address: SocketAddr,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// A thread or a runtime cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// The parts of a gateway before it listens.
pub(crate) struct Gateway {
    /// The callers' listener; port 0 takes a free port.
    pub(crate) address: SocketAddr,
    pub(crate) shape: Shape,
    /// The admin listener; port 0 takes a free port.
    pub(crate) admin: SocketAddr,
    pub(crate) sight: Arc<Sight>,
    /// The parts that a settings reload replaces.
    pub(crate) live: Live,
}

/// A running gateway.
pub struct Listening {
    address: SocketAddr,
    face: Arc<Face>,
    /// Signals shutdown, with the drain timeout.
    stop: watch::Sender<Option<Duration>>,
    threads: Vec<JoinHandle<()>>,
    /// The admin API stays available until the end.
    admin: AdminListening,
    live: Live,
}

impl Gateway {
    /// Binds the sockets and starts the threads. Requests are served from here on.
    pub(crate) fn start(self) -> Result<Listening, ListenError> {
        let Self { address, shape, admin, sight, live } = self;
        let refused = |error| ListenError::Address { address: admin, error };
        let operators = AdminListening::bind(admin).map_err(refused)?;
        let admin = operators.local_addr().map_err(refused)?;
        let (path, runtime) = (Arc::clone(&sight.path), sight.runtime);
        let (gate, sight_of_face) = (Arc::clone(&live.gate), Arc::clone(&sight));
        let face = Arc::new(Face { path, runtime, gate, sight: sight_of_face });
        let (stop, stopped) = watch::channel(None);
        let (listeners, threads_each) = match shape {
            Shape::PerCore(cores) => (cores.max(1), 1),
            Shape::Shared(threads) => (1, threads.max(1)),
        };
        let mut bound = address;
        let mut threads = Vec::new();
        for core in 0..listeners {
            let socket = bind(bound).map_err(|error| ListenError::Address { address: bound, error })?;
            // The first socket may take a free port; the others share it.
            bound = socket.local_addr().map_err(|error| ListenError::Address { address, error })?;
            let (face, stopped, door) = (Arc::clone(&face), stopped.clone(), live.door());
            let thread = std::thread::Builder::new().name(format!("core-{core}")).spawn(move || {
                seawall_provider::enter_core(core);
                let tokio = if threads_each == 1 {
                    tokio::runtime::Builder::new_current_thread().enable_all().build()
                } else {
                    tokio::runtime::Builder::new_multi_thread()
                        .worker_threads(threads_each)
                        .enable_all()
                        .build()
                };
                // Without a runtime this core serves nothing; the others continue.
                if let Ok(tokio) = tokio {
                    tokio.block_on(accept(socket, door, face, stopped));
                }
            });
            threads.push(thread.map_err(ListenError::Thread)?);
        }
        // Set only here.
        let _ = sight.address.set(bound);
        let admin = Admin { sight, guard: live.guard(admin), address: admin };
        let admin = AdminListening::start(operators, admin).map_err(ListenError::Thread)?;
        Ok(Listening { address: bound, face, stop, threads, admin, live })
    }
}

impl Listening {
    /// The bound address of the callers' listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bound address of the admin listener.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.admin().address
    }

    /// Shows these settings in the admin API as the ones in force, with the source of each.
    pub fn show(&self, written: &Arc<Written>) {
        self.face.sight.written.store(Some(Arc::clone(written)));
    }

    /// Where state is stored, and what recovery found there.
    #[must_use]
    pub fn kept(&self) -> &Kept {
        &self.live.kept
    }

    /// Applies new settings as far as that is possible without a restart. Requests in flight finish under the old ones.
    /// On an error nothing changes. Returns what happened to the counts of every limit.
    pub fn change(&self, settings: &Settings) -> Result<Vec<LimitChange>, ServeError> {
        self.live.change(settings, &self.admin.admin().guard)
    }

    /// How long requests in flight may take to finish at shutdown.
    #[must_use]
    pub fn drain_timeout(&self) -> Duration {
        self.live.grace()
    }

    /// Shuts down gracefully: accepts no new work, drains requests in flight, and returns when all of them have ended.
    pub fn stop(self) {
        self.face.sight.is_draining.store(true, Ordering::Relaxed);
        // This fails only if every thread has ended already.
        let _ = self.stop.send(Some(self.live.grace()));
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn bind(address: SocketAddr) -> Result<std::net::TcpListener, std::io::Error> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(MOST_WAITING.into())?;
    Ok(socket.into())
}

async fn accept(
    socket: std::net::TcpListener,
    door: Arc<Door>,
    face: Arc<Face>,
    mut stopped: watch::Receiver<Option<Duration>>,
) {
    let Ok(listener) = TcpListener::from_std(socket) else { return };
    let (open, mut all_ended) = mpsc::channel(1);
    let cut = Cut::default();
    serve(look_after(cut.clone(), Arc::clone(&face)));
    let entrance = Entrance { face: Arc::clone(&face), door, cut: cut.clone(), open };
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stopped.changed() => break,
            accepted = listener.accept() => accepted,
        };
        // Out of file descriptors, or the connection was gone before it was accepted: try the next one.
        let Ok((stream, peer)) = accepted else {
            face.runtime.sleep_until(face.runtime.now().monotonic + Duration::from_millis(10)).await;
            continue;
        };
        entrance.let_in(stream, peer);
    }
    // Clients in the backlog regard themselves as connected; closing the listener would reset them. Ask the system
    // directly, because the runtime's readiness state may be slightly out of date.
    if let Ok(listener) = listener.into_std() {
        let waiting = std::iter::from_fn(|| listener.accept().ok()).take(MOST_WAITING.into());
        for (stream, peer) in waiting {
            let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
            stream.into_iter().for_each(|stream| entrance.let_in(stream, peer));
        }
    }
    drop(entrance);
    let grace = stopped.borrow().unwrap_or_default();
    let end: Timestamp = face.runtime.monotonic() + grace;
    tokio::select! {
        biased;
        _ = all_ended.recv() => return,
        () = face.runtime.sleep_until(end) => {}
        () = say_goodbye(&cut, face.runtime) => {}
    }
    cut.end();
    tokio::select! {
        biased;
        _ = all_ended.recv() => {}
        () = face.runtime.sleep_until(face.runtime.monotonic() + LAST_WORDS) => {}
    }
}

/// Closes idle connections and abandons stalled streams, until the runtime ends.
async fn look_after(cut: Cut, face: Arc<Face>) {
    let runtime = face.runtime;
    loop {
        runtime.sleep_until(runtime.monotonic() + LOOKS_EVERY).await;
        let arrival = face.path.arrival().1;
        let connections = &face.sight.connections;
        let looks = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX).max(1);
        // Close idle connections early when connections are scarce.
        let longest = if connections.are_scarce() { SCARCE_IDLE } else { Duration::MAX };
        let patience = ConnectionPatience {
            head: arrival.head.min(longest),
            max_idle: looks(arrival.idle.min(longest)),
            max_unread: looks(arrival.send),
        };
        cut.look(runtime.monotonic(), &patience, connections);
    }
}

/// Tells every connection to finish after its first request, or once that has not arrived in time. A client whose
/// connection is closed before its first request sees an error. Never returns.
async fn say_goodbye(cut: &Cut, runtime: TokioRuntime) {
    let late = runtime.monotonic() + TIME_TO_ASK;
    loop {
        let is_late = runtime.monotonic() >= late;
        for conversation in cut.conversations() {
            if is_late || conversation.has_asked() {
                conversation.tell(Word::Finish);
            }
        }
        runtime.sleep_until(runtime.monotonic() + ASKS_AGAIN).await;
    }
}

/// The only place that spawns tasks: connections, and their periodic checks. A task ends with its runtime at the
/// latest.
#[expect(clippy::disallowed_methods, reason = "connections are what the runtime is for")]
pub(crate) fn serve(connection: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(connection);
}
