//! Tokens at a gate: their callers, and what a settings reload keeps.

use super::{Asked, Desk, proven, refusal};
use crate::identity::Refusal;
use crate::identity::gate::Gate;
use crate::identity::token::tests::signer::{AUDIENCE, ISSUER, SECRET, claims, entries, key_set, now, token};
use crate::identity::token::{Algorithm, TokenRefusal, credential_of_subject};
use seawall_core::vocabulary::Tier;
use seawall_pipeline::callers::{ProofKind, Proven};
use std::sync::Arc;

fn asked(token: &str) -> Asked {
    Asked::new(&[("authorization", &format!("Bearer {token}"))])
}

fn issuer(more: &str) -> String {
    format!("[callers.issuers.shop]\nissuer = {ISSUER:?}\naudience = [{AUDIENCE:?}]\n{more}\n")
}

fn shared(desk: &Desk, more: &str) -> String {
    let secret = desk.file("shared", SECRET);
    issuer(&format!("algorithms = [\"HS256\"]\nsecret = \"file:{secret}\"\n{more}"))
}

fn alice(tier: Tier) -> Proven {
    let hash = credential_of_subject(ISSUER, "alice");
    Proven::Credential { hash, proof: ProofKind::Token, tier: Some(tier) }
}

#[test]
fn a_token_is_its_subject_with_the_tier_of_its_issuer_and_never_its_own() {
    let desk = Desk::new();
    let gate = desk.gate(&shared(&desk, ""));
    let good = asked(&token(Algorithm::Hs256, &claims()));
    assert_eq!(claims()["tier"], "prime");
    assert_eq!(proven(good.before(&gate, now())), alice(Tier::Standard));
    assert_eq!(proven(good.before(&gate, now())), alice(Tier::Standard), "remembered");
    let changed = format!("{}x", token(Algorithm::Hs256, &claims()));
    assert!(matches!(refusal(asked(&changed).before(&gate, now())), Refusal::Token(_)), "no guest");
    let over = super::at(now().utc + std::time::Duration::from_secs(60));
    assert_eq!(refusal(good.before(&gate, over)), TokenRefusal::Expired.into());
}

#[test]
fn an_issuer_that_stays_keeps_what_is_known_and_one_that_goes_takes_it_along() {
    let desk = Desk::new();
    let gate = desk.gate(&shared(&desk, ""));
    let good = asked(&token(Algorithm::Hs256, &claims()));
    assert_eq!(proven(good.before(&gate, now())), alice(Tier::Standard));
    let same = |one: &Gate, other: &Gate| Arc::ptr_eq(&one.made[0].issuer, &other.made[0].issuer);

    let other_tier = gate.renewed(&desk.settings(&shared(&desk, "tier = \"prime\""))).unwrap();
    assert!(same(&gate, &other_tier));
    assert_eq!(proven(good.before(&other_tier, now())), alice(Tier::Prime));

    // Changed terms make another issuer, whatever tokens were verified before.
    let mine = format!("[{AUDIENCE:?}]");
    let other_audience = shared(&desk, "").replace(&mine, "[\"others\"]");
    let other_audience = gate.renewed(&desk.settings(&other_audience)).unwrap();
    assert!(!same(&gate, &other_audience));
    assert_eq!(refusal(good.before(&other_audience, now())), TokenRefusal::AudienceWrong.into());

    let nobody = gate.renewed(&desk.settings("")).unwrap();
    assert_eq!(refusal(good.before(&nobody, now())), TokenRefusal::IssuerUnknown.into());
    // The previous gate is unchanged, for requests that came in through it.
    assert_eq!(proven(good.before(&gate, now())), alice(Tier::Standard));

    let settings = desk.settings(&shared(&desk, ""));
    desk.file("shared", &[b's'; 40]);
    let other_secret = gate.renewed(&settings).unwrap();
    assert!(!same(&gate, &other_secret));
    assert_eq!(refusal(good.before(&other_secret, now())), TokenRefusal::SignatureWrong.into());
}

#[test]
fn keys_in_a_file_are_read_at_the_start_and_with_settings() {
    let desk = Desk::new();
    let keys = desk.file("jwks.json", &key_set(&entries()[1..2]));
    let text = issuer(&format!("algorithms = [\"RS256\", \"ES256\"]\nkeys = \"file:{keys}\""));
    let gate = desk.gate(&text);
    let (es, rs) = (asked(&token(Algorithm::Es256, &claims())), asked(&token(Algorithm::Rs256, &claims())));
    assert_eq!(proven(es.before(&gate, now())), alice(Tier::Standard));
    assert_eq!(refusal(rs.before(&gate, now())), TokenRefusal::KeyUnknown.into(), "nothing to fetch");
    desk.file("jwks.json", &key_set(&entries()[..2]));
    let renewed = gate.renewed(&desk.settings(&text)).unwrap();
    assert!(Arc::ptr_eq(&gate.made[0].issuer, &renewed.made[0].issuer));
    assert_eq!(proven(rs.before(&renewed, now())), alice(Tier::Standard));
    desk.file("jwks.json", b"{}");
    let error = gate.renewed(&desk.settings(&text)).err().unwrap().to_string();
    assert_eq!(
        error,
        format!("callers.issuers.shop.keys: {keys}: the key set is not JSON of the right shape")
    );
    assert!(rs.before(&renewed, now()).is_ok(), "what was in use stays");
    std::fs::remove_file(&keys).unwrap();
    let error = desk.try_gate(&text).err().unwrap().to_string();
    assert!(error.starts_with(&format!("callers.issuers.shop.keys: {keys}: No such file")), "{error}");
}

#[test]
fn an_issuers_secret_that_is_missing_is_named() {
    let desk = Desk::new();
    let text = issuer("algorithms = [\"HS256\"]\nsecret = \"file:no/such\"");
    let error = desk.try_gate(&text).err().unwrap().to_string();
    assert_eq!(error, "callers.issuers.shop.secret: file:no/such: there is no such file");
    let short = desk.file("short", &[b's'; 31]);
    let text = issuer(&format!("algorithms = [\"HS256\"]\nsecret = \"file:{short}\""));
    let error = desk.try_gate(&text).err().unwrap().to_string();
    assert_eq!(error, "callers.issuers.shop: issuer secret: must have at least 32 bytes");
}
