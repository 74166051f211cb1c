//! Parses a token, before it is verified.
//!
//! Parsing is strict: canonical base64, JSON without duplicate names, bounds on everything. A header that contains a
//! key, or the URL of one, is rejected rather than ignored: no legitimate token needs it.

use super::TokenRefusal;
use super::key::TokenAlgorithm;
use super::key_set::is_valid_key_id;
use super::strict_json::{StrictJsonError, parse_object};
use crate::identity::encoding::decode_base64url;
use seawall_core::time::UtcTime;
use serde_json::{Map, Value};
use std::time::Duration;

/// Maximum length of a subject or issuer in bytes.
const MAX_NAME: usize = 512;
/// Maximum number of audiences of a token.
const MAX_AUDIENCES: usize = 64;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A parsed token.
#[derive(Debug)]
pub(super) struct ParsedToken<'a> {
    pub(super) algorithm: TokenAlgorithm,
    pub(super) key_name: Option<String>,
    /// The signed part.
    pub(super) message: &'a str,
    pub(super) signature: Vec<u8>,
    claims: Map<String, Value>,
}

impl<'a> ParsedToken<'a> {
    pub(super) fn parse(token: &'a str) -> Result<Self, TokenRefusal> {
        let (message, signature) = token.rsplit_once('.').ok_or(TokenRefusal::Malformed)?;
        let (header, claims) = message.split_once('.').ok_or(TokenRefusal::Malformed)?;
        if claims.contains('.') {
            return Err(TokenRefusal::Malformed);
        }
        let header = decode_part(header, TokenRefusal::HeaderMalformed)?;
        let (algorithm, key_name) = read_header(&header)?;
        let claims = decode_part(claims, TokenRefusal::ClaimsMalformed)?;
        let signature = decode_base64url(signature).ok_or(TokenRefusal::Encoding)?;
        Ok(Self { algorithm, key_name, message, signature, claims })
    }

    /// The claimed issuer. Until the signature is verified it may be used to choose keys, and for nothing else.
    pub(super) fn issuer(&self) -> Result<&str, TokenRefusal> {
        self.claims.get("iss").and_then(Value::as_str).ok_or(TokenRefusal::IssuerMissing)
    }

    pub(super) fn subject(&self) -> Result<&str, TokenRefusal> {
        let subject = self.claims.get("sub").ok_or(TokenRefusal::SubjectMissing)?;
        match subject.as_str() {
            Some("") => Err(TokenRefusal::SubjectMissing),
            Some(subject) if is_valid_name(subject) => Ok(subject),
            _ => Err(TokenRefusal::SubjectInvalid),
        }
    }

    /// Whether it is meant for one of these audiences.
    pub(super) fn check_audience(&self, ours: &[String]) -> Result<(), TokenRefusal> {
        let is_ours = |audience: &str| ours.iter().any(|our| our == audience);
        let is_for_us = match self.claims.get("aud") {
            None => return Err(TokenRefusal::AudienceMissing),
            Some(Value::String(audience)) => is_ours(audience),
            Some(Value::Array(audiences)) if audiences.len() <= MAX_AUDIENCES => {
                let names: Option<Vec<&str>> = audiences.iter().map(Value::as_str).collect();
                names.ok_or(TokenRefusal::AudienceMismatch)?.into_iter().any(is_ours)
            }
            Some(_) => false,
        };
        if is_for_us { Ok(()) } else { Err(TokenRefusal::AudienceMismatch) }
    }

    /// The validity period, with leeway on both sides. A token without `exp` is rejected.
    pub(super) fn times(&self, leeway: Duration, now: UtcTime) -> Result<(UtcTime, UtcTime), TokenRefusal> {
        let until = self.time("exp")?.ok_or(TokenRefusal::ExpiryMissing)? + leeway;
        let not_before = self.time("nbf")?.unwrap_or_default();
        let issued = self.time("iat")?.unwrap_or_default();
        if until <= now {
            return Err(TokenRefusal::Expired);
        }
        if now + leeway < not_before {
            return Err(TokenRefusal::NotYetValid);
        }
        if now + leeway < issued {
            return Err(TokenRefusal::IssuedInFuture);
        }
        let leeway = u64::try_from(leeway.as_nanos()).unwrap_or(u64::MAX);
        let from = UtcTime::from_nanos(not_before.max(issued).as_nanos().saturating_sub(leeway));
        Ok((from, until))
    }

    /// Whole seconds since 1970. Fractions are rejected, because implementations differ in rounding them.
    fn time(&self, name: &str) -> Result<Option<UtcTime>, TokenRefusal> {
        let Some(value) = self.claims.get(name) else { return Ok(None) };
        let nanos = value.as_u64().and_then(|seconds| seconds.checked_mul(NANOS_PER_SECOND));
        nanos.map(|nanos| Some(UtcTime::from_nanos(nanos))).ok_or(TokenRefusal::TimeInvalid)
    }
}

/// Decodes one of the two JSON parts.
fn decode_part(text: &str, unreadable: TokenRefusal) -> Result<Map<String, Value>, TokenRefusal> {
    let bytes = decode_base64url(text).ok_or(TokenRefusal::Encoding)?;
    parse_object(&bytes).map_err(|error| match error {
        StrictJsonError::DuplicateName => TokenRefusal::DuplicateName,
        StrictJsonError::Malformed | StrictJsonError::NotAnObject => unreadable,
    })
}

fn read_header(header: &Map<String, Value>) -> Result<(TokenAlgorithm, Option<String>), TokenRefusal> {
    let algorithm = header.get("alg").and_then(Value::as_str).ok_or(TokenRefusal::HeaderMalformed)?;
    if algorithm.eq_ignore_ascii_case("none") {
        return Err(TokenRefusal::Unsigned);
    }
    let algorithm = TokenAlgorithm::from_name(algorithm).ok_or(TokenRefusal::AlgorithmUnknown)?;
    if ["jwk", "jku", "x5u", "x5c"].iter().any(|name| header.contains_key(*name)) {
        return Err(TokenRefusal::KeyEmbedded);
    }
    // `crit` requires the recipient to support an extension, and we support none.
    if header.contains_key("crit") {
        return Err(TokenRefusal::CriticalExtension);
    }
    // Other types of token are signed with the same keys and prove something else.
    let kind = header.get("typ").map(|kind| kind.as_str().unwrap_or_default());
    if kind.is_some_and(|kind| {
        !["JWT", "at+jwt", "application/at+jwt"].iter().any(|known| kind.eq_ignore_ascii_case(known))
    }) {
        return Err(TokenRefusal::Type);
    }
    let key_name = match header.get("kid") {
        None => None,
        Some(Value::String(name)) if is_valid_key_id(name) => Some(name.clone()),
        Some(_) => return Err(TokenRefusal::KeyIdInvalid),
    };
    Ok((algorithm, key_name))
}

/// Whether a name can be hashed and logged unambiguously.
pub(super) fn is_valid_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control)
}
