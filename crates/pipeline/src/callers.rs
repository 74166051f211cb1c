//! Who asks, from a proof to what its holder is entitled to.
//!
//! A face has checked a proof and hands in its hash; [`Callers`] says whose it is. The keys that settings list come first.
//! Then the directory is asked, within a time limit, and its word is believed for a while. One look-up serves all who ask
//! about the same credential at once. It acts once per request, before anything is spent on it.
//!
//! When the directory is away or too slow, nobody keeps what it once said: the caller is a guest, until the directory is
//! back. Nothing here raises a tier, reads one from a request, or takes back a revocation.

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

/// How long it is believed that nobody has a credential. Whoever gets a key wants to use it soon.
const UNKNOWN_FOR: Duration = Duration::from_secs(1);

/// Who asks, as a face has proven it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proven {
    /// A credential whose proof holds.
    Credential {
        /// What settings and the directory know it by.
        hash: [u8; 32],
        /// What the proof was.
        proof: ProofKind,
        /// What its issuer's callers are entitled to where the directory says nothing; without it they are unknown then.
        tier: Option<Tier>,
    },
    /// Nobody in particular.
    Guest {
        /// Of its cookie.
        hash: [u8; 32],
        /// The network it comes from.
        network: u64,
    },
}

/// What a credential was proven by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofKind {
    /// An API key: whether anybody has it, only the directory can say.
    Key,
    /// A token that its issuer has signed.
    Token,
    /// A signature under a key that we issued.
    Signature,
}

/// Who asks, and what they are entitled to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its number.
    pub id: u64,
    /// What it is entitled to.
    pub tier: Tier,
    /// Who says so.
    pub origin: TierOrigin,
    /// The routes it may use; all of them where nothing is said.
    pub routes: Option<Arc<[Box<str>]>>,
    /// Whether an operator lets it use no model at all.
    pub is_clamped: bool,
    /// The network that a guest comes from.
    pub network: Option<u64>,
}

impl Caller {
    /// Whether it has shown no credential. A caller that is only treated as a guest while the directory is away is none.
    #[must_use]
    pub fn is_guest(&self) -> bool {
        self.origin == TierOrigin::Guest
    }

    /// Whether its credential is good for the route of this name.
    #[must_use]
    pub fn may_use(&self, route: &str) -> bool {
        self.routes.as_ref().is_none_or(|routes| routes.iter().any(|allowed| **allowed == *route))
    }
}

/// Who says what a caller is entitled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierOrigin {
    /// The settings, which list its key.
    Settings,
    /// The directory.
    Directory,
    /// The settings of its issuer; the directory does not know it.
    Issuer,
    /// Nobody: it is a guest.
    Guest,
    /// Nobody: the directory could not be asked, so that it is treated as a guest.
    Fallback,
}

impl TierOrigin {
    /// The name in logs and metrics.
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

/// Why nobody is known by a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotKnown {
    /// Nobody has it.
    #[error("the credentials are not known here")]
    Unknown,
    /// Somebody had it.
    #[error("the credentials have been revoked")]
    Revoked,
    /// The directory could not be asked, and who may not be anybody may not be a guest either.
    #[error("the credentials cannot be looked up at the moment")]
    Unreachable,
}

/// Where callers are looked up. Everything that is a [`Directory`] is one.
pub trait CallerDirectory: Send + Sync {
    /// Who proves itself with this, revoked ones included.
    fn find(&self, hash: &[u8; 32]) -> Finding<'_>;
}

/// A look-up under way.
pub type Finding<'a> = Pin<Box<dyn Future<Output = Result<Option<CallerRecord>, StoreError>> + Send + 'a>>;

impl<D: Directory> CallerDirectory for D {
    fn find(&self, hash: &[u8; 32]) -> Finding<'_> {
        let credential = CredentialHash(*hash);
        Box::pin(async move { Directory::find(self, &credential).await })
    }
}

/// A key that settings list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKey {
    /// What its holder is entitled to.
    pub tier: Tier,
    /// The routes it may use; all of them where nothing is said.
    pub routes: Option<Arc<[Box<str>]>>,
}

/// Keys by their hash. Only settings put any in, so nobody can choose where they lie.
#[expect(clippy::disallowed_types, reason = "the hasher is fixed, and nobody goes through them")]
pub type ListedKeys = std::collections::HashMap<[u8; 32], ListedKey, FixedState>;

/// What callers are known by.
#[derive(Clone)]
pub struct CallerOptions {
    /// The keys that settings list, by their hash.
    pub keys: ListedKeys,
    /// Where others are looked up.
    pub directory: Option<Arc<dyn CallerDirectory>>,
    /// How long the directory's word is believed.
    pub believe_for: Duration,
    /// How long asking it may take.
    pub find_within: Duration,
    /// Whether guests may ask. If not, a key that nobody has seen yet is no guest either while the directory is away.
    pub guests: bool,
}

/// See the module.
pub struct Callers {
    options: CallerOptions,
    shared: Arc<Shared>,
}

/// What stays when settings change.
#[derive(Default)]
struct Shared {
    memory: Memory,
    flights: Flights,
    fallbacks: AtomicU64,
}

/// What came of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Answered(Remembered),
    Away,
}

impl Callers {
    /// Nobody but those in settings is known yet.
    #[must_use]
    pub fn new(options: CallerOptions) -> Self {
        Self { options, shared: Arc::default() }
    }

    /// With other settings, and with what is remembered, counted and being looked up. Another directory starts anew.
    #[must_use]
    pub fn renewed(&self, options: CallerOptions) -> Self {
        let stays = match (&self.options.directory, &options.directory) {
            (Some(before), Some(after)) => Arc::ptr_eq(before, after),
            (before, after) => before.is_none() && after.is_none(),
        };
        if stays { Self { options, shared: Arc::clone(&self.shared) } } else { Self::new(options) }
    }

    /// Who this is, if that can be said without waiting: guests, listed keys, and who was looked up a moment ago.
    #[must_use]
    pub fn known(&self, proven: &Proven, now: Timestamp) -> Option<Result<Caller, NotKnown>> {
        let (hash, proof, tier) = match *proven {
            Proven::Guest { hash, network } => {
                return Some(Ok(guest(&hash, TierOrigin::Guest, Some(network))));
            }
            Proven::Credential { hash, proof, tier } => (hash, proof, tier),
        };
        // Only an API key is what settings list; the hashes of other credentials are made of names that are no secret.
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

    /// Who this is. Waits for the directory no longer than it may take.
    pub async fn find<T: Timer>(&self, timer: &T, proven: &Proven) -> Result<Caller, NotKnown> {
        let until = Deadline::after(timer.monotonic(), self.options.find_within);
        loop {
            let now = timer.monotonic();
            if let Some(known) = self.known(proven, now) {
                return known;
            }
            let (Proven::Credential { hash, tier, .. }, Some(directory)) = (proven, &self.options.directory)
            else {
                // Guests, and everybody where there is no directory, are known without waiting.
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
                        // Believed from the moment of the question: what was revoked since then may not be in it.
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
                // Whoever looked it up went away before there was an answer: somebody else's turn.
                None => {}
            }
        }
    }

    /// Forgets what the directory said of a credential, because that has just changed here.
    pub fn forget(&self, hash: &[u8; 32]) {
        // In this order: a look-up that lands in between must not be remembered.
        self.shared.flights.disown(hash);
        self.shared.memory.forget(hash);
    }

    /// How often a caller was treated as a guest because the directory could not be asked.
    #[must_use]
    pub fn fallbacks(&self) -> u64 {
        self.shared.fallbacks.load(Ordering::Relaxed)
    }

    /// Who this is while the directory is away: a guest at most.
    fn fallback(&self, proven: &Proven) -> Result<Caller, NotKnown> {
        let Proven::Credential { hash, proof, .. } = proven else { return Err(NotKnown::Unknown) };
        let before = self.shared.memory.recall(hash).map(|(remembered, _)| remembered);
        match before {
            // Nothing takes a revocation back.
            Some(Remembered::Revoked) => return Err(NotKnown::Revoked),
            // Anybody can make up a key. Where guests may not ask, that must not become a way in.
            None | Some(Remembered::Absent) if *proof == ProofKind::Key && !self.options.guests => {
                return Err(NotKnown::Unreachable);
            }
            _ => {}
        }
        self.shared.fallbacks.fetch_add(1, Ordering::Relaxed);
        Ok(guest(hash, TierOrigin::Fallback, None))
    }
}

/// What an answer of the directory means for a credential with this tier of its issuer.
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

/// The number of a caller that has no other: the beginning of its hash.
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
