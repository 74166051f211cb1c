//! Parses a token, before it is verified.
//!
//! Parsing is strict: canonical base64, JSON without duplicate names, bounds on everything. A header that contains a
//! key, or the URL of one, is refused rather than ignored: no legitimate token needs it.

use super::TokenRefusal;
use super::key::Algorithm;
use super::key_set::is_name;
use super::strict::{StrictError, object};
use crate::identity::encoding::read_base64url;
use seawall_core::time::UtcTime;
use serde_json::{Map, Value};
use std::time::Duration;

/// Maximum length of a subject or issuer in bytes.
const LONGEST_NAME: usize = 512;
/// Maximum number of audiences of a token.
const MOST_AUDIENCES: usize = 64;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A parsed token.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) key_name: Option<String>,
    /// The signed part.
    pub(super) message: &'a str,
    pub(super) signature: Vec<u8>,
    claims: Map<String, Value>,
}

impl<'a> Parts<'a> {
    pub(super) fn read(token: &'a str) -> Result<Self, TokenRefusal> {
        let (message, signature) = token.rsplit_once('.').ok_or(TokenRefusal::Shape)?;
        let (header, claims) = message.split_once('.').ok_or(TokenRefusal::Shape)?;
        if claims.contains('.') {
            return Err(TokenRefusal::Shape);
        }
        let header = part(header, TokenRefusal::HeaderUnreadable)?;
        let (algorithm, key_name) = read_header(&header)?;
        let claims = part(claims, TokenRefusal::ClaimsUnreadable)?;
        let signature = read_base64url(signature).ok_or(TokenRefusal::Encoding)?;
        Ok(Self { algorithm, key_name, message, signature, claims })
    }

    /// The claimed issuer. Until the signature is verified it may be used to choose keys, and for nothing else.
    pub(super) fn issuer(&self) -> Result<&str, TokenRefusal> {
        self.claims.get("iss").and_then(Value::as_str).ok_or(TokenRefusal::IssuerMissing)
    }

    /// The subject.
    pub(super) fn subject(&self) -> Result<&str, TokenRefusal> {
        let subject = self.claims.get("sub").ok_or(TokenRefusal::SubjectMissing)?;
        match subject.as_str() {
            Some("") => Err(TokenRefusal::SubjectMissing),
            Some(subject) if is_fit(subject) => Ok(subject),
            _ => Err(TokenRefusal::SubjectUnusable),
        }
    }

    /// Whether it is meant for one of these audiences.
    pub(super) fn check_audience(&self, ours: &[String]) -> Result<(), TokenRefusal> {
        let is_ours = |audience: &str| ours.iter().any(|our| our == audience);
        let is_for_us = match self.claims.get("aud") {
            None => return Err(TokenRefusal::AudienceMissing),
            Some(Value::String(audience)) => is_ours(audience),
            Some(Value::Array(audiences)) if audiences.len() <= MOST_AUDIENCES => {
                let names: Option<Vec<&str>> = audiences.iter().map(Value::as_str).collect();
                names.ok_or(TokenRefusal::AudienceWrong)?.into_iter().any(is_ours)
            }
            Some(_) => false,
        };
        if is_for_us { Ok(()) } else { Err(TokenRefusal::AudienceWrong) }
    }

    /// The validity period, with leeway on both sides. A token without `exp` is refused.
    pub(super) fn times(&self, leeway: Duration, now: UtcTime) -> Result<(UtcTime, UtcTime), TokenRefusal> {
        let until = self.time("exp")?.ok_or(TokenRefusal::ExpiryMissing)? + leeway;
        let not_before = self.time("nbf")?.unwrap_or_default();
        let issued = self.time("iat")?.unwrap_or_default();
        if until <= now {
            return Err(TokenRefusal::Expired);
        }
        if now + leeway < not_before {
            return Err(TokenRefusal::NotYet);
        }
        if now + leeway < issued {
            return Err(TokenRefusal::IssuedLater);
        }
        let leeway = u64::try_from(leeway.as_nanos()).unwrap_or(u64::MAX);
        let from = UtcTime::from_nanos(not_before.max(issued).as_nanos().saturating_sub(leeway));
        Ok((from, until))
    }

    /// Whole seconds since 1970. Fractions are refused, because implementations differ in rounding them.
    fn time(&self, name: &str) -> Result<Option<UtcTime>, TokenRefusal> {
        let Some(value) = self.claims.get(name) else { return Ok(None) };
        let nanos = value.as_u64().and_then(|seconds| seconds.checked_mul(NANOS_PER_SECOND));
        nanos.map(|nanos| Some(UtcTime::from_nanos(nanos))).ok_or(TokenRefusal::NumberUnusable)
    }
}

/// Decodes one of the two JSON parts.
fn part(text: &str, unreadable: TokenRefusal) -> Result<Map<String, Value>, TokenRefusal> {
    let bytes = read_base64url(text).ok_or(TokenRefusal::Encoding)?;
    object(&bytes).map_err(|error| match error {
        StrictError::Twice => TokenRefusal::Twice,
        StrictError::Unreadable | StrictError::NoObject => unreadable,
    })
}

fn read_header(header: &Map<String, Value>) -> Result<(Algorithm, Option<String>), TokenRefusal> {
    let algorithm = header.get("alg").and_then(Value::as_str).ok_or(TokenRefusal::HeaderUnreadable)?;
    if algorithm.eq_ignore_ascii_case("none") {
        return Err(TokenRefusal::Unsigned);
    }
    let algorithm = Algorithm::known(algorithm).ok_or(TokenRefusal::AlgorithmUnknown)?;
    if ["jwk", "jku", "x5u", "x5c"].iter().any(|name| header.contains_key(*name)) {
        return Err(TokenRefusal::KeyEmbedded);
    }
    // `crit` requires the recipient to support an extension, and we support none.
    if header.contains_key("crit") {
        return Err(TokenRefusal::Critical);
    }
    // Other types of token are signed with the same keys and prove something else.
    let kind = header.get("typ").map(|kind| kind.as_str().unwrap_or_default());
    if kind.is_some_and(|kind| {
        !["JWT", "at+jwt", "application/at+jwt"].iter().any(|known| kind.eq_ignore_ascii_case(known))
    }) {
        return Err(TokenRefusal::Kind);
    }
    let key_name = match header.get("kid") {
        None => None,
        Some(Value::String(name)) if is_name(name) => Some(name.clone()),
        Some(_) => return Err(TokenRefusal::KeyNameUnusable),
    };
    Ok((algorithm, key_name))
}

/// Whether a name can be hashed and logged unambiguously.
pub(super) fn is_fit(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && !name.chars().any(char::is_control)
}
