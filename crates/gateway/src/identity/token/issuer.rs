//! Issuers whose tokens are accepted, and their terms.

use super::key::{TokenAlgorithm, VerificationKey};
use super::key_ring::KeyRing;
use super::parsed_token::is_valid_name;
use seawall_core::setting::SettingError;
use std::sync::Arc;
use std::time::Duration;

const MIN_SECRET: usize = 32;
const MAX_LEEWAY: Duration = Duration::from_secs(5 * 60);
const MAX_GRACE: Duration = Duration::from_secs(24 * 3_600);
const MIN_KEY_AGE: Duration = Duration::from_secs(10);

/// An issuer, as described in settings.
#[derive(Clone)]
pub struct IssuerOptions {
    /// The exact `iss` claim of its tokens.
    pub name: String,
    /// The accepted `aud` claims: our names.
    pub audiences: Vec<String>,
    /// The accepted algorithms. HS256 excludes all others and needs a secret.
    pub algorithms: Vec<TokenAlgorithm>,
    /// The secret shared with the issuer, for HS256 only.
    pub secret: Option<Vec<u8>>,
    /// Tolerated clock skew.
    pub leeway: Duration,
    /// How long a key stays valid after the issuer removed it from its list.
    pub grace: Duration,
    /// Maximum age of its key list before it is fetched again.
    pub max_key_age: Duration,
}

impl std::fmt::Debug for IssuerOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("IssuerOptions");
        shown.field("name", &self.name).field("algorithms", &self.algorithms).finish_non_exhaustive()
    }
}

impl IssuerOptions {
    /// An issuer with public keys: RS256 and ES256, no leeway, a minute of grace, a list at most five minutes old.
    #[must_use]
    pub fn new(name: impl Into<String>, audience: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            audiences: vec![audience.into()],
            algorithms: vec![TokenAlgorithm::Rs256, TokenAlgorithm::Es256],
            secret: None,
            leeway: Duration::ZERO,
            grace: Duration::from_secs(60),
            max_key_age: Duration::from_secs(300),
        }
    }

    /// An issuer with a shared secret.
    #[must_use]
    pub fn with_secret(name: impl Into<String>, audience: impl Into<String>, secret: Vec<u8>) -> Self {
        Self { algorithms: vec![TokenAlgorithm::Hs256], secret: Some(secret), ..Self::new(name, audience) }
    }

    /// Validates the options.
    pub fn check(self) -> Result<TokenIssuer, SettingError> {
        let wrong = |setting, problem: &str| Err(SettingError::new(setting, problem));
        if !is_valid_name(&self.name) {
            return wrong("issuer name", "must have 1 to 512 bytes and no control characters");
        }
        if self.audiences.is_empty() || self.audiences.iter().any(String::is_empty) {
            return wrong("issuer audiences", "must name at least one, and none may be empty");
        }
        if self.algorithms.is_empty() {
            return wrong("issuer algorithms", "must name at least one");
        }
        let takes_secret = self.algorithms.contains(&TokenAlgorithm::Hs256);
        // With both kinds, a public key could be tried as a secret (algorithm confusion).
        if takes_secret && self.algorithms.iter().any(|algorithm| *algorithm != TokenAlgorithm::Hs256) {
            return wrong("issuer algorithms", "HS256 cannot be combined with other algorithms");
        }
        if takes_secret != self.secret.is_some() {
            return wrong("issuer secret", "is required with HS256, and only then allowed");
        }
        if self.secret.as_ref().is_some_and(|secret| secret.len() < MIN_SECRET) {
            return wrong("issuer secret", "must have at least 32 bytes");
        }
        if self.leeway > MAX_LEEWAY {
            return wrong("issuer leeway", "must not be longer than 5 minutes");
        }
        if self.grace > MAX_GRACE {
            return wrong("issuer grace", "must not be longer than a day");
        }
        if self.max_key_age < MIN_KEY_AGE {
            return wrong("issuer max_key_age", "must not be shorter than 10 seconds");
        }
        let Self { name, audiences, algorithms, secret, leeway, grace, max_key_age } = self;
        let keys = match secret {
            Some(secret) => VerificationKeys::Secret(Arc::new(VerificationKey::secret(&secret))),
            None => VerificationKeys::Public(Arc::new(KeyRing::new(grace, max_key_age))),
        };
        Ok(TokenIssuer { name, audiences, algorithms, leeway, keys })
    }
}

/// An issuer whose tokens are accepted.
#[derive(Debug)]
pub struct TokenIssuer {
    pub(super) name: String,
    pub(super) audiences: Vec<String>,
    pub(super) algorithms: Vec<TokenAlgorithm>,
    pub(super) leeway: Duration,
    pub(super) keys: VerificationKeys,
}

/// The source of an issuer's keys.
#[derive(Debug)]
pub(super) enum VerificationKeys {
    Public(Arc<KeyRing>),
    Secret(Arc<VerificationKey>),
}

impl TokenIssuer {
    /// The `iss` claim of its tokens.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its public keys, if it has any.
    #[must_use]
    pub const fn ring(&self) -> Option<&Arc<KeyRing>> {
        match &self.keys {
            VerificationKeys::Public(ring) => Some(ring),
            VerificationKeys::Secret(_) => None,
        }
    }
}
