//! The keys of one issuer over time (key rotation).
//!
//! A ring holds the keys that the issuer lists now and, for a grace period, those that it listed before: an issuer may
//! rotate its keys a moment before the last token under the old one is used. After the grace period a key is invalid at
//! once, whatever tokens were cached because of it.
//!
//! It also decides when to fetch the list again: when it is stale, or when a token names a key that is not on it. Any
//! client can cause the latter, so there is one fetch at a time and at most one in ten seconds. Until a first list has
//! arrived, no token of the issuer can be verified. A failed fetch is then retried after one second, with exponential
//! backoff up to those ten seconds. The ring does not fetch anything itself: the fetcher takes a permit and reports the
//! result.

use super::TokenRefusal;
use super::key::{Algorithm, Key};
use super::key_set::{KeySet, KeySetError};
use seawall_core::time::Timestamp;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

/// Minimum interval from the start of one fetch to the start of the next.
pub(super) const FLOOR: Duration = Duration::from_secs(10);

/// The first interval while no fetch has brought a list yet.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of keys in their grace period. An issuer that rotates more keys in that time loses the oldest early.
const MOST_ENDING: usize = 256;

/// The keys of one issuer.
pub struct KeyRing {
    /// The listed keys, then those in their grace period; the latter have an expiry.
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
    /// When the current list arrived.
    came: Option<Timestamp>,
    /// Fetches started before the first list arrived.
    tries: u32,
}

impl Fetching {
    /// The minimum interval from the start of the last fetch to the start of the next.
    fn pause(&self) -> Duration {
        if self.came.is_some() {
            return FLOOR;
        }
        let doubled = 2_u32.saturating_pow(self.tries.saturating_sub(1));
        FIRST_PAUSE.saturating_mul(doubled).min(FLOOR)
    }
}

/// Whether to fetch an issuer's keys.
#[derive(Debug)]
pub enum RefreshDecision {
    /// Fetch them, and report the result to the permit.
    Fetch(RefreshPermit),
    /// A fetch is in flight. It is worth waiting for it and checking again.
    UnderWay,
    /// The last fetch was too recent.
    TooSoon,
    /// No fetch is needed.
    Known,
}

impl KeyRing {
    /// An empty ring. A removed key stays valid for `grace`; a list is fetched again when its age is `oldest`.
    pub(super) fn new(grace: Duration, oldest: Duration) -> Self {
        Self { keys: RwLock::default(), fetching: Mutex::default(), grace, oldest }
    }

    /// The keys that may have signed a token with this key name and algorithm: the listed one, and those of the same
    /// name that it replaced. A token without a key name matches only if there is exactly one key.
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

    /// Whether to fetch the list: because a token names a key (`Some`) that is not on it, or because it is stale.
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
        if fetching.began.is_some_and(|began| now - began < fetching.pause()) {
            return RefreshDecision::TooSoon;
        }
        fetching.under_way = true;
        fetching.began = Some(now);
        fetching.tries = fetching.tries.saturating_add(1);
        RefreshDecision::Fetch(RefreshPermit { ring: Arc::clone(self) })
    }

    /// Replaces the list.
    pub fn replace(&self, set: KeySet, now: Timestamp) {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let mut next: Vec<Arc<Key>> = Vec::with_capacity(set.keys.len());
        for new in set.keys {
            // A key that stays is the same value, so that cached tokens stay valid.
            let had = keys.iter().find(|had| had.is(&new)).map(Arc::clone);
            if let Some(had) = &had {
                had.is_back();
            }
            next.push(had.unwrap_or_else(|| Arc::new(new)));
        }
        let listed = next.len();
        // Most recently removed first, because listed keys come first in the old list.
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
                // No cached token may outlive a key that is dropped here.
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

/// The right to fetch an issuer's keys. Dropping it reports a failed fetch.
#[derive(Debug)]
#[must_use = "dropped, it says that the fetch failed"]
pub struct RefreshPermit {
    ring: Arc<KeyRing>,
}

impl RefreshPermit {
    /// Reports the fetched key set. An unusable one changes nothing.
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
