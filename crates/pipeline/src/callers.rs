//! Who asks, and what they are entitled to. (Stands in until the directory is wired.)

use seawall_core::handle::Runtime;
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Tier;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Who asks, as a face has proven it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proven {
    /// A credential whose proof holds.
    Credential {
        /// Its hash.
        hash: [u8; 32],
        /// What proved it.
        proof: ProofKind,
        /// What its issuer's callers are entitled to where the directory says nothing.
        tier: Option<Tier>,
    },
    /// Nobody in particular.
    Guest {
        /// The hash of its cookie.
        hash: [u8; 32],
        /// The network it comes from.
        network: u64,
    },
}

/// What proved a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofKind {
    /// An API key.
    Key,
    /// A signed token.
    Token,
    /// A signature over the request.
    Signature,
}

/// Who asks, and what they are entitled to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// A number for this caller.
    pub id: u64,
    /// What it is entitled to.
    pub tier: Tier,
    /// Who says so.
    pub origin: TierOrigin,
    /// The routes it may use; nothing means all.
    pub routes: Option<Arc<[Box<str>]>>,
    /// Whether an operator holds it down.
    pub is_clamped: bool,
    /// The network a guest comes from.
    pub network: Option<u64>,
}

/// Who says what a caller is entitled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierOrigin {
    /// The settings.
    Settings,
    /// The directory.
    Directory,
    /// The issuer of its token.
    Issuer,
    /// Nobody: it is a guest.
    Guest,
    /// Nobody could be asked.
    Fallback,
}

impl TierOrigin {
    /// The name in logs.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKnown {
    /// Nobody has it.
    Unknown,
    /// It was taken back.
    Revoked,
}

/// The callers we know.
#[derive(Debug, Default)]
pub struct Callers(BTreeMap<[u8; 32], (Tier, Option<Arc<[Box<str>]>>)>);

impl Callers {
    /// Takes in a key by its hash.
    pub fn add(&mut self, hash: [u8; 32], tier: Tier) {
        self.0.insert(hash, (tier, None));
    }

    /// Who it is, where nobody has to be asked.
    #[must_use]
    pub fn known(&self, proven: &Proven, _now: Timestamp) -> Option<Result<Caller, NotKnown>> {
        Some(match proven {
            Proven::Credential { hash, tier, .. } => match (self.0.get(hash), tier) {
                (Some((tier, routes)), _) => {
                    Ok(caller(hash, *tier, TierOrigin::Settings, routes.clone(), None))
                }
                (None, Some(tier)) => Ok(caller(hash, *tier, TierOrigin::Issuer, None, None)),
                (None, None) => Err(NotKnown::Unknown),
            },
            Proven::Guest { hash, network } => {
                Ok(caller(hash, Tier::Guest, TierOrigin::Guest, None, Some(*network)))
            }
        })
    }

    /// Who it is.
    pub async fn find<R: Runtime>(&self, runtime: &R, proven: &Proven) -> Result<Caller, NotKnown> {
        self.known(proven, runtime.monotonic()).unwrap_or(Err(NotKnown::Unknown))
    }
}

fn caller(
    hash: &[u8; 32],
    tier: Tier,
    origin: TierOrigin,
    routes: Option<Arc<[Box<str>]>>,
    network: Option<u64>,
) -> Caller {
    let id = hash.iter().take(8).fold(0, |id, byte| (id << 8) | u64::from(*byte));
    Caller { id, tier, origin, routes, is_clamped: false, network }
}
