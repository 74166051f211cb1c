//! JSON Web Tokens of issuers that the settings name.
//!
//! A token proves a subject of an issuer and nothing else: other claims, including a tier, are not read. It runs for
//! each request that carries a token. A token that was verified before is recognised by its digest, until it or its key
//! expires.
//!
//! It does not fetch anything: [`KeyRing`] decides when keys are needed, and the fetcher passes them in. It does not
//! let a token choose how it is verified: the issuer's algorithms are fixed by the settings, a key is for one
//! algorithm, a key's name is compared with those in memory and used for nothing else, and keys inside a token are
//! rejected. It does not cache tokens that it could not verify.

mod issuer;
mod key;
mod key_ring;
mod key_set;
mod parsed_token;
mod strict_json;
mod token_cache;

#[cfg(test)]
pub(super) mod tests;

pub use issuer::{IssuerOptions, TokenIssuer};
pub use key::TokenAlgorithm;
pub use key_ring::{KeyRing, RefreshDecision, RefreshPermit};
pub use key_set::{JsonWebKeySet, KeySetError, SkippedKey};

use super::Identity;
use super::credential::MAX_CREDENTIAL_LENGTH;
use super::hash::{hash_credential, sha256};
use super::refusal::{EXPIRED_CREDENTIAL, INVALID_CREDENTIAL, MALFORMED_CREDENTIAL, refusals};
use issuer::VerificationKeys;
use parsed_token::ParsedToken;
use seawall_core::setting::SettingError;
use seawall_core::time::{Now, Timestamp};
use std::sync::Arc;
use token_cache::{TokenCache, VerifiedToken};

/// Capacity of the cache of verified tokens.
const CACHE_CAPACITY: usize = 100_000;

refusals! {
    /// Why a token was rejected.
    pub enum TokenRefusal {
        /// It is longer than any token.
        TooLong = "token_too_long", MALFORMED_CREDENTIAL;
        /// It does not have three parts.
        Malformed = "token_malformed", MALFORMED_CREDENTIAL;
        /// A part is not canonical base64.
        Encoding = "token_encoding", MALFORMED_CREDENTIAL;
        /// The header is not a JSON object with an algorithm.
        HeaderMalformed = "token_header_malformed", MALFORMED_CREDENTIAL;
        /// The claims are not a JSON object.
        ClaimsMalformed = "token_claims_malformed", MALFORMED_CREDENTIAL;
        /// An object has a duplicate name.
        DuplicateName = "token_duplicate_name", MALFORMED_CREDENTIAL;
        /// Its algorithm is `none`.
        Unsigned = "token_unsigned", INVALID_CREDENTIAL;
        /// Its algorithm is not supported.
        AlgorithmUnknown = "token_algorithm_unknown", INVALID_CREDENTIAL;
        /// Its algorithm is not allowed for this issuer.
        AlgorithmNotAllowed = "token_algorithm_not_allowed", INVALID_CREDENTIAL;
        /// It contains its own key, or the URL of one.
        KeyEmbedded = "token_key_embedded", INVALID_CREDENTIAL;
        /// It has a `crit` header; no extension is supported.
        CriticalExtension = "token_critical_extension", INVALID_CREDENTIAL;
        /// It is another type of token.
        Type = "token_type", INVALID_CREDENTIAL;
        /// Its key name is too long, empty, or no text.
        KeyIdInvalid = "token_key_id_invalid", INVALID_CREDENTIAL;
        /// It has no `iss` claim.
        IssuerMissing = "token_issuer_missing", INVALID_CREDENTIAL;
        /// Its issuer is not configured.
        IssuerUnknown = "token_issuer_unknown", INVALID_CREDENTIAL;
        /// The issuer has no such key. It may have one soon: see [`TokenIssuers::refresh_for`].
        KeyUnknown = "token_key_unknown", INVALID_CREDENTIAL;
        /// It names no key, and the issuer has several.
        KeyIdMissing = "token_key_id_missing", INVALID_CREDENTIAL;
        /// The signature does not match.
        SignatureInvalid = "token_signature_invalid", INVALID_CREDENTIAL;
        /// It has no `exp` claim.
        ExpiryMissing = "token_expiry_missing", INVALID_CREDENTIAL;
        /// A time is negative, has a fraction, or is out of range.
        TimeInvalid = "token_time_invalid", INVALID_CREDENTIAL;
        /// It has expired.
        Expired = "token_expired", EXPIRED_CREDENTIAL;
        /// It is not valid yet.
        NotYetValid = "token_not_yet_valid", INVALID_CREDENTIAL;
        /// It was issued in the future.
        IssuedInFuture = "token_issued_in_future", INVALID_CREDENTIAL;
        /// It has no `aud` claim.
        AudienceMissing = "token_audience_missing", INVALID_CREDENTIAL;
        /// Its audience is not ours.
        AudienceMismatch = "token_audience_mismatch", INVALID_CREDENTIAL;
        /// It has no `sub` claim.
        SubjectMissing = "token_subject_missing", INVALID_CREDENTIAL;
        /// Its subject is too long, contains control characters, or is no text.
        SubjectInvalid = "token_subject_invalid", INVALID_CREDENTIAL;
    }
}

/// All issuers, and the cache of their verified tokens.
#[derive(Debug)]
pub struct TokenIssuers {
    all: Vec<Arc<TokenIssuer>>,
    cache: Arc<TokenCache>,
}

impl TokenIssuers {
    /// These issuers, whose names must be unique.
    pub fn new(all: Vec<TokenIssuer>) -> Result<Self, SettingError> {
        Self::with_cache(all.into_iter().map(Arc::new).collect(), Arc::new(TokenCache::new(CACHE_CAPACITY)))
    }

    /// Replaces the issuers. Cached tokens of those that stay (the same value, not just the same name) remain valid.
    pub fn rebuild(&self, all: Vec<Arc<TokenIssuer>>) -> Result<Self, SettingError> {
        Self::with_cache(all, Arc::clone(&self.cache))
    }

    fn with_cache(all: Vec<Arc<TokenIssuer>>, cache: Arc<TokenCache>) -> Result<Self, SettingError> {
        let mut names: Vec<&str> = all.iter().map(|issuer| issuer.name()).collect();
        names.sort_unstable();
        if let Some([name, _]) = names.array_windows().find(|[one, other]| one == other) {
            return Err(SettingError::new("issuers", format!("{name:?} is configured twice")));
        }
        Ok(Self { all, cache })
    }

    /// Verifies a token and returns its identity.
    pub fn verify(&self, token: &str, now: Now) -> Result<Identity, TokenRefusal> {
        self.verify_with_issuer(token, now).map(|(identity, _)| identity)
    }

    /// Verifies a token and returns its identity and issuer.
    pub fn verify_with_issuer(
        &self,
        token: &str,
        now: Now,
    ) -> Result<(Identity, Arc<TokenIssuer>), TokenRefusal> {
        if token.len() > MAX_CREDENTIAL_LENGTH {
            return Err(TokenRefusal::TooLong);
        }
        let digest = sha256(token.as_bytes());
        if let Some((identity, issuer)) = self.cache.get(&digest, now)
            && self.all.iter().any(|current| Arc::ptr_eq(current, &issuer))
        {
            return Ok((identity, issuer));
        }
        let verified = self.check(token, now)?;
        let (identity, issuer) = (verified.identity(), Arc::clone(&verified.issuer));
        self.cache.insert(digest, verified, now);
        Ok((identity, issuer))
    }

    fn check(&self, token: &str, now: Now) -> Result<VerifiedToken, TokenRefusal> {
        let parts = ParsedToken::parse(token)?;
        let issuer = self.issuer_of(&parts)?;
        if !issuer.algorithms.contains(&parts.algorithm) {
            return Err(TokenRefusal::AlgorithmNotAllowed);
        }
        let keys = match &issuer.keys {
            VerificationKeys::Public(ring) => {
                ring.find(parts.key_name.as_deref(), parts.algorithm, now.monotonic)?
            }
            VerificationKeys::Secret(secret) => vec![Arc::clone(secret)],
        };
        let signed =
            |key: &Arc<key::VerificationKey>| key.verifies(parts.message.as_bytes(), &parts.signature);
        let key = keys.into_iter().find(signed).ok_or(TokenRefusal::SignatureInvalid)?;
        // From here on the claims are authentic.
        let (from, until) = parts.times(issuer.leeway, now.utc)?;
        parts.check_audience(&issuer.audiences)?;
        let hash = hash_subject(&issuer.name, parts.subject()?);
        Ok(VerifiedToken { hash, from, until, key, issuer: Arc::clone(issuer) })
    }

    fn issuer_of(&self, parts: &ParsedToken<'_>) -> Result<&Arc<TokenIssuer>, TokenRefusal> {
        let name = parts.issuer()?;
        self.all.iter().find(|issuer| issuer.name == name).ok_or(TokenRefusal::IssuerUnknown)
    }

    /// After [`TokenRefusal::KeyUnknown`]: the issuer whose keys to fetch, if that could help. Forged tokens can cause
    /// at most one fetch in ten seconds.
    pub fn refresh_for(&self, token: &str, now: Timestamp) -> Option<(&Arc<TokenIssuer>, RefreshDecision)> {
        let (issuer, name) = self.missing_key(token)?;
        Some((issuer, issuer.ring()?.request_refresh(name.as_deref(), now)))
    }

    /// After [`TokenRefusal::KeyUnknown`]: the issuer of the missing key, and the key's name.
    pub fn missing_key(&self, token: &str) -> Option<(&Arc<TokenIssuer>, Option<String>)> {
        if token.len() > MAX_CREDENTIAL_LENGTH {
            return None;
        }
        let parts = ParsedToken::parse(token).ok()?;
        let issuer = self.issuer_of(&parts).ok()?;
        let name = parts.key_name.as_deref().map(str::to_owned);
        issuer.algorithms.contains(&parts.algorithm).then_some((issuer, name))
    }

    /// All issuers.
    #[must_use]
    pub fn all(&self) -> &[Arc<TokenIssuer>] {
        &self.all
    }
}

/// The digest under which the caller directory stores a subject. It includes the issuer: the same subject at two issuers is
/// two callers.
#[must_use]
pub fn hash_subject(issuer: &str, subject: &str) -> [u8; 32] {
    hash_credential("token", &[issuer, subject])
}
