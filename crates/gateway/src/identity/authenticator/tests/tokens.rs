//! Tokens at an authenticator: their callers, and what a settings reload keeps.

use super::{Asked, Desk, identity, refusal};
use crate::identity::AuthenticationRefusal;
use crate::identity::authenticator::Authenticator;
use crate::identity::token::tests::signer::{AUDIENCE, ISSUER, SECRET, claims, entries, key_set, now, token};
use crate::identity::token::{TokenAlgorithm, TokenRefusal, hash_subject};
use seawall_core::vocabulary::Tier;
use seawall_pipeline::callers::{CallerIdentity, CredentialKind};
use std::sync::Arc;

fn requested(token: &str) -> Asked {
    Asked::new(&[("authorization", &format!("Bearer {token}"))])
}

fn issuer(more: &str) -> String {
    format!("[callers.issuers.shop]\nissuer = {ISSUER:?}\naudience = [{AUDIENCE:?}]\n{more}\n")
}

fn shared(node: &Desk, more: &str) -> String {
    let secret = node.file("shared", SECRET);
    issuer(&format!("algorithms = [\"HS256\"]\nsecret = \"file:{secret}\"\n{more}"))
}

fn alice(tier: Tier) -> CallerIdentity {
    let hash = hash_subject(ISSUER, "alice");
    CallerIdentity::Credential { hash, kind: CredentialKind::Token, tier: Some(tier) }
}

#[test]
fn a_token_is_its_subject_with_the_tier_of_its_issuer_and_never_its_own() {
    let node = Desk::new();
    let authenticator = node.authenticator(&shared(&node, ""));
    let good = requested(&token(TokenAlgorithm::Hs256, &claims()));
    assert_eq!(claims()["tier"], "prime");
    assert_eq!(identity(good.before(&authenticator, now())), alice(Tier::Standard));
    assert_eq!(identity(good.before(&authenticator, now())), alice(Tier::Standard), "remembered");
    let changed = format!("{}x", token(TokenAlgorithm::Hs256, &claims()));
    assert!(
        matches!(refusal(requested(&changed).before(&authenticator, now())), AuthenticationRefusal::Token(_)),
        "no guest"
    );
    let over = super::at(now().utc + std::time::Duration::from_secs(60));
    assert_eq!(refusal(good.before(&authenticator, over)), TokenRefusal::Expired.into());
}

#[test]
fn an_issuer_that_stays_keeps_what_is_known_and_one_that_goes_takes_it_along() {
    let node = Desk::new();
    let authenticator = node.authenticator(&shared(&node, ""));
    let good = requested(&token(TokenAlgorithm::Hs256, &claims()));
    assert_eq!(identity(good.before(&authenticator, now())), alice(Tier::Standard));
    let same = |one: &Authenticator, other: &Authenticator| {
        Arc::ptr_eq(&one.configured[0].issuer, &other.configured[0].issuer)
    };

    let other_tier = authenticator.rebuild(&node.settings(&shared(&node, "tier = \"prime\""))).unwrap();
    assert!(same(&authenticator, &other_tier));
    assert_eq!(identity(good.before(&other_tier, now())), alice(Tier::Prime));

    // Changed terms make another issuer, whatever tokens were verified before.
    let mine = format!("[{AUDIENCE:?}]");
    let other_audience = shared(&node, "").replace(&mine, "[\"others\"]");
    let other_audience = authenticator.rebuild(&node.settings(&other_audience)).unwrap();
    assert!(!same(&authenticator, &other_audience));
    assert_eq!(refusal(good.before(&other_audience, now())), TokenRefusal::AudienceMismatch.into());

    let nobody = authenticator.rebuild(&node.settings("")).unwrap();
    assert_eq!(refusal(good.before(&nobody, now())), TokenRefusal::IssuerUnknown.into());
    // The previous gate is unchanged, for requests that came in through it.
    assert_eq!(identity(good.before(&authenticator, now())), alice(Tier::Standard));

    let settings = node.settings(&shared(&node, ""));
    node.file("shared", &[b's'; 40]);
    let other_secret = authenticator.rebuild(&settings).unwrap();
    assert!(!same(&authenticator, &other_secret));
    assert_eq!(refusal(good.before(&other_secret, now())), TokenRefusal::SignatureInvalid.into());
}

#[test]
fn keys_in_a_file_are_read_at_the_start_and_with_settings() {
    let node = Desk::new();
    let keys = node.file("jwks.json", &key_set(&entries()[1..2]));
    let text = issuer(&format!("algorithms = [\"RS256\", \"ES256\"]\njwks = \"file:{keys}\""));
    let authenticator = node.authenticator(&text);
    let (es, rs) = (
        requested(&token(TokenAlgorithm::Es256, &claims())),
        requested(&token(TokenAlgorithm::Rs256, &claims())),
    );
    assert_eq!(identity(es.before(&authenticator, now())), alice(Tier::Standard));
    assert_eq!(
        refusal(rs.before(&authenticator, now())),
        TokenRefusal::KeyUnknown.into(),
        "nothing to fetch"
    );
    node.file("jwks.json", &key_set(&entries()[..2]));
    let renewed = authenticator.rebuild(&node.settings(&text)).unwrap();
    assert!(Arc::ptr_eq(&authenticator.configured[0].issuer, &renewed.configured[0].issuer));
    assert_eq!(identity(rs.before(&renewed, now())), alice(Tier::Standard));
    node.file("jwks.json", b"{}");
    let error = authenticator.rebuild(&node.settings(&text)).err().unwrap().to_string();
    assert_eq!(
        error,
        format!(
            "callers.issuers.shop.jwks: {keys}: the key set is not a JSON object with a list of objects as keys"
        )
    );
    assert!(rs.before(&renewed, now()).is_ok(), "what was in use stays");
    std::fs::remove_file(&keys).unwrap();
    let error = node.try_build(&text).err().unwrap().to_string();
    assert!(error.starts_with(&format!("callers.issuers.shop.jwks: {keys}: No such file")), "{error}");
}

#[test]
fn an_issuers_secret_that_is_missing_is_named() {
    let node = Desk::new();
    let text = issuer("algorithms = [\"HS256\"]\nsecret = \"file:no/such\"");
    let error = node.try_build(&text).err().unwrap().to_string();
    assert_eq!(error, "callers.issuers.shop.secret: file:no/such: file not found");
    let short = node.file("short", &[b's'; 31]);
    let text = issuer(&format!("algorithms = [\"HS256\"]\nsecret = \"file:{short}\""));
    let error = node.try_build(&text).err().unwrap().to_string();
    assert_eq!(error, "callers.issuers.shop: issuer secret: must have at least 32 bytes");
}
