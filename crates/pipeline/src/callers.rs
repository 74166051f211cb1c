//! Identifies callers: from a verified credential to the tier and routes that it grants.
//!
//! A face verifies the credential and passes its hash; [`Callers`] resolves the hash to a caller. Keys listed in the
//! settings are checked first. All others are looked up in the directory, within a timeout, and the result is cached.
//! Concurrent lookups of the same credential are collapsed into one (single flight). This happens once per request,
//! before anything is spent on it.
//!
//! When the directory is unavailable or too slow, an expired result is not reused: the caller is treated as a guest
//! until the directory is back. Nothing here raises a tier, reads a tier from a request, or undoes a revocation.

mod flight;
mod memory;

use flight::{Flights, Turn};
use foldhash::fast::FixedState;
use memory::{Memory, Remembered};
use seawall_core::deadline::Deadline;
use seawall_core::handle::{Timer, within};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::{Ceiling, Tier};
use seawall_store::{CallerRecord, CredentialHash, Directory, StoreError};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long an unknown credential is cached. Short, because a newly issued key is usually used right away.
const UNKNOWN_FOR: Duration = Duration::from_secs(1);

/// A caller's identity, as verified by a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proven {
    /// A credential that was verified.
    Credential {
        /// The hash that the settings and the directory identify it by.
        hash: [u8; 32],
        /// The kind of credential.
        proof: ProofKind,
        /// The issuer's tier, which applies if the directory has no record. Without it, such a caller is unknown.
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

/// The kind of a verified credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofKind {
    /// An API key. Only the directory can decide whether it exists.
    Key,
    /// A token signed by its issuer.
    Token,
    /// A signature with a key that the gateway issued.
    Signature,
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
    /// Whether an operator has barred the caller from every model.
    pub is_clamped: bool,
    /// The network of a guest.
    pub network: Option<u64>,
}

impl Caller {
    /// Whether the caller presented no credential. A caller that is only treated as a guest while the directory is
    /// unavailable does not count.
    #[must_use]
    pub fn is_guest(&self) -> bool {
        self.origin == TierOrigin::Guest
    }

    /// Whether the caller's credential grants this route.
    #[must_use]
    pub fn may_use(&self, route: &str) -> bool {
        self.routes.as_ref().is_none_or(|routes| routes.iter().any(|allowed| **allowed == *route))
    }
}

/// Where a caller's tier comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierOrigin {
    /// The settings list the caller's key.
    Settings,
    /// The directory has a record of the caller.
    Directory,
    /// The issuer's settings; the directory has no record of the caller.
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
pub enum NotKnown {
    /// No such credential exists.
    #[error("the credentials are not known here")]
    Unknown,
    /// The credential was revoked.
    #[error("the credentials have been revoked")]
    Revoked,
    /// The directory is unavailable, and guests are not allowed, so the caller cannot be treated as one.
    #[error("the credentials cannot be looked up at the moment")]
    Unreachable,
}

/// Looks callers up by credential. Implemented for every [`Directory`].
pub trait CallerDirectory: Send + Sync {
    /// Returns the record of this credential, including revoked ones.
    fn find(&self, hash: &[u8; 32]) -> Finding<'_>;
}

/// A lookup in progress.
pub type Finding<'a> = Pin<Box<dyn Future<Output = Result<Option<CallerRecord>, StoreError>> + Send + 'a>>;

impl<D: Directory> CallerDirectory for D {
    fn find(&self, hash: &[u8; 32]) -> Finding<'_> {
        let credential = CredentialHash(*hash);
        Box::pin(async move { Directory::find(self, &credential).await })
    }
}

/// An API key that the settings list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKey {
    /// The tier that the key grants.
    pub tier: Tier,
    /// The routes the key grants; all of them if `None`.
    pub routes: Option<Arc<[Box<str>]>>,
}

/// Listed keys by their hash. The entries come from the settings only, so callers cannot force hash collisions.
#[expect(clippy::disallowed_types, reason = "the hasher is fixed, and nobody goes through them")]
pub type ListedKeys = std::collections::HashMap<[u8; 32], ListedKey, FixedState>;

/// How callers are identified.
#[derive(Clone)]
pub struct CallerOptions {
    /// The keys listed in the settings, by their hash.
    pub keys: ListedKeys,
    /// Where all other credentials are looked up.
    pub directory: Option<Arc<dyn CallerDirectory>>,
    /// How long a lookup result is cached.
    pub believe_for: Duration,
    /// Timeout of a directory lookup.
    pub find_within: Duration,
    /// Whether guests are allowed. If not, an API key that was never seen before is refused while the directory is
    /// unavailable, instead of being treated as a guest.
    pub guests: bool,
}

/// Resolves credentials to callers; see the module documentation.
pub struct Callers {
    options: CallerOptions,
    shared: Arc<Shared>,
}

/// State that survives a configuration reload.
#[derive(Default)]
struct Shared {
    memory: Memory,
    flights: Flights,
    fallbacks: AtomicU64,
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Answered(Remembered),
    Away,
}

impl Callers {
    /// Starts with an empty cache.
    #[must_use]
    pub fn new(options: CallerOptions) -> Self {
        Self { options, shared: Arc::default() }
    }

    /// Applies new options and keeps the cache, the counters and the lookups in progress. A different directory starts
    /// with an empty state.
    #[must_use]
    pub fn renewed(&self, options: CallerOptions) -> Self {
        let stays = match (&self.options.directory, &options.directory) {
            (Some(before), Some(after)) => Arc::ptr_eq(before, after),
            (before, after) => before.is_none() && after.is_none(),
        };
        if stays { Self { options, shared: Arc::clone(&self.shared) } } else { Self::new(options) }
    }

    /// Identifies a caller without waiting, if possible: guests, listed keys and cached lookups.
    #[must_use]
    pub fn known(&self, proven: &Proven, now: Timestamp) -> Option<Result<Caller, NotKnown>> {
        let (hash, proof, tier) = match *proven {
            Proven::Guest { hash, network } => {
                return Some(Ok(guest(&hash, TierOrigin::Guest, Some(network))));
            }
            Proven::Credential { hash, proof, tier } => (hash, proof, tier),
        };
        // Only API keys can be listed. The hashes of other credential kinds are derived from names that are no secret.
        if proof == ProofKind::Key
            && let Some(listed) = self.options.keys.get(&hash)
        {
            let (tier, routes) = (listed.tier, listed.routes.clone());
            let (id, origin) = (number_of(&hash), TierOrigin::Settings);
            return Some(Ok(Caller { id, tier, origin, routes, is_clamped: false, network: None }));
        }
        if self.options.directory.is_none() {
            return Some(entitled(&hash, tier, Remembered::Absent));
        }
        let (remembered, since) = self.shared.memory.recall(&hash)?;
        let is_stranger = remembered == Remembered::Absent && tier.is_none();
        let believed =
            if is_stranger { self.options.believe_for.min(UNKNOWN_FOR) } else { self.options.believe_for };
        (now - since < believed).then(|| entitled(&hash, tier, remembered))
    }

    /// Identifies a caller. Waits for the directory no longer than `find_within`.
    pub async fn find<T: Timer>(&self, timer: &T, proven: &Proven) -> Result<Caller, NotKnown> {
        let until = Deadline::after(timer.monotonic(), self.options.find_within);
        loop {
            let now = timer.monotonic();
            if let Some(known) = self.known(proven, now) {
                return known;
            }
            let (Proven::Credential { hash, tier, .. }, Some(directory)) = (proven, &self.options.directory)
            else {
                // Unreachable: without a directory, and for guests, `known` always returns a result.
                return Err(NotKnown::Unknown);
            };
            let outcome = match self.shared.flights.join(hash) {
                Turn::Lead(lead) => {
                    let answer = within(timer, until, directory.find(hash)).await;
                    let outcome = match answer {
                        Some(Ok(record)) => Outcome::Answered(Remembered::of(record.as_ref())),
                        Some(Err(_)) | None => Outcome::Away,
                    };
                    lead.land(outcome, |answered| {
                        // The cache entry's age counts from the start of the lookup: the result may miss a revocation
                        // that happened during it.
                        let is_stranger = answered == Remembered::Absent && tier.is_none();
                        self.shared.memory.remember(*hash, answered, now, is_stranger);
                    });
                    Some(outcome)
                }
                Turn::Follow(flight) => match within(timer, until, flight).await {
                    Some(landed) => landed,
                    None => Some(Outcome::Away),
                },
            };
            match outcome {
                Some(Outcome::Answered(answered)) => return entitled(hash, *tier, answered),
                Some(Outcome::Away) => return self.fallback(proven),
                // The leader was cancelled before it had a result, so the next caller looks the credential up.
                None => {}
            }
        }
    }

    /// Drops the cached result of a credential whose record has just been changed by this gateway.
    pub fn forget(&self, hash: &[u8; 32]) {
        // The order matters: a lookup that completes in between must not be cached.
        self.shared.flights.disown(hash);
        self.shared.memory.forget(hash);
    }

    /// How often a caller was treated as a guest because the directory was unavailable.
    #[must_use]
    pub fn fallbacks(&self) -> u64 {
        self.shared.fallbacks.load(Ordering::Relaxed)
    }

    /// The caller's identity while the directory is unavailable: a guest at most.
    fn fallback(&self, proven: &Proven) -> Result<Caller, NotKnown> {
        let Proven::Credential { hash, proof, .. } = proven else { return Err(NotKnown::Unknown) };
        let before = self.shared.memory.recall(hash).map(|(remembered, _)| remembered);
        match before {
            // A revocation stays in force.
            Some(Remembered::Revoked) => return Err(NotKnown::Revoked),
            // Anyone can invent a key. Where guests are not allowed, an invented key must not grant access.
            None | Some(Remembered::Absent) if *proof == ProofKind::Key && !self.options.guests => {
                return Err(NotKnown::Unreachable);
            }
            _ => {}
        }
        self.shared.fallbacks.fetch_add(1, Ordering::Relaxed);
        Ok(guest(hash, TierOrigin::Fallback, None))
    }
}

/// Combines the directory's result with the tier of the credential's issuer.
fn entitled(hash: &[u8; 32], tier: Option<Tier>, answered: Remembered) -> Result<Caller, NotKnown> {
    let caller =
        |id, tier, origin, is_clamped| Caller { id, tier, origin, routes: None, is_clamped, network: None };
    match (answered, tier) {
        (Remembered::Revoked, _) => Err(NotKnown::Revoked),
        (Remembered::Found { id, tier, is_clamped }, _) => {
            Ok(caller(id, tier, TierOrigin::Directory, is_clamped))
        }
        (Remembered::Absent, Some(tier)) => Ok(caller(number_of(hash), tier, TierOrigin::Issuer, false)),
        (Remembered::Absent, None) => Err(NotKnown::Unknown),
    }
}

fn guest(hash: &[u8; 32], origin: TierOrigin, network: Option<u64>) -> Caller {
    Caller { id: number_of(hash), tier: Tier::Guest, origin, routes: None, is_clamped: false, network }
}

/// The identifier of a caller that has no record: the first eight bytes of its hash.
#[must_use]
pub fn number_of(hash: &[u8; 32]) -> u64 {
    hash.first_chunk().map_or(0, |start| u64::from_be_bytes(*start))
}

impl Remembered {
    fn of(record: Option<&CallerRecord>) -> Self {
        match record {
            None => Self::Absent,
            Some(record) if record.revoked.is_some() => Self::Revoked,
            Some(record) => Self::Found {
                id: record.caller,
                tier: record.tier,
                is_clamped: record.clamp == Some(Ceiling::None),
            },
        }
    }
}

#[cfg(test)]
mod tests;
