//! The connection to a server, to a cluster, or to the master that sentinels report.
//!
//! **What it does.** It sends each script or command over one shared, multiplexed connection, and waits for the
//! response no longer than the timeout. A broken connection is re-established in the background. A connection that has
//! only gone silent, without a reset, is closed and replaced by [`RedisConnection::reconnect_if_lost`]. A script that the server no longer
//! has in its cache (after a restart, a flush or a failover) is sent again in full.
//!
//! **What it does not do.** It never waits for the first connection: an operation before that fails with
//! [`StoreError::Unavailable`]. It retries nothing except what the server reports as not executed.

use super::script::StoreScript;
use super::sentinel::Sentinels;
use super::silence::SilenceDetector;
use crate::StoreError;
use arc_swap::ArcSwap;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::cluster::{ClusterClientBuilder, ClusterConfig};
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    Client, Cmd, ConnectionAddr, ErrorKind, IntoConnectionInfo as _, RedisError, RedisResult,
    ServerErrorKind, TlsCertificates, Value,
};
use seawall_core::deadline::Deadline;
use seawall_core::runtime::{Runtime, timeout_at};
use seawall_core::setting::SettingError;
use seawall_core::time::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The name of this store in errors.
pub(super) const STORE: &str = "redis";

/// One operation without a response may mean a slow server. After this many operation timeouts without any response,
/// and at least [`MIN_SILENCE`], the connection itself is suspected.
const SILENT_OPERATIONS: u32 = 8;
const MIN_SILENCE: Duration = Duration::from_millis(200);
/// Data that is not acknowledged for this long breaks the connection (`TCP_USER_TIMEOUT`).
const USER_TIMEOUT: Duration = Duration::from_secs(2);
/// TCP keep-alive of an idle connection, so that a dead one is detected before the next request needs it.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// Settings as configured; [`RedisConnection::new`] validates them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisOptions {
    /// URLs such as `redis://127.0.0.1:6379`, or `rediss://` for TLS; of a cluster, some of its servers.
    pub servers: Vec<String>,
    /// The CA certificates that may sign servers' TLS certificates, in PEM; without them, those of the system.
    pub ca_certificates: Option<Vec<u8>>,
    /// Whether the servers are a Redis cluster.
    pub cluster: bool,
    /// The name of a master that sentinels watch. The URLs are then those of its sentinels, and a user and password in
    /// them are used for the master, too.
    pub sentinel_master: Option<String>,
    /// The prefix of every key, so that two fleets can share a server. May be empty.
    pub prefix: String,
    /// The timeout of one operation.
    pub operation_timeout: Duration,
    /// The connect timeout. Connecting happens in the background.
    pub connect_timeout: Duration,
}

impl Default for RedisOptions {
    /// One server on this machine, with an operation timeout of 25 ms.
    fn default() -> Self {
        Self {
            servers: vec!["redis://127.0.0.1:6379".into()],
            ca_certificates: None,
            cluster: false,
            sentinel_master: None,
            prefix: String::new(),
            operation_timeout: Duration::from_millis(25),
            connect_timeout: Duration::from_secs(1),
        }
    }
}

enum Transport {
    Single(ConnectionManager),
    Cluster(ClusterConnection),
    Sentinel(Arc<Sentinels>),
}

/// The connection in use, and how to open a new one.
struct SharedConnection {
    transport: ArcSwap<Transport>,
    /// Starts a new connection. It cannot fail once it has worked, because everything that depends on the settings is
    /// already in the clients.
    open: Box<dyn Fn() -> RedisResult<Transport> + Send + Sync>,
    detector: SilenceDetector,
    is_lost: AtomicBool,
    /// When the connection in use was started, in nanoseconds: it is not suspected before its connect timeout has
    /// passed.
    opened_at: AtomicU64,
    connect_timeout: Duration,
}

impl SharedConnection {
    /// Marks the connection as suspect after a failure. Behind sentinels, another server may have become master.
    fn mark_suspect(&self) {
        if let Transport::Sentinel(sentinels) = &**self.transport.load() {
            sentinels.mark_suspect();
        }
    }
}

/// A connection that all operations share. Cloning it gives another handle to it.
#[derive(Clone)]
pub struct RedisConnection<R> {
    connection: Arc<SharedConnection>,
    runtime: R,
    prefix: Arc<str>,
    operation_timeout: Duration,
}

impl<R: Runtime> RedisConnection<R> {
    /// Starts connecting. Must be called inside a Tokio runtime, which also runs the connection's tasks.
    pub fn new(options: &RedisOptions, runtime: R) -> Result<Self, SettingError> {
        let operation_timeout = positive("operation_timeout", options.operation_timeout)?;
        let connect_timeout = positive("connect_timeout", options.connect_timeout)?;
        let prefix = options.prefix.as_str();
        // The part in braces is the hash tag, which decides about the slot of a key in a cluster.
        if prefix.contains(['{', '}']) || prefix.chars().any(char::is_control) {
            return Err(SettingError::new("prefix", "must not contain braces or control characters"));
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}:") };
        let open = connector(options)?;
        let transport = open().map_err(|error| SettingError::new("servers", error.to_string()))?;
        let lost_after = operation_timeout.saturating_mul(SILENT_OPERATIONS).max(MIN_SILENCE);
        let connection = SharedConnection {
            transport: ArcSwap::from_pointee(transport),
            open,
            detector: SilenceDetector::new(options.cluster, lost_after),
            is_lost: AtomicBool::new(false),
            opened_at: AtomicU64::new(runtime.monotonic().as_nanos()),
            connect_timeout,
        };
        Ok(Self { connection: Arc::new(connection), runtime, prefix: prefix.into(), operation_timeout })
    }

    pub(super) fn runtime(&self) -> &R {
        &self.runtime
    }

    /// Closes a connection that has gone silent, and starts a new one. Call it about once a second, inside the Tokio
    /// runtime that is to run the connection's tasks.
    pub fn reconnect_if_lost(&self) {
        let SharedConnection { transport, open, detector, is_lost, opened_at, connect_timeout } =
            &*self.connection;
        let now = self.runtime.monotonic();
        let is_young = now - Timestamp::from_nanos(opened_at.load(Ordering::Relaxed)) < *connect_timeout;
        if is_young || !is_lost.swap(false, Ordering::Relaxed) {
            return;
        }
        opened_at.store(now.as_nanos(), Ordering::Relaxed);
        detector.reset();
        match &**transport.load() {
            Transport::Sentinel(sentinels) => sentinels.forget(),
            // Operations in flight keep the old connection open until they time out; then it is closed.
            Transport::Single(_) | Transport::Cluster(_) => {
                if let Ok(new) = open() {
                    transport.store(Arc::new(new));
                }
            }
        }
    }

    /// Runs a script. All keys must have the same hash tag.
    pub(super) async fn run(
        &self,
        script: &StoreScript,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<Value, StoreError> {
        let detector = &self.connection.detector;
        let part = keys.first().map_or(0, |key| detector.part_of(key));
        let mut sent =
            OperationInFlight { connection: self, part, at: self.runtime.monotonic(), has_response: false };
        let outcome = self.with_timeout(async {
            let first = self.call(&self.command("EVALSHA", &script.hash, keys, arguments)).await;
            match first {
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    self.call(&self.command("EVAL", &script.text, keys, arguments)).await
                }
                outcome => outcome,
            }
        });
        let outcome = outcome.await.and_then(|response| response.map_err(|error| classify_error(&error)));
        // Any other response shows that the connection works. An error that arrives at once, such as a broken
        // connection, is ignored again on drop, because nothing was waited for.
        sent.has_response = !matches!(outcome, Err(StoreError::Unavailable { .. }));
        if !sent.has_response {
            self.connection.mark_suspect();
        }
        outcome
    }

    async fn with_timeout<T>(&self, work: impl Future<Output = T>) -> Result<T, StoreError> {
        let deadline = Deadline::after(self.runtime.monotonic(), self.operation_timeout);
        let outcome = timeout_at(&self.runtime, deadline, work).await;
        outcome.ok_or_else(|| {
            StoreError::unavailable(STORE, format!("no response within {:?}", self.operation_timeout))
        })
    }

    fn command(&self, verb: &str, script: &str, keys: &[String], arguments: &[&[u8]]) -> Cmd {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(keys.len());
        for key in keys {
            if self.prefix.is_empty() {
                command.arg(key);
            } else {
                command.arg(format!("{}{key}", self.prefix));
            }
        }
        for argument in arguments {
            command.arg(*argument);
        }
        command
    }

    async fn call(&self, command: &Cmd) -> RedisResult<Value> {
        let transport = self.connection.transport.load_full();
        let response = match &*transport {
            Transport::Single(manager) => manager.clone().req_packed_command(command).await,
            Transport::Cluster(cluster) => cluster.clone().req_packed_command(command).await,
            Transport::Sentinel(sentinels) => sentinels.master().await?.req_packed_command(command).await,
        };
        response.and_then(Value::extract_error)
    }
}

/// An operation in flight. The code that awaits it may have a shorter timeout than ours and drop it, so the silence of
/// the connection is detected on drop.
struct OperationInFlight<'a, R: Runtime> {
    connection: &'a RedisConnection<R>,
    part: usize,
    at: Timestamp,
    has_response: bool,
}

impl<R: Runtime> Drop for OperationInFlight<'_, R> {
    fn drop(&mut self) {
        let RedisConnection { connection, runtime, operation_timeout, .. } = self.connection;
        if self.has_response {
            return connection.detector.record_response(self.part);
        }
        let now = runtime.monotonic();
        // An operation that was dropped early shows nothing, because it has not waited for a response.
        if now - self.at < *operation_timeout / 2 {
            return;
        }
        connection.mark_suspect();
        if connection.detector.record_timeout(self.part, self.at, now) {
            connection.is_lost.store(true, Ordering::Relaxed);
        }
    }
}

/// Builds the function that connects with these options.
fn connector(
    options: &RedisOptions,
) -> Result<Box<dyn Fn() -> RedisResult<Transport> + Send + Sync>, SettingError> {
    let server_error = |problem: String| SettingError::new("servers", problem);
    let refused = |error: RedisError| server_error(error.to_string());
    let connect_timeout = options.connect_timeout;
    // The manager does not retry a failed attempt: the next operation starts a new one, so that no operation waits
    // behind a backoff.
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(0)
        .set_connection_timeout(Some(connect_timeout))
        .set_response_timeout(None);
    let certificates = options
        .ca_certificates
        .clone()
        .map(|root| TlsCertificates { client_tls: None, root_cert: Some(root) });
    if options.servers.iter().any(|server| server.starts_with("rediss://")) {
        // The whole program uses one cryptography provider. If another one was installed first, it is the same.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    }
    let client = |server: &String| {
        let info = server.as_str().into_connection_info().map_err(refused)?.set_tcp_settings(tcp_settings());
        let is_encrypted = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        match &certificates {
            Some(certificates) if is_encrypted => Client::build_with_tls(info, certificates.clone()),
            _ => Client::open(info),
        }
        .map_err(refused)
    };
    match (&options.sentinel_master, options.cluster, options.servers.as_slice()) {
        (Some(_), true, _) => Err(SettingError::new("sentinel_master", "cannot be combined with a cluster")),
        (Some(_), _, []) => Err(server_error("the address of a sentinel is missing".into())),
        (Some(name), false, servers) => {
            let clients = servers.iter().map(client).collect::<Result<_, _>>()?;
            let sentinels = Arc::new(Sentinels::new(clients, name.clone(), config, connect_timeout));
            Ok(Box::new(move || Ok(Transport::Sentinel(Arc::clone(&sentinels)))))
        }
        (None, true, servers) => {
            let mut builder = ClusterClientBuilder::new(servers.iter().map(String::as_str))
                .connection_timeout(connect_timeout)
                // Our own timeout is shorter; this one cleans up operations that are no longer awaited.
                .response_timeout(connect_timeout)
                .tcp_settings(tcp_settings());
            if let Some(certificates) =
                certificates.filter(|_| servers.iter().any(|url| url.starts_with("rediss://")))
            {
                builder = builder.certs(certificates);
            }
            let cluster = builder.build().map_err(refused)?;
            Ok(Box::new(move || {
                Ok(Transport::Cluster(cluster.get_pending_async_connection_with_config(ClusterConfig::new())))
            }))
        }
        (None, false, [server]) => {
            let client = client(server)?;
            Ok(Box::new(move || {
                ConnectionManager::new_lazy_with_config(client.clone(), config.clone()).map(Transport::Single)
            }))
        }
        (None, false, servers) => {
            Err(server_error(format!("{} addresses, but cluster mode is off", servers.len())))
        }
    }
}

fn tcp_settings() -> TcpSettings {
    let keep_alive =
        TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE_INTERVAL).with_retries(2);
    // Operations are small and latency-critical, so Nagle's algorithm is off.
    TcpSettings::default().set_nodelay(true).set_keepalive(keep_alive).set_user_timeout(USER_TIMEOUT)
}

fn positive(setting: &'static str, span: Duration) -> Result<Duration, SettingError> {
    if span.is_zero() {
        return Err(SettingError::new(setting, "must be longer than 0s"));
    }
    Ok(span)
}

/// Classifies an error of the server or of the connection.
fn classify_error(error: &RedisError) -> StoreError {
    use ServerErrorKind::{BusyLoading, ClusterDown, MasterDown, Moved, ReadOnly, TryAgain};
    let passes = match error.kind() {
        ErrorKind::Server(BusyLoading | ClusterDown | MasterDown | Moved | ReadOnly | TryAgain) => true,
        ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => true,
        // A server that is out of memory, or busy with a long script, may recover soon.
        _ => matches!(error.code(), Some("OOM" | "BUSY")) || error.is_unrecoverable_error(),
    };
    if passes { StoreError::unavailable(STORE, error) } else { StoreError::failed(STORE, error) }
}

/// The integers of a response.
pub(super) fn parse_integers(response: &Value) -> Result<Vec<i64>, StoreError> {
    let unexpected_response = || StoreError::failed(STORE, format!("unexpected response: {response:?}"));
    let Value::Array(items) = response else { return Err(unexpected_response()) };
    if let [Value::Int(9), Value::BulkString(reason)] = items.as_slice() {
        return Err(StoreError::failed(STORE, String::from_utf8_lossy(reason)));
    }
    items
        .iter()
        .map(|item| if let Value::Int(number) = item { Ok(*number) } else { Err(unexpected_response()) })
        .collect()
}
