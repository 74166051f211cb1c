//! How many connections there may be: in all, and from one address.
//!
//! Every connection is a file, and a process has only so many. Without a limit, whoever opens enough of them and lets them
//! lie locks everybody out, operators included. So callers' connections are limited below the number of files that the
//! system allows, which is raised as far as it goes when the gateway starts: what is left is for operators, targets and
//! the store.
//!
//! **What it will not do.** It limits no proxy that settings trust, because many callers are behind it, and lets nobody
//! wait: who is refused is closed at once.

use crate::stopping::hold;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seawall_config::Settings;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Files that are not connections of callers or to targets: operators' connections, the store, the log, the system's.
const OWN_FILES: usize = 192;
/// However few files there are, so many callers may connect.
const MIN_CONNECTIONS: usize = 16;

/// Why a connection was refused or closed, as metrics have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// Refused: there are as many as there may be.
    MaxConnections,
    /// Refused: there are as many as there may be from its address.
    PerAddress,
    /// Closed: nothing was asked for too long.
    Idle,
    /// Closed: what was sent was not read for too long.
    Unread,
}

impl ConnectionEnd {
    pub(crate) const ALL: [Self; 4] = [Self::MaxConnections, Self::PerAddress, Self::Idle, Self::Unread];

    /// The name in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::MaxConnections => "max_connections",
            Self::PerAddress => "max_connections_per_address",
            Self::Idle => "idle_timeout",
            Self::Unread => "send_timeout",
        }
    }
}

/// The connections of callers that are open.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    open: AtomicUsize,
    max: AtomicUsize,
    max_per_address: AtomicUsize,
    addresses: Mutex<BTreeMap<u128, usize>>,
    ended: [AtomicU64; ConnectionEnd::ALL.len()],
}

/// One connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    connections: Arc<Connections>,
    address: Option<u128>,
}

impl Connections {
    /// As these settings say, as far as the system has files.
    pub(crate) fn new(settings: &Settings) -> Arc<Self> {
        let connections = Self::default();
        connections.change(settings);
        Arc::new(connections)
    }

    /// Other limits from now on; connections that are open stay open.
    pub(crate) fn change(&self, settings: &Settings) {
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let calls = settings.targets.values().map(|target| target.concurrency as usize).sum();
        let max = size(settings.server.max_connections).min(room(file_limit(), calls));
        self.set(max, size(settings.server.max_connections_per_address));
    }

    fn set(&self, max: usize, per_address: usize) {
        self.max.store(max, Ordering::Relaxed);
        // However few there may be, one address does not have them all.
        self.max_per_address.store(per_address.min((max / 2).max(1)), Ordering::Relaxed);
    }

    /// Lets one more in, unless there are enough; `address` is nothing for proxies that are trusted.
    pub(crate) fn admit(self: &Arc<Self>, address: Option<u128>) -> Result<OpenConnection, ConnectionEnd> {
        let refused = |reason| {
            self.count(reason);
            Err(reason)
        };
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.max.load(Ordering::Relaxed) {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return refused(ConnectionEnd::MaxConnections);
        }
        if let Some(address) = address {
            let mut addresses = hold(&self.addresses);
            let open = addresses.entry(address).or_insert(0);
            if *open >= self.max_per_address.load(Ordering::Relaxed) {
                drop(addresses);
                self.open.fetch_sub(1, Ordering::Relaxed);
                return refused(ConnectionEnd::PerAddress);
            }
            *open += 1;
        }
        Ok(OpenConnection { connections: Arc::clone(self), address })
    }

    /// Counts one that was refused or closed.
    pub(crate) fn count(&self, reason: ConnectionEnd) {
        self.ended[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many were refused or closed for this.
    pub(crate) fn ended(&self, reason: ConnectionEnd) -> u64 {
        self.ended[reason as usize].load(Ordering::Relaxed)
    }

    /// How many are open, and how many may be.
    pub(crate) fn open(&self) -> (usize, usize) {
        (self.open.load(Ordering::Relaxed), self.max.load(Ordering::Relaxed))
    }

    /// Whether nearly all that there may be are open, so that who asks nothing should make room.
    pub(crate) fn are_scarce(&self) -> bool {
        let (open, max) = self.open();
        open.saturating_mul(10) >= max.saturating_mul(9)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.open.fetch_sub(1, Ordering::Relaxed);
        let Some(address) = self.address else { return };
        if let Entry::Occupied(mut open) = hold(&self.connections.addresses).entry(address) {
            match open.get().saturating_sub(1) {
                0 => drop(open.remove()),
                less => drop(open.insert(less)),
            }
        }
    }
}

/// How many callers may connect, where there are so many files and so many calls to targets at once. Calls have at most a
/// quarter of the files.
fn room(files: usize, calls: usize) -> usize {
    files.saturating_sub(OWN_FILES).saturating_sub(calls.min(files / 4)).max(MIN_CONNECTIONS)
}

/// Files that this process may have open.
fn file_limit() -> usize {
    getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX)
}

/// Raises the number of files that this process may have open as far as the system lets it.
pub(crate) fn raise_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // Where that is refused, it goes on with what it has.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectionEnd, Connections, room};
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use std::sync::Arc;

    fn limited(max: usize, per_address: usize) -> Arc<Connections> {
        let connections = Arc::new(Connections::default());
        connections.set(max, per_address);
        connections
    }

    #[test]
    fn one_address_never_has_all_and_a_trusted_proxy_has_what_it_needs() {
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
    fn files_are_left_for_operators_and_targets() {
        assert_eq!(room(1_024, 100), 1_024 - 192 - 100);
        assert_eq!(room(1_024, 10_000), 1_024 - 192 - 256, "targets have a quarter at most");
        assert_eq!((room(64, 10), room(0, 0)), (16, 16));
        assert!(room(usize::MAX, 10) > 1 << 30);
    }

    proptest! {
        #[test]
        fn there_are_never_more_than_there_may_be(
            max in 1_usize..12,
            per_address in 1_usize..12,
            steps in vec((any::<bool>(), 0_u128..4, any::<usize>()), 0..80),
        ) {
            let connections = limited(max, per_address);
            let (mut open, mut of) = (Vec::new(), Vec::new());
            for (comes, address, which) in steps {
                if comes {
                    let address = (address > 0).then_some(address);
                    let near = of.iter().filter(|one| **one == address).count();
                    let bound = per_address.min((max / 2).max(1));
                    let fits = of.len() < max && (address.is_none() || near < bound);
                    let admitted = connections.admit(address);
                    prop_assert_eq!(admitted.is_ok(), fits);
                    if let Ok(one) = admitted {
                        open.push(one);
                        of.push(address);
                    }
                } else if !open.is_empty() {
                    let which = which % open.len();
                    drop(open.swap_remove(which));
                    of.swap_remove(which);
                }
                prop_assert_eq!(connections.open().0, of.len());
            }
            drop(open);
            prop_assert!(connections.addresses.lock().unwrap().is_empty());
        }
    }
}
