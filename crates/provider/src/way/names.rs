//! Where a name leads, now and lately.
//!
//! **When it acts.** The first connection waits for an answer. Later ones use the last answer; once that is thirty
//! seconds old, a call that passes by has it renewed in the background, and after a connection failed at every address,
//! in a second. While the name cannot be looked up, the last answer stays.
//!
//! **Connections that are open.** An address that no answer has named for five minutes is forgotten, and connections to
//! it are not used again: large services answer with a different few of their addresses each time, so that one answer
//! without it means nothing.
//!
//! **What it will not do.** It asks the system and no name server itself, so it does not know how long an answer holds. It
//! never gives an address at which a cloud keeps credentials, except to who asks for credentials.

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
/// When a renewal brought nothing, or has not ended.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// When nobody answers at any address.
const DOUBT_FOR: Duration = Duration::from_secs(1);
const FORGET_AFTER: Duration = Duration::from_secs(5 * 60);
/// Of a longer answer the rest is left out: nobody would wait for so many to fail.
const MOST_ADDRESSES: usize = 16;

/// A name that is being looked up.
pub type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Looks names up.
pub trait Resolve: Send + Sync {
    /// The addresses of a host, in the order in which they should be tried.
    fn resolve(&self, host: &str, port: u16) -> Resolving;
}

/// The system's own way of looking names up.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNames;

impl Resolve for SystemNames {
    fn resolve(&self, host: &str, port: u16) -> Resolving {
        let host = host.to_owned();
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

/// An address, and whether its name still leads there.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) address: SocketAddr,
    is_current: Arc<AtomicBool>,
    /// When an answer named it last.
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

/// See the module. Clones share what is known.
#[derive(Clone)]
pub(crate) struct Names {
    shared: Arc<Shared>,
}

struct Shared {
    host: String,
    port: u16,
    resolver: Arc<dyn Resolve>,
    reach: Reach,
    /// From when on the answer is to be renewed, in nanoseconds.
    due: AtomicU64,
    known: Mutex<Known>,
    /// Held while the first answer is looked up, so that a crowd asks once.
    first: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    /// The last answer.
    present: Vec<Place>,
    /// Named by an answer before it.
    lately: Vec<Place>,
}

impl Names {
    /// A host that may be an address itself, which is never looked up.
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

    /// Where to connect, in the order in which to try. Waits only where nothing is known yet.
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

    /// Has an old answer renewed in the background. Costs one load while it is not old.
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
                // An answer that may not be used is as good as none.
                let _ = names.learn(answer, now);
            }
        });
    }

    /// Nobody answered at any place.
    pub(crate) fn doubt(&self, now: Timestamp) {
        // What is not looked up is never due, and stays so.
        let soon = (now + DOUBT_FOR).as_nanos();
        let sooner = |due| (due != u64::MAX && soon < due).then_some(soon);
        let _ = self.shared.due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sooner);
    }

    /// Tries this place first from now on, until the next answer: others before it have failed.
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
        // What is changed under it is replaced whole.
        self.shared.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
