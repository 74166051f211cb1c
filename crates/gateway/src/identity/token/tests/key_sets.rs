use super::signer::{KEYS, entries, key_set, modulus, rsa_entry};
use crate::identity::encoding::base64url;
use crate::identity::token::{JsonWebKeySet, KeySetError, SkippedKey};
use proptest::collection;
use proptest::prelude::{any, proptest};
use serde_json::{Value, json};

/// Why this key is skipped in a key set beside one valid key.
fn skipped(entry: &Value) -> Vec<SkippedKey> {
    let good = entries().remove(3);
    JsonWebKeySet::parse(&key_set(&[entry.clone(), good])).unwrap().skipped().to_vec()
}

fn rsa_with(name: &str, value: Value) -> Value {
    let mut entry = rsa_entry("a", &KEYS.rsa);
    entry[name] = value;
    entry
}

#[test]
fn keys_of_other_kinds_are_passed_over() {
    use SkippedKey::{Malformed, OtherUse, Unsupported};
    let mut p256 = entries().remove(1);
    p256["alg"] = json!("ES384");
    for (entry, why) in [
        (json!({}), Unsupported),
        (json!({ "kty": "oct", "k": "c2VjcmV0", "alg": "HS256", "kid": "rsa" }), Unsupported),
        (json!({ "kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA" }), Unsupported),
        (json!({ "kty": "OKP", "crv": "X25519", "x": "AA" }), Unsupported),
        (rsa_with("kty", json!("rsa")), Unsupported),
        (rsa_with("alg", json!("RS1")), Unsupported),
        (rsa_with("alg", json!("HS256")), Unsupported),
        (p256, Unsupported),
        (rsa_with("use", json!("enc")), OtherUse),
        (rsa_with("key_ops", json!(["sign"])), OtherUse),
        (rsa_with("key_ops", json!([])), OtherUse),
        (rsa_with("key_ops", json!("verify")), Malformed),
        (rsa_with("kid", json!(1)), Malformed),
        (rsa_with("kid", json!("")), Malformed),
        (rsa_with("kid", json!("k".repeat(257))), Malformed),
        (rsa_with("n", Value::Null), Malformed),
        (rsa_with("n", json!("")), Malformed),
        (rsa_with("n", json!("AQAB=")), Malformed),
        (rsa_with("e", json!("")), Malformed),
        (rsa_with("e", json!("AAEAAQ")), Malformed),
    ] {
        assert_eq!(skipped(&entry), [why], "{entry}");
    }
    for entry in [
        rsa_with("alg", json!("PS256")),
        rsa_with("key_ops", json!(["verify"])),
        rsa_with("x5c", json!(["MII"])),
    ] {
        assert!(skipped(&entry).is_empty(), "{entry}");
    }
}

#[test]
fn points_that_are_not_on_their_curve_are_passed_over() {
    let change = |place: usize, name: &str, value: &str| {
        let mut entry = entries().remove(place);
        entry[name] = json!(value);
        entry["kid"] = json!("changed");
        skipped(&entry)
    };
    let zeros = |length| base64url(&vec![0; length]);
    for (place, width) in [(1, 32), (2, 48)] {
        assert_eq!(change(place, "x", &zeros(width)), [SkippedKey::Malformed]);
        assert_eq!(change(place, "y", &zeros(width)), [SkippedKey::Malformed]);
        assert_eq!(change(place, "x", &zeros(width - 1)), [SkippedKey::Malformed]);
        assert_eq!(change(place, "y", &zeros(width + 1)), [SkippedKey::Malformed]);
    }
    assert_eq!(change(3, "x", &zeros(31)), [SkippedKey::Malformed]);
    assert_eq!(change(1, "crv", "P-384"), [SkippedKey::Malformed]);
}

/// An odd number of this many bits.
fn odd(bits: usize) -> Value {
    let mut bytes = vec![0xff; bits.div_ceil(8)];
    bytes[0] >>= bytes.len() * 8 - bits;
    json!(base64url(&bytes))
}

#[test]
fn weak_and_absurd_rsa_keys_are_passed_over() {
    use SkippedKey::{Malformed, Weak};
    for (name, value, why) in [
        ("n", odd(1_024), Some(Weak)),
        ("n", odd(2_047), Some(Weak)),
        ("n", odd(2_048), None),
        ("n", odd(8_192), None),
        ("n", odd(8_193), Some(Malformed)),
        ("n", json!(base64url(&[0xfe; 256])), Some(Malformed)),
        ("n", json!(base64url(&[&[0][..], &modulus(&KEYS.rsa)].concat())), Some(Malformed)),
        ("e", json!(base64url(&[3])), Some(Weak)),
        ("e", json!(base64url(&[0xff, 0xff])), Some(Weak)),
        ("e", json!(base64url(&[1, 0, 3])), None),
        ("e", json!(base64url(&[1, 0, 2])), Some(Malformed)),
        ("e", json!(base64url(&[0xff; 4])), None),
        ("e", json!(base64url(&[1, 0, 0, 0, 1])), Some(Malformed)),
        ("e", json!(base64url(&[1, 0, 0, 0, 0, 0, 0, 0, 1])), Some(Malformed)),
    ] {
        assert_eq!(skipped(&rsa_with(name, value.clone())), Vec::from_iter(why), "{name}: {value}");
    }
    let only = JsonWebKeySet::parse(&key_set(&[rsa_with("n", odd(1_024))]));
    assert_eq!(only.unwrap_err(), KeySetError::NoUsableKey);
}

#[test]
fn a_set_that_is_not_one_is_refused_as_a_whole() {
    let parse = |text: &str| JsonWebKeySet::parse(text.as_bytes()).unwrap_err();
    for text in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[1]}"#, r#"{"keys":[]} x"#] {
        assert_eq!(parse(text), KeySetError::Malformed, "{text}");
    }
    assert_eq!(parse(r#"{"keys":[]}"#), KeySetError::NoUsableKey);
    assert_eq!(parse(r#"{"keys":[],"keys":[]}"#), KeySetError::DuplicateName);
    assert_eq!(parse(r#"{"keys":[{"kid":"a","kid":"b"}]}"#), KeySetError::DuplicateName);
    let many = |count: usize| {
        let others = (1..count).map(|_| json!({ "kty": "other" }));
        key_set(&others.chain([rsa_entry("a", &KEYS.rsa)]).collect::<Vec<_>>())
    };
    assert!(JsonWebKeySet::parse(&many(64)).is_ok());
    assert_eq!(JsonWebKeySet::parse(&many(65)).unwrap_err(), KeySetError::TooManyKeys);
    let mut long = key_set(&entries());
    long.resize(256 * 1024, b' ');
    assert!(JsonWebKeySet::parse(&long).is_ok());
    long.push(b' ');
    assert_eq!(JsonWebKeySet::parse(&long).unwrap_err(), KeySetError::TooLong);
}

#[test]
fn two_keys_of_one_name_and_algorithm_are_refused() {
    let [first, second] = [&KEYS.rsa, &KEYS.other_rsa].map(|key| rsa_entry("a", key));
    let same = JsonWebKeySet::parse(&key_set(&[first.clone(), second.clone()]));
    assert_eq!(same.unwrap_err(), KeySetError::DuplicateKeyId);
    let mut curve = entries().remove(1);
    curve["kid"] = json!("a");
    assert!(JsonWebKeySet::parse(&key_set(&[first.clone(), curve])).is_ok());
    let nameless = [first, second].map(|mut entry| {
        entry.as_object_mut().unwrap().remove("kid");
        entry
    });
    assert!(JsonWebKeySet::parse(&key_set(&nameless)).is_ok());
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in collection::vec(any::<u8>(), 0..60)) {
        let _ = JsonWebKeySet::parse(&bytes);
        let entry = json!({ "kty": "RSA", "n": base64url(&bytes), "e": "AQAB" });
        let _ = JsonWebKeySet::parse(&key_set(&[entry]));
        let entry = json!({ "kty": "OKP", "crv": "Ed25519", "x": base64url(&bytes) });
        let _ = JsonWebKeySet::parse(&key_set(&[entry]));
    }
}
