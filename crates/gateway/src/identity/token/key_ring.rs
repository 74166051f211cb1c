//! The keys of one issuer over time.
//!
//! A ring holds the keys that the issuer lists now and, for a grace period, those that it listed before: an issuer may
//! change its keys a moment before the last token under the old one is used. When the grace is over a key is dead at once,
//! whatever was remembered because of it.
//!
//! It also says when to fetch the list anew: when it has grown old, or when a token names a key that is not on it. The
//! latter anybody can bring about, so there is one fetch at a time and at most one in ten seconds. The ring fetches
//! nothing itself; whoever has the socket takes a permit and hands the outcome in.

use super::TokenRefusal;
use super::key::{Algorithm, Key};
use super::key_set::{KeySet, KeySetError};
use seawall_core::time::Timestamp;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

/// The least time from the start of one fetch to the start of the next.
pub(super) const FLOOR: Duration = Duration::from_secs(10);

/// The most keys that are kept for their grace. Who changes more keys in that time loses the oldest of them earlier.
const MOST_ENDING: usize = 256;

/// The keys of one issuer.
pub struct KeyRing {
    /// Those on the list, then those that are no more; the latter know when they end.
    keys: RwLock<Vec<Arc<Key>>>,
    fetching: Mutex<Fetching>,
    grace: Duration,
    oldest: Duration,
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        formatter.debug_struct("KeyRing").field("keys", &keys).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Fetching {
    under_way: bool,
    began: Option<Timestamp>,
    /// When the list in use came.
    came: Option<Timestamp>,
}

/// Whether to fetch an issuer's keys.
#[derive(Debug)]
pub enum RefreshDecision {
    /// Fetch them, and hand the outcome to the permit.
    Fetch(RefreshPermit),
    /// Somebody does. It is worth to wait for that and look again.
    UnderWay,
    /// Not so soon after the last time.
    TooSoon,
    /// There is no need.
    Known,
}

impl KeyRing {
    /// A ring without keys. A key that was taken back works for `grace`; a list is fetched anew when it is `oldest`.
    pub(super) fn new(grace: Duration, oldest: Duration) -> Self {
        Self { keys: RwLock::default(), fetching: Mutex::default(), grace, oldest }
    }

    /// The keys that a token of this name and algorithm may be signed with: the one on the list, and those of the same
    /// name that it replaced. A token without a name can only mean the one key there is.
    pub(super) fn find(
        &self,
        name: Option<&str>,
        algorithm: Algorithm,
        now: Timestamp,
    ) -> Result<Vec<Arc<Key>>, TokenRefusal> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let fits = |key: &&Arc<Key>| {
            key.algorithm() == algorithm && key.works_at(now) && (name.is_none() || key.name() == name)
        };
        let found: Vec<Arc<Key>> = keys.iter().filter(fits).map(Arc::clone).collect();
        if found.is_empty() {
            return Err(TokenRefusal::KeyUnknown);
        }
        if found.iter().filter(|key| key.is_listed()).count() > 1 {
            return Err(TokenRefusal::KeyUnnamed);
        }
        Ok(found)
    }

    /// Whether to fetch the list: because a token names a key (`Some`) that is not on it, or because it has grown old.
    pub fn wants_refresh(self: &Arc<Self>, name: Option<&str>, now: Timestamp) -> RefreshDecision {
        let is_known = name.is_none_or(|name| {
            let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
            keys.iter().any(|key| key.is_listed() && key.name() == Some(name))
        });
        let mut fetching = self.fetching();
        let is_fresh = fetching.came.is_some_and(|came| now - came < self.oldest);
        if is_known && is_fresh {
            return RefreshDecision::Known;
        }
        if fetching.under_way {
            return RefreshDecision::UnderWay;
        }
        if fetching.began.is_some_and(|began| now - began < FLOOR) {
            return RefreshDecision::TooSoon;
        }
        fetching.under_way = true;
        fetching.began = Some(now);
        RefreshDecision::Fetch(RefreshPermit { ring: Arc::clone(self) })
    }

    /// Takes a new list over.
    pub fn replace(&self, set: KeySet, now: Timestamp) {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let mut next: Vec<Arc<Key>> = Vec::with_capacity(set.keys.len());
        for new in set.keys {
            // A key that stays is the same value, so that what was remembered because of it stays as well.
            let had = keys.iter().find(|had| had.is(&new)).map(Arc::clone);
            if let Some(had) = &had {
                had.is_back();
            }
            next.push(had.unwrap_or_else(|| Arc::new(new)));
        }
        let listed = next.len();
        // Those that ended last come first, because those on the list did.
        for old in keys.iter() {
            if next.iter().any(|key| Arc::ptr_eq(key, old)) {
                continue;
            }
            if old.is_listed() {
                old.ends_at(now + self.grace);
            }
            if old.works_at(now) && next.len() - listed < MOST_ENDING {
                next.push(Arc::clone(old));
            } else {
                // Nothing may be remembered because of a key that is forgotten here.
                old.ends_at(now);
            }
        }
        *keys = next;
        drop(keys);
        self.fetching().came = Some(now);
    }

    fn fetching(&self) -> MutexGuard<'_, Fetching> {
        self.fetching.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to fetch an issuer's keys. Dropped, it says that nothing came of it.
#[derive(Debug)]
#[must_use = "dropped, it says that the fetch failed"]
pub struct RefreshPermit {
    ring: Arc<KeyRing>,
}

impl RefreshPermit {
    /// What was fetched. What cannot be used changes nothing.
    pub fn finish(self, json: &[u8], now: Timestamp) -> Result<(), KeySetError> {
        self.ring.replace(KeySet::parse(json)?, now);
        Ok(())
    }
}

impl Drop for RefreshPermit {
    fn drop(&mut self) {
        self.ring.fetching().under_way = false;
    }
}
