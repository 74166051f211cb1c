//! Sockets and threads, and how they end.
//!
//! One single-threaded runtime, one listener and one pool of upstream connections per core is the default shape: a
//! request stays on the core it came in on. Futures are `Send`, so that one runtime for all cores is a setting away and
//! both can be measured.
//!
//! Told to stop, a gateway says that it is not ready, lets in who waits at the door, takes no new connections, lets
//! requests under way finish for a while, then tells what is left that no more will come, and settles it.

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

/// How many connections may wait to be let in.
const MOST_WAITING: u16 = 1_024;
/// How long a connection may be silent when a stop comes that has not asked anything before.
const TIME_TO_ASK: Duration = Duration::from_secs(1);
/// How often it is looked at whether it has.
const ASKS_AGAIN: Duration = Duration::from_millis(5);

/// How often streams are looked at whose callers may not read them.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// How long a connection may ask nothing while nearly all connections are taken. One of HTTP/1.1 that has asked before may do
/// so for its usual time.
const SCARCE_IDLE: Duration = Duration::from_secs(5);

/// How long it may take to tell callers that no more will come.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How threads and runtimes go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// So many runtimes of one thread each.
    PerCore(usize),
    /// One runtime of so many threads.
    Shared(usize),
}

/// Why a gateway cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be had.
    #[error("cannot listen on {address}: {error}")]
    Address {
        /// Which.
        address: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// A thread or a runtime cannot be had.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// What a gateway is made of.
pub(crate) struct Gateway {
    /// Where to listen; port 0 takes a free one.
    pub(crate) address: SocketAddr,
    /// How threads and runtimes go together.
    pub(crate) shape: Shape,
    /// Where operators ask; port 0 takes a free one.
    pub(crate) admin: SocketAddr,
    /// What there is to see of it.
    pub(crate) sight: Arc<Sight>,
    /// How it changes.
    pub(crate) live: Live,
}

/// A gateway that listens.
pub struct Listening {
    address: SocketAddr,
    face: Arc<Face>,
    /// Told to stop: how long requests under way may take to finish.
    stop: watch::Sender<Option<Duration>>,
    threads: Vec<JoinHandle<()>>,
    /// Operators are answered to the end.
    admin: AdminListening,
    live: Live,
}

impl Gateway {
    /// Listens. Requests are answered from here on.
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
            // The first takes a free port; the others share it.
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
                // Without a runtime this core answers nothing; the others go on.
                if let Ok(tokio) = tokio {
                    tokio.block_on(accept(socket, door, face, stopped));
                }
            });
            threads.push(thread.map_err(ListenError::Thread)?);
        }
        // Set once, here.
        let _ = sight.address.set(bound);
        let admin = Admin { sight, guard: live.guard(admin), address: admin };
        let admin = AdminListening::start(operators, admin).map_err(ListenError::Thread)?;
        Ok(Listening { address: bound, face, stop, threads, admin, live })
    }
}

impl Listening {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where operators ask.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.admin().address
    }

    /// Shows operators these settings as those that hold, with where each was written.
    pub fn show(&self, written: &Arc<Written>) {
        self.face.sight.written.store(Some(Arc::clone(written)));
    }

    /// Where its state is kept, and what was found there.
    #[must_use]
    pub fn kept(&self) -> &Kept {
        &self.live.kept
    }

    /// Does what these settings say from now on, as far as it can without starting anew. Requests under way end as they
    /// began. Where it cannot, it goes on as before. Returns what became of every limit's counts.
    pub fn change(&self, settings: &Settings) -> Result<Vec<LimitChange>, ServeError> {
        self.live.change(settings, &self.admin.admin().guard)
    }

    /// Stops taking new work, lets what is under way finish, and returns when all of it has ended.
    pub fn stop(self) {
        self.face.sight.is_draining.store(true, Ordering::Relaxed);
        // Nobody listens only if every thread has ended already.
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
        // Out of file descriptors, or a connection that was gone before it was taken: the next may do.
        let Ok((stream, peer)) = accepted else {
            face.runtime.sleep_until(face.runtime.now().monotonic + Duration::from_millis(10)).await;
            continue;
        };
        entrance.let_in(stream, peer);
    }
    // Who has been let into the queue believes to be connected; closing it would reset them. The system is asked itself,
    // because what the runtime knows of a socket may be a moment old.
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

/// Looks after connections that ask nothing and streams that nobody may be reading, until the runtime ends.
async fn look_after(cut: Cut, face: Arc<Face>) {
    let runtime = face.runtime;
    loop {
        runtime.sleep_until(runtime.monotonic() + LOOKS_EVERY).await;
        let arrival = face.path.arrival().1;
        let connections = &face.sight.connections;
        let looks = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX).max(1);
        // Where nearly all connections are taken, who asks nothing makes room.
        let longest = if connections.are_scarce() { SCARCE_IDLE } else { Duration::MAX };
        let patience = ConnectionPatience {
            head: arrival.head.min(longest),
            max_idle: looks(arrival.idle.min(longest)),
            max_unread: looks(arrival.send),
        };
        cut.look(runtime.monotonic(), &patience, connections);
    }
}

/// Tells every connection to finish as soon as its first request has come, or has not come for too long: one that is closed
/// before it has asked anything is an error to who made it. Never ends.
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

/// The one place that starts a task: a connection, or who looks after some. It ends with its runtime at the latest.
#[expect(clippy::disallowed_methods, reason = "connections are what the runtime is for")]
pub(crate) fn serve(connection: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(connection);
}
