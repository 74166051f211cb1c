//! Parses an issuer's public keys (JSON Web Key Set).
//!
//! Keys of unsupported kinds are skipped, so that an issuer can add them without coordination. A skipped key verifies
//! nothing. Weak keys are skipped too, and so are symmetric keys: a published secret is not secret.

use super::key::{TokenAlgorithm, VerificationKey};
use super::strict_json::{StrictJsonError, parse_object};
use crate::identity::encoding::decode_base64url;
use serde_json::{Map, Value};

/// Maximum size of a key set in bytes.
const MAX_KEY_SET_SIZE: usize = 256 * 1024;
/// Maximum number of keys, more than any issuer has.
const MAX_KEYS: usize = 64;
/// Maximum length of a key's name (`kid`) in bytes.
pub(super) const MAX_KEY_ID: usize = 256;

const MIN_MODULUS: usize = 2_048;
const MAX_MODULUS: usize = 8_192;
const MIN_EXPONENT: u64 = 65_537;
const MAX_EXPONENT: u64 = u32::MAX as u64;

/// Why a key set was rejected as a whole. The previous one stays in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// It is longer than any key set.
    #[error("the key set is longer than {MAX_KEY_SET_SIZE} bytes")]
    TooLong,
    /// It is not a JSON object with a list of objects as `keys`.
    #[error("the key set is not a JSON object with a list of objects as keys")]
    Malformed,
    /// An object has a duplicate name.
    #[error("the key set has an object with a duplicate name")]
    DuplicateName,
    /// It has more keys than any issuer.
    #[error("the key set has more than {MAX_KEYS} keys")]
    TooManyKeys,
    /// Two keys for one algorithm have the same name.
    #[error("two keys of the key set have the same key id (kid) and algorithm")]
    DuplicateKeyId,
    /// It has no usable key. Accepting it would reject every token.
    #[error("the key set has no usable key")]
    NoUsableKey,
}

/// Why one key was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkippedKey {
    /// An unsupported kind, curve or algorithm, or a symmetric key.
    Unsupported,
    /// It is not for verifying signatures.
    OtherUse,
    /// It could be broken: RSA below 2048 bits, or with an exponent below 65537.
    Weak,
    /// A part of it is missing or invalid.
    Malformed,
}

/// The usable keys of a key set.
#[derive(Debug)]
pub struct JsonWebKeySet {
    pub(super) keys: Vec<VerificationKey>,
    skipped: Vec<SkippedKey>,
}

impl JsonWebKeySet {
    /// Parses a JSON Web Key Set.
    pub fn parse(json: &[u8]) -> Result<Self, KeySetError> {
        if json.len() > MAX_KEY_SET_SIZE {
            return Err(KeySetError::TooLong);
        }
        let set = parse_object(json).map_err(|error| match error {
            StrictJsonError::DuplicateName => KeySetError::DuplicateName,
            StrictJsonError::Malformed | StrictJsonError::NotAnObject => KeySetError::Malformed,
        })?;
        let listed = set.get("keys").and_then(Value::as_array).ok_or(KeySetError::Malformed)?;
        if listed.len() > MAX_KEYS {
            return Err(KeySetError::TooManyKeys);
        }
        let (mut keys, mut skipped) = (Vec::new(), Vec::new());
        for key in listed {
            match parse_key(key.as_object().ok_or(KeySetError::Malformed)?) {
                Ok(read) => keys.extend(read),
                Err(why) => skipped.push(why),
            }
        }
        let same = |one: &VerificationKey, other: &VerificationKey| {
            one.name() == other.name() && one.algorithm() == other.algorithm()
        };
        // Unnamed keys cannot be distinguished; a token without a key name then matches too many.
        let named = |key: &&VerificationKey| key.name().is_some();
        if keys.iter().filter(named).any(|one| keys.iter().filter(|other| same(one, other)).count() > 1) {
            return Err(KeySetError::DuplicateKeyId);
        }
        if keys.is_empty() {
            return Err(KeySetError::NoUsableKey);
        }
        Ok(Self { keys, skipped })
    }

    /// Why keys were skipped, in their order; for the log.
    #[must_use]
    pub fn skipped(&self) -> &[SkippedKey] {
        &self.skipped
    }
}

/// One key for each algorithm that it may be used with.
fn parse_key(key: &Map<String, Value>) -> Result<Vec<VerificationKey>, SkippedKey> {
    let text = |name: &str| match key.get(name) {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or(SkippedKey::Malformed),
    };
    let bytes = |name: &str| text(name)?.and_then(decode_base64url).ok_or(SkippedKey::Malformed);
    if text("use")?.is_some_and(|its_use| its_use != "sig") {
        return Err(SkippedKey::OtherUse);
    }
    if let Some(operations) = key.get("key_ops") {
        let operations = operations.as_array().ok_or(SkippedKey::Malformed)?;
        if !operations.iter().any(|operation| operation == "verify") {
            return Err(SkippedKey::OtherUse);
        }
    }
    let name = text("kid")?;
    if name.is_some_and(|name| !is_valid_key_id(name)) {
        return Err(SkippedKey::Malformed);
    }
    use TokenAlgorithm::{EdDsa, Es256, Es384, Ps256, Rs256, Rs384, Rs512};
    let mut fitting: Vec<TokenAlgorithm> = match (text("kty")?, text("crv")?) {
        (Some("RSA"), _) => vec![Rs256, Rs384, Rs512, Ps256],
        (Some("EC"), Some("P-256")) => vec![Es256],
        (Some("EC"), Some("P-384")) => vec![Es384],
        (Some("OKP"), Some("Ed25519")) => vec![EdDsa],
        _ => return Err(SkippedKey::Unsupported),
    };
    // A key that names its algorithm is for that one only.
    if let Some(stated) = text("alg")? {
        fitting.retain(|algorithm| algorithm.name() == stated);
    }
    if fitting.is_empty() {
        return Err(SkippedKey::Unsupported);
    }
    let parsed: Option<Vec<VerificationKey>> = match fitting[0] {
        Rs256 | Rs384 | Rs512 | Ps256 => {
            let (modulus, exponent) = (bytes("n")?, bytes("e")?);
            check_rsa(&modulus, &exponent)?;
            fitting
                .into_iter()
                .map(|algorithm| VerificationKey::rsa(name, algorithm, &modulus, &exponent))
                .collect()
        }
        EdDsa => fitting
            .into_iter()
            .map(|algorithm| VerificationKey::curve(name, algorithm, &bytes("x").ok()?))
            .collect(),
        _ => {
            let width = if fitting[0] == Es256 { 32 } else { 48 };
            let (x, y) = (bytes("x")?, bytes("y")?);
            if x.len() != width || y.len() != width {
                return Err(SkippedKey::Malformed);
            }
            let point = [&[4][..], &x, &y].concat();
            fitting.into_iter().map(|algorithm| VerificationKey::curve(name, algorithm, &point)).collect()
        }
    };
    parsed.ok_or(SkippedKey::Malformed)
}

fn check_rsa(modulus: &[u8], exponent: &[u8]) -> Result<(), SkippedKey> {
    let (Some(&[first, ..]), Some(&[lowest, ..])) = (modulus.first_chunk::<1>(), modulus.last_chunk::<1>())
    else {
        return Err(SkippedKey::Malformed);
    };
    // Numbers have no leading zeros; an even modulus or exponent is never valid.
    if first == 0 || lowest % 2 == 0 || exponent.is_empty() || exponent[0] == 0 || exponent.len() > 8 {
        return Err(SkippedKey::Malformed);
    }
    let exponent = exponent.iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    let bits = modulus.len() * 8 - first.leading_zeros() as usize;
    if bits > MAX_MODULUS || exponent > MAX_EXPONENT || exponent % 2 == 0 {
        return Err(SkippedKey::Malformed);
    }
    if bits < MIN_MODULUS || exponent < MIN_EXPONENT {
        return Err(SkippedKey::Weak);
    }
    Ok(())
}

/// Whether this is an acceptable key name: it is only compared, but must be safe to log.
pub(super) fn is_valid_key_id(name: &str) -> bool {
    (1..=MAX_KEY_ID).contains(&name.len()) && !name.chars().any(char::is_control)
}
