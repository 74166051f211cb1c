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

use super::metadata::Reach;
use crate::tasks::TokioTasks;
use seawall_core::time::Timestamp;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const RENEW_AFTER: Duration = Duration::from_secs(30);
/// Delay after a refresh that failed or has not completed.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Delay after a connection failed at every address.
const DOUBT_FOR: Duration = Duration::from_secs(1);
const FORGET_AFTER: Duration = Duration::from_secs(5 * 60);
/// Further addresses of a result are dropped: no request could wait for so many to fail.
const MOST_ADDRESSES: usize = 16;

/// A lookup in progress.
pub type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Resolves host names.
pub trait Resolve: Send + Sync {
    /// The addresses of a host, in the order in which they should be tried.
    fn resolve(&self, host: &str, port: u16) -> Resolving;
}

/// The system's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNames;

impl Resolve for SystemNames {
    fn resolve(&self, host: &str, port: u16) -> Resolving {
        let host = host.to_owned();
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

/// An address, and whether its name still resolves to it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) address: SocketAddr,
    is_current: Arc<AtomicBool>,
    /// When a result last contained it.
    named: Timestamp,
}

impl Place {
    fn new(address: SocketAddr, named: Timestamp) -> Self {
        Self { address, is_current: Arc::new(AtomicBool::new(true)), named }
    }

    pub(crate) fn is_current(&self) -> bool {
        self.is_current.load(Ordering::Relaxed)
    }
}

/// See the module documentation. Clones share the cache.
#[derive(Clone)]
pub(crate) struct Names {
    shared: Arc<Shared>,
}

struct Shared {
    host: String,
    port: u16,
    resolver: Arc<dyn Resolve>,
    reach: Reach,
    /// When to refresh the result, in nanoseconds.
    due: AtomicU64,
    known: Mutex<Known>,
    /// Held during the first lookup, so that concurrent requests share it.
    first: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    /// The addresses of the last result.
    present: Vec<Place>,
    /// Addresses of earlier results that are not in the last one.
    lately: Vec<Place>,
}

impl Names {
    /// For a host, which may be an IP address; an address is never looked up.
    pub(crate) fn new(host: &str, port: u16, resolver: Arc<dyn Resolve>, reach: Reach) -> Self {
        let mut known = Known::default();
        if let Ok(address) = host.parse::<IpAddr>()
            && reach.allows(address)
        {
            known.present.push(Place::new(SocketAddr::new(address, port), Timestamp::ZERO));
        }
        let shared = Shared {
            host: host.to_owned(),
            port,
            resolver,
            reach,
            due: AtomicU64::new(u64::MAX),
            known: Mutex::new(known),
            first: tokio::sync::Mutex::new(()),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The addresses to connect to, in the order in which to try them. Waits only if nothing is cached yet.
    pub(crate) async fn places(&self, now: Timestamp) -> io::Result<Vec<Place>> {
        self.renew_if_due(now);
        if let Some(known) = self.present() {
            return Ok(known);
        }
        let _turn = self.shared.first.lock().await;
        if let Some(known) = self.present() {
            return Ok(known);
        }
        let answer = self.shared.resolver.resolve(&self.shared.host, self.shared.port).await?;
        self.learn(answer, now)?;
        Ok(self.present().unwrap_or_default())
    }

    /// Refreshes an old result in the background. Costs one atomic load otherwise.
    pub(crate) fn renew_if_due(&self, now: Timestamp) {
        let due = self.shared.due.load(Ordering::Relaxed);
        if now.as_nanos() < due {
            return;
        }
        let next = (now + TRY_AGAIN_AFTER).as_nanos();
        let swapped = self.shared.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        if swapped.is_err() {
            return;
        }
        let names = self.clone();
        TokioTasks.start(async move {
            let resolving = names.shared.resolver.resolve(&names.shared.host, names.shared.port);
            if let Ok(answer) = resolving.await {
                // A result without a permitted address counts as a failed lookup.
                let _ = names.learn(answer, now);
            }
        });
    }

    /// Schedules a refresh after connections failed at every address.
    pub(crate) fn doubt(&self, now: Timestamp) {
        // An IP address is never due for a refresh.
        let soon = (now + DOUBT_FOR).as_nanos();
        let sooner = |due| (due != u64::MAX && soon < due).then_some(soon);
        let _ = self.shared.due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sooner);
    }

    /// Moves this address to the front until the next result: those before it have failed.
    pub(crate) fn prefer(&self, address: SocketAddr) {
        let mut known = self.lock();
        if let Some(index) = known.present.iter().position(|place| place.address == address) {
            known.present[..=index].rotate_right(1);
        }
    }

    fn present(&self) -> Option<Vec<Place>> {
        let known = self.lock();
        (!known.present.is_empty()).then(|| known.present.clone())
    }

    fn learn(&self, answer: Vec<SocketAddr>, now: Timestamp) -> io::Result<()> {
        let mut present: Vec<Place> = Vec::new();
        let mut known = self.lock();
        for address in answer.into_iter().filter(|address| self.shared.reach.allows(address.ip())) {
            if present.len() < MOST_ADDRESSES && present.iter().all(|place| place.address != address) {
                let before = known.present.iter().chain(&known.lately).find(|place| place.address == address);
                let place = before.map_or_else(|| Place::new(address, now), Place::clone);
                present.push(Place { named: now, ..place });
            }
        }
        if present.is_empty() {
            let problem = format!("{} leads to no address that may be used", self.shared.host);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        }
        let Known { present: before, lately } = std::mem::take(&mut *known);
        let gone = before.into_iter().chain(lately);
        let gone = gone.filter(|place| present.iter().all(|named| named.address != place.address));
        let (lately, forgotten) = gone.partition(|place| now - place.named < FORGET_AFTER);
        known.lately = lately;
        known.present = present;
        let forgotten: Vec<Place> = forgotten;
        forgotten.iter().for_each(|place| place.is_current.store(false, Ordering::Relaxed));
        self.shared.due.store((now + RENEW_AFTER).as_nanos(), Ordering::Relaxed);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Safe after a panic: the value is replaced as a whole.
        self.shared.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
