//! Listening sockets, threads and graceful shutdown.
//!
//! By default each core has one single-threaded runtime, one listener and one pool of upstream connections, so that a
//! request stays on the core that accepted it. Futures are `Send`, so one multi-threaded runtime for all cores is a
//! setting away, and both can be measured.
//!
//! **Shutdown.** The gateway reports that it is not ready (the program around it may wait for `server.drain_delay` between
//! that and the rest), accepts the connections already in the listen backlog, and
//! accepts no new ones. Requests in flight have the drain timeout to finish. What remains after that is ended with an
//! error to the caller, and settled.

mod backlog;

use crate::admin::{self, AdminState};
use crate::assemble::{RunningState, ServeError};
use crate::connection::{ConnectionAcceptor, ConnectionSignal};
use crate::core_registry::{ConnectionTimeouts, CoreRegistry};
use crate::face::GatewayState;
use crate::runtime::TokioRuntime;
use crate::store_maintenance::StorageReport;
use crate::supervisor::{GatewayThreads, ShutdownStage, StopSignal, ThreadOptions};
use crate::tls::ReloadableTls;
use seawall_config::{CoreCount, LoadedInput, RuntimeLayout, ServerSettings, Settings};
use seawall_core::quota::LimitChange;
use seawall_core::time::Timestamp;
use seawall_pipeline::event::{Event, EventSinks};
use seawall_pipeline::{Runtime as _, Timer as _};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// The listen backlog: connections that may wait to be accepted.
const LISTEN_BACKLOG: u16 = 1_024;
/// At shutdown, how long a connection without any request so far may stay open for its first one.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// How often that is checked.
const FIRST_REQUEST_POLL: Duration = Duration::from_millis(5);

/// Interval between two checks for idle connections and stalled streams.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Idle timeout while nearly all connections are in use. An HTTP/1.1 connection that has made a request before keeps
/// its configured timeout.
const SCARCE_IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// After the drain timeout, how long it may take to send callers an error that ends their answers.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(1);

/// How threads and runtimes are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadLayout {
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

impl ThreadLayout {
    /// The layout of these settings.
    pub(crate) fn of(server: &ServerSettings) -> Self {
        let cores = match server.cores {
            CoreCount::Fixed(cores) => usize::try_from(cores).unwrap_or(usize::MAX),
            CoreCount::All => std::thread::available_parallelism().map_or(1, Into::into),
        };
        match server.runtime {
            RuntimeLayout::PerCore => Self::PerCore(cores),
            RuntimeLayout::Shared => Self::Shared(cores),
        }
    }

    /// The pools of connections to each target: one for each runtime.
    pub(crate) const fn connection_pools(self) -> usize {
        match self {
            Self::PerCore(cores) => cores,
            Self::Shared(_) => 1,
        }
    }

    /// The number of listeners, and the threads of each.
    fn listeners(self) -> (usize, usize) {
        match self {
            Self::PerCore(cores) => (cores.max(1), 1),
            Self::Shared(threads) => (1, threads.max(1)),
        }
    }
}

/// The bound sockets of a gateway. Connections wait in their backlogs until it serves.
pub(crate) struct ListenSockets {
    /// One per listener, all on the same address.
    callers: Vec<std::net::TcpListener>,
    threads_each: usize,
    admin: std::net::TcpListener,
    /// The bound address of the callers' listener.
    pub(crate) address: SocketAddr,
    /// The bound address of the admin listener.
    pub(crate) admin_address: SocketAddr,
}

/// A running gateway. Dropping it ends requests in flight with an error.
pub struct RunningGateway {
    address: SocketAddr,
    state: Arc<GatewayState>,
    admin: Arc<AdminState>,
    /// Dropped before what the threads use.
    threads: GatewayThreads,
    running: Arc<RunningState>,
}

impl ListenSockets {
    /// Binds the sockets of these settings; port 0 takes a free port.
    pub(crate) fn bind(settings: &Settings, layout: ThreadLayout) -> Result<Self, ListenError> {
        let admin_error = |error| ListenError::Address { address: settings.admin.listen, error };
        let admin = admin::bind(settings.admin.listen).map_err(admin_error)?;
        let admin_address = admin.local_addr().map_err(admin_error)?;
        let (listeners, threads_each) = layout.listeners();
        let (mut address, mut callers) = (settings.server.listen, Vec::with_capacity(listeners));
        for _ in 0..listeners {
            let socket = bind(address).map_err(|error| ListenError::Address { address, error })?;
            // The first socket may take a free port; the others share it.
            address = socket.local_addr().map_err(|error| ListenError::Address { address, error })?;
            callers.push(socket);
        }
        Ok(Self { callers, threads_each, admin, address, admin_address })
    }
}

impl RunningGateway {
    /// Starts the threads that serve these sockets. Requests are served from here on.
    pub(crate) fn listen(
        sockets: ListenSockets,
        running: Arc<RunningState>,
        threads: GatewayThreads,
    ) -> Result<Self, ListenError> {
        let ListenSockets { callers, threads_each, admin, address, admin_address } = sockets;
        let status = Arc::clone(&running.status);
        let state = Arc::new(GatewayState {
            pipeline: Arc::clone(&status.pipeline),
            assistant: Arc::clone(&running.assistant),
            runtime: status.runtime,
            authenticator: Arc::clone(&running.telemetry.authenticator),
            status: Arc::clone(&status),
        });
        for (core, socket) in callers.into_iter().enumerate() {
            let (state, tls, mut socket) = (Arc::clone(&state), Arc::clone(&running.tls), Some(socket));
            let options = ThreadOptions::new(format!("core-{core}"), ShutdownStage::Listeners);
            let thread = threads.0.spawn(options, move |shutdown| {
                seawall_provider::set_current_core(core);
                // While this core does not listen, the kernel gives its connections to the others.
                let socket = socket.take().map_or_else(|| bind(address), Ok)?;
                let tokio = if threads_each == 1 {
                    tokio::runtime::Builder::new_current_thread().enable_all().build()?
                } else {
                    tokio::runtime::Builder::new_multi_thread()
                        .worker_threads(threads_each)
                        .thread_name("core-worker")
                        .enable_all()
                        .build()?
                };
                tokio.block_on(accept(socket, Arc::clone(&tls), Arc::clone(&state), shutdown))
            });
            thread.map_err(ListenError::Thread)?;
        }
        let guard = Arc::clone(&running.guard);
        let spending = admin::SpendingQueries::default();
        let state_of_admin =
            AdminState { status, guard, running: Arc::clone(&running), spending, address: admin_address };
        let admin_state = Arc::new(state_of_admin);
        admin::start(admin, &admin_state, &threads.0).map_err(ListenError::Thread)?;
        Ok(Self { address, state, admin: admin_state, threads, running })
    }

    /// The bound address of the callers' listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bound address of the admin listener.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address
    }

    /// Shows these settings in the admin API as the ones in force, with the source of each.
    pub fn publish_settings(&self, input: &Arc<LoadedInput>) {
        let status = &self.state.status;
        status.settings.store(Some(Arc::clone(input)));
        status.settings_applied.store(status.runtime.now().utc.as_nanos(), Ordering::Relaxed);
    }

    /// Where state is stored, and what recovery found there.
    #[must_use]
    pub fn storage(&self) -> &StorageReport {
        &self.state.status.storage
    }

    /// Applies new settings as far as that is possible without a restart. Requests in flight finish under the old ones.
    /// On an error nothing changes. Returns what happened to the counts of every limit.
    pub fn apply_settings(&self, settings: &Settings) -> Result<Vec<LimitChange>, ServeError> {
        self.running.apply_settings(settings)
    }

    /// How long requests in flight may take to finish at shutdown.
    #[must_use]
    pub fn drain_timeout(&self) -> Duration {
        self.running.drain_timeout()
    }

    /// How long requests are still served after a shutdown signal.
    #[must_use]
    pub fn drain_delay(&self) -> Duration {
        self.running.drain_delay()
    }

    /// Reports that this node is not ready, and still serves requests: load balancers get time to notice before the
    /// listeners close. Follow it with [`shut_down_after`](Self::shut_down_after).
    pub fn report_not_ready(&self) {
        self.state.status.is_draining.store(true, Ordering::Relaxed);
    }

    /// Opens the files of logs again, so that lines go to a new file after the old one was renamed.
    pub fn reopen_logs(&self) {
        self.running.telemetry.reopen_logs();
    }

    /// The sinks of events, for events of the program around the gateway.
    #[must_use]
    pub fn events(&self) -> &EventSinks {
        self.state.pipeline.events()
    }

    /// Shuts down gracefully: accepts no new work, drains requests in flight, and returns when all of them and all
    /// background threads have ended. A thread that does not end in time is reported and left behind.
    pub fn shut_down(self) {
        self.shut_down_after("stop request");
    }

    /// The same, and reports what asked for it, such as the name of a signal.
    pub fn shut_down_after(self, cause: &str) {
        let (events, runtime) = (Arc::clone(self.state.pipeline.events()), self.state.runtime);
        let (began, timeout) = (runtime.monotonic(), self.running.drain_timeout());
        events.emit(&Event::DrainStarted { cause, timeout });
        self.state.status.is_draining.store(true, Ordering::Relaxed);
        self.threads.stop(timeout);
        // This closes the store, which writes what it has accepted.
        drop(self);
        events.emit(&Event::DrainCompleted { duration: runtime.monotonic() - began });
    }
}

fn bind(address: SocketAddr) -> Result<std::net::TcpListener, std::io::Error> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(LISTEN_BACKLOG.into())?;
    Ok(socket.into())
}

async fn accept(
    socket: std::net::TcpListener,
    tls: Arc<ReloadableTls>,
    state: Arc<GatewayState>,
    shutdown: &mut StopSignal,
) -> std::io::Result<()> {
    let listener = TcpListener::from_std(socket)?;
    let (open, mut all_ended) = mpsc::channel(1);
    let core = CoreRegistry::default();
    spawn(check_connections(core.clone(), Arc::clone(&state)));
    let acceptor = ConnectionAcceptor { state: Arc::clone(&state), tls, core: core.clone(), open };
    let drain_timeout = loop {
        let accepted = tokio::select! {
            biased;
            drain_timeout = shutdown.requested() => break drain_timeout,
            accepted = listener.accept() => accepted,
        };
        // Out of file descriptors, or the connection was closed before it was accepted: try the next one.
        let Ok((stream, peer)) = accepted else {
            state.runtime.sleep_until(state.runtime.now().monotonic + Duration::from_millis(10)).await;
            continue;
        };
        acceptor.accept(stream, peer);
    };
    backlog::drain_backlog(listener, state.runtime, |stream, peer| acceptor.accept(stream, peer)).await;
    drop(acceptor);
    let end: Timestamp = state.runtime.monotonic() + drain_timeout;
    tokio::select! {
        biased;
        _ = all_ended.recv() => return Ok(()),
        () = state.runtime.sleep_until(end) => {}
        () = drain_connections(&core, state.runtime) => {}
    }
    core.terminate();
    tokio::select! {
        biased;
        _ = all_ended.recv() => {}
        () = state.runtime.sleep_until(state.runtime.monotonic() + TERMINATION_TIMEOUT) => {}
    }
    Ok(())
}

/// Closes idle connections and abandons stalled streams, until the runtime ends.
async fn check_connections(core: CoreRegistry, state: Arc<GatewayState>) {
    let runtime = state.runtime;
    loop {
        runtime.sleep_until(runtime.monotonic() + CHECK_INTERVAL).await;
        let arrival = state.pipeline.receive_limits().1;
        let connections = &state.status.connections;
        let checks = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX).max(1);
        // Close idle connections early when connections are scarce.
        let max_idle = if connections.are_scarce() { SCARCE_IDLE_TIMEOUT } else { Duration::MAX };
        let timeouts = ConnectionTimeouts {
            first_request: arrival.header_timeout.min(max_idle),
            max_idle_checks: checks(arrival.idle_timeout.min(max_idle)),
            max_stalled_checks: checks(arrival.send_timeout),
            max_silent_checks: arrival.keep_alive_interval.map(checks),
        };
        core.check(runtime.monotonic(), &timeouts, connections);
    }
}

/// Signals every connection to finish after its first request, or once that has not arrived in time. A client whose
/// connection is closed before its first request sees an error. Never returns.
async fn drain_connections(core: &CoreRegistry, runtime: TokioRuntime) {
    let close_at = runtime.monotonic() + FIRST_REQUEST_TIMEOUT;
    loop {
        let is_closing = runtime.monotonic() >= close_at;
        for connection in core.connections() {
            if is_closing || connection.has_received_request() {
                connection.send_signal(ConnectionSignal::Drain);
            }
        }
        runtime.sleep_until(runtime.monotonic() + FIRST_REQUEST_POLL).await;
    }
}

/// The only place that spawns tasks: connections, and their periodic checks. A task ends with its runtime at the
/// latest.
#[expect(clippy::disallowed_methods, reason = "connections are what the runtime is for")]
pub(crate) fn spawn(connection: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(connection);
}
