//! One verification key for one algorithm.
//!
//! A key verifies signatures of the algorithm it was made for and of no other, so a public key can never be used as an
//! HMAC secret. It also has an expiry: a key that its issuer revoked expires at a set time, and with it
//! every cached token that it verified.

use crate::identity::hash::sha256_concat;
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
pub enum TokenAlgorithm {
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

impl TokenAlgorithm {
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
        Self::from_name(name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            SettingError::new("algorithm", format!("{name:?} is none of {known}"))
        })
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
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
enum KeyMaterial {
    Public(ParsedPublicKey),
    Secret(Box<hmac::Key>),
}

/// A key, its name, and until when it may be used.
pub(super) struct VerificationKey {
    name: Option<String>,
    algorithm: TokenAlgorithm,
    material: KeyMaterial,
    /// Distinguishes two keys of the same name, and recognises a key that was listed before.
    fingerprint: [u8; 32],
    /// Nanoseconds on the monotonic clock. Cached tokens that this key verified refer to it.
    until: AtomicU64,
}

impl std::fmt::Debug for VerificationKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("VerificationKey")
            .field("name", &self.name)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

impl VerificationKey {
    /// An RSA key with this modulus and exponent.
    pub(super) fn rsa(
        name: Option<&str>,
        algorithm: TokenAlgorithm,
        modulus: &[u8],
        exponent: &[u8],
    ) -> Option<Self> {
        let components = RsaPublicKeyComponents { n: modulus, e: exponent };
        let material = components.to_parsed_public_key(algorithm.rsa()?).ok()?;
        Some(Self::new(name, algorithm, KeyMaterial::Public(material), &[modulus, b"\0", exponent]))
    }

    /// A key on a curve: for ECDSA the uncompressed point, for Ed25519 its 32 bytes.
    pub(super) fn curve(name: Option<&str>, algorithm: TokenAlgorithm, point: &[u8]) -> Option<Self> {
        let material = ParsedPublicKey::new(algorithm.curve()?, point).ok()?;
        Some(Self::new(name, algorithm, KeyMaterial::Public(material), &[point]))
    }

    /// A secret shared with an issuer. It has no name and lives as long as the settings.
    pub(super) fn secret(secret: &[u8]) -> Self {
        let material = KeyMaterial::Secret(Box::new(hmac::Key::new(hmac::HMAC_SHA256, secret)));
        Self::new(None, TokenAlgorithm::Hs256, material, &[secret])
    }

    fn new(
        name: Option<&str>,
        algorithm: TokenAlgorithm,
        material: KeyMaterial,
        fingerprinted: &[&[u8]],
    ) -> Self {
        let start = [algorithm.name().as_bytes(), b"\0"];
        let fingerprint = sha256_concat(&[&start[..], fingerprinted].concat());
        let until = AtomicU64::new(Timestamp::NEVER.as_nanos());
        Self { name: name.map(str::to_owned), algorithm, material, fingerprint, until }
    }

    /// Verifies the signature of this message.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            KeyMaterial::Public(key) => key.verify_sig(message, signature).is_ok(),
            KeyMaterial::Secret(key) => hmac::verify(key, message, signature).is_ok(),
        }
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(super) fn algorithm(&self) -> TokenAlgorithm {
        self.algorithm
    }

    /// Whether both are the same key under the same name.
    pub(super) fn is_same_key(&self, other: &Self) -> bool {
        self.name == other.name && self.fingerprint == other.fingerprint
    }

    pub(super) fn is_valid_at(&self, now: Timestamp) -> bool {
        now.as_nanos() < self.until.load(Ordering::Acquire)
    }

    /// Whether its issuer still lists it.
    pub(super) fn is_listed(&self) -> bool {
        self.until.load(Ordering::Acquire) == Timestamp::NEVER.as_nanos()
    }

    /// Sets the expiry: its issuer no longer lists it.
    pub(super) fn expire_at(&self, moment: Timestamp) {
        // `NEVER` would mean a listed key.
        self.until.store(moment.as_nanos().min(Timestamp::NEVER.as_nanos() - 1), Ordering::Release);
    }

    /// Removes the expiry: its issuer lists it again.
    pub(super) fn restore(&self) {
        self.until.store(Timestamp::NEVER.as_nanos(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::{TokenAlgorithm, VerificationKey};
    use seawall_core::time::Timestamp;

    #[test]
    fn each_algorithm_is_known_in_one_spelling() {
        for algorithm in TokenAlgorithm::ALL {
            assert_eq!(TokenAlgorithm::parse(algorithm.name()), Ok(algorithm));
            assert!(TokenAlgorithm::parse(&algorithm.name().to_lowercase()).is_err());
        }
        let error = TokenAlgorithm::parse("none").unwrap_err().to_string();
        let known = "RS256, RS384, RS512, PS256, ES256, ES384, EdDSA, HS256";
        assert_eq!(error, format!("algorithm: \"none\" is none of {known}"));
    }

    #[test]
    fn a_key_ends_at_its_moment_and_can_come_back() {
        let key = VerificationKey::secret(b"secret");
        let moment = Timestamp::from_nanos(10);
        assert!(key.is_listed() && key.is_valid_at(Timestamp::from_nanos(u64::MAX - 1)));
        key.expire_at(moment);
        assert!(!key.is_listed() && key.is_valid_at(Timestamp::from_nanos(9)) && !key.is_valid_at(moment));
        key.expire_at(Timestamp::NEVER);
        assert!(!key.is_listed());
        key.restore();
        assert!(key.is_listed() && key.is_valid_at(moment));
        assert_eq!(format!("{key:?}"), "VerificationKey { name: None, algorithm: Hs256, .. }");
    }

    #[test]
    fn a_key_is_made_for_an_algorithm_of_its_kind_only() {
        let (modulus, exponent, point) = ([0xff; 256], [1, 0, 1], [7; 32]);
        for algorithm in TokenAlgorithm::ALL {
            let is_rsa = algorithm.name().contains('S')
                && (algorithm.name().starts_with('R') || algorithm.name().starts_with('P'));
            assert_eq!(
                VerificationKey::rsa(None, algorithm, &modulus, &exponent).is_some(),
                is_rsa,
                "{algorithm:?}"
            );
            if algorithm != TokenAlgorithm::EdDsa {
                assert!(VerificationKey::curve(None, algorithm, &point).is_none(), "{algorithm:?}");
            }
        }
    }

    #[test]
    fn a_key_is_the_same_by_name_and_material() {
        let key = |name, algorithm, modulus: u8| {
            VerificationKey::rsa(name, algorithm, &[modulus; 256], &[1, 0, 1]).unwrap()
        };
        let one = key(Some("a"), TokenAlgorithm::Rs256, 0xff);
        assert!(one.is_same_key(&key(Some("a"), TokenAlgorithm::Rs256, 0xff)));
        assert!(
            !one.is_same_key(&key(Some("b"), TokenAlgorithm::Rs256, 0xff))
                && !one.is_same_key(&key(None, TokenAlgorithm::Rs256, 0xff))
        );
        assert!(
            !one.is_same_key(&key(Some("a"), TokenAlgorithm::Rs384, 0xff))
                && !one.is_same_key(&key(Some("a"), TokenAlgorithm::Rs256, 0xfd))
        );
    }
}
