//! Connection limits: in total, and per client network.
//!
//! Every connection takes a file descriptor, and a process has only so many. Without a limit, a client that opens
//! enough idle connections locks out everyone else, including the admin API. Callers' connections are therefore limited
//! below the file-descriptor limit, which is raised as far as allowed at startup. The rest is left for the admin API,
//! for targets and for the store.
//!
//! **What it does not do.** It does not limit trusted proxies per network, because many callers are behind one. It does
//! not queue: a rejected connection is closed at once.

use crate::core_registry::lock;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seawall_config::Settings;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Descriptors for everything but callers and targets: admin connections, the store, the log, the system's own.
const RESERVED_FILES: usize = 192;
/// Callers may open at least this many connections, however few descriptors there are.
const MIN_CONNECTIONS: usize = 16;

/// Why a connection was rejected or closed, as a label in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// Rejected: the total limit is reached.
    MaxConnections,
    /// Rejected: the limit of its network is reached.
    PerAddress,
    /// Closed: no request for too long.
    Idle,
    /// Closed: the client did not read what was sent for too long.
    Stalled,
    /// Closed: too many HTTP/2 frames that do not advance any request.
    Http2Flood,
}

impl ConnectionEnd {
    pub(crate) const ALL: [Self; 5] =
        [Self::MaxConnections, Self::PerAddress, Self::Idle, Self::Stalled, Self::Http2Flood];

    /// The label in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::MaxConnections => "max_connections",
            Self::PerAddress => "max_connections_per_address",
            Self::Idle => "idle_timeout",
            Self::Stalled => "send_timeout",
            Self::Http2Flood => "http2_flood",
        }
    }
}

/// Counts the open connections of callers. Admits none before it has limits.
#[derive(Debug, Default)]
pub(crate) struct ConnectionLimiter {
    open: AtomicUsize,
    max: AtomicUsize,
    max_per_address: AtomicUsize,
    networks: Mutex<BTreeMap<u128, usize>>,
    ended: [AtomicU64; ConnectionEnd::ALL.len()],
}

/// One admitted connection. Dropping it frees its slot.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    connections: Arc<ConnectionLimiter>,
    network: Option<u128>,
}

impl ConnectionLimiter {
    /// Applies the limits of these settings, as far as the file-descriptor limit allows. Open connections stay open.
    pub(crate) fn apply_settings(&self, settings: &Settings) {
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let calls = settings.targets.values().map(|target| target.concurrency.get() as usize).sum();
        let max = size(settings.server.max_connections).min(available_connections(file_limit(), calls));
        self.set_limits(max, size(settings.server.max_connections_per_address));
    }

    fn set_limits(&self, max: usize, per_address: usize) {
        self.max.store(max, Ordering::Relaxed);
        // However low the total, a single network cannot take all of it.
        self.max_per_address.store(per_address.min((max / 2).max(1)), Ordering::Relaxed);
    }

    /// Admits one more connection, unless a limit is reached. `network` is `None` for trusted proxies.
    pub(crate) fn admit(self: &Arc<Self>, network: Option<u128>) -> Result<OpenConnection, ConnectionEnd> {
        let refused = |reason| {
            self.record_end(reason);
            Err(reason)
        };
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.max.load(Ordering::Relaxed) {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return refused(ConnectionEnd::MaxConnections);
        }
        if let Some(network) = network {
            let mut networks = lock(&self.networks);
            let open = networks.entry(network).or_insert(0);
            if *open >= self.max_per_address.load(Ordering::Relaxed) {
                drop(networks);
                self.open.fetch_sub(1, Ordering::Relaxed);
                return refused(ConnectionEnd::PerAddress);
            }
            *open += 1;
        }
        Ok(OpenConnection { connections: Arc::clone(self), network })
    }

    /// Counts one rejected or closed connection.
    pub(crate) fn record_end(&self, reason: ConnectionEnd) {
        self.ended[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The number of connections rejected or closed for this reason.
    pub(crate) fn ended(&self, reason: ConnectionEnd) -> u64 {
        self.ended[reason as usize].load(Ordering::Relaxed)
    }

    /// The number of open connections, and the limit.
    pub(crate) fn open(&self) -> (usize, usize) {
        (self.open.load(Ordering::Relaxed), self.max.load(Ordering::Relaxed))
    }

    /// Whether nearly all connections are in use, so that idle ones should be closed early.
    pub(crate) fn are_scarce(&self) -> bool {
        let (open, max) = self.open();
        open.saturating_mul(10) >= max.saturating_mul(9)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.open.fetch_sub(1, Ordering::Relaxed);
        let Some(network) = self.network else { return };
        if let Entry::Occupied(mut open) = lock(&self.connections.networks).entry(network) {
            match open.get().saturating_sub(1) {
                0 => drop(open.remove()),
                less => drop(open.insert(less)),
            }
        }
    }
}

/// The number of connections for callers, given this many file descriptors and concurrent calls to targets. Calls take
/// at most a quarter of the descriptors.
fn available_connections(files: usize, calls: usize) -> usize {
    files.saturating_sub(RESERVED_FILES).saturating_sub(calls.min(files / 4)).max(MIN_CONNECTIONS)
}

/// The soft limit of open file descriptors of this process.
fn file_limit() -> usize {
    getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX)
}

/// Raises the soft limit of open file descriptors to the hard limit.
pub(crate) fn raise_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // If this is rejected, the present limit stays.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectionEnd, ConnectionLimiter, available_connections};
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use std::sync::Arc;

    fn limited(max: usize, per_address: usize) -> Arc<ConnectionLimiter> {
        let connections = Arc::new(ConnectionLimiter::default());
        connections.set_limits(max, per_address);
        connections
    }

    #[test]
    fn one_address_cannot_take_all_connections_but_a_trusted_proxy_can() {
        let connections = limited(10, 100);
        let mine: Vec<_> = std::iter::from_fn(|| connections.admit(Some(1)).ok()).collect();
        assert_eq!((mine.len(), connections.ended(ConnectionEnd::PerAddress)), (5, 1));
        let proxy: Vec<_> = std::iter::from_fn(|| connections.admit(None).ok()).collect();
        assert_eq!((proxy.len(), connections.are_scarce()), (5, true));
        assert_eq!(connections.admit(Some(2)).unwrap_err(), ConnectionEnd::MaxConnections);
        drop((mine, proxy));
        assert_eq!((connections.open(), connections.are_scarce()), ((0, 10), false));
    }

    #[test]
    fn file_descriptors_are_reserved_for_admin_and_targets() {
        assert_eq!(available_connections(1_024, 100), 1_024 - 192 - 100);
        assert_eq!(available_connections(1_024, 10_000), 1_024 - 192 - 256, "targets have a quarter at most");
        assert_eq!((available_connections(64, 10), available_connections(0, 0)), (16, 16));
        assert!(available_connections(usize::MAX, 10) > 1 << 30);
    }

    proptest! {
        #[test]
        fn the_limits_are_never_exceeded(
            max in 1_usize..12,
            per_address in 1_usize..12,
            steps in vec((any::<bool>(), 0_u128..4, any::<usize>()), 0..80),
        ) {
            let connections = limited(max, per_address);
            let (mut open, mut of) = (Vec::new(), Vec::new());
            for (comes, network, which) in steps {
                if comes {
                    let network = (network > 0).then_some(network);
                    let near = of.iter().filter(|one| **one == network).count();
                    let bound = per_address.min((max / 2).max(1));
                    let fits = of.len() < max && (network.is_none() || near < bound);
                    let admitted = connections.admit(network);
                    prop_assert_eq!(admitted.is_ok(), fits);
                    if let Ok(one) = admitted {
                        open.push(one);
                        of.push(network);
                    }
                } else if !open.is_empty() {
                    let which = which % open.len();
                    drop(open.swap_remove(which));
                    of.swap_remove(which);
                }
                prop_assert_eq!(connections.open().0, of.len());
            }
            drop(open);
            prop_assert!(connections.networks.lock().unwrap().is_empty());
        }
    }
}
