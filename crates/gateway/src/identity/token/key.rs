//! One verification key for one algorithm.
//!
//! A key verifies signatures of the algorithm it was made for and of no other, so a public key can never be used as an
//! HMAC secret. It also knows how long it may be used: a key that its issuer revoked expires at a set time, and with it
//! every cached token that it verified.

use crate::identity::hash::sha256_of;
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RsaParameters,
    RsaPublicKeyComponents, VerificationAlgorithm,
};
use seawall_core::setting::SettingError;
use seawall_core::time::Timestamp;
use std::sync::atomic::{AtomicU64, Ordering};

/// A signature algorithm of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// RSA with PKCS #1 padding and SHA-256.
    Rs256,
    /// RSA with PKCS #1 padding and SHA-384.
    Rs384,
    /// RSA with PKCS #1 padding and SHA-512.
    Rs512,
    /// RSA with PSS padding and SHA-256.
    Ps256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
    /// HMAC with SHA-256, for issuers with a shared secret.
    Hs256,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 8] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
        Self::Hs256,
    ];

    /// The name in tokens, key sets and settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
            Self::Hs256 => "HS256",
        }
    }

    /// The algorithm of this exact name.
    pub fn parse(name: &str) -> Result<Self, SettingError> {
        Self::known(name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            SettingError::new("algorithm", format!("{name:?} is none of {known}"))
        })
    }

    pub(super) fn known(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    fn rsa(self) -> Option<&'static RsaParameters> {
        match self {
            Self::Rs256 => Some(&RSA_PKCS1_2048_8192_SHA256),
            Self::Rs384 => Some(&RSA_PKCS1_2048_8192_SHA384),
            Self::Rs512 => Some(&RSA_PKCS1_2048_8192_SHA512),
            Self::Ps256 => Some(&RSA_PSS_2048_8192_SHA256),
            Self::Es256 | Self::Es384 | Self::EdDsa | Self::Hs256 => None,
        }
    }

    fn curve(self) -> Option<&'static dyn VerificationAlgorithm> {
        match self {
            Self::Es256 => Some(&ECDSA_P256_SHA256_FIXED),
            Self::Es384 => Some(&ECDSA_P384_SHA384_FIXED),
            Self::EdDsa => Some(&ED25519),
            Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256 | Self::Hs256 => None,
        }
    }
}

/// The material that verifies a signature.
enum Check {
    Public(ParsedPublicKey),
    Secret(Box<hmac::Key>),
}

/// A key, its name, and until when it may be used.
pub(super) struct Key {
    name: Option<String>,
    algorithm: Algorithm,
    check: Check,
    /// Distinguishes two keys of the same name, and recognises a key that was listed before.
    fingerprint: [u8; 32],
    /// Nanoseconds on the monotonic clock. Cached tokens that this key verified refer to it.
    until: AtomicU64,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Key")
            .field("name", &self.name)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

impl Key {
    /// An RSA key with this modulus and exponent.
    pub(super) fn rsa(
        name: Option<&str>,
        algorithm: Algorithm,
        modulus: &[u8],
        exponent: &[u8],
    ) -> Option<Self> {
        let components = RsaPublicKeyComponents { n: modulus, e: exponent };
        let check = components.to_parsed_public_key(algorithm.rsa()?).ok()?;
        Some(Self::new(name, algorithm, Check::Public(check), &[modulus, b"\0", exponent]))
    }

    /// A key on a curve: for ECDSA the uncompressed point, for Ed25519 its 32 bytes.
    pub(super) fn curve(name: Option<&str>, algorithm: Algorithm, point: &[u8]) -> Option<Self> {
        let check = ParsedPublicKey::new(algorithm.curve()?, point).ok()?;
        Some(Self::new(name, algorithm, Check::Public(check), &[point]))
    }

    /// A secret shared with an issuer. It has no name and lives as long as the settings.
    pub(super) fn secret(secret: &[u8]) -> Self {
        let check = Check::Secret(Box::new(hmac::Key::new(hmac::HMAC_SHA256, secret)));
        Self::new(None, Algorithm::Hs256, check, &[secret])
    }

    fn new(name: Option<&str>, algorithm: Algorithm, check: Check, material: &[&[u8]]) -> Self {
        let start = [algorithm.name().as_bytes(), b"\0"];
        let fingerprint = sha256_of(&[&start[..], material].concat());
        let until = AtomicU64::new(Timestamp::NEVER.as_nanos());
        Self { name: name.map(str::to_owned), algorithm, check, fingerprint, until }
    }

    /// Verifies the signature of this message.
    pub(super) fn signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.check {
            Check::Public(key) => key.verify_sig(message, signature).is_ok(),
            Check::Secret(key) => hmac::verify(key, message, signature).is_ok(),
        }
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(super) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Whether both are the same key under the same name.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.name == other.name && self.fingerprint == other.fingerprint
    }

    pub(super) fn works_at(&self, now: Timestamp) -> bool {
        now.as_nanos() < self.until.load(Ordering::Acquire)
    }

    /// Whether its issuer still lists it.
    pub(super) fn is_listed(&self) -> bool {
        self.until.load(Ordering::Acquire) == Timestamp::NEVER.as_nanos()
    }

    /// Sets the expiry: its issuer no longer lists it.
    pub(super) fn ends_at(&self, moment: Timestamp) {
        // `NEVER` would mean a listed key.
        self.until.store(moment.as_nanos().min(Timestamp::NEVER.as_nanos() - 1), Ordering::Release);
    }

    /// Removes the expiry: its issuer lists it again.
    pub(super) fn is_back(&self) {
        self.until.store(Timestamp::NEVER.as_nanos(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::{Algorithm, Key};
    use seawall_core::time::Timestamp;

    #[test]
    fn each_algorithm_is_known_in_one_spelling() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::parse(algorithm.name()), Ok(algorithm));
            assert!(Algorithm::parse(&algorithm.name().to_lowercase()).is_err());
        }
        let error = Algorithm::parse("none").unwrap_err().to_string();
        let known = "RS256, RS384, RS512, PS256, ES256, ES384, EdDSA, HS256";
        assert_eq!(error, format!("algorithm: \"none\" is none of {known}"));
    }

    #[test]
    fn a_key_ends_at_its_moment_and_can_come_back() {
        let key = Key::secret(b"secret");
        let moment = Timestamp::from_nanos(10);
        assert!(key.is_listed() && key.works_at(Timestamp::from_nanos(u64::MAX - 1)));
        key.ends_at(moment);
        assert!(!key.is_listed() && key.works_at(Timestamp::from_nanos(9)) && !key.works_at(moment));
        key.ends_at(Timestamp::NEVER);
        assert!(!key.is_listed());
        key.is_back();
        assert!(key.is_listed() && key.works_at(moment));
        assert_eq!(format!("{key:?}"), "Key { name: None, algorithm: Hs256, .. }");
    }

    #[test]
    fn a_key_is_made_for_an_algorithm_of_its_kind_only() {
        let (modulus, exponent, point) = ([0xff; 256], [1, 0, 1], [7; 32]);
        for algorithm in Algorithm::ALL {
            let is_rsa = algorithm.name().contains('S')
                && (algorithm.name().starts_with('R') || algorithm.name().starts_with('P'));
            assert_eq!(Key::rsa(None, algorithm, &modulus, &exponent).is_some(), is_rsa, "{algorithm:?}");
            if algorithm != Algorithm::EdDsa {
                assert!(Key::curve(None, algorithm, &point).is_none(), "{algorithm:?}");
            }
        }
    }

    #[test]
    fn a_key_is_the_same_by_name_and_material() {
        let key =
            |name, algorithm, modulus: u8| Key::rsa(name, algorithm, &[modulus; 256], &[1, 0, 1]).unwrap();
        let one = key(Some("a"), Algorithm::Rs256, 0xff);
        assert!(one.is(&key(Some("a"), Algorithm::Rs256, 0xff)));
        assert!(
            !one.is(&key(Some("b"), Algorithm::Rs256, 0xff)) && !one.is(&key(None, Algorithm::Rs256, 0xff))
        );
        assert!(
            !one.is(&key(Some("a"), Algorithm::Rs384, 0xff))
                && !one.is(&key(Some("a"), Algorithm::Rs256, 0xfd))
        );
    }
}
