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
use super::key::{TokenAlgorithm, VerificationKey};
use super::key_set::{JsonWebKeySet, KeySetError};
use seawall_core::time::Timestamp;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

/// Minimum interval from the start of one fetch to the start of the next.
pub(super) const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(10);

/// The first interval while no fetch has brought a list yet.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Maximum number of keys in their grace period. An issuer that rotates more keys in that time loses the oldest early.
const MAX_EXPIRING: usize = 256;

/// The keys of one issuer.
pub struct KeyRing {
    /// The listed keys, then those in their grace period; the latter have an expiry.
    keys: RwLock<Vec<Arc<VerificationKey>>>,
    fetching: Mutex<FetchState>,
    grace: Duration,
    max_age: Duration,
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        formatter.debug_struct("KeyRing").field("keys", &keys).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct FetchState {
    in_progress: bool,
    started: Option<Timestamp>,
    /// When the current list arrived.
    fetched: Option<Timestamp>,
    /// Fetches started before the first list arrived.
    attempts: u32,
}

impl FetchState {
    /// The minimum interval from the start of the last fetch to the start of the next.
    fn min_interval(&self) -> Duration {
        if self.fetched.is_some() {
            return MIN_FETCH_INTERVAL;
        }
        let doubled = 2_u32.saturating_pow(self.attempts.saturating_sub(1));
        FIRST_RETRY_DELAY.saturating_mul(doubled).min(MIN_FETCH_INTERVAL)
    }
}

/// Whether to fetch an issuer's keys.
#[derive(Debug)]
pub enum RefreshDecision {
    /// Fetch them, and report the result to the permit.
    Fetch(RefreshPermit),
    /// A fetch is in flight. It is worth waiting for it and checking again.
    InProgress,
    /// The last fetch was too recent.
    TooSoon,
    /// No fetch is needed.
    NotNeeded,
}

impl KeyRing {
    /// An empty ring. A removed key stays valid for `grace`; a list is fetched again when its age is `max_age`.
    pub(super) fn new(grace: Duration, max_age: Duration) -> Self {
        Self { keys: RwLock::default(), fetching: Mutex::default(), grace, max_age }
    }

    /// The keys that may have signed a token with this key name and algorithm: the listed one, and those of the same
    /// name that it replaced. A token without a key name matches only if there is exactly one key.
    pub(super) fn find(
        &self,
        name: Option<&str>,
        algorithm: TokenAlgorithm,
        now: Timestamp,
    ) -> Result<Vec<Arc<VerificationKey>>, TokenRefusal> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let fits = |key: &&Arc<VerificationKey>| {
            key.algorithm() == algorithm && key.is_valid_at(now) && (name.is_none() || key.name() == name)
        };
        let found: Vec<Arc<VerificationKey>> = keys.iter().filter(fits).map(Arc::clone).collect();
        if found.is_empty() {
            return Err(TokenRefusal::KeyUnknown);
        }
        if found.iter().filter(|key| key.is_listed()).count() > 1 {
            return Err(TokenRefusal::KeyIdMissing);
        }
        Ok(found)
    }

    /// Whether to fetch the list: because a token names a key (`Some`) that is not on it, or because it is stale.
    pub fn request_refresh(self: &Arc<Self>, name: Option<&str>, now: Timestamp) -> RefreshDecision {
        let is_known = name.is_none_or(|name| {
            let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
            keys.iter().any(|key| key.is_listed() && key.name() == Some(name))
        });
        let mut fetching = self.fetching();
        let is_fresh = fetching.fetched.is_some_and(|came| now - came < self.max_age);
        if is_known && is_fresh {
            return RefreshDecision::NotNeeded;
        }
        if fetching.in_progress {
            return RefreshDecision::InProgress;
        }
        if fetching.started.is_some_and(|began| now - began < fetching.min_interval()) {
            return RefreshDecision::TooSoon;
        }
        fetching.in_progress = true;
        fetching.started = Some(now);
        fetching.attempts = fetching.attempts.saturating_add(1);
        RefreshDecision::Fetch(RefreshPermit { ring: Arc::clone(self) })
    }

    /// Replaces the list.
    pub fn replace(&self, set: JsonWebKeySet, now: Timestamp) {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let mut next: Vec<Arc<VerificationKey>> = Vec::with_capacity(set.keys.len());
        for new in set.keys {
            // A key that stays is the same value, so that cached tokens stay valid.
            let existing = keys.iter().find(|key| key.is_same_key(&new)).map(Arc::clone);
            if let Some(existing) = &existing {
                existing.restore();
            }
            next.push(existing.unwrap_or_else(|| Arc::new(new)));
        }
        let listed = next.len();
        // Most recently removed first, because listed keys come first in the old list.
        for old in keys.iter() {
            if next.iter().any(|key| Arc::ptr_eq(key, old)) {
                continue;
            }
            if old.is_listed() {
                old.expire_at(now + self.grace);
            }
            if old.is_valid_at(now) && next.len() - listed < MAX_EXPIRING {
                next.push(Arc::clone(old));
            } else {
                // No cached token may outlive a key that is dropped here.
                old.expire_at(now);
            }
        }
        *keys = next;
        drop(keys);
        self.fetching().fetched = Some(now);
    }

    fn fetching(&self) -> MutexGuard<'_, FetchState> {
        self.fetching.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to fetch an issuer's keys. Dropping it reports a failed fetch.
#[derive(Debug)]
#[must_use = "dropping the permit reports a failed fetch"]
pub struct RefreshPermit {
    ring: Arc<KeyRing>,
}

impl RefreshPermit {
    /// Reports the fetched key set. An unusable one changes nothing.
    pub fn finish(self, json: &[u8], now: Timestamp) -> Result<(), KeySetError> {
        self.ring.replace(JsonWebKeySet::parse(json)?, now);
        Ok(())
    }
}

impl Drop for RefreshPermit {
    fn drop(&mut self) {
        self.ring.fetching().in_progress = false;
    }
}
