//! DNS cache with refresh in the background.
//!
//! **When it acts.** The first connection waits for a lookup. Later ones use the cached result. Once it is thirty
//! seconds old, the next call refreshes it in the background; after a connection failed at every address, it is
//! refreshed after one second. While lookups fail, the last result stays in use.
//!
//! **Open connections.** An address that no result has contained for five minutes is forgotten, and connections to it
//! are not reused. A single result without it means nothing, because large services return a different subset of their
//! addresses each time.
//!
//! **What it does not do.** It uses the system resolver and no name server directly, so it does not know the TTL of a
//! result. It never returns the address of a cloud's metadata service, except to credential sources.

#[cfg(test)]
mod tests;

use super::metadata::AddressPolicy;
use crate::tasks::TokioTasks;
use seawall_core::time::Timestamp;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const REFRESH_AFTER: Duration = Duration::from_secs(30);
/// Delay after a refresh that failed or has not completed.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Delay after a connection failed at every address.
const REFRESH_AFTER_FAILURE: Duration = Duration::from_secs(1);
const EXPIRE_AFTER: Duration = Duration::from_secs(5 * 60);
/// Further addresses of a result are dropped: no request could wait for so many to fail.
const MAX_ADDRESSES: usize = 16;

/// A lookup in progress.
pub type ResolveFuture = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Resolves host names.
pub trait Resolve: Send + Sync {
    /// The addresses of a host, in the order in which they should be tried.
    fn resolve(&self, host: &str, port: u16) -> ResolveFuture;
}

/// The system's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, host: &str, port: u16) -> ResolveFuture {
        let host = host.to_owned();
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

/// An address, and whether its name still resolves to it.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedAddress {
    pub(crate) address: SocketAddr,
    is_current: Arc<AtomicBool>,
    /// When a result last contained it.
    last_seen: Timestamp,
}

impl ResolvedAddress {
    fn new(address: SocketAddr, last_seen: Timestamp) -> Self {
        Self { address, is_current: Arc::new(AtomicBool::new(true)), last_seen }
    }

    pub(crate) fn is_current(&self) -> bool {
        self.is_current.load(Ordering::Relaxed)
    }
}

/// See the module documentation. Clones share the cache.
#[derive(Clone)]
pub(crate) struct DnsCache {
    shared: Arc<Shared>,
}

struct Shared {
    host: String,
    port: u16,
    resolver: Arc<dyn Resolve>,
    policy: AddressPolicy,
    /// When to refresh the result, in nanoseconds.
    due: AtomicU64,
    cached: Mutex<CachedAddresses>,
    /// Held during the first lookup, so that concurrent requests share it.
    first: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct CachedAddresses {
    /// The addresses of the last result.
    current: Vec<ResolvedAddress>,
    /// Addresses of earlier results that are not in the last one.
    recent: Vec<ResolvedAddress>,
}

impl DnsCache {
    /// For a host, which may be an IP address; an address is never looked up.
    pub(crate) fn new(host: &str, port: u16, resolver: Arc<dyn Resolve>, policy: AddressPolicy) -> Self {
        let mut cached = CachedAddresses::default();
        if let Ok(address) = host.parse::<IpAddr>()
            && policy.allows(address)
        {
            cached.current.push(ResolvedAddress::new(SocketAddr::new(address, port), Timestamp::ZERO));
        }
        let shared = Shared {
            host: host.to_owned(),
            port,
            resolver,
            policy,
            due: AtomicU64::new(u64::MAX),
            cached: Mutex::new(cached),
            first: tokio::sync::Mutex::new(()),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The addresses to connect to, in the order in which to try them. Waits only if nothing is cached yet.
    pub(crate) async fn addresses(&self, now: Timestamp) -> io::Result<Vec<ResolvedAddress>> {
        self.refresh_if_due(now);
        if let Some(cached) = self.current() {
            return Ok(cached);
        }
        let _turn = self.shared.first.lock().await;
        if let Some(cached) = self.current() {
            return Ok(cached);
        }
        let answer = self.shared.resolver.resolve(&self.shared.host, self.shared.port).await?;
        self.update(answer, now)?;
        Ok(self.current().unwrap_or_default())
    }

    /// Refreshes an old result in the background. Costs one atomic load otherwise.
    pub(crate) fn refresh_if_due(&self, now: Timestamp) {
        let due = self.shared.due.load(Ordering::Relaxed);
        if now.as_nanos() < due {
            return;
        }
        let next = (now + RETRY_AFTER).as_nanos();
        let swapped = self.shared.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        if swapped.is_err() {
            return;
        }
        let cache = self.clone();
        TokioTasks.spawn(async move {
            let resolving = cache.shared.resolver.resolve(&cache.shared.host, cache.shared.port);
            if let Ok(answer) = resolving.await {
                // A result without a permitted address counts as a failed lookup.
                let _ = cache.update(answer, now);
            }
        });
    }

    /// Schedules a refresh after connections failed at every address.
    pub(crate) fn refresh_soon(&self, now: Timestamp) {
        // An IP address is never due for a refresh.
        let soon = (now + REFRESH_AFTER_FAILURE).as_nanos();
        let sooner = |due| (due != u64::MAX && soon < due).then_some(soon);
        let _ = self.shared.due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sooner);
    }

    /// Moves this address to the front until the next result: those before it have failed.
    pub(crate) fn prefer(&self, address: SocketAddr) {
        let mut cached = self.lock();
        if let Some(index) = cached.current.iter().position(|cached| cached.address == address) {
            cached.current[..=index].rotate_right(1);
        }
    }

    fn current(&self) -> Option<Vec<ResolvedAddress>> {
        let cached = self.lock();
        (!cached.current.is_empty()).then(|| cached.current.clone())
    }

    fn update(&self, answer: Vec<SocketAddr>, now: Timestamp) -> io::Result<()> {
        let mut current: Vec<ResolvedAddress> = Vec::new();
        let mut cached = self.lock();
        for address in answer.into_iter().filter(|address| self.shared.policy.allows(address.ip())) {
            if current.len() < MAX_ADDRESSES && current.iter().all(|other| other.address != address) {
                let before =
                    cached.current.iter().chain(&cached.recent).find(|cached| cached.address == address);
                let resolved =
                    before.map_or_else(|| ResolvedAddress::new(address, now), ResolvedAddress::clone);
                current.push(ResolvedAddress { last_seen: now, ..resolved });
            }
        }
        if current.is_empty() {
            let problem = format!("{} resolves to no permitted address", self.shared.host);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        }
        let CachedAddresses { current: before, recent } = std::mem::take(&mut *cached);
        let missing = before.into_iter().chain(recent);
        let missing = missing.filter(|old| current.iter().all(|new| new.address != old.address));
        let (recent, expired) = missing.partition(|old| now - old.last_seen < EXPIRE_AFTER);
        cached.recent = recent;
        cached.current = current;
        let expired: Vec<ResolvedAddress> = expired;
        expired.iter().for_each(|address| address.is_current.store(false, Ordering::Relaxed));
        self.shared.due.store((now + REFRESH_AFTER).as_nanos(), Ordering::Relaxed);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, CachedAddresses> {
        // Safe after a panic: the value is replaced as a whole.
        self.shared.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
