use super::signer::{
    AUDIENCE, ISSUER, NOW, claims, entries, issuers, later, now, options, raw_token, token, with_keys,
};
use crate::identity::token::{IssuerOptions, TokenAlgorithm, TokenIssuers, TokenRefusal as No, hash_subject};
use serde_json::{Value, json};
use std::time::Duration;

const RS: TokenAlgorithm = TokenAlgorithm::Rs256;

/// A token with this claim.
fn with(name: &str, value: &Value) -> String {
    let mut claims = claims();
    claims[name] = value.clone();
    token(RS, &claims)
}

fn without(name: &str) -> String {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    token(RS, &claims)
}

#[test]
fn each_claim_that_is_needed_is_needed() {
    let issuers = issuers();
    for (name, refusal) in [
        ("iss", No::IssuerMissing),
        ("aud", No::AudienceMissing),
        ("exp", No::ExpiryMissing),
        ("sub", No::SubjectMissing),
    ] {
        assert_eq!(issuers.verify(&without(name), now()), Err(refusal), "{name}");
    }
}

#[test]
fn claims_that_say_something_else_are_refused() {
    let issuers = issuers();
    for (name, value, refusal) in [
        ("iss", json!("https://login.example.com"), No::IssuerUnknown),
        ("iss", json!(""), No::IssuerUnknown),
        ("iss", json!([ISSUER]), No::IssuerMissing),
        ("aud", json!("seawall2"), No::AudienceMismatch),
        ("aud", json!(""), No::AudienceMismatch),
        ("aud", json!([]), No::AudienceMismatch),
        ("aud", json!(["other", "another"]), No::AudienceMismatch),
        ("aud", json!([AUDIENCE, 1]), No::AudienceMismatch),
        ("aud", json!({ AUDIENCE: 1 }), No::AudienceMismatch),
        ("aud", Value::Null, No::AudienceMismatch),
        ("aud", json!(vec![AUDIENCE; 65]), No::AudienceMismatch),
        ("sub", json!(""), No::SubjectMissing),
        ("sub", Value::Null, No::SubjectInvalid),
        ("sub", json!(7), No::SubjectInvalid),
        ("sub", json!("alice\n{\"forged\":1}"), No::SubjectInvalid),
        ("sub", json!("\u{1b}[31malice"), No::SubjectInvalid),
        ("sub", json!("a\u{0}b"), No::SubjectInvalid),
        ("sub", json!("a".repeat(513)), No::SubjectInvalid),
        ("exp", json!(NOW), No::Expired),
        ("exp", json!(NOW - 1), No::Expired),
        ("exp", json!(0), No::Expired),
        ("exp", json!((NOW + 60).to_string()), No::TimeInvalid),
        ("exp", json!(1e300), No::TimeInvalid),
        ("exp", json!(1_800_000_060.5), No::TimeInvalid),
        ("exp", json!(1_800_000_060.0), No::TimeInvalid),
        ("exp", json!(-1), No::TimeInvalid),
        ("exp", json!(u64::MAX), No::TimeInvalid),
        ("exp", json!(18_446_744_074_u64), No::TimeInvalid),
        ("exp", Value::Null, No::TimeInvalid),
        ("exp", json!(true), No::TimeInvalid),
        ("nbf", json!(NOW + 1), No::NotYetValid),
        ("nbf", json!("soon"), No::TimeInvalid),
        ("nbf", Value::Null, No::TimeInvalid),
        ("iat", json!(NOW + 1), No::IssuedInFuture),
        ("iat", json!(1.5), No::TimeInvalid),
    ] {
        assert_eq!(issuers.verify(&with(name, &value), now()), Err(refusal), "{name}: {value}");
    }
}

#[test]
fn claims_at_their_bounds_are_accepted() {
    let issuers = issuers();
    for (name, value) in [
        ("aud", json!([AUDIENCE])),
        ("aud", json!(["other", AUDIENCE])),
        ("aud", json!(vec![AUDIENCE; 64])),
        ("sub", json!("a".repeat(512))),
        ("sub", json!("ürsula {tag} *")),
        ("exp", json!(NOW + 1)),
        ("exp", json!(18_446_744_073_u64)),
        ("nbf", json!(NOW)),
        ("nbf", json!(0)),
        ("iat", json!(NOW)),
    ] {
        assert!(issuers.verify(&with(name, &value), now()).is_ok(), "{name}: {value}");
    }
}

#[test]
fn numbers_that_json_can_write_and_nobody_can_read_are_refused() {
    let header = json!({ "alg": "RS256", "kid": "rsa" }).to_string();
    for (number, refusal) in [
        ("1e309", No::ClaimsMalformed),
        ("NaN", No::ClaimsMalformed),
        ("1800000060.0", No::TimeInvalid),
        ("18e8", No::TimeInvalid),
        ("-0", No::TimeInvalid),
        ("99999999999999999999999", No::TimeInvalid),
    ] {
        let text = format!(r#"{{"iss":"{ISSUER}","aud":"{AUDIENCE}","sub":"alice","exp":{number}}}"#);
        assert_eq!(issuers().verify(&raw_token(RS, &header, &text), now()), Err(refusal), "{number}");
    }
}

#[test]
fn a_claim_that_comes_twice_is_refused() {
    let header = json!({ "alg": "RS256", "kid": "rsa" }).to_string();
    for extra in [
        r#""sub":"alice","sub":"bob""#,
        r#""sub":"alice","\u0073ub":"bob""#,
        r#""sub":"a","x":{"y":1,"y":2}"#,
    ] {
        let text = format!(r#"{{"iss":"{ISSUER}","aud":"{AUDIENCE}","exp":{},{extra}}}"#, NOW + 60);
        assert_eq!(
            issuers().verify(&raw_token(RS, &header, &text), now()),
            Err(No::DuplicateName),
            "{extra}"
        );
    }
}

#[test]
fn leeway_moves_all_three_times() {
    let leeway = Duration::from_secs(30);
    let issuers = with_keys(IssuerOptions { leeway, ..options() }, &entries());
    let verify = |name: &str, value: u64| issuers.verify(&with(name, &json!(value)), now());
    assert_eq!(verify("exp", NOW - 30), Err(No::Expired));
    let identity = verify("exp", NOW - 29).unwrap();
    assert_eq!(identity.expires, Some(later(1).utc));
    assert!(verify("nbf", NOW + 30).is_ok() && verify("iat", NOW + 30).is_ok());
    assert_eq!(
        (verify("nbf", NOW + 31), verify("iat", NOW + 31)),
        (Err(No::NotYetValid), Err(No::IssuedInFuture))
    );
    assert_eq!(IssuerOptions::new("a", "b").leeway, Duration::ZERO);
}

/// A cached token is valid no longer than an uncached one, and no earlier when a clock is set back.
#[test]
fn cached_tokens_keep_their_validity_period() {
    let issuers = issuers();
    let mut claims = claims();
    claims["nbf"] = json!(NOW);
    let token = token(RS, &claims);
    assert!(issuers.verify(&token, now()).is_ok() && issuers.verify(&token, later(59)).is_ok());
    assert_eq!(issuers.verify(&token, later(60)), Err(No::Expired));
    assert!(issuers.verify(&token, now()).is_ok());
    let mut back = now();
    back.utc = seawall_core::time::UtcTime::from_nanos(back.utc.as_nanos() - 1);
    assert_eq!(issuers.verify(&token, back), Err(No::NotYetValid));
}

#[test]
fn there_is_room_for_a_hundred_thousand_tokens() {
    assert_eq!(super::super::CACHE_CAPACITY, 100_000);
}

#[test]
fn whatever_else_a_token_claims_does_not_change_who_it_is() {
    let issuers = issuers();
    let plain = issuers.verify(&without("tier"), now()).unwrap();
    assert_eq!(issuers.verify(&with("tier", &json!("prime")), now()), Ok(plain));
    assert_eq!(issuers.verify(&with("groups", &json!(["admin"])), now()), Ok(plain));
}

#[test]
fn the_same_name_at_two_issuers_is_two_people() {
    let second = IssuerOptions { name: "https://other.example.com".to_owned(), ..options() };
    let all = [options(), second].map(|options| {
        let issuer = options.check().unwrap();
        let set = super::super::JsonWebKeySet::parse(&super::signer::key_set(&entries())).unwrap();
        issuer.ring().unwrap().replace(set, now().monotonic);
        issuer
    });
    let issuers = TokenIssuers::new(all.into()).unwrap();
    let one = issuers.verify(&with("iss", &json!(ISSUER)), now()).unwrap();
    let other = issuers.verify(&with("iss", &json!("https://other.example.com")), now()).unwrap();
    assert_ne!(one.hash, other.hash);
    assert_eq!(other.hash, hash_subject("https://other.example.com", "alice"));
    let twice = TokenIssuers::new(vec![options().check().unwrap(), options().check().unwrap()]).unwrap_err();
    assert_eq!(twice.to_string(), format!("issuers: {ISSUER:?} is configured twice"));
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    let secret = || IssuerOptions::with_secret("i", "a", vec![7; 32]);
    let plain = || IssuerOptions::new("i", "a");
    let day = Duration::from_secs(86_400);
    let nano = Duration::from_nanos(1);
    for (options, problem) in [
        (
            IssuerOptions { name: String::new(), ..plain() },
            "issuer name: must have 1 to 512 bytes and no control characters",
        ),
        (
            IssuerOptions { name: "a\0".to_owned(), ..plain() },
            "issuer name: must have 1 to 512 bytes and no control characters",
        ),
        (
            IssuerOptions { audiences: vec![], ..plain() },
            "issuer audiences: must name at least one, and none may be empty",
        ),
        (
            IssuerOptions { audiences: vec![String::new()], ..plain() },
            "issuer audiences: must name at least one, and none may be empty",
        ),
        (IssuerOptions { algorithms: vec![], ..plain() }, "issuer algorithms: must name at least one"),
        (
            IssuerOptions { secret: None, ..secret() },
            "issuer secret: is required with HS256, and only then allowed",
        ),
        (
            IssuerOptions { secret: Some(vec![7; 32]), ..plain() },
            "issuer secret: is required with HS256, and only then allowed",
        ),
        (
            IssuerOptions { secret: Some(vec![7; 31]), ..secret() },
            "issuer secret: must have at least 32 bytes",
        ),
        (
            IssuerOptions { leeway: Duration::from_secs(300) + nano, ..plain() },
            "issuer leeway: must not be longer than 5 minutes",
        ),
        (IssuerOptions { grace: day + nano, ..plain() }, "issuer grace: must not be longer than a day"),
        (
            IssuerOptions { max_key_age: Duration::from_secs(10) - nano, ..plain() },
            "issuer max_key_age: must not be shorter than 10 seconds",
        ),
    ] {
        assert!(!format!("{options:?}").contains("7, 7"), "a secret shows itself");
        assert_eq!(options.check().unwrap_err().to_string(), problem);
    }
    let least = Duration::from_secs(10);
    let bounds =
        IssuerOptions { leeway: Duration::from_secs(300), grace: day, max_key_age: least, ..plain() };
    assert!(bounds.check().is_ok() && secret().check().unwrap().ring().is_none());
}
