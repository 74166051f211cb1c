//! AWS signatures (version 4) under keys that we issue.
//!
//! The vendor's own client does not send a key over plain HTTP; it signs each request instead. So that it can be
//! pointed at us, we issue pairs of an access key id and a secret, and verify signatures as the vendor would. The
//! secret is the HMAC of the id under the master secret: nothing is stored, and the caller directory decides whether an id is
//! (still) known.
//!
//! It runs when the body is complete, because the signature covers it. It is stricter than the vendor where no real
//! client is affected: the body must be signed, so must `host` and every `x-amz-...` header, the date must be within
//! five minutes, and a path that resolves to another path is rejected, since what is signed must be what is routed. It
//! does not accept session tokens or presigned URLs. It has no replay protection: within its five minutes a request can
//! be replayed by an eavesdropper, as with the vendor.

mod authorization;
mod canonical;

#[cfg(test)]
mod tests;

use super::encoding::{base32, base64url, decode_hex};
use super::hash::{constant_time_eq, hash_credential, hmac_key, hmac_sha256, sha256};
use super::refusal::{CLOCK_SKEW, INVALID_CREDENTIAL, MALFORMED_CREDENTIAL, refusals};
use super::{Identity, IdentityKind};
use authorization::{Authorization, signing_time};
use aws_lc_rs::hmac;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Uri};
use seawall_core::setting::SettingError;
use seawall_core::time::UtcTime;
use std::time::Duration;

/// The scheme of the header, and the first line of the string to sign.
pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";

const SERVICE: &str = "bedrock";
const ID_PREFIX: &str = "SWAK";
const ID_LENGTH: usize = 20;
const MIN_SECRET: usize = 32;

/// Maximum clock skew of a request, in either direction.
const MAX_SKEW: Duration = Duration::from_secs(5 * 60);

const DATE: &str = "x-amz-date";
const PAYLOAD_HASH: &str = "x-amz-content-sha256";
const SESSION: &str = "x-amz-security-token";

/// A request that carries a signature, not yet verified.
#[derive(Clone, Copy)]
pub struct SignedRequest<'a> {
    /// The value of `authorization` after its scheme.
    pub authorization: &'a str,
    /// The method as received.
    pub method: &'a Method,
    /// The URI as received: neither decoded nor normalised.
    pub uri: &'a Uri,
    /// The headers as received.
    pub headers: &'a HeaderMap,
}

/// A newly created key pair.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessKey {
    /// The access key id.
    pub id: String,
    /// The secret access key. It is derived from the id and therefore not stored.
    pub secret: String,
}

impl std::fmt::Debug for AccessKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AccessKey").field("id", &self.id).finish_non_exhaustive()
    }
}

refusals! {
    /// Why a signature was rejected.
    pub enum SignatureRefusal {
        /// The header does not have its three parts, each once.
        Malformed = "signature_malformed", MALFORMED_CREDENTIAL;
        /// The access key id does not have the format of ours.
        KeyIdMalformed = "signature_key_id_malformed", INVALID_CREDENTIAL;
        /// The scope names another service, no region, or lacks its terminator.
        Scope = "signature_scope", INVALID_CREDENTIAL;
        /// The scope is of another day than the request.
        ScopeDateMismatch = "signature_scope_date_mismatch", INVALID_CREDENTIAL;
        /// `host`, `x-amz-date` or another header that the service acts on is not signed.
        HeadersUnsigned = "signature_headers_unsigned", INVALID_CREDENTIAL;
        /// The list of signed headers is unsorted, or names a header twice or one that is absent.
        HeaderListInvalid = "signature_header_list_invalid", INVALID_CREDENTIAL;
        /// A signed header is not text.
        HeaderMalformed = "signature_header_malformed", MALFORMED_CREDENTIAL;
        /// The date is missing, repeated or invalid.
        DateMalformed = "signature_date_malformed", MALFORMED_CREDENTIAL;
        /// The date is more than five minutes from ours.
        ClockSkew = "signature_clock_skew", CLOCK_SKEW;
        /// There is a session token; we issue none.
        SessionToken = "signature_session_token", INVALID_CREDENTIAL;
        /// The client did not sign the body.
        PayloadUnsigned = "signature_payload_unsigned", INVALID_CREDENTIAL;
        /// The body does not match its signed hash.
        PayloadMismatch = "signature_payload_mismatch", INVALID_CREDENTIAL;
        /// The path contains `.`, `..` or an empty segment, and so resolves to another path.
        PathNotCanonical = "signature_path_not_canonical", INVALID_CREDENTIAL;
        /// The signature does not match.
        Mismatch = "signature_mismatch", INVALID_CREDENTIAL;
    }
}

/// Issues access keys and verifies signatures made with them.
pub struct Signatures {
    master: hmac::Key,
}

impl std::fmt::Debug for Signatures {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Signatures")
    }
}

impl Signatures {
    /// A verifier under this master secret, from which every access key can be derived.
    pub fn new(master: &[u8]) -> Result<Self, SettingError> {
        if master.len() < MIN_SECRET {
            return Err(SettingError::new("master secret", format!("must have at least {MIN_SECRET} bytes")));
        }
        Ok(Self { master: hmac_key(master) })
    }

    /// Creates a key pair from these random bytes, which must come from the operating system.
    #[must_use]
    pub fn create(&self, random: &[u8; 10]) -> AccessKey {
        let id = format!("{ID_PREFIX}{}", base32(random).to_ascii_uppercase());
        AccessKey { secret: self.derive_secret(&id), id }
    }

    /// The claimed identity, verified as far as that is possible before the body is complete. If the client states the
    /// hash of its body, that is everything but the body itself; otherwise only what needs no secret.
    pub fn inspect(&self, request: &SignedRequest<'_>, now: UtcTime) -> Result<Identity, SignatureRefusal> {
        self.check(request, stated_hash(request.headers)?, now)
    }

    /// Verifies the signature and returns the identity. `body` is the whole body as received.
    pub fn verify(
        &self,
        request: &SignedRequest<'_>,
        body: &[u8],
        now: UtcTime,
    ) -> Result<Identity, SignatureRefusal> {
        self.verify_hash(request, &sha256(body), now)
    }

    /// The same for a body of which only the SHA-256 is known.
    pub fn verify_hash(
        &self,
        request: &SignedRequest<'_>,
        body_hash: &[u8; 32],
        now: UtcTime,
    ) -> Result<Identity, SignatureRefusal> {
        let hash = hex::encode(body_hash);
        // A client that states another hash has sent another body, or does not want it covered.
        if stated_hash(request.headers)?.is_some_and(|stated| stated != hash) {
            return Err(SignatureRefusal::PayloadMismatch);
        }
        self.check(request, Some(&hash), now)
    }

    fn check(
        &self,
        request: &SignedRequest<'_>,
        payload: Option<&str>,
        now: UtcTime,
    ) -> Result<Identity, SignatureRefusal> {
        use SignatureRefusal as No;
        let Authorization { id, day, region, signed_headers, signature, .. } =
            Authorization::parse(request.authorization)?;
        if !is_our_key_id(id) {
            return Err(No::KeyIdMalformed);
        }
        let signature = decode_hex(signature).ok_or(No::Malformed)?;
        if request.headers.contains_key(SESSION) {
            return Err(No::SessionToken);
        }
        let (date, moment) = signing_time(request.headers)?;
        if date.get(..8) != Some(day) {
            return Err(No::ScopeDateMismatch);
        }
        if moment.since(now).max(now.since(moment)) > MAX_SKEW {
            return Err(No::ClockSkew);
        }
        let canonical = canonical::request(request, signed_headers, payload.unwrap_or_default())?;
        let identity = Identity { hash: hash_access_key(id), kind: IdentityKind::Signature, expires: None };
        if payload.is_none() {
            return Ok(identity);
        }
        let scope = format!("{day}/{region}/{SERVICE}/aws4_request");
        let to_sign = format!("{ALGORITHM}\n{date}\n{scope}\n{}", hex::encode(sha256(canonical.as_bytes())));
        let right = sign(&self.derive_secret(id), [day, region, SERVICE], &to_sign);
        if !constant_time_eq(&right, &signature) {
            return Err(No::Mismatch);
        }
        Ok(identity)
    }

    fn derive_secret(&self, id: &str) -> String {
        base64url(&hmac_sha256(&self.master, id.as_bytes()))
    }
}

/// The digest under which the caller directory stores an access key.
#[must_use]
pub fn hash_access_key(id: &str) -> [u8; 32] {
    hash_credential("signature", &[id])
}

/// The chain of HMACs from a secret to a signature: one per part of the scope, and the last over the string to sign.
fn sign(secret: &str, scope: [&str; 3], to_sign: &str) -> [u8; 32] {
    let mut key = hmac_key(format!("AWS4{secret}").as_bytes());
    for part in scope.into_iter().chain(["aws4_request"]) {
        key = hmac_key(&hmac_sha256(&key, part.as_bytes()));
    }
    hmac_sha256(&key, to_sign.as_bytes())
}

fn is_our_key_id(id: &str) -> bool {
    let name = id.strip_prefix(ID_PREFIX);
    id.len() == ID_LENGTH
        && name.is_some_and(|name| name.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7')))
}

/// The body hash that the client states, if it does.
fn stated_hash(headers: &HeaderMap) -> Result<Option<&str>, SignatureRefusal> {
    let mut stated = headers.get_all(PAYLOAD_HASH).iter().map(HeaderValue::as_bytes);
    match (stated.next(), stated.next()) {
        (None, _) => Ok(None),
        (Some(stated), None) => {
            let digits = std::str::from_utf8(stated).ok().filter(|digits| decode_hex(digits).is_some());
            digits.map(Some).ok_or(SignatureRefusal::PayloadUnsigned)
        }
        (Some(_), Some(_)) => Err(SignatureRefusal::PayloadMismatch),
    }
}
