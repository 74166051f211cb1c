//! The authenticator: authenticates callers by the settings in force.
//!
//! It acts on the head of a request, so that no body is read from a client that has not authenticated. Keys, tokens and
//! guests are decided at once. A signature covers the body: what can be checked before the body arrives is checked, and
//! the rest when it is complete. A token under an unknown key waits until its issuer's keys have been fetched.
//!
//! New settings build a new authenticator from the previous one: unchanged issuers keep their keys and their verified
//! tokens. A failure on the way does not change the authenticator in use.
//!
//! It does not treat a client with an invalid key or token as a guest, and does not decide what a caller is entitled
//! to.

mod issuer;
mod network;

use super::address::{client_address, network_bits};
use super::api_key::{hash_api_key, identify_key};
use super::credential::{HttpRequestHead, RequestCredential, extract_credential};
use super::guest::{GuestOptions, Guests};
use super::hash::sha256;
use super::key_source::{KeyFetcher, KeySource};
use super::master::{MasterSecret, MasterSecretError, random_bytes};
use super::pseudonym::Pseudonyms;
use super::refusal::{AnonymousRefusal, AuthenticationRefusal};
use super::signature::{SignatureRefusal, Signatures};
use super::token::{KeySetError, TokenIssuers, TokenRefusal};
use crate::runtime::TokioRuntime;
use crate::secret::{SecretError, fetch_text};
use crate::supervisor::Supervisor;
use hyper::header::HeaderMap;
use issuer::ConfiguredIssuer;
use network::Networks;
use seawall_config::KeyTerms;
use seawall_config::{AddressRange, IssuerSettings, Settings};
use seawall_core::runtime::Runtime as _;
use seawall_core::setting::SettingError;
use seawall_core::time::Now;
use seawall_core::vocabulary::Tier;
use seawall_pipeline::callers::{
    CallerContract, CallerDirectory, CallerIdentity, CallerOptions, CredentialKind, StaticKey,
};
use seawall_store::{KeyContract, KeyLabels};
use std::net::IpAddr;
use std::sync::Arc;

/// Why an authenticator cannot be built from settings.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticatorError {
    /// The master secret cannot be loaded.
    #[error(transparent)]
    Master(#[from] MasterSecretError),
    /// The secret for guest cookies cannot be read.
    #[error("callers.guest_secret: {0}")]
    GuestSecret(SecretError),
    /// The secret for guest cookies is too short.
    #[error("callers.guest_secret: {0}")]
    Guest(SettingError),
    /// The salt of pseudonyms cannot be read.
    #[error("telemetry.salt: {0}")]
    Salt(SecretError),
    /// The secret shared with an issuer cannot be read.
    #[error("callers.issuers.{0}.secret: {1}")]
    IssuerSecret(String, SecretError),
    /// The settings of an issuer are invalid.
    #[error("callers.issuers.{0}: {1}")]
    Issuer(String, SettingError),
    /// The file with an issuer's keys cannot be read.
    #[error("callers.issuers.{0}.jwks: {1}: {2}")]
    KeyFile(String, String, std::io::Error),
    /// The file with an issuer's keys contains no valid key set.
    #[error("callers.issuers.{0}.jwks: {1}: {2}")]
    Keys(String, String, KeySetError),
    /// Two issuers have the same `iss`.
    #[error("callers.issuers: {0}")]
    Issuers(SettingError),
    /// The thread that fetches keys cannot be started.
    #[error("cannot start the thread that fetches keys: {0}")]
    Thread(std::io::Error),
}

/// The result of authenticating the head of a request.
#[derive(Debug)]
pub enum AuthenticationDecision {
    /// The caller is identified. A token or a guest's cookie was verified. For an API key this is only the hash to look
    /// up: whether the key exists is not known before
    /// [`Pipeline::find_caller`](seawall_pipeline::Pipeline::find_caller).
    Identified(CallerIdentity),
    /// A guest without a valid cookie.
    NewGuest {
        /// The new identity of the guest.
        identity: CallerIdentity,
        /// The value of the `set-cookie` header to send.
        set_cookie: String,
    },
    /// Signed: [`Authenticator::verify_body`] decides when the body is complete.
    SignaturePending(PendingSignature),
    /// A token under an unknown key: try again after [`Authenticator::fetch_keys`].
    KeysNeeded(MissingKeys),
}

/// A signature that must still be verified against the body.
#[derive(Clone, Copy, Debug)]
pub struct PendingSignature {
    claimed: CallerIdentity,
}

impl PendingSignature {
    /// The claimed caller. It may be used to reject the request early, and for nothing else.
    #[must_use]
    pub const fn claimed(&self) -> &CallerIdentity {
        &self.claimed
    }
}

/// The issuer whose keys must be fetched first.
#[derive(Debug)]
pub struct MissingKeys {
    source: Arc<KeySource>,
    name: Option<String>,
}

/// All verifiers of credentials, built from one version of the settings.
pub struct Authenticator {
    runtime: TokioRuntime,
    master: MasterSecret,
    trusted: Vec<AddressRange>,
    guests: Option<Guests>,
    signatures: Signatures,
    issuers: TokenIssuers,
    configured: Vec<ConfiguredIssuer>,
    networks: Networks,
    pseudonyms: Pseudonyms,
    fetcher: Option<Arc<KeyFetcher>>,
    /// Starts the thread that fetches keys, when it is first needed.
    supervisor: Option<Supervisor>,
}

impl Authenticator {
    /// Builds the authenticator of these settings. The lock on the data directory must be held.
    pub fn new(
        settings: &Settings,
        runtime: TokioRuntime,
        supervisor: &Supervisor,
    ) -> Result<Self, AuthenticatorError> {
        let no_issuers = TokenIssuers::new(Vec::new()).map_err(AuthenticatorError::Issuers)?;
        let master = MasterSecret::load(settings, None)?;
        Self::build(settings, runtime, (master, Some(supervisor)), None, &no_issuers)
    }

    /// Builds the authenticator of new settings, and reuses what has not changed.
    pub fn rebuild(&self, settings: &Settings) -> Result<Self, AuthenticatorError> {
        let master = MasterSecret::load(settings, Some(&self.master))?;
        Self::build(settings, self.runtime, (master, self.supervisor.as_ref()), Some(self), &self.issuers)
    }

    /// An authenticator that shows whether one can be built: it starts no thread, and does not have the secret in the data
    /// directory. It must authenticate nobody.
    pub fn preflight(settings: &Settings, runtime: TokioRuntime) -> Result<Self, AuthenticatorError> {
        let master = match &settings.callers.master_secret {
            Some(_) => MasterSecret::load(settings, None)?,
            None => MasterSecret::new(vec![0; 32])?,
        };
        let no_issuers = TokenIssuers::new(Vec::new()).map_err(AuthenticatorError::Issuers)?;
        Self::build(settings, runtime, (master, None), None, &no_issuers)
    }

    fn build(
        settings: &Settings,
        runtime: TokioRuntime,
        (master, supervisor): (MasterSecret, Option<&Supervisor>),
        previous: Option<&Self>,
        previous_issuers: &TokenIssuers,
    ) -> Result<Self, AuthenticatorError> {
        let callers = &settings.callers;
        let guests = if callers.guests { Some(guests(settings, &master)?) } else { None };
        let pseudonyms = Pseudonyms::from_settings(settings, &master).map_err(AuthenticatorError::Salt)?;
        let signatures = Signatures::new(master.bytes()).map_err(|_| MasterSecretError::TooShort)?;
        let previously_configured = previous.map_or(&[][..], |previous| &previous.configured);
        let configure = |(name, issuer): (&String, &IssuerSettings)| {
            ConfiguredIssuer::new(name, issuer, previously_configured, runtime)
        };
        let configured = callers.issuers.iter().map(configure).collect::<Result<Vec<_>, _>>()?;
        let all = configured.iter().map(|configured| Arc::clone(&configured.issuer)).collect();
        let issuers = previous_issuers.rebuild(all).map_err(AuthenticatorError::Issuers)?;
        let has_sources = configured.iter().any(|configured| configured.source.is_some());
        let fetcher = match (previous.and_then(|previous| previous.fetcher.clone()), supervisor) {
            (Some(fetcher), _) => Some(fetcher),
            (None, Some(supervisor)) if has_sources => {
                Some(Arc::new(KeyFetcher::start(runtime, supervisor).map_err(AuthenticatorError::Thread)?))
            }
            (None, _) => None,
        };
        let previous_networks = previous.map(|previous| &previous.networks);
        let networks =
            Networks::new(&master, settings.limits.ipv6_prefix, runtime.now().utc, previous_networks);
        let trusted = settings.server.trusted_proxies.clone();
        Ok(Self {
            runtime,
            master,
            trusted,
            guests,
            signatures,
            issuers,
            configured,
            networks,
            pseudonyms,
            fetcher,
            supervisor: supervisor.cloned(),
        })
    }

    /// Refreshes the keys of this authenticator's issuers from now on, and those of no other authenticator. Call it
    /// when this authenticator replaces another.
    pub fn activate(&self) {
        if let Some(fetcher) = &self.fetcher {
            fetcher.set_sources(
                self.configured.iter().filter_map(|configured| configured.source.clone()).collect(),
            );
        }
    }

    /// The secret that keys are derived from.
    #[must_use]
    pub const fn master(&self) -> &MasterSecret {
        &self.master
    }

    /// The pseudonyms of callers in logs.
    #[must_use]
    pub const fn pseudonyms(&self) -> &Pseudonyms {
        &self.pseudonyms
    }

    /// The client address of a request, for [`HttpRequestHead`].
    #[must_use]
    pub fn address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        client_address(peer, headers, &self.trusted)
    }

    /// The network of this address, for limits per network; `None` for trusted proxies, because many clients are behind
    /// them.
    #[must_use]
    pub fn network(&self, address: IpAddr) -> Option<u128> {
        let is_proxy = self.trusted.iter().any(|range| range.contains(address));
        (!is_proxy).then(|| network_bits(address, self.networks.ipv6_prefix()))
    }

    /// Authenticates a request, and returns a cookie for a new guest. Fetches an issuer's keys if that may help.
    pub async fn authenticate(
        &self,
        head: HttpRequestHead<'_>,
    ) -> Result<AuthenticationDecision, AuthenticationRefusal> {
        match self.try_authenticate(head, || self.runtime.now())? {
            AuthenticationDecision::KeysNeeded(missing) => {
                self.fetch_keys(&missing).await;
                match self.try_authenticate(head, || self.runtime.now())? {
                    AuthenticationDecision::KeysNeeded(_) => Err(TokenRefusal::KeyUnknown.into()),
                    decision => Ok(decision),
                }
            }
            decision => Ok(decision),
        }
    }

    /// Authenticates a request as far as that is possible without waiting.
    ///
    /// Most callers use a key, for which the time does not matter: the clock is read only where it does.
    pub fn try_authenticate(
        &self,
        head: HttpRequestHead<'_>,
        now: impl FnOnce() -> Now,
    ) -> Result<AuthenticationDecision, AuthenticationRefusal> {
        match extract_credential(head)? {
            RequestCredential::ApiKey(key) => {
                let hash = identify_key(key)?.hash;
                Ok(AuthenticationDecision::Identified(CallerIdentity::Credential {
                    hash,
                    kind: CredentialKind::Key,
                    tier: None,
                }))
            }
            RequestCredential::Token(token) => self.authenticate_token(token, now()),
            RequestCredential::Signed(request) => {
                let hash = self.signatures.inspect(&request, now().utc)?.hash;
                let claimed =
                    CallerIdentity::Credential { hash, kind: CredentialKind::Signature, tier: None };
                Ok(AuthenticationDecision::SignaturePending(PendingSignature { claimed }))
            }
            RequestCredential::Anonymous { cookie, address } => {
                self.authenticate_guest(cookie, address, now())
            }
        }
    }

    /// Verifies the signature of this request. `head` is the same as before, and `body` the whole body as received.
    pub fn verify_body(
        &self,
        pending_signature: &PendingSignature,
        head: HttpRequestHead<'_>,
        body: &[u8],
        now: Now,
    ) -> Result<CallerIdentity, AuthenticationRefusal> {
        self.verify_body_hash(pending_signature, head, &sha256(body), now)
    }

    /// The same for a body that was hashed as it arrived.
    pub fn verify_body_hash(
        &self,
        pending_signature: &PendingSignature,
        head: HttpRequestHead<'_>,
        body_hash: &[u8; 32],
        now: Now,
    ) -> Result<CallerIdentity, AuthenticationRefusal> {
        let RequestCredential::Signed(request) = extract_credential(head)? else {
            return Err(SignatureRefusal::Mismatch.into());
        };
        let hash = self.signatures.verify_hash(&request, body_hash, now.utc)?.hash;
        let identity = CallerIdentity::Credential { hash, kind: CredentialKind::Signature, tier: None };
        // A different head than before would be a different caller.
        if identity == pending_signature.claimed {
            Ok(identity)
        } else {
            Err(SignatureRefusal::Mismatch.into())
        }
    }

    /// Completes when keys have been fetched, or when that fails or is rate-limited.
    pub async fn fetch_keys(&self, missing: &MissingKeys) {
        if let Some(fetcher) = &self.fetcher {
            fetcher.refresh(&missing.source, missing.name.as_deref()).await;
        }
    }

    fn authenticate_token(
        &self,
        token: &str,
        now: Now,
    ) -> Result<AuthenticationDecision, AuthenticationRefusal> {
        match self.issuers.verify_with_issuer(token, now) {
            Ok((identity, issuer)) => {
                let configured =
                    self.configured.iter().find(|configured| Arc::ptr_eq(&configured.issuer, &issuer));
                let (hash, kind) = (identity.hash, CredentialKind::Token);
                Ok(AuthenticationDecision::Identified(CallerIdentity::Credential {
                    hash,
                    kind,
                    tier: configured.map(ConfiguredIssuer::tier),
                }))
            }
            Err(TokenRefusal::KeyUnknown) => {
                let missing = self.issuers.missing_key(token).and_then(|(issuer, name)| {
                    let configured =
                        self.configured.iter().find(|configured| Arc::ptr_eq(&configured.issuer, issuer))?;
                    Some(MissingKeys { source: configured.source.clone()?, name })
                });
                missing.map(AuthenticationDecision::KeysNeeded).ok_or_else(|| TokenRefusal::KeyUnknown.into())
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    fn authenticate_guest(
        &self,
        cookie: Option<&str>,
        address: IpAddr,
        now: Now,
    ) -> Result<AuthenticationDecision, AuthenticationRefusal> {
        let guests = self.guests.as_ref().ok_or(AnonymousRefusal::GuestsDisabled)?;
        let network = self.networks.network_number(address, now.utc);
        // An expired or invalid cookie proves nothing, and its holder may have it in good faith: issue a new one.
        if let Some(Ok(identity)) = cookie.map(|cookie| guests.verify(cookie, now.utc)) {
            return Ok(AuthenticationDecision::Identified(CallerIdentity::Guest {
                hash: identity.hash,
                network,
            }));
        }
        let random = random_bytes::<16>().map_err(|_| AnonymousRefusal::NoRandomness)?;
        let issued = guests.issue(&random, now.utc);
        let identity = CallerIdentity::Guest { hash: issued.identity.hash, network };
        Ok(AuthenticationDecision::NewGuest { identity, set_cookie: issued.header })
    }
}

fn guests(settings: &Settings, master: &MasterSecret) -> Result<Guests, AuthenticatorError> {
    let secret = match &settings.callers.guest_secret {
        Some(reference) => fetch_text(reference).map_err(AuthenticatorError::GuestSecret)?.into_bytes(),
        None => master.derive("guest cookies").to_vec(),
    };
    let only_over_tls = settings.server.tls.is_some();
    GuestOptions { only_over_tls, ..GuestOptions::new(secret) }.check().map_err(AuthenticatorError::Guest)
}

/// The terms of a key as the caller directory stores them.
#[must_use]
pub fn key_contract(terms: &KeyTerms) -> KeyContract {
    let KeyTerms { team, tags, expires, budgets, limits, models } = terms;
    let boxed = |texts: &[String]| texts.iter().map(|text| text.as_str().into()).collect();
    let tags = tags.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect();
    KeyContract {
        labels: KeyLabels { team: team.as_deref().map(Into::into), tags },
        expires: *expires,
        budgets: *budgets,
        limits: boxed(limits),
        models: boxed(models),
    }
}

/// The options of the caller directory from these settings. `keys` are additional ones for this run only.
#[must_use]
pub fn caller_options(
    settings: &Settings,
    keys: &[(Tier, String)],
    directory: Option<Arc<dyn CallerDirectory>>,
) -> CallerOptions {
    let callers = &settings.callers;
    let listed = callers.keys.iter().map(|(name, key)| {
        let routes =
            key.routes.as_ref().map(|routes| routes.iter().map(|name| name.as_str().into()).collect());
        let contract = Some(Arc::new(CallerContract::new(name, &key_contract(&key.terms))));
        (key.hash, StaticKey { tier: key.tier, routes, contract })
    });
    let run_keys = keys.iter().map(|(tier, key)| {
        let contract = Some(Arc::new(CallerContract::new("this run", &KeyContract::default())));
        (hash_api_key(key), StaticKey { tier: *tier, routes: None, contract })
    });
    CallerOptions {
        keys: listed.chain(run_keys).collect(),
        directory,
        cache_ttl: callers.tier_cache_ttl,
        lookup_timeout: callers.lookup_timeout,
        allows_guests: callers.guests,
    }
}

#[cfg(test)]
mod tests;
