//! Who of several servers is the master, as their sentinels say.
//!
//! **What it does.** Asks one sentinel after the other where the master is, and keeps the connection to it.
//!
//! **When it acts.** Before the first use, and before the next one after the master did not answer or said that it is none.
//! Whoever asks then waits for the sentinels, no longer than for any answer; the search goes on where it was when the
//! next one asks.
//!
//! **What it will not do.** It does not judge who should be master. A master that is cut off from its sentinels and still
//! answers is asked until it does not.

use crate::lock;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, RedisError, RedisResult};
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

type Address = (String, u16);
type Search = Pin<Box<dyn Future<Output = RedisResult<Address>> + Send>>;

pub(super) struct Sentinels {
    clients: Vec<Client>,
    /// The name under which they know the master.
    name: String,
    config: ConnectionManagerConfig,
    connect_within: Duration,
    found: Mutex<Found>,
    /// Survives who waits for it: what has been found out so far is not lost.
    search: tokio::sync::Mutex<Option<Search>>,
}

#[derive(Default)]
struct Found {
    master: Option<(Address, ConnectionManager)>,
    is_doubted: bool,
    /// Searches begun. Each begins with another sentinel, since the first may be dead or the last to know.
    searches: usize,
}

impl Sentinels {
    pub(super) fn new(
        clients: Vec<Client>,
        name: String,
        config: ConnectionManagerConfig,
        connect_within: Duration,
    ) -> Self {
        let (found, search) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { clients, name, config, connect_within, found, search }
    }

    /// The master did not do what a master does.
    pub(super) fn doubt(&self) {
        lock(&self.found).is_doubted = true;
    }

    /// The connection to the master is lost: the next use finds the master and connects anew, even to the same one.
    pub(super) fn forget(&self) {
        lock(&self.found).master = None;
    }

    fn undoubted(&self) -> Option<ConnectionManager> {
        let found = lock(&self.found);
        let (_, manager) = found.master.as_ref().filter(|_| !found.is_doubted)?;
        Some(manager.clone())
    }

    /// A connection to the master.
    pub(super) async fn master(&self) -> RedisResult<ConnectionManager> {
        if let Some(manager) = self.undoubted() {
            return Ok(manager);
        }
        let mut search = self.search.lock().await;
        // Somebody may have found it meanwhile.
        if let Some(manager) = self.undoubted() {
            return Ok(manager);
        }
        let outcome = search.get_or_insert_with(|| self.begin()).as_mut().await;
        *search = None;
        self.take(outcome?)
    }

    fn begin(&self) -> Search {
        let turn = {
            let mut found = lock(&self.found);
            found.searches = found.searches.wrapping_add(1);
            found.searches
        };
        let mut clients = self.clients.clone();
        let first = turn.checked_rem(clients.len()).unwrap_or(0);
        clients.rotate_left(first);
        Box::pin(look(clients, self.name.clone(), self.connect_within))
    }

    /// Connects, unless it is the same that we know.
    fn take(&self, address: Address) -> RedisResult<ConnectionManager> {
        let mut found = lock(&self.found);
        found.is_doubted = false;
        if let Some((known, manager)) = &found.master
            && *known == address
        {
            return Ok(manager.clone());
        }
        let first = self.clients.first().ok_or_else(nobody)?;
        let (host, port) = address.clone();
        // User, password and encryption are those of the sentinels.
        let to = match first.get_connection_info().addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        let client = Client::open(first.get_connection_info().clone().set_addr(to))?;
        let manager = ConnectionManager::new_lazy_with_config(client, self.config.clone())?;
        found.master = Some((address, manager.clone()));
        Ok(manager)
    }
}

/// The first answer of a sentinel that knows the master.
async fn look(sentinels: Vec<Client>, name: String, within: Duration) -> RedisResult<Address> {
    let mut last = nobody();
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(Some(within)).set_response_timeout(Some(within));
    for sentinel in sentinels {
        let asked = async {
            let mut connection = sentinel.get_multiplexed_async_connection_with_config(&config).await?;
            let mut command = redis::cmd("SENTINEL");
            command.arg("get-master-addr-by-name").arg(&name);
            command.query_async::<Option<Address>>(&mut connection).await
        };
        match asked.await {
            Ok(Some(address)) => return Ok(address),
            Ok(None) => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn nobody() -> RedisError {
    RedisError::from((ErrorKind::Io, "no sentinel knows the master"))
}
