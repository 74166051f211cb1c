use super::signer::{
    AUDIENCE, ISSUER, KEYS, NOW, claims, code, entries, issuers, key_of, message, modulus, now, options,
    raw_token, sign, token, with_keys, with_secret,
};
use crate::identity::encoding::{base64url, decode_base64url};
use crate::identity::hash::sha256;
use crate::identity::token::key::VerificationKey;
use crate::identity::token::{IssuerOptions, TokenAlgorithm, TokenIssuers, TokenRefusal, hash_subject};
use crate::identity::{Identity, IdentityKind};
use aws_lc_rs::signature::KeyPair as _;
use proptest::prelude::{prop_assert, proptest};
use proptest::sample;
use seawall_core::time::UtcTime;
use serde_json::{Value, json};

fn header(algorithm: TokenAlgorithm) -> Value {
    json!({ "alg": algorithm.name(), "kid": key_of(algorithm) })
}

#[test]
fn every_algorithm_proves_its_subject() {
    let expected = Identity {
        hash: hash_subject(ISSUER, "alice"),
        kind: IdentityKind::Token,
        expires: Some(UtcTime::from_nanos((NOW + 60) * 1_000_000_000)),
    };
    assert_eq!(expected.hash, sha256(format!("token\0{ISSUER}\0alice").as_bytes()));
    for algorithm in TokenAlgorithm::ALL {
        let issuers = if algorithm == TokenAlgorithm::Hs256 { with_secret() } else { issuers() };
        assert_eq!(issuers.verify(&token(algorithm, &claims()), now()), Ok(expected), "{algorithm:?}");
    }
}

#[test]
fn an_unsigned_token_is_refused_in_any_spelling() {
    for none in ["none", "None", "nOnE", "NONE"] {
        for issuers in [issuers(), with_secret()] {
            let header = json!({ "alg": none, "kid": "rsa" }).to_string();
            let message = message(&header, &claims().to_string());
            assert_eq!(issuers.verify(&format!("{message}."), now()), Err(TokenRefusal::Unsigned));
            let signed = raw_token(TokenAlgorithm::Rs256, &header, &claims().to_string());
            assert_eq!(issuers.verify(&signed, now()), Err(TokenRefusal::Unsigned));
        }
    }
    for unknown in ["", "HS384", "ES512", "rs256", "RS256 ", "none ", "ES256K"] {
        let header = json!({ "alg": unknown }).to_string();
        let token = raw_token(TokenAlgorithm::Rs256, &header, &claims().to_string());
        assert_eq!(issuers().verify(&token, now()), Err(TokenRefusal::AlgorithmUnknown), "{unknown}");
    }
    let unsigned = message(&header(TokenAlgorithm::Rs256).to_string(), &claims().to_string());
    assert_eq!(issuers().verify(&format!("{unsigned}."), now()), Err(TokenRefusal::SignatureInvalid));
}

/// The public key, in every form in which a careless implementation might use it as a secret.
#[test]
fn a_public_key_is_never_a_secret() {
    let der = KEYS.rsa.public_key().as_ref().to_vec();
    let entry = entries()[0].to_string().into_bytes();
    let set = json!({ "keys": entries() }).to_string().into_bytes();
    let pem = format!("-----BEGIN RSA PUBLIC KEY-----\n{}\n-----END RSA PUBLIC KEY-----\n", base64url(&der));
    for secret in [modulus(&KEYS.rsa), der, pem.into_bytes(), entry, set, b"".to_vec(), b"rsa".to_vec()] {
        let message = message(r#"{"alg":"HS256","kid":"rsa"}"#, &claims().to_string());
        let forged = format!("{message}.{}", base64url(&code(&secret, message.as_bytes())));
        assert_eq!(issuers().verify(&forged, now()), Err(TokenRefusal::AlgorithmNotAllowed));
    }
    // Settings cannot allow both either.
    let both = IssuerOptions { algorithms: vec![TokenAlgorithm::Rs256, TokenAlgorithm::Hs256], ..options() };
    assert_eq!(
        both.check().unwrap_err().to_string(),
        "issuer algorithms: HS256 cannot be combined with other algorithms"
    );
    // An issuer with a shared secret accepts no public-key signature.
    let signed = token(TokenAlgorithm::Rs256, &claims());
    assert_eq!(with_secret().verify(&signed, now()), Err(TokenRefusal::AlgorithmNotAllowed));
}

#[test]
fn a_key_signs_with_algorithms_of_its_kind_only() {
    let issuers = issuers();
    for algorithm in TokenAlgorithm::ALL.into_iter().filter(|algorithm| *algorithm != TokenAlgorithm::Hs256) {
        for name in ["rsa", "p256", "p384", "ed25519"] {
            let header = json!({ "alg": algorithm.name(), "kid": name }).to_string();
            let token = raw_token(algorithm, &header, &claims().to_string());
            let expected = if name == key_of(algorithm) { None } else { Some(TokenRefusal::KeyUnknown) };
            assert_eq!(issuers.verify(&token, now()).err(), expected, "{algorithm:?} with {name}");
        }
    }
}

#[test]
fn a_signature_of_another_algorithm_is_wrong() {
    use TokenAlgorithm::{Ps256, Rs256, Rs384, Rs512};
    let issuers = issuers();
    for says in [Rs256, Rs384, Rs512, Ps256] {
        for does in [Rs256, Rs384, Rs512, Ps256] {
            let token = raw_token(does, &header(says).to_string(), &claims().to_string());
            let expected = if says == does { None } else { Some(TokenRefusal::SignatureInvalid) };
            assert_eq!(issuers.verify(&token, now()).err(), expected, "{says:?} by {does:?}");
        }
    }
}

#[test]
fn an_algorithm_that_the_issuer_does_not_use_is_refused() {
    let only = IssuerOptions { algorithms: vec![TokenAlgorithm::Es256], ..options() };
    let issuers = with_keys(only, &entries());
    let refused = Some(TokenRefusal::AlgorithmNotAllowed);
    assert_eq!(issuers.verify(&token(TokenAlgorithm::Rs256, &claims()), now()).err(), refused);
    assert!(issuers.verify(&token(TokenAlgorithm::Es256, &claims()), now()).is_ok());
    let usual = IssuerOptions::new(ISSUER, AUDIENCE);
    assert_eq!(usual.algorithms, [TokenAlgorithm::Rs256, TokenAlgorithm::Es256]);
}

#[test]
fn the_header_cannot_bring_a_key_or_a_demand() {
    use TokenRefusal as No;
    for (name, value, refusal) in [
        ("jwk", entries()[0].clone(), No::KeyEmbedded),
        ("jku", json!("https://evil.example.com/keys"), No::KeyEmbedded),
        ("x5u", json!("https://evil.example.com/cert"), No::KeyEmbedded),
        ("x5c", json!(["MII"]), No::KeyEmbedded),
        ("jwk", Value::Null, No::KeyEmbedded),
        ("crit", json!(["exp"]), No::CriticalExtension),
        ("crit", json!([]), No::CriticalExtension),
        ("typ", json!("dpop+jwt"), No::Type),
        ("typ", json!(""), No::Type),
        ("typ", json!(1), No::Type),
        ("kid", json!(""), No::KeyIdInvalid),
        ("kid", json!(1), No::KeyIdInvalid),
        ("kid", Value::Null, No::KeyIdInvalid),
        ("kid", json!("a\u{0}b"), No::KeyIdInvalid),
        ("kid", json!("a\r\nb"), No::KeyIdInvalid),
        ("kid", json!("k".repeat(257)), No::KeyIdInvalid),
        ("kid", json!("k".repeat(10_240)), No::KeyIdInvalid),
        ("kid", json!("k".repeat(256)), No::KeyUnknown),
        ("kid", json!("../../dev/null"), No::KeyUnknown),
        ("kid", json!("' OR '1'='1"), No::KeyUnknown),
        ("alg", Value::Null, No::HeaderMalformed),
        ("alg", json!(["RS256"]), No::HeaderMalformed),
    ] {
        let mut header = header(TokenAlgorithm::Rs256);
        header[name] = value.clone();
        let token = raw_token(TokenAlgorithm::Rs256, &header.to_string(), &claims().to_string());
        assert_eq!(issuers().verify(&token, now()), Err(refusal), "{name}: {value}");
    }
    for kind in ["JWT", "jwt", "at+jwt", "application/at+jwt"] {
        let mut header = header(TokenAlgorithm::Rs256);
        header["typ"] = json!(kind);
        let token = raw_token(TokenAlgorithm::Rs256, &header.to_string(), &claims().to_string());
        assert!(issuers().verify(&token, now()).is_ok(), "{kind}");
    }
}

#[test]
fn a_token_of_another_shape_is_refused() {
    use TokenRefusal as No;
    let good = token(TokenAlgorithm::Es256, &claims());
    let parts: Vec<&str> = good.split('.').collect();
    let [header, body, seal] = parts[..] else { panic!("three parts") };
    let list = base64url(b"[]");
    for (token, refusal) in [
        (String::new(), No::Malformed),
        ("a".to_owned(), No::Malformed),
        (format!("{header}.{body}"), No::Malformed),
        (format!("{good}."), No::Malformed),
        (format!("{good}.{seal}"), No::Malformed),
        (format!("{header}=.{body}.{seal}"), No::Encoding),
        (format!("{header}.{body}=.{seal}"), No::Encoding),
        (format!("{good}="), No::Encoding),
        (format!("{good}\n"), No::Encoding),
        (format!("{header}.{body}.+{}", &seal[1..]), No::Encoding),
        (format!(".{body}.{seal}"), No::HeaderMalformed),
        (format!("{list}.{body}.{seal}"), No::HeaderMalformed),
        (format!("{header}..{seal}"), No::ClaimsMalformed),
        (format!("{header}.{list}.{seal}"), No::ClaimsMalformed),
        (format!("{header}.{body}.{}", base64url(&[0; 64])), No::SignatureInvalid),
        (format!("{header}.{body}.{}", base64url(&[0; 63])), No::SignatureInvalid),
        (format!("{header}.{body}."), No::SignatureInvalid),
    ] {
        assert_eq!(issuers().verify(&token, now()), Err(refusal), "{token}");
    }
    let twice = raw_token(TokenAlgorithm::Rs256, r#"{"alg":"RS256","alg":"RS256"}"#, &claims().to_string());
    assert_eq!(issuers().verify(&twice, now()), Err(No::DuplicateName));
    let long = |length: usize| format!("{}.{}.", header, "A".repeat(length - header.len() - 2));
    assert_eq!(issuers().verify(&long(16_385), now()), Err(No::TooLong));
    assert_ne!(issuers().verify(&long(16_384), now()), Err(No::TooLong));
}

#[test]
fn published_signatures_hold() {
    let bytes = |text: &str| decode_base64url(text).unwrap();
    let claims =
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    // RFC 7515, appendix A.1.
    let secret = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
    let message = format!("eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.{claims}");
    let signature = bytes("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    assert!(VerificationKey::secret(&bytes(secret)).verifies(message.as_bytes(), &signature));
    // RFC 7515, appendix A.3.
    let x = bytes("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU");
    let y = bytes("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0");
    let key = VerificationKey::curve(None, TokenAlgorithm::Es256, &[&[4][..], &x, &y].concat()).unwrap();
    let signature = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    assert!(key.verifies(format!("eyJhbGciOiJFUzI1NiJ9.{claims}").as_bytes(), &bytes(signature)));
    // RFC 8037, appendix A.4.
    let x = bytes("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
    let key = VerificationKey::curve(None, TokenAlgorithm::EdDsa, &x).unwrap();
    let message = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
    let signature = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    assert!(key.verifies(message.as_bytes(), &bytes(signature)));
    assert!(!key.verifies(b"another message", &bytes(signature)));
}

/// Issuers and a valid token of theirs, made once for many cases.
fn good(algorithm: TokenAlgorithm) -> (TokenIssuers, String) {
    let issuers = if algorithm == TokenAlgorithm::Hs256 { with_secret() } else { issuers() };
    (issuers, token(algorithm, &claims()))
}

proptest! {
    #[test]
    fn any_changed_bit_of_a_token_is_refused(algorithm in sample::select(TokenAlgorithm::ALL.to_vec()), at: sample::Index, bit in 0_u8..7) {
        let (issuers, token) = good(algorithm);
        let at = at.index(token.len());
        let mut changed = token.into_bytes();
        changed[at] ^= 1 << bit;
        prop_assert!(issuers.verify(&String::from_utf8(changed).unwrap(), now()).is_err());
    }

    #[test]
    fn any_changed_bit_of_a_signature_is_refused(algorithm in sample::select(TokenAlgorithm::ALL.to_vec()), at: sample::Index, bit in 0_u8..8) {
        let issuers = if algorithm == TokenAlgorithm::Hs256 { with_secret() } else { issuers() };
        let message = message(&header(algorithm).to_string(), &claims().to_string());
        let mut signature = sign(algorithm, &message);
        let at = at.index(signature.len());
        signature[at] ^= 1 << bit;
        let token = format!("{message}.{}", base64url(&signature));
        prop_assert!(issuers.verify(&token, now()).is_err());
    }

    #[test]
    fn any_text_is_answered(text: String, header: String, body: String) {
        prop_assert!(issuers().verify(&text, now()).is_err());
        let token = [message(&header, &body), text].join(".");
        prop_assert!(issuers().verify(&token, now()).is_err());
    }
}
