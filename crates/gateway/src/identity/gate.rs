//! The gate: authenticates callers by the settings in force.
//!
//! It acts on the head of a request, so that no body is read from a client that has not authenticated. Keys, tokens and
//! guests are decided at once. A signature covers the body: what can be checked before the body arrives is checked, and
//! the rest when it is complete. A token under an unknown key waits until its issuer's keys have been fetched.
//!
//! New settings make a new gate from the one before: unchanged issuers keep their keys and their verified tokens. A
//! failure on the way does not change the gate in use.
//!
//! It does not treat a client with an invalid key or token as a guest, and does not decide what a caller is entitled
//! to.

mod issuer;
mod network;

use super::address::{client_address, network_bits};
use super::api_key::{credential_of_key, identify_key};
use super::guest::{GuestOptions, Guests};
use super::hash::sha256;
use super::key_source::{KeyFetcher, KeySource};
use super::master::{MasterSecret, MasterSecretError, random};
use super::proof::{Proof, RequestHead, proof_of};
use super::pseudonym::Pseudonyms;
use super::refusal::{NobodyRefusal, Refusal};
use super::signature::{SignatureRefusal, Signatures};
use super::token::{Issuers, KeySetError, TokenRefusal};
use crate::runtime::TokioRuntime;
use crate::secret::{SecretError, fetch_text};
use hyper::header::HeaderMap;
use issuer::MadeIssuer;
use network::Networks;
use seawall_config::{AddressRange, IssuerSettings, Settings};
use seawall_core::handle::Runtime as _;
use seawall_core::setting::SettingError;
use seawall_core::time::Now;
use seawall_core::vocabulary::Tier;
use seawall_pipeline::callers::{CallerDirectory, CallerOptions, ListedKey, ProofKind, Proven};
use std::net::IpAddr;
use std::sync::Arc;

/// Why a gate cannot be built from settings.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The master secret cannot be had.
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
    #[error("callers.issuers.{0}.keys: {1}: {2}")]
    KeyFile(String, String, std::io::Error),
    /// The file with an issuer's keys contains no valid key set.
    #[error("callers.issuers.{0}.keys: {1}: {2}")]
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
pub enum Shown {
    /// The caller is authenticated.
    Proven(Proven),
    /// A guest without a valid cookie.
    NewGuest {
        /// The new identity of the guest.
        proven: Proven,
        /// The value of the `set-cookie` header to send.
        set_cookie: String,
    },
    /// Signed: [`Gate::verify_body`] decides when the body is complete.
    Signed(SignedHead),
    /// A token under an unknown key: try again after [`Gate::fetch_keys`].
    NeedsKeys(KeysWanted),
}

/// A signature that must still be verified against the body.
#[derive(Clone, Copy, Debug)]
pub struct SignedHead {
    claimed: Proven,
}

impl SignedHead {
    /// The claimed caller. It may be used to reject the request early, and for nothing else.
    #[must_use]
    pub const fn claimed(&self) -> &Proven {
        &self.claimed
    }
}

/// The issuer whose keys must be fetched first.
#[derive(Debug)]
pub struct KeysWanted {
    source: Arc<KeySource>,
    name: Option<String>,
}

/// All verifiers of credentials, built from one version of the settings.
pub struct Gate {
    runtime: TokioRuntime,
    master: MasterSecret,
    trusted: Vec<AddressRange>,
    guests: Option<Guests>,
    signatures: Signatures,
    issuers: Issuers,
    made: Vec<MadeIssuer>,
    networks: Networks,
    pseudonyms: Pseudonyms,
    fetcher: Option<Arc<KeyFetcher>>,
}

impl Gate {
    /// Builds the gate of these settings. The caller of this must hold the lock on the state directory.
    pub fn new(settings: &Settings, runtime: TokioRuntime) -> Result<Self, GateError> {
        let nobody = Issuers::new(Vec::new()).map_err(GateError::Issuers)?;
        Self::made(settings, runtime, None, &nobody)
    }

    /// Builds the gate of new settings, and reuses what has not changed.
    pub fn renewed(&self, settings: &Settings) -> Result<Self, GateError> {
        Self::made(settings, self.runtime, Some(self), &self.issuers)
    }

    /// Checks whether a gate can be built, without starting a thread and without the secret in the state directory.
    pub fn preflight(settings: &Settings, runtime: TokioRuntime) -> Result<(), GateError> {
        let callers = &settings.callers;
        let master = match &callers.master_secret {
            Some(_) => MasterSecret::of(settings, None)?,
            None => MasterSecret::new(vec![0; 32])?,
        };
        if callers.guests {
            guests(settings, &master)?;
        }
        Pseudonyms::of(settings, &master).map_err(GateError::Salt)?;
        let one = |(name, issuer): (&String, &IssuerSettings)| {
            MadeIssuer::new(name, issuer, &[], runtime).map(|made| made.issuer)
        };
        let issuers = callers.issuers.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        let nobody = Issuers::new(Vec::new()).map_err(GateError::Issuers)?;
        nobody.renewed(issuers).map(|_| ()).map_err(GateError::Issuers)
    }

    fn made(
        settings: &Settings,
        runtime: TokioRuntime,
        before: Option<&Self>,
        known: &Issuers,
    ) -> Result<Self, GateError> {
        let callers = &settings.callers;
        let master = MasterSecret::of(settings, before.map(|before| &before.master))?;
        let guests = if callers.guests { Some(guests(settings, &master)?) } else { None };
        let pseudonyms = Pseudonyms::of(settings, &master).map_err(GateError::Salt)?;
        let signatures = Signatures::new(master.bytes()).map_err(|_| MasterSecretError::TooShort)?;
        let made_before = before.map_or(&[][..], |before| &before.made);
        let one =
            |(name, issuer): (&String, &IssuerSettings)| MadeIssuer::new(name, issuer, made_before, runtime);
        let made = callers.issuers.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        let all = made.iter().map(|made| Arc::clone(&made.issuer)).collect();
        let issuers = known.renewed(all).map_err(GateError::Issuers)?;
        let fetcher = match before.and_then(|before| before.fetcher.clone()) {
            Some(fetcher) => Some(fetcher),
            None if made.iter().any(|made| made.source.is_some()) => {
                Some(Arc::new(KeyFetcher::start(runtime).map_err(GateError::Thread)?))
            }
            None => None,
        };
        let known = before.map(|before| &before.networks);
        let networks = Networks::new(&master, settings.limits.ipv6_prefix, runtime.now().utc, known);
        let trusted = settings.server.trusted_proxies.clone();
        Ok(Self {
            runtime,
            master,
            trusted,
            guests,
            signatures,
            issuers,
            made,
            networks,
            pseudonyms,
            fetcher,
        })
    }

    /// Refreshes the keys of this gate's issuers from now on, and those of no other gate. Call it when the gate is put
    /// in use.
    pub fn take_effect(&self) {
        if let Some(fetcher) = &self.fetcher {
            fetcher.follow(self.made.iter().filter_map(|made| made.source.clone()).collect());
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

    /// The client address of a request, for [`RequestHead`].
    #[must_use]
    pub fn address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        client_address(peer, headers, &self.trusted)
    }

    /// The network of this address, for limits per address; `None` for trusted proxies, because many clients are behind
    /// them.
    #[must_use]
    pub fn network(&self, address: IpAddr) -> Option<u128> {
        let is_proxy = self.trusted.iter().any(|range| range.holds(address));
        (!is_proxy).then(|| network_bits(address, self.networks.ipv6_prefix()))
    }

    /// Authenticates a request, and returns a cookie for a new guest. Fetches an issuer's keys if that may help.
    pub async fn show(&self, head: RequestHead<'_>) -> Result<Shown, Refusal> {
        match self.inspect(head, || self.runtime.now())? {
            Shown::NeedsKeys(wanted) => {
                self.fetch_keys(&wanted).await;
                match self.inspect(head, || self.runtime.now())? {
                    Shown::NeedsKeys(_) => Err(TokenRefusal::KeyUnknown.into()),
                    shown => Ok(shown),
                }
            }
            shown => Ok(shown),
        }
    }

    /// Authenticates a request as far as that is possible without waiting.
    ///
    /// Most callers use a key, for which the time does not matter: the clock is read only where it does.
    pub fn inspect(&self, head: RequestHead<'_>, now: impl FnOnce() -> Now) -> Result<Shown, Refusal> {
        match proof_of(head)? {
            Proof::ApiKey(key) => {
                let hash = identify_key(key)?.credential;
                Ok(Shown::Proven(Proven::Credential { hash, proof: ProofKind::Key, tier: None }))
            }
            Proof::Token(token) => self.token(token, now()),
            Proof::Signed(request) => {
                let hash = self.signatures.inspect(&request, now().utc)?.credential;
                let claimed = Proven::Credential { hash, proof: ProofKind::Signature, tier: None };
                Ok(Shown::Signed(SignedHead { claimed }))
            }
            Proof::Nobody { cookie, address } => self.guest(cookie, address, now()),
        }
    }

    /// Verifies the signature of this request. `head` is the same as before, and `body` the whole body as received.
    pub fn verify_body(
        &self,
        signed: &SignedHead,
        head: RequestHead<'_>,
        body: &[u8],
        now: Now,
    ) -> Result<Proven, Refusal> {
        self.verify_body_hash(signed, head, &sha256(body), now)
    }

    /// The same for a body that was hashed as it arrived.
    pub fn verify_body_hash(
        &self,
        signed: &SignedHead,
        head: RequestHead<'_>,
        body_hash: &[u8; 32],
        now: Now,
    ) -> Result<Proven, Refusal> {
        let Proof::Signed(request) = proof_of(head)? else { return Err(SignatureRefusal::Wrong.into()) };
        let hash = self.signatures.verify_hash(&request, body_hash, now.utc)?.credential;
        let proven = Proven::Credential { hash, proof: ProofKind::Signature, tier: None };
        // A different head than before would be a different caller.
        if proven == signed.claimed { Ok(proven) } else { Err(SignatureRefusal::Wrong.into()) }
    }

    /// Completes when keys have been fetched, or when that fails or is rate-limited.
    pub async fn fetch_keys(&self, wanted: &KeysWanted) {
        if let Some(fetcher) = &self.fetcher {
            fetcher.refresh(&wanted.source, wanted.name.as_deref()).await;
        }
    }

    fn token(&self, token: &str, now: Now) -> Result<Shown, Refusal> {
        match self.issuers.verify_with_issuer(token, now) {
            Ok((identity, issuer)) => {
                let made = self.made.iter().find(|made| Arc::ptr_eq(&made.issuer, &issuer));
                let (hash, proof) = (identity.credential, ProofKind::Token);
                Ok(Shown::Proven(Proven::Credential { hash, proof, tier: made.map(MadeIssuer::tier) }))
            }
            Err(TokenRefusal::KeyUnknown) => {
                let wanted = self.issuers.missing_key(token).and_then(|(issuer, name)| {
                    let made = self.made.iter().find(|made| Arc::ptr_eq(&made.issuer, issuer))?;
                    Some(KeysWanted { source: made.source.clone()?, name })
                });
                wanted.map(Shown::NeedsKeys).ok_or_else(|| TokenRefusal::KeyUnknown.into())
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    fn guest(&self, cookie: Option<&str>, address: IpAddr, now: Now) -> Result<Shown, Refusal> {
        let guests = self.guests.as_ref().ok_or(NobodyRefusal::NoGuests)?;
        let network = self.networks.number(address, now.utc);
        // An expired or invalid cookie proves nothing, and its holder may have it in good faith: issue a new one.
        if let Some(Ok(known)) = cookie.map(|cookie| guests.verify(cookie, now.utc)) {
            return Ok(Shown::Proven(Proven::Guest { hash: known.credential, network }));
        }
        let random = random::<16>().map_err(|_| NobodyRefusal::NoChance)?;
        let issued = guests.issue(&random, now.utc);
        let proven = Proven::Guest { hash: issued.identity.credential, network };
        Ok(Shown::NewGuest { proven, set_cookie: issued.header })
    }
}

fn guests(settings: &Settings, master: &MasterSecret) -> Result<Guests, GateError> {
    let secret = match &settings.callers.guest_secret {
        Some(reference) => fetch_text(reference).map_err(GateError::GuestSecret)?.into_bytes(),
        None => master.derived("guest cookies").to_vec(),
    };
    let only_over_tls = settings.server.tls.is_some();
    GuestOptions { only_over_tls, ..GuestOptions::new(secret) }.check().map_err(GateError::Guest)
}

/// The options of the caller directory from these settings. `keys` are additional ones for this run only.
#[must_use]
pub fn caller_options(
    settings: &Settings,
    keys: &[(Tier, String)],
    directory: Option<Arc<dyn CallerDirectory>>,
) -> CallerOptions {
    let callers = &settings.callers;
    let listed = callers.keys.values().map(|key| {
        let routes =
            key.routes.as_ref().map(|routes| routes.iter().map(|name| name.as_str().into()).collect());
        (key.hash, ListedKey { tier: key.tier, routes })
    });
    let for_now =
        keys.iter().map(|(tier, key)| (credential_of_key(key), ListedKey { tier: *tier, routes: None }));
    CallerOptions {
        keys: listed.chain(for_now).collect(),
        directory,
        believe_for: callers.tier_cache,
        find_within: callers.directory_time,
        guests: callers.guests,
    }
}

#[cfg(test)]
mod tests;
