//! Finds the master among several servers by asking their sentinels.
//!
//! **What it does.** It queries one sentinel after the other for the address of the master, and keeps the connection to
//! it.
//!
//! **When it acts.** Before the first use, and before the next use after the master did not respond or reported that it
//! is not a master. That operation waits for the sentinels, no longer than its own timeout. If it times out, the search
//! continues where it was when the next operation starts.
//!
//! **What it does not do.** It does not decide which server should be master. A master that is cut off from its
//! sentinels and still responds is used until it stops responding.

use crate::lock;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, RedisError, RedisResult};
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

type MasterAddress = (String, u16);
type MasterSearch = Pin<Box<dyn Future<Output = RedisResult<MasterAddress>> + Send>>;

pub(super) struct Sentinels {
    clients: Vec<Client>,
    /// The name of the master in the configuration of the sentinels.
    name: String,
    config: ConnectionManagerConfig,
    connect_timeout: Duration,
    found: Mutex<KnownMaster>,
    /// Survives a cancelled operation, so that the progress of a search is not lost.
    search: tokio::sync::Mutex<Option<MasterSearch>>,
}

#[derive(Default)]
struct KnownMaster {
    master: Option<(MasterAddress, ConnectionManager)>,
    is_suspect: bool,
    /// The number of searches. Each starts with another sentinel, because the first may be down or have stale
    /// information.
    searches: usize,
}

impl Sentinels {
    pub(super) fn new(
        clients: Vec<Client>,
        name: String,
        config: ConnectionManagerConfig,
        connect_timeout: Duration,
    ) -> Self {
        let (found, search) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { clients, name, config, connect_timeout, found, search }
    }

    /// Marks the master as suspect: it failed, or reported that it is not a master.
    pub(super) fn mark_suspect(&self) {
        lock(&self.found).is_suspect = true;
    }

    /// Drops the connection to the master: the next use looks the master up and reconnects, even to the same one.
    pub(super) fn forget(&self) {
        lock(&self.found).master = None;
    }

    fn trusted_master(&self) -> Option<ConnectionManager> {
        let found = lock(&self.found);
        let (_, manager) = found.master.as_ref().filter(|_| !found.is_suspect)?;
        Some(manager.clone())
    }

    /// Returns a connection to the master.
    pub(super) async fn master(&self) -> RedisResult<ConnectionManager> {
        if let Some(manager) = self.trusted_master() {
            return Ok(manager);
        }
        let mut search = self.search.lock().await;
        // Another operation may have found it meanwhile.
        if let Some(manager) = self.trusted_master() {
            return Ok(manager);
        }
        let outcome = search.get_or_insert_with(|| self.start_search()).as_mut().await;
        *search = None;
        self.connect_to(outcome?)
    }

    fn start_search(&self) -> MasterSearch {
        let turn = {
            let mut found = lock(&self.found);
            found.searches = found.searches.wrapping_add(1);
            found.searches
        };
        let mut clients = self.clients.clone();
        let first = turn.checked_rem(clients.len()).unwrap_or(0);
        clients.rotate_left(first);
        Box::pin(query_sentinels(clients, self.name.clone(), self.connect_timeout))
    }

    /// Connects to the address, unless it is the current master.
    fn connect_to(&self, address: MasterAddress) -> RedisResult<ConnectionManager> {
        let mut found = lock(&self.found);
        found.is_suspect = false;
        if let Some((current, manager)) = &found.master
            && *current == address
        {
            return Ok(manager.clone());
        }
        let first = self.clients.first().ok_or_else(no_master)?;
        let (host, port) = address.clone();
        // User, password and TLS settings are those of the sentinels.
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

/// The first response that contains an address of the master.
async fn query_sentinels(
    sentinels: Vec<Client>,
    name: String,
    within: Duration,
) -> RedisResult<MasterAddress> {
    let mut last = no_master();
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(Some(within)).set_response_timeout(Some(within));
    for sentinel in sentinels {
        let query = async {
            let mut connection = sentinel.get_multiplexed_async_connection_with_config(&config).await?;
            let mut command = redis::cmd("SENTINEL");
            command.arg("get-master-addr-by-name").arg(&name);
            command.query_async::<Option<MasterAddress>>(&mut connection).await
        };
        match query.await {
            Ok(Some(address)) => return Ok(address),
            Ok(None) => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn no_master() -> RedisError {
    RedisError::from((ErrorKind::Io, "no sentinel knows the address of the master"))
}
