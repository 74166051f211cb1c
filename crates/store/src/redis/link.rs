//! The way to the server, to the servers of a cluster, or to the one that sentinels say is master.
//!
//! **What it does.** Sends one script or command at a time over one connection that everybody shares, and waits no
//! longer than its limit for the answer. A connection that broke is made anew in the background. A script that the
//! server has forgotten (it was restarted, flushed, or another took over) is sent again in full.
//!
//! **What it will not do.** It never waits for the first connection: whoever asks before there is one is told that the
//! store is away. It tries nothing again but what the server says it has not done.

use super::script::StoreScript;
use super::sentinel::Sentinels;
use crate::StoreError;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::cluster::{ClusterClientBuilder, ClusterConfig};
use redis::cluster_async::ClusterConnection;
use redis::{Client, Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use seawall_core::deadline::Deadline;
use seawall_core::handle::{Runtime, within};
use seawall_core::setting::SettingError;
use std::sync::Arc;
use std::time::Duration;

/// The name in errors.
pub(super) const STORE: &str = "redis";

/// Settings as somebody wrote them; [`RedisLink::new`] makes them usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisOptions {
    /// Addresses such as `redis://127.0.0.1:6379`; of a cluster, some of its servers.
    pub servers: Vec<String>,
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
            cluster: false,
            sentinel_master: None,
            prefix: String::new(),
            answer_within: Duration::from_millis(25),
            connect_within: Duration::from_secs(1),
        }
    }
}

#[derive(Clone)]
enum Wire {
    One(ConnectionManager),
    Cluster(ClusterConnection),
    Watched(Arc<Sentinels>),
}

/// A connection that everybody shares. Cloning it gives another handle to it.
#[derive(Clone)]
pub struct RedisLink<R> {
    wire: Wire,
    runtime: R,
    prefix: Arc<str>,
    answer_within: Duration,
}

impl<R: Runtime> RedisLink<R> {
    /// Begins to connect. Must be called inside of a Tokio runtime, which also runs the connection's tasks.
    pub fn new(options: &RedisOptions, runtime: R) -> Result<Self, SettingError> {
        let answer_within = positive("answer_within", options.answer_within)?;
        let connect_within = positive("connect_within", options.connect_within)?;
        let wrong = |problem: String| SettingError::new("servers", problem);
        // An attempt that fails is not repeated by the manager: whoever asks next begins a new one, and nobody waits
        // behind a pause.
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(0)
            .set_connection_timeout(Some(connect_within))
            .set_response_timeout(None);
        let open = |server: &String| Client::open(server.as_str()).map_err(|error| wrong(error.to_string()));
        let wire = match (&options.sentinel_master, options.cluster, options.servers.as_slice()) {
            (Some(_), true, _) => {
                return Err(SettingError::new("sentinel_master", "a cluster has no sentinels"));
            }
            (Some(_), _, []) => return Err(wrong("no address of a sentinel".into())),
            (Some(name), false, servers) => {
                let clients = servers.iter().map(open).collect::<Result<_, _>>()?;
                Wire::Watched(Arc::new(Sentinels::new(clients, name.clone(), config, connect_within)))
            }
            (None, true, servers) => {
                let cluster = ClusterClientBuilder::new(servers.iter().map(String::as_str))
                    .connection_timeout(connect_within)
                    .build()
                    .map_err(|error| wrong(error.to_string()))?;
                Wire::Cluster(cluster.get_pending_async_connection_with_config(ClusterConfig::new()))
            }
            (None, false, [server]) => Wire::One(
                ConnectionManager::new_lazy_with_config(open(server)?, config)
                    .map_err(|error| wrong(error.to_string()))?,
            ),
            (None, false, servers) => {
                return Err(wrong(format!("{} addresses, and no cluster", servers.len())));
            }
        };
        let prefix = options.prefix.as_str();
        // What is in braces decides where a key lies in a cluster.
        if prefix.contains(['{', '}']) || prefix.chars().any(char::is_control) {
            return Err(SettingError::new("prefix", "must hold no braces and no control characters"));
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}:") };
        Ok(Self { wire, runtime, prefix: prefix.into(), answer_within })
    }

    pub(super) fn runtime(&self) -> &R {
        &self.runtime
    }

    /// Runs a script. All keys have one hash tag.
    pub(super) async fn run(
        &self,
        script: &StoreScript,
        keys: &[String],
        arguments: &[&[u8]],
    ) -> Result<Value, StoreError> {
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
        if let (Wire::Watched(sentinels), Err(StoreError::Away { .. })) = (&self.wire, &outcome) {
            // Perhaps another one is master now.
            sentinels.doubt();
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
        let answer = match self.wire.clone() {
            Wire::One(mut manager) => manager.req_packed_command(command).await,
            Wire::Cluster(mut cluster) => cluster.req_packed_command(command).await,
            Wire::Watched(sentinels) => sentinels.master().await?.req_packed_command(command).await,
        };
        answer.and_then(Value::extract_error)
    }
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
