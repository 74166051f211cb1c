//! The way to the server, to the servers of a cluster, or to the one that sentinels say is master.
//!
//! **What it does.** Sends one script or command at a time over one connection that everybody shares, and waits no
//! longer than its limit for the answer. A connection that broke is made anew in the background. One that only went
//! silent, without a reset, is closed and replaced by [`RedisLink::mend`]. A script that the server has forgotten (it was
//! restarted, flushed, or another took over) is sent again in full.
//!
//! **What it will not do.** It never waits for the first connection: whoever asks before there is one is told that the
//! store is away. It tries nothing again but what the server says it has not done.

use super::script::StoreScript;
use super::sentinel::Sentinels;
use super::silence::Silence;
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
use seawall_core::handle::{Runtime, within};
use seawall_core::setting::SettingError;
use seawall_core::time::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The name in errors.
pub(super) const STORE: &str = "redis";

/// An operation without an answer may mean a slow server. After this many operation limits without any answer, and at
/// least [`LEAST_SILENCE`], the connection itself is the suspect.
const SILENT_OPERATIONS: u32 = 8;
const LEAST_SILENCE: Duration = Duration::from_millis(200);
/// Data that nobody has acknowledged for so long breaks the connection (`TCP_USER_TIMEOUT`).
const USER_TIMEOUT: Duration = Duration::from_secs(2);
/// A connection without traffic is probed by the kernel, so that a dead one is gone before the next request needs it.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(1);

/// Settings as somebody wrote them; [`RedisLink::new`] makes them usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisOptions {
    /// Addresses such as `redis://127.0.0.1:6379`, or `rediss://` for TLS; of a cluster, some of its servers.
    pub servers: Vec<String>,
    /// The authorities that may vouch for servers by TLS, in PEM; without them those of the machine.
    pub ca_certificates: Option<Vec<u8>>,
    /// Whether they are a cluster.
    pub cluster: bool,
    /// The name of a master that sentinels watch; then the addresses are those of its sentinels, and a user and password
    /// in them hold for the master, too.
    pub sentinel_master: Option<String>,
    /// What every key begins with, so that two fleets can share a server; empty for nothing.
    pub prefix: String,
    /// The longest wait for one answer.
    pub answer_within: Duration,
    /// The longest wait for a connection, in the background.
    pub connect_within: Duration,
}

impl Default for RedisOptions {
    /// One server on this machine, 25 ms for an answer.
    fn default() -> Self {
        Self {
            servers: vec!["redis://127.0.0.1:6379".into()],
            ca_certificates: None,
            cluster: false,
            sentinel_master: None,
            prefix: String::new(),
            answer_within: Duration::from_millis(25),
            connect_within: Duration::from_secs(1),
        }
    }
}

enum Wire {
    One(ConnectionManager),
    Cluster(ClusterConnection),
    Watched(Arc<Sentinels>),
}

/// The connection in use, and how another one is made.
struct Connection {
    wire: ArcSwap<Wire>,
    /// Begins to connect anew. It cannot fail once it has worked: everything that settings could get wrong is in the
    /// clients already.
    open: Box<dyn Fn() -> RedisResult<Wire> + Send + Sync>,
    silence: Silence,
    is_lost: AtomicBool,
    /// When the connection in use was begun, in nanoseconds: it has its time to connect before it can be lost.
    begun: AtomicU64,
    connect_within: Duration,
}

impl Connection {
    /// It was of no use just now. Where sentinels watch, another one is master, perhaps.
    fn doubt(&self) {
        if let Wire::Watched(sentinels) = &**self.wire.load() {
            sentinels.doubt();
        }
    }
}

/// A connection that everybody shares. Cloning it gives another handle to it.
#[derive(Clone)]
pub struct RedisLink<R> {
    connection: Arc<Connection>,
    runtime: R,
    prefix: Arc<str>,
    answer_within: Duration,
}

impl<R: Runtime> RedisLink<R> {
    /// Begins to connect. Must be called inside of a Tokio runtime, which also runs the connection's tasks.
    pub fn new(options: &RedisOptions, runtime: R) -> Result<Self, SettingError> {
        let answer_within = positive("answer_within", options.answer_within)?;
        let connect_within = positive("connect_within", options.connect_within)?;
        let prefix = options.prefix.as_str();
        // What is in braces decides where a key lies in a cluster.
        if prefix.contains(['{', '}']) || prefix.chars().any(char::is_control) {
            return Err(SettingError::new("prefix", "must hold no braces and no control characters"));
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}:") };
        let open = opening(options)?;
        let wire = open().map_err(|error| SettingError::new("servers", error.to_string()))?;
        let lost_after = answer_within.saturating_mul(SILENT_OPERATIONS).max(LEAST_SILENCE);
        let connection = Connection {
            wire: ArcSwap::from_pointee(wire),
            open,
            silence: Silence::new(options.cluster, lost_after),
            is_lost: AtomicBool::new(false),
            begun: AtomicU64::new(runtime.monotonic().as_nanos()),
            connect_within,
        };
        Ok(Self { connection: Arc::new(connection), runtime, prefix: prefix.into(), answer_within })
    }

    pub(super) fn runtime(&self) -> &R {
        &self.runtime
    }

    /// Closes a connection that has gone silent and begins to connect anew. To be called about once a second, inside of
    /// the Tokio runtime that is to run the connection's tasks.
    pub fn mend(&self) {
        let Connection { wire, open, silence, is_lost, begun, connect_within } = &*self.connection;
        let now = self.runtime.monotonic();
        let is_young = now - Timestamp::from_nanos(begun.load(Ordering::Relaxed)) < *connect_within;
        if is_young || !is_lost.swap(false, Ordering::Relaxed) {
            return;
        }
        begun.store(now.as_nanos(), Ordering::Relaxed);
        silence.reset();
        match &**wire.load() {
            Wire::Watched(sentinels) => sentinels.forget(),
            // What waits on the old connection holds on to it until its time is over; then it is closed.
            Wire::One(_) | Wire::Cluster(_) => {
                if let Ok(new) = open() {
                    wire.store(Arc::new(new));
                }
            }
        }
    }

    /// Runs a script. All keys have one hash tag.
    pub(super) async fn run(
        &self,
        script: &StoreScript,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<Value, StoreError> {
        let silence = &self.connection.silence;
        let part = keys.first().map_or(0, |key| silence.part_of(key));
        let mut sent = Sent { link: self, part, at: self.runtime.monotonic(), is_answered: false };
        let outcome = self.limited(async {
            let first = self.call(&self.command("EVALSHA", &script.hash, keys, arguments)).await;
            match first {
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    self.call(&self.command("EVAL", &script.text, keys, arguments)).await
                }
                outcome => outcome,
            }
        });
        let outcome = outcome.await.and_then(|answer| answer.map_err(|error| seen(&error)));
        // Whatever the server says, it says something. Who finds the connection broken does not wait for it either.
        sent.is_answered = !matches!(outcome, Err(StoreError::Away { .. }));
        if !sent.is_answered {
            self.connection.doubt();
        }
        outcome
    }

    async fn limited<T>(&self, work: impl Future<Output = T>) -> Result<T, StoreError> {
        let deadline = Deadline::after(self.runtime.monotonic(), self.answer_within);
        let outcome = within(&self.runtime, deadline, work).await;
        outcome.ok_or_else(|| StoreError::away(STORE, format!("no answer in {:?}", self.answer_within)))
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
        let wire = self.connection.wire.load_full();
        let answer = match &*wire {
            Wire::One(manager) => manager.clone().req_packed_command(command).await,
            Wire::Cluster(cluster) => cluster.clone().req_packed_command(command).await,
            Wire::Watched(sentinels) => sentinels.master().await?.req_packed_command(command).await,
        };
        answer.and_then(Value::extract_error)
    }
}

/// An operation under way. Who waits for it may have a shorter limit than ours and drop it, so that silence is noticed here.
struct Sent<'a, R: Runtime> {
    link: &'a RedisLink<R>,
    part: usize,
    at: Timestamp,
    is_answered: bool,
}

impl<R: Runtime> Drop for Sent<'_, R> {
    fn drop(&mut self) {
        let RedisLink { connection, runtime, answer_within, .. } = self.link;
        if self.is_answered {
            return connection.silence.answered(self.part);
        }
        let now = runtime.monotonic();
        // A caller who went away at once has not waited for an answer.
        if now - self.at < *answer_within / 2 {
            return;
        }
        connection.doubt();
        if connection.silence.unanswered(self.part, self.at, now) {
            connection.is_lost.store(true, Ordering::Relaxed);
        }
    }
}

/// How to connect as the options say.
fn opening(options: &RedisOptions) -> Result<Box<dyn Fn() -> RedisResult<Wire> + Send + Sync>, SettingError> {
    let wrong = |problem: String| SettingError::new("servers", problem);
    let refused = |error: RedisError| wrong(error.to_string());
    let connect_within = options.connect_within;
    // An attempt that fails is not repeated by the manager: whoever asks next begins a new one, and nobody waits
    // behind a pause.
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(0)
        .set_connection_timeout(Some(connect_within))
        .set_response_timeout(None);
    let certificates = options
        .ca_certificates
        .clone()
        .map(|root| TlsCertificates { client_tls: None, root_cert: Some(root) });
    if options.servers.iter().any(|server| server.starts_with("rediss://")) {
        // One cryptography library for the whole program. Whoever was first has chosen the same.
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
        (Some(_), true, _) => Err(SettingError::new("sentinel_master", "a cluster has no sentinels")),
        (Some(_), _, []) => Err(wrong("no address of a sentinel".into())),
        (Some(name), false, servers) => {
            let clients = servers.iter().map(client).collect::<Result<_, _>>()?;
            let sentinels = Arc::new(Sentinels::new(clients, name.clone(), config, connect_within));
            Ok(Box::new(move || Ok(Wire::Watched(Arc::clone(&sentinels)))))
        }
        (None, true, servers) => {
            let mut builder = ClusterClientBuilder::new(servers.iter().map(String::as_str))
                .connection_timeout(connect_within)
                // Ours is shorter; this one clears away what nobody waits for any more.
                .response_timeout(connect_within)
                .tcp_settings(tcp_settings());
            if let Some(certificates) =
                certificates.filter(|_| servers.iter().any(|url| url.starts_with("rediss://")))
            {
                builder = builder.certs(certificates);
            }
            let cluster = builder.build().map_err(refused)?;
            Ok(Box::new(move || {
                Ok(Wire::Cluster(cluster.get_pending_async_connection_with_config(ClusterConfig::new())))
            }))
        }
        (None, false, [server]) => {
            let client = client(server)?;
            Ok(Box::new(move || {
                ConnectionManager::new_lazy_with_config(client.clone(), config.clone()).map(Wire::One)
            }))
        }
        (None, false, servers) => Err(wrong(format!("{} addresses, and no cluster", servers.len()))),
    }
}

fn tcp_settings() -> TcpSettings {
    let keep_alive =
        TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE_EVERY).with_retries(2);
    // Operations are small and somebody waits for each: none is held back to be sent with the next.
    TcpSettings::default().set_nodelay(true).set_keepalive(keep_alive).set_user_timeout(USER_TIMEOUT)
}

fn positive(setting: &'static str, span: Duration) -> Result<Duration, SettingError> {
    if span.is_zero() {
        return Err(SettingError::new(setting, "must be longer than 0s"));
    }
    Ok(span)
}

/// What an error says about the store.
fn seen(error: &RedisError) -> StoreError {
    use ServerErrorKind::{BusyLoading, ClusterDown, MasterDown, Moved, ReadOnly, TryAgain};
    let passes = match error.kind() {
        ErrorKind::Server(BusyLoading | ClusterDown | MasterDown | Moved | ReadOnly | TryAgain) => true,
        ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => true,
        // A server that is full, or that is busy with somebody's script, may be neither in a moment.
        _ => matches!(error.code(), Some("OOM" | "BUSY")) || error.is_unrecoverable_error(),
    };
    if passes { StoreError::away(STORE, error) } else { StoreError::broken(STORE, error) }
}

/// The whole numbers of an answer.
pub(super) fn numbers(answer: &Value) -> Result<Vec<i64>, StoreError> {
    let strange = || StoreError::broken(STORE, format!("an answer of another shape: {answer:?}"));
    let Value::Array(items) = answer else { return Err(strange()) };
    if let [Value::Int(9), Value::BulkString(reason)] = items.as_slice() {
        return Err(StoreError::broken(STORE, String::from_utf8_lossy(reason)));
    }
    items
        .iter()
        .map(|item| if let Value::Int(number) = item { Ok(*number) } else { Err(strange()) })
        .collect()
}
