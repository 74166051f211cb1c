//! Identifies callers: from a credential to the tier and routes that it grants.
//!
//! A face checks the credential as far as it can without a lookup, and passes its hash; [`CallerResolver`] resolves the
//! hash to a caller. Keys listed in the settings are checked first. All others are looked up in the caller directory,
//! within a timeout, and the result is cached. Concurrent lookups of the same credential are collapsed into one (single
//! flight). This happens once per request, before anything is spent on it.
//!
//! When the caller directory is unavailable or too slow, an expired result is not reused: the caller is treated as a
//! guest until it is available again, or rejected where guests are off. Nothing here raises a tier, reads a tier from a request, or undoes a revocation.

mod cache;
mod contract;
mod single_flight;

pub use contract::{CallerContract, limit_group_name, team_number};

use cache::{CachedRecord, CallerCache};
use foldhash::fast::FixedState;
use seawall_core::deadline::Deadline;
use seawall_core::runtime::{Timer, timeout_at};
use seawall_core::time::{Timestamp, UtcTime};
use seawall_core::vocabulary::{Ceiling, Tier};
use seawall_store::{CallerRecord, CredentialHash, Directory, StoreError};
use single_flight::{LookupRole, LookupSingleFlight};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long an unknown credential is cached. Short, because a newly issued key is usually used right away.
const UNKNOWN_TTL: Duration = Duration::from_secs(1);

/// A caller's identity, as far as a face can determine it without a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerIdentity {
    /// A credential. The signature of a token or request was verified; of an API key only the format was checked.
    Credential {
        /// The hash that the settings and the caller directory identify it by.
        hash: [u8; 32],
        /// The kind of credential.
        kind: CredentialKind,
        /// The issuer's tier, which applies if the caller directory has no record. Without it, such a caller is unknown.
        tier: Option<Tier>,
    },
    /// A caller without a credential.
    Guest {
        /// The hash of the guest's cookie.
        hash: [u8; 32],
        /// The network the guest connects from.
        network: u64,
    },
}

/// The kind of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialKind {
    /// An API key. Only the caller directory can decide whether it exists.
    Key,
    /// A token signed by its issuer.
    Token,
    /// A signature with a key that the gateway issued.
    Signature,
}

impl CredentialKind {
    /// The label in logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Key => "api_key",
            Self::Token => "token",
            Self::Signature => "signature",
        }
    }
}

impl CallerIdentity {
    /// The kind of credential; `None` for a guest.
    #[must_use]
    pub const fn credential(&self) -> Option<CredentialKind> {
        match self {
            Self::Credential { kind, .. } => Some(*kind),
            Self::Guest { .. } => None,
        }
    }
}

/// An identified caller and what it is entitled to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The caller's identifier.
    pub id: u64,
    /// The caller's tier.
    pub tier: Tier,
    /// Where the tier comes from.
    pub origin: TierOrigin,
    /// The routes the caller may use; all of them if `None`.
    pub routes: Option<Arc<[Box<str>]>>,
    /// The terms of the caller's API key, if it presented one.
    pub contract: Option<Arc<CallerContract>>,
    /// Whether an operator has suspended the caller's access to models.
    pub is_suspended: bool,
    /// The network of a guest.
    pub network: Option<u64>,
}

impl Caller {
    /// Whether the caller presented no credential. A caller that is only treated as a guest while the caller directory is
    /// unavailable does not count.
    #[must_use]
    pub fn is_guest(&self) -> bool {
        self.origin == TierOrigin::Guest
    }

    /// Whether the caller's credential grants this route.
    #[must_use]
    pub fn may_use(&self, route: &str) -> bool {
        self.routes.as_ref().is_none_or(|routes| routes.iter().any(|allowed| **allowed == *route))
            && self.contract.as_ref().is_none_or(|contract| contract.allows(route))
    }

    /// Rejects a caller whose key has expired.
    pub(crate) fn check_expiry(self, now: UtcTime) -> Result<Self, IdentifyError> {
        match self.contract.as_ref().and_then(|contract| contract.expires) {
            Some(expires) if expires <= now => Err(IdentifyError::Expired),
            _ => Ok(self),
        }
    }
}

/// Where a caller's tier comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierOrigin {
    /// The settings list the caller's key.
    Settings,
    /// The directory has a record of the caller.
    Directory,
    /// The issuer's settings; the caller directory has no record of the caller.
    Issuer,
    /// The caller is a guest.
    Guest,
    /// The directory was unavailable, so the caller is treated as a guest.
    Fallback,
}

impl TierOrigin {
    /// The label in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Directory => "directory",
            Self::Issuer => "issuer",
            Self::Guest => "guest",
            Self::Fallback => "fallback",
        }
    }
}

/// Why a credential does not identify a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentifyError {
    /// No such credential exists.
    #[error("the credential is unknown")]
    Unknown,
    /// The credential was revoked.
    #[error("the credential was revoked")]
    Revoked,
    /// The credential has expired.
    #[error("the credential has expired")]
    Expired,
    /// The directory is unavailable, and guests are not allowed, so the caller cannot be treated as one.
    #[error("the credential cannot be looked up: the caller directory is unavailable; retry later")]
    DirectoryUnavailable,
}

/// Looks callers up by credential. Implemented for every [`Directory`].
pub trait CallerDirectory: Send + Sync {
    /// Returns the record of this credential, including revoked ones.
    fn find(&self, hash: &[u8; 32]) -> DirectoryLookup<'_>;
}

/// A lookup in progress.
pub type DirectoryLookup<'a> =
    Pin<Box<dyn Future<Output = Result<Option<CallerRecord>, StoreError>> + Send + 'a>>;

impl<D: Directory + ?Sized> CallerDirectory for D {
    fn find(&self, hash: &[u8; 32]) -> DirectoryLookup<'_> {
        let credential = CredentialHash(*hash);
        Box::pin(async move { Directory::find(self, &credential).await })
    }
}

/// An API key that the settings list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticKey {
    /// The tier that the key grants.
    pub tier: Tier,
    /// The routes the key grants; all of them if `None`.
    pub routes: Option<Arc<[Box<str>]>>,
    /// The terms of the key.
    pub contract: Option<Arc<CallerContract>>,
}

/// Listed keys by their hash. The entries come from the settings only, so callers cannot force hash collisions.
#[expect(clippy::disallowed_types, reason = "the hasher is fixed, and the map is never iterated")]
pub type StaticKeys = std::collections::HashMap<[u8; 32], StaticKey, FixedState>;

/// How callers are identified.
#[derive(Clone)]
pub struct CallerOptions {
    /// The keys listed in the settings, by their hash.
    pub keys: StaticKeys,
    /// Where all other credentials are looked up.
    pub directory: Option<Arc<dyn CallerDirectory>>,
    /// How long a lookup result is cached.
    pub cache_ttl: Duration,
    /// Timeout of a lookup in the caller directory.
    pub lookup_timeout: Duration,
    /// Whether guests are allowed. If not, an API key that was never seen before is rejected while the caller directory is
    /// unavailable, instead of being treated as a guest.
    pub allows_guests: bool,
}

/// Resolves credentials to callers; see the module documentation.
pub struct CallerResolver {
    options: CallerOptions,
    shared: Arc<Shared>,
}

/// State that survives a configuration reload.
#[derive(Default)]
struct Shared {
    cache: CallerCache,
    lookups: LookupSingleFlight,
    fallbacks: AtomicU64,
}

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LookupOutcome {
    Answered(CachedRecord),
    Unavailable,
}

impl CallerResolver {
    /// Starts with an empty cache.
    #[must_use]
    pub fn new(options: CallerOptions) -> Self {
        Self { options, shared: Arc::default() }
    }

    /// Applies new options and keeps the cache, the counters and the lookups in progress. A different directory starts
    /// with an empty state.
    #[must_use]
    pub fn rebuild(&self, options: CallerOptions) -> Self {
        let is_same_directory = match (&self.options.directory, &options.directory) {
            (Some(before), Some(after)) => Arc::ptr_eq(before, after),
            (before, after) => before.is_none() && after.is_none(),
        };
        if is_same_directory {
            Self { options, shared: Arc::clone(&self.shared) }
        } else {
            Self::new(options)
        }
    }

    /// Identifies a caller without waiting, if possible: guests, listed keys and cached lookups.
    #[must_use]
    pub fn find_cached(
        &self,
        identity: &CallerIdentity,
        now: Timestamp,
    ) -> Option<Result<Caller, IdentifyError>> {
        let (hash, kind, tier) = match *identity {
            CallerIdentity::Guest { hash, network } => {
                return Some(Ok(guest(&hash, TierOrigin::Guest, Some(network))));
            }
            CallerIdentity::Credential { hash, kind, tier } => (hash, kind, tier),
        };
        // Only API keys can be listed. The hashes of other credential kinds are derived from names that are no secret.
        if kind == CredentialKind::Key
            && let Some(listed) = self.options.keys.get(&hash)
        {
            let StaticKey { tier, routes, contract } = listed.clone();
            let (id, origin) = (caller_id_of(&hash), TierOrigin::Settings);
            return Some(Ok(Caller {
                id,
                tier,
                origin,
                routes,
                contract,
                is_suspended: false,
                network: None,
            }));
        }
        if self.options.directory.is_none() {
            return Some(resolve(&hash, tier, CachedRecord::Absent));
        }
        let (record, since) = self.shared.cache.get(&hash)?;
        let is_unknown = record == CachedRecord::Absent && tier.is_none();
        let ttl = if is_unknown { self.options.cache_ttl.min(UNKNOWN_TTL) } else { self.options.cache_ttl };
        (now - since < ttl).then(|| resolve(&hash, tier, record))
    }

    /// Identifies a caller. Waits for the caller directory no longer than `lookup_timeout`.
    pub async fn find<T: Timer>(
        &self,
        timer: &T,
        identity: &CallerIdentity,
    ) -> Result<Caller, IdentifyError> {
        let until = Deadline::after(timer.monotonic(), self.options.lookup_timeout);
        loop {
            let now = timer.monotonic();
            if let Some(known) = self.find_cached(identity, now) {
                return known;
            }
            let (CallerIdentity::Credential { hash, tier, .. }, Some(directory)) =
                (identity, &self.options.directory)
            else {
                // Unreachable: without a caller directory, and for guests, `find_cached` always returns a result.
                return Err(IdentifyError::Unknown);
            };
            let outcome = match self.shared.lookups.join(hash) {
                LookupRole::Lead(leader) => {
                    let answer = timeout_at(timer, until, directory.find(hash)).await;
                    let outcome = match answer {
                        Some(Ok(record)) => LookupOutcome::Answered(CachedRecord::of(record.as_ref())),
                        Some(Err(_)) | None => LookupOutcome::Unavailable,
                    };
                    leader.complete(outcome.clone(), |record| {
                        // The cache entry's age counts from the start of the lookup: the result may miss a revocation
                        // that happened during it.
                        let is_unknown = record == CachedRecord::Absent && tier.is_none();
                        self.shared.cache.insert(*hash, record, now, is_unknown);
                    });
                    Some(outcome)
                }
                LookupRole::Follow(follower) => match timeout_at(timer, until, follower).await {
                    Some(outcome) => outcome,
                    None => Some(LookupOutcome::Unavailable),
                },
            };
            match outcome {
                Some(LookupOutcome::Answered(record)) => return resolve(hash, *tier, record),
                Some(LookupOutcome::Unavailable) => return self.fallback(identity),
                // The leader was cancelled before it had a result, so the next caller looks the credential up.
                None => {}
            }
        }
    }

    /// Drops the cached result of a credential whose record has just been changed by this gateway.
    pub fn invalidate(&self, hash: &[u8; 32]) {
        // The order matters: a lookup that completes in between must not be cached.
        self.shared.lookups.detach(hash);
        self.shared.cache.remove(hash);
    }

    /// How often a caller was treated as a guest because the caller directory was unavailable.
    #[must_use]
    pub fn fallbacks(&self) -> u64 {
        self.shared.fallbacks.load(Ordering::Relaxed)
    }

    /// The caller's identity while the caller directory is unavailable: a guest at most.
    fn fallback(&self, identity: &CallerIdentity) -> Result<Caller, IdentifyError> {
        let CallerIdentity::Credential { hash, kind, .. } = identity else {
            return Err(IdentifyError::Unknown);
        };
        let before = self.shared.cache.get(hash).map(|(record, _)| record);
        match before {
            // A revocation stays in force.
            Some(CachedRecord::Revoked) => return Err(IdentifyError::Revoked),
            // Anyone can invent a key. Where guests are not allowed, an invented key must not grant access.
            None | Some(CachedRecord::Absent)
                if *kind == CredentialKind::Key && !self.options.allows_guests =>
            {
                return Err(IdentifyError::DirectoryUnavailable);
            }
            _ => {}
        }
        self.shared.fallbacks.fetch_add(1, Ordering::Relaxed);
        Ok(guest(hash, TierOrigin::Fallback, None))
    }
}

/// Combines the caller directory's result with the tier of the credential's issuer.
fn resolve(hash: &[u8; 32], tier: Option<Tier>, record: CachedRecord) -> Result<Caller, IdentifyError> {
    let caller = |id, tier, origin, is_suspended, contract| Caller {
        id,
        tier,
        origin,
        routes: None,
        contract,
        is_suspended,
        network: None,
    };
    match (record, tier) {
        (CachedRecord::Revoked, _) => Err(IdentifyError::Revoked),
        (CachedRecord::Found { id, tier, is_suspended, contract }, _) => {
            Ok(caller(id, tier, TierOrigin::Directory, is_suspended, Some(contract)))
        }
        (CachedRecord::Absent, Some(tier)) => {
            Ok(caller(caller_id_of(hash), tier, TierOrigin::Issuer, false, None))
        }
        (CachedRecord::Absent, None) => Err(IdentifyError::Unknown),
    }
}

fn guest(hash: &[u8; 32], origin: TierOrigin, network: Option<u64>) -> Caller {
    let (id, tier) = (caller_id_of(hash), Tier::Guest);
    Caller { id, tier, origin, routes: None, contract: None, is_suspended: false, network }
}

/// The identifier of a caller that has no record: the first eight bytes of its hash.
#[must_use]
pub fn caller_id_of(hash: &[u8; 32]) -> u64 {
    hash.first_chunk().map_or(0, |start| u64::from_be_bytes(*start))
}

impl CachedRecord {
    fn of(record: Option<&CallerRecord>) -> Self {
        match record {
            None => Self::Absent,
            Some(record) if record.revoked.is_some() => Self::Revoked,
            Some(record) => Self::Found {
                id: record.caller,
                tier: record.tier,
                is_suspended: record.ceiling == Some(Ceiling::None),
                contract: Arc::new(CallerContract::new(&record.name, &record.contract)),
            },
        }
    }
}

#[cfg(test)]
mod tests;
