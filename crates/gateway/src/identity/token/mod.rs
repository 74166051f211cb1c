//! Signed tokens: JSON Web Tokens of issuers that the settings name.
//!
//! A token proves a subject of an issuer, and that is all: whatever else it claims, a tier included, is not read. It acts on
//! each request that carries a token; one that was checked before is known by its digest, until it ends or its key does.
//!
//! It will not fetch anything: [`KeyRing`] says when keys are wanted, and whoever has a socket hands them in. It will not let
//! a token choose how it is checked. The issuer's algorithms are fixed by the settings, a key is for one algorithm, a key's
//! name is compared with those in memory and used for nothing else, and keys inside a token are refused. It will not keep
//! what it could not check.

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

/// How many tokens are remembered.
const REMEMBERED: usize = 100_000;

refusals! {
    /// Why a token was refused.
    pub enum TokenRefusal {
        /// It is longer than any token.
        TooLong = "token_too_long", UNREADABLE;
        /// It does not have three parts.
        Shape = "token_shape", UNREADABLE;
        /// A part is not base64 in its one spelling.
        Encoding = "token_encoding", UNREADABLE;
        /// The header is not a JSON object with an algorithm.
        HeaderUnreadable = "token_header_unreadable", UNREADABLE;
        /// The claims are not a JSON object.
        ClaimsUnreadable = "token_claims_unreadable", UNREADABLE;
        /// A name comes twice in one object.
        Twice = "token_name_twice", UNREADABLE;
        /// It says that it is not signed.
        Unsigned = "token_unsigned", NOT_VALID;
        /// An algorithm that nobody here knows.
        AlgorithmUnknown = "token_algorithm_unknown", NOT_VALID;
        /// An algorithm that this issuer does not use.
        AlgorithmNotAllowed = "token_algorithm_not_allowed", NOT_VALID;
        /// It brings its own key, or the address of one.
        KeyEmbedded = "token_key_embedded", NOT_VALID;
        /// It demands that something is understood which is not.
        Critical = "token_critical", NOT_VALID;
        /// It is another kind of token.
        Kind = "token_kind", NOT_VALID;
        /// The name of its key is too long, empty, or no text.
        KeyNameUnusable = "token_key_name_unusable", NOT_VALID;
        /// It does not say who issued it.
        IssuerMissing = "token_issuer_missing", NOT_VALID;
        /// Nobody of that name may issue tokens.
        IssuerUnknown = "token_issuer_unknown", NOT_VALID;
        /// The issuer has no such key. It may have one soon: see [`Issuers::refresh_for`].
        KeyUnknown = "token_key_unknown", NOT_VALID;
        /// It names no key, and the issuer has several.
        KeyUnnamed = "token_key_unnamed", NOT_VALID;
        /// The signature is not the key's.
        SignatureWrong = "token_signature_wrong", NOT_VALID;
        /// It has no end.
        ExpiryMissing = "token_expiry_missing", NOT_VALID;
        /// A time is negative, has a fraction, or is beyond all calendars.
        NumberUnusable = "token_number_unusable", NOT_VALID;
        /// Its time is over.
        Expired = "token_expired", EXPIRED;
        /// Its time has not come.
        NotYet = "token_not_yet", NOT_VALID;
        /// It was issued in the future.
        IssuedLater = "token_issued_later", NOT_VALID;
        /// It does not say whom it is for.
        AudienceMissing = "token_audience_missing", NOT_VALID;
        /// It is for somebody else.
        AudienceWrong = "token_audience_wrong", NOT_VALID;
        /// It is about nobody.
        SubjectMissing = "token_subject_missing", NOT_VALID;
        /// Its subject is too long, holds control characters, or is no text.
        SubjectUnusable = "token_subject_unusable", NOT_VALID;
    }
}

/// All issuers, and the tokens of theirs that are known.
#[derive(Debug)]
pub struct Issuers {
    all: Vec<Arc<Issuer>>,
    memory: Arc<Memory>,
}

impl Issuers {
    /// These issuers, each with a name of its own.
    pub fn new(all: Vec<Issuer>) -> Result<Self, SettingError> {
        Self::of(all.into_iter().map(Arc::new).collect(), Arc::new(Memory::new(REMEMBERED)))
    }

    /// Other issuers. Tokens of those that stay (the same value, not just the same name) are still known.
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

    /// Whose token this is.
    pub fn verify(&self, token: &str, now: Now) -> Result<Identity, TokenRefusal> {
        self.verify_with_issuer(token, now).map(|(identity, _)| identity)
    }

    /// Whose token this is, and who issued it.
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
        // From here on the issuer speaks, and not just anybody.
        let (from, until) = parts.times(issuer.leeway, now.utc)?;
        parts.check_audience(&issuer.audiences)?;
        let credential = credential_of_subject(&issuer.name, parts.subject()?);
        Ok(Known { credential, from, until, key, issuer: Arc::clone(issuer) })
    }

    fn issuer_of(&self, parts: &Parts<'_>) -> Result<&Arc<Issuer>, TokenRefusal> {
        let name = parts.issuer()?;
        self.all.iter().find(|issuer| issuer.name == name).ok_or(TokenRefusal::IssuerUnknown)
    }

    /// After [`TokenRefusal::KeyUnknown`]: whose keys to fetch, if that could help. A token that was only made up can bring
    /// about one fetch in ten seconds.
    pub fn refresh_for(&self, token: &str, now: Timestamp) -> Option<(&Arc<Issuer>, RefreshDecision)> {
        let (issuer, name) = self.missing_key(token)?;
        Some((issuer, issuer.ring()?.wants_refresh(name.as_deref(), now)))
    }

    /// After [`TokenRefusal::KeyUnknown`]: whose key it would need, and what that is called.
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

/// What the directory keeps of a subject. Two issuers may have a subject of the same name; they are two people.
#[must_use]
pub fn credential_of_subject(issuer: &str, subject: &str) -> [u8; 32] {
    credential("token", &[issuer, subject])
}
