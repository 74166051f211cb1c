//! JSON Web Tokens of issuers that the settings name.
//!
//! A token proves a subject of an issuer and nothing else: other claims, including a tier, are not read. It runs for
//! each request that carries a token. A token that was verified before is recognised by its digest, until it or its key
//! expires.
//!
//! It does not fetch anything: [`KeyRing`] decides when keys are needed, and the fetcher passes them in. It does not
//! let a token choose how it is verified: the issuer's algorithms are fixed by the settings, a key is for one
//! algorithm, a key's name is compared with those in memory and used for nothing else, and keys inside a token are
//! refused. It does not cache tokens that it could not verify.

mod issuer;
mod key;
mod key_ring;
mod key_set;
mod memory;
mod parts;
mod strict;

#[cfg(test)]
pub(super) mod tests;

pub use issuer::{Issuer, IssuerOptions};
pub use key::Algorithm;
pub use key_ring::{KeyRing, RefreshDecision, RefreshPermit};
pub use key_set::{KeySet, KeySetError, SkippedKey};

use super::Identity;
use super::hash::{credential, sha256};
use super::proof::LONGEST;
use super::refusal::{EXPIRED, NOT_VALID, UNREADABLE, refusals};
use issuer::Keys;
use memory::{Known, Memory};
use parts::Parts;
use seawall_core::setting::SettingError;
use seawall_core::time::{Now, Timestamp};
use std::sync::Arc;

/// Capacity of the cache of verified tokens.
const REMEMBERED: usize = 100_000;

refusals! {
    /// Why a token was refused.
    pub enum TokenRefusal {
        /// It is longer than any token.
        TooLong = "token_too_long", UNREADABLE;
        /// It does not have three parts.
        Shape = "token_shape", UNREADABLE;
        /// A part is not canonical base64.
        Encoding = "token_encoding", UNREADABLE;
        /// The header is not a JSON object with an algorithm.
        HeaderUnreadable = "token_header_unreadable", UNREADABLE;
        /// The claims are not a JSON object.
        ClaimsUnreadable = "token_claims_unreadable", UNREADABLE;
        /// An object has a duplicate name.
        Twice = "token_name_twice", UNREADABLE;
        /// Its algorithm is `none`.
        Unsigned = "token_unsigned", NOT_VALID;
        /// Its algorithm is not supported.
        AlgorithmUnknown = "token_algorithm_unknown", NOT_VALID;
        /// Its algorithm is not allowed for this issuer.
        AlgorithmNotAllowed = "token_algorithm_not_allowed", NOT_VALID;
        /// It contains its own key, or the URL of one.
        KeyEmbedded = "token_key_embedded", NOT_VALID;
        /// It has a `crit` header; no extension is supported.
        Critical = "token_critical", NOT_VALID;
        /// It is another type of token.
        Kind = "token_kind", NOT_VALID;
        /// Its key name is too long, empty, or no text.
        KeyNameUnusable = "token_key_name_unusable", NOT_VALID;
        /// It has no `iss` claim.
        IssuerMissing = "token_issuer_missing", NOT_VALID;
        /// Its issuer is not configured.
        IssuerUnknown = "token_issuer_unknown", NOT_VALID;
        /// The issuer has no such key. It may have one soon: see [`Issuers::refresh_for`].
        KeyUnknown = "token_key_unknown", NOT_VALID;
        /// It names no key, and the issuer has several.
        KeyUnnamed = "token_key_unnamed", NOT_VALID;
        /// The signature does not match.
        SignatureWrong = "token_signature_wrong", NOT_VALID;
        /// It has no `exp` claim.
        ExpiryMissing = "token_expiry_missing", NOT_VALID;
        /// A time is negative, has a fraction, or is out of range.
        NumberUnusable = "token_number_unusable", NOT_VALID;
        /// It has expired.
        Expired = "token_expired", EXPIRED;
        /// It is not valid yet.
        NotYet = "token_not_yet", NOT_VALID;
        /// It was issued in the future.
        IssuedLater = "token_issued_later", NOT_VALID;
        /// It has no `aud` claim.
        AudienceMissing = "token_audience_missing", NOT_VALID;
        /// Its audience is not ours.
        AudienceWrong = "token_audience_wrong", NOT_VALID;
        /// It has no `sub` claim.
        SubjectMissing = "token_subject_missing", NOT_VALID;
        /// Its subject is too long, contains control characters, or is no text.
        SubjectUnusable = "token_subject_unusable", NOT_VALID;
    }
}

/// All issuers, and the cache of their verified tokens.
#[derive(Debug)]
pub struct Issuers {
    all: Vec<Arc<Issuer>>,
    memory: Arc<Memory>,
}

impl Issuers {
    /// These issuers, whose names must be unique.
    pub fn new(all: Vec<Issuer>) -> Result<Self, SettingError> {
        Self::of(all.into_iter().map(Arc::new).collect(), Arc::new(Memory::new(REMEMBERED)))
    }

    /// Replaces the issuers. Cached tokens of those that stay (the same value, not just the same name) remain valid.
    pub fn renewed(&self, all: Vec<Arc<Issuer>>) -> Result<Self, SettingError> {
        Self::of(all, Arc::clone(&self.memory))
    }

    fn of(all: Vec<Arc<Issuer>>, memory: Arc<Memory>) -> Result<Self, SettingError> {
        let mut names: Vec<&str> = all.iter().map(|issuer| issuer.name()).collect();
        names.sort_unstable();
        if let Some([name, _]) = names.array_windows().find(|[one, other]| one == other) {
            return Err(SettingError::new("issuers", format!("{name:?} is there twice")));
        }
        Ok(Self { all, memory })
    }

    /// Verifies a token and returns its identity.
    pub fn verify(&self, token: &str, now: Now) -> Result<Identity, TokenRefusal> {
        self.verify_with_issuer(token, now).map(|(identity, _)| identity)
    }

    /// Verifies a token and returns its identity and issuer.
    pub fn verify_with_issuer(&self, token: &str, now: Now) -> Result<(Identity, Arc<Issuer>), TokenRefusal> {
        if token.len() > LONGEST {
            return Err(TokenRefusal::TooLong);
        }
        let digest = sha256(token.as_bytes());
        if let Some((identity, issuer)) = self.memory.recall(&digest, now)
            && self.all.iter().any(|current| Arc::ptr_eq(current, &issuer))
        {
            return Ok((identity, issuer));
        }
        let known = self.check(token, now)?;
        let (identity, issuer) = (known.identity(), Arc::clone(&known.issuer));
        self.memory.remember(digest, known, now);
        Ok((identity, issuer))
    }

    fn check(&self, token: &str, now: Now) -> Result<Known, TokenRefusal> {
        let parts = Parts::read(token)?;
        let issuer = self.issuer_of(&parts)?;
        if !issuer.algorithms.contains(&parts.algorithm) {
            return Err(TokenRefusal::AlgorithmNotAllowed);
        }
        let keys = match &issuer.keys {
            Keys::Public(ring) => ring.find(parts.key_name.as_deref(), parts.algorithm, now.monotonic)?,
            Keys::Secret(secret) => vec![Arc::clone(secret)],
        };
        let signed = |key: &Arc<key::Key>| key.signed(parts.message.as_bytes(), &parts.signature);
        let key = keys.into_iter().find(signed).ok_or(TokenRefusal::SignatureWrong)?;
        // From here on the claims are authentic.
        let (from, until) = parts.times(issuer.leeway, now.utc)?;
        parts.check_audience(&issuer.audiences)?;
        let credential = credential_of_subject(&issuer.name, parts.subject()?);
        Ok(Known { credential, from, until, key, issuer: Arc::clone(issuer) })
    }

    fn issuer_of(&self, parts: &Parts<'_>) -> Result<&Arc<Issuer>, TokenRefusal> {
        let name = parts.issuer()?;
        self.all.iter().find(|issuer| issuer.name == name).ok_or(TokenRefusal::IssuerUnknown)
    }

    /// After [`TokenRefusal::KeyUnknown`]: the issuer whose keys to fetch, if that could help. Forged tokens can cause
    /// at most one fetch in ten seconds.
    pub fn refresh_for(&self, token: &str, now: Timestamp) -> Option<(&Arc<Issuer>, RefreshDecision)> {
        let (issuer, name) = self.missing_key(token)?;
        Some((issuer, issuer.ring()?.wants_refresh(name.as_deref(), now)))
    }

    /// After [`TokenRefusal::KeyUnknown`]: the issuer of the missing key, and the key's name.
    pub fn missing_key(&self, token: &str) -> Option<(&Arc<Issuer>, Option<String>)> {
        if token.len() > LONGEST {
            return None;
        }
        let parts = Parts::read(token).ok()?;
        let issuer = self.issuer_of(&parts).ok()?;
        let name = parts.key_name.as_deref().map(str::to_owned);
        issuer.algorithms.contains(&parts.algorithm).then_some((issuer, name))
    }

    /// All issuers.
    #[must_use]
    pub fn all(&self) -> &[Arc<Issuer>] {
        &self.all
    }
}

/// The digest under which the directory stores a subject. It includes the issuer: the same subject at two issuers is
/// two callers.
#[must_use]
pub fn credential_of_subject(issuer: &str, subject: &str) -> [u8; 32] {
    credential("token", &[issuer, subject])
}
