//! A test issuer: keys, key sets and tokens.

use crate::identity::encoding::base64url;
use crate::identity::token::{IssuerOptions, TokenAlgorithm, TokenIssuer, TokenIssuers};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256,
};
use seawall_core::time::{Now, Timestamp, UtcTime};
use serde_json::{Value, json};
use std::sync::LazyLock;
use std::time::Duration;

pub(in crate::identity) const ISSUER: &str = "https://login.example.com/";
pub(in crate::identity) const AUDIENCE: &str = "seawall";
pub(in crate::identity) const SECRET: &[u8] = b"a secret that is shared, of 32 bytes or more";
pub(in crate::identity) const NOW: u64 = 1_800_000_000;

/// One key of each kind, generated once: RSA keys take a while.
pub(in crate::identity) struct Keys {
    pub(in crate::identity) rsa: RsaKeyPair,
    pub(in crate::identity) other_rsa: RsaKeyPair,
    p256: EcdsaKeyPair,
    p384: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
}

pub(in crate::identity) static KEYS: LazyLock<Keys> = LazyLock::new(|| Keys {
    rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
    other_rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
    p256: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
    p384: EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap(),
    ed25519: Ed25519KeyPair::generate().unwrap(),
});

/// This many seconds after [`NOW`].
pub(in crate::identity) fn later(seconds: u64) -> Now {
    let start = Now::new(Timestamp::from_nanos(1_000), UtcTime::from_nanos(NOW * 1_000_000_000));
    start + Duration::from_secs(seconds)
}

pub(in crate::identity) fn now() -> Now {
    later(0)
}

/// The modulus of a 2048-bit key: the bytes between the fixed beginning and end of its public form.
pub(in crate::identity) fn modulus(key: &RsaKeyPair) -> Vec<u8> {
    let public = key.public_key().as_ref();
    let inner = public.strip_prefix(&[0x30, 0x82, 1, 10, 2, 0x82, 1, 1, 0]).unwrap();
    inner.strip_suffix(&[2, 3, 1, 0, 1]).unwrap().to_vec()
}

pub(in crate::identity) fn rsa_entry(name: &str, key: &RsaKeyPair) -> Value {
    json!({ "kty": "RSA", "kid": name, "use": "sig", "n": base64url(&modulus(key)), "e": "AQAB" })
}

/// The entries of a key set: `rsa`, `p256`, `p384` and `ed25519`.
pub(in crate::identity) fn entries() -> Vec<Value> {
    let point = |name: &str, curve: &str, key: &EcdsaKeyPair| {
        let point = key.public_key().as_ref();
        let (x, y) = point[1..].split_at(point.len() / 2);
        json!({ "kty": "EC", "crv": curve, "kid": name, "x": base64url(x), "y": base64url(y) })
    };
    let ed25519 = base64url(KEYS.ed25519.public_key().as_ref());
    vec![
        rsa_entry("rsa", &KEYS.rsa),
        point("p256", "P-256", &KEYS.p256),
        point("p384", "P-384", &KEYS.p384),
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": "ed25519", "x": ed25519 }),
    ]
}

pub(in crate::identity) fn key_set(entries: &[Value]) -> Vec<u8> {
    json!({ "keys": entries }).to_string().into_bytes()
}

/// The name of the key for this algorithm.
pub(in crate::identity) fn key_of(algorithm: TokenAlgorithm) -> &'static str {
    match algorithm {
        TokenAlgorithm::Es256 => "p256",
        TokenAlgorithm::Es384 => "p384",
        TokenAlgorithm::EdDsa => "ed25519",
        _ => "rsa",
    }
}

pub(in crate::identity) fn sign(algorithm: TokenAlgorithm, message: &str) -> Vec<u8> {
    let (random, message) = (SystemRandom::new(), message.as_bytes());
    let rsa = |encoding| {
        let mut signature = vec![0; 256];
        KEYS.rsa.sign(encoding, &random, message, &mut signature).unwrap();
        signature
    };
    match algorithm {
        TokenAlgorithm::Rs256 => rsa(&RSA_PKCS1_SHA256),
        TokenAlgorithm::Rs384 => rsa(&RSA_PKCS1_SHA384),
        TokenAlgorithm::Rs512 => rsa(&RSA_PKCS1_SHA512),
        TokenAlgorithm::Ps256 => rsa(&RSA_PSS_SHA256),
        TokenAlgorithm::Es256 => KEYS.p256.sign(&random, message).unwrap().as_ref().to_vec(),
        TokenAlgorithm::Es384 => KEYS.p384.sign(&random, message).unwrap().as_ref().to_vec(),
        TokenAlgorithm::EdDsa => KEYS.ed25519.sign(message).as_ref().to_vec(),
        TokenAlgorithm::Hs256 => code(SECRET, message),
    }
}

pub(in crate::identity) fn code(secret: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message).as_ref().to_vec()
}

/// The first two parts of a token, from texts that need not be JSON.
pub(in crate::identity) fn message(header: &str, claims: &str) -> String {
    format!("{}.{}", base64url(header.as_bytes()), base64url(claims.as_bytes()))
}

/// A token of these texts, signed by this algorithm whatever the header says.
pub(in crate::identity) fn raw_token(algorithm: TokenAlgorithm, header: &str, claims: &str) -> String {
    let message = message(header, claims);
    format!("{message}.{}", base64url(&sign(algorithm, &message)))
}

pub(in crate::identity) fn claims() -> Value {
    json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW + 60, "tier": "prime" })
}

pub(in crate::identity) fn token(algorithm: TokenAlgorithm, claims: &Value) -> String {
    let header = json!({ "alg": algorithm.name(), "kid": key_of(algorithm), "typ": "JWT" });
    raw_token(algorithm, &header.to_string(), &claims.to_string())
}

pub(in crate::identity) fn options() -> IssuerOptions {
    let public = TokenAlgorithm::ALL.into_iter().filter(|algorithm| *algorithm != TokenAlgorithm::Hs256);
    IssuerOptions { algorithms: public.collect(), ..IssuerOptions::new(ISSUER, AUDIENCE) }
}

/// The issuer with these keys on its list.
pub(in crate::identity) fn with_keys(options: IssuerOptions, entries: &[Value]) -> TokenIssuers {
    let issuer: TokenIssuer = options.check().unwrap();
    let set = super::super::JsonWebKeySet::parse(&key_set(entries)).unwrap();
    issuer.ring().unwrap().replace(set, now().monotonic);
    TokenIssuers::new(vec![issuer]).unwrap()
}

pub(in crate::identity) fn issuers() -> TokenIssuers {
    with_keys(options(), &entries())
}

pub(in crate::identity) fn with_secret() -> TokenIssuers {
    let issuer = IssuerOptions::with_secret(ISSUER, AUDIENCE, SECRET.to_vec()).check().unwrap();
    TokenIssuers::new(vec![issuer]).unwrap()
}
