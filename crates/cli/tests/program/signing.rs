//! Valid and forged credentials: tokens of an issuer, and signatures over requests.

use anyhow::{Context as _, bail};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use base64_simd::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const ISSUER: &str = "https://login.example.com/";
pub(crate) const AUDIENCE: &str = "seawall";

/// An issuer of tokens.
pub(crate) struct Issuer {
    key: KeyPair,
}

impl Issuer {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self { key: KeyPair::generate(KeySize::Rsa2048).ok().context("no key")? })
    }

    /// The public key as an entry of a key set.
    pub(crate) fn entry(&self) -> anyhow::Result<Value> {
        let public = self.key.public_key().as_ref();
        // The bytes between the fixed beginning and end of a public key of 2048 bits.
        let modulus = public.strip_prefix(&[0x30, 0x82, 1, 10, 2, 0x82, 1, 1, 0]);
        let Some(modulus) = modulus.and_then(|rest| rest.strip_suffix(&[2, 3, 1, 0, 1])) else {
            bail!("another form of a public key")
        };
        let modulus = URL_SAFE_NO_PAD.encode_to_string(modulus);
        Ok(json!({ "kty": "RSA", "kid": "first", "use": "sig", "n": modulus, "e": "AQAB" }))
    }

    /// The public key, in every form in which a careless implementation might use it as a secret.
    pub(crate) fn public_forms(&self) -> anyhow::Result<Vec<Vec<u8>>> {
        let entry = self.entry()?;
        let modulus = entry["n"].as_str().unwrap_or_default().to_owned();
        let public = self.key.public_key().as_ref();
        let pem = format!(
            "-----BEGIN RSA PUBLIC KEY-----\n{}\n-----END RSA PUBLIC KEY-----\n",
            base64_simd::STANDARD.encode_to_string(public)
        );
        Ok(vec![public.to_vec(), pem.into_bytes(), entry.to_string().into_bytes(), modulus.into_bytes()])
    }

    /// A token of these texts, signed whatever they contain.
    pub(crate) fn sign(&self, header: &str, claims: &str) -> anyhow::Result<String> {
        let message = unsigned(header, claims);
        let mut signature = vec![0; 256];
        let signed =
            self.key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature);
        signed.ok().context("cannot sign")?;
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode_to_string(&signature)))
    }

    /// A token with these claims.
    pub(crate) fn token(&self, claims: &Value) -> anyhow::Result<String> {
        self.sign(&header().to_string(), &claims.to_string())
    }
}

/// The first two parts of a token.
pub(crate) fn unsigned(header: &str, claims: &str) -> String {
    format!("{}.{}", URL_SAFE_NO_PAD.encode_to_string(header), URL_SAFE_NO_PAD.encode_to_string(claims))
}

/// The same under a shared secret.
pub(crate) fn with_secret(secret: &[u8], header: &str, claims: &str) -> String {
    let message = unsigned(header, claims);
    let code = keyed(secret, message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode_to_string(code))
}

pub(crate) fn header() -> Value {
    json!({ "alg": "RS256", "kid": "first", "typ": "JWT" })
}

/// The claims of a valid token.
pub(crate) fn claims() -> Value {
    json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": seconds() + 600 })
}

/// The current Unix time in seconds.
pub(crate) fn seconds() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "a running program compares it with the clock of the machine"
    )]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

fn keyed(secret: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message).as_ref().to_vec()
}

/// The headers of a request to the host `test` with an AWS signature (version 4). `at` has the format
/// `20261116T120000Z`.
pub(crate) fn signed(id: &str, secret: &str, at: &str, path: &str, body: &[u8]) -> String {
    let (day, region, service) = (&at[..8], "ap-northeast-1", "bedrock");
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let hash = |bytes: &[u8]| hex::encode(Sha256::digest(bytes));
    let canonical = format!("POST\n{path}\n\nhost:test\nx-amz-date:{at}\n\nhost;x-amz-date\n{}", hash(body));
    let to_sign = format!("AWS4-HMAC-SHA256\n{at}\n{scope}\n{}", hash(canonical.as_bytes()));
    let parts = [day, region, service, "aws4_request"];
    let key =
        parts.iter().fold(format!("AWS4{secret}").into_bytes(), |key, part| keyed(&key, part.as_bytes()));
    let signature = hex::encode(keyed(&key, to_sign.as_bytes()));
    format!(
        "x-amz-date: {at}\r\nauthorization: AWS4-HMAC-SHA256 Credential={id}/{scope}, \
         SignedHeaders=host;x-amz-date, Signature={signature}\r\n"
    )
}

/// A time in the format of these signatures.
pub(crate) fn stamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since the first of March of the year 0, in eras of 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (date, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}{month:02}{date:02}T{:02}{:02}{:02}Z", rest / 3_600, rest / 60 % 60, rest % 60)
}
