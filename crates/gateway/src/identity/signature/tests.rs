use super::{
    AccessKey, MAX_SKEW, SignatureRefusal, Signatures, SignedRequest, canonical, hash_access_key, sign,
    signing_time,
};
use crate::identity::hash::sha256;
use crate::identity::{Identity, IdentityKind};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};
use proptest::prelude::{prop_assert, proptest};
use proptest::sample;
use seawall_core::time::UtcTime;
use std::sync::LazyLock;
use std::time::Duration;

/// The secret under which the recorded requests were signed.
const MASTER: &[u8] = b"a master secret that is 32 bytes or longer";
const ID: &str = "SWAKABCDEFGHIJKLMNOP";

/// Requests as the vendor's clients for Python (boto3 1.44.0) and JavaScript (3.1161.0) sent them to a recorder. Only
/// `user-agent`, which neither signs, was left out.
static RECORDED: LazyLock<Vec<Recorded>> = LazyLock::new(|| {
    let all: serde_json::Value = serde_json::from_str(include_str!("clients.json")).unwrap();
    all.as_array().unwrap().iter().map(Recorded::read).collect()
});

#[derive(Clone, Debug)]
struct Recorded {
    client: String,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Vec<u8>,
    /// The time of the signature.
    at: UtcTime,
}

impl Recorded {
    fn read(value: &serde_json::Value) -> Self {
        let text = |name: &str| value[name].as_str().unwrap().to_owned();
        let mut headers = HeaderMap::new();
        for pair in value["headers"].as_array().unwrap() {
            let name: HeaderName = pair[0].as_str().unwrap().parse().unwrap();
            headers.append(name, pair[1].as_str().unwrap().parse().unwrap());
        }
        let (_, at) = signing_time(&headers).unwrap();
        Self {
            at,
            client: text("client"),
            method: text("method").parse().unwrap(),
            uri: text("target").parse().unwrap(),
            headers,
            body: text("body").into_bytes(),
        }
    }

    fn set(&mut self, name: &'static str, value: &str) {
        self.headers.insert(name, HeaderValue::from_str(value).unwrap());
    }

    fn replace(&mut self, name: &'static str, from: &str, to: &str) {
        let value = self.headers[name].to_str().unwrap().replace(from, to);
        self.set(name, &value);
    }

    fn verify_at(&self, now: UtcTime) -> Result<Identity, SignatureRefusal> {
        let authorization = self.headers["authorization"].to_str().unwrap();
        let authorization = authorization.strip_prefix("AWS4-HMAC-SHA256 ").unwrap();
        let Self { method, uri, headers, body, .. } = self;
        let request = SignedRequest { authorization, method, uri, headers };
        Signatures::new(MASTER).unwrap().verify(&request, body, now)
    }

    fn verify(&self) -> Result<Identity, SignatureRefusal> {
        self.verify_at(self.at)
    }
}

fn first(client: &str) -> Recorded {
    RECORDED.iter().find(|recorded| recorded.client == client).unwrap().clone()
}

#[test]
fn requests_that_real_clients_signed_are_theirs() {
    let expected = Identity { hash: hash_access_key(ID), kind: IdentityKind::Signature, expires: None };
    for (client, times) in [("python", 4), ("node", 3), ("node over HTTP/2", 1)] {
        assert_eq!(RECORDED.iter().filter(|recorded| recorded.client == client).count(), times);
    }
    for recorded in RECORDED.iter() {
        assert_eq!(recorded.verify(), Ok(expected), "{recorded:?}");
    }
    assert_eq!(expected.hash, sha256(format!("signature\0{ID}").as_bytes()));
}

/// If a client states the hash of its body, a wrong signature can be detected before the body arrives.
#[test]
fn a_stated_hash_lets_a_wrong_signature_be_refused_without_the_body() {
    let inspect = |recorded: &Recorded| {
        let authorization = recorded.headers["authorization"].to_str().unwrap();
        let authorization = authorization.strip_prefix("AWS4-HMAC-SHA256 ").unwrap();
        let Recorded { method, uri, headers, .. } = recorded;
        let request = SignedRequest { authorization, method, uri, headers };
        Signatures::new(MASTER).unwrap().inspect(&request, recorded.at)
    };
    let mut stated = 0;
    for recorded in RECORDED.iter() {
        assert_eq!(inspect(recorded).map(|identity| identity.hash), Ok(hash_access_key(ID)));
        let mut forged = recorded.clone();
        let last = forged.headers["authorization"].to_str().unwrap().to_owned();
        let other = if last.ends_with('0') { "1" } else { "0" };
        forged.set("authorization", &format!("{}{other}", &last[..last.len() - 1]));
        let states = recorded.headers.contains_key("x-amz-content-sha256");
        stated += usize::from(states);
        let expected = if states { Err(SignatureRefusal::Mismatch) } else { Ok(()) };
        assert_eq!(inspect(&forged).map(drop), expected, "{}", recorded.client);
        assert_eq!(forged.verify(), Err(SignatureRefusal::Mismatch));
    }
    assert!((1..RECORDED.len()).contains(&stated), "there are clients of both kinds: {stated}");
}

#[test]
fn a_key_is_derived_and_not_kept() {
    let signatures = Signatures::new(MASTER).unwrap();
    let mut random = [0; 10];
    random[9] = 31;
    let key = signatures.create(&random);
    assert_eq!(key.id, "SWAKAAAAAAAAAAAAAAA7");
    assert_eq!(signatures.derive_secret(ID), "zN5WSdzNhhz1Oa_LIBOS7-nJ-PNbY55j5PseNFvN0dw");
    assert_eq!(key, AccessKey { secret: signatures.derive_secret(&key.id), id: key.id.clone() });
    assert_eq!(
        format!("{key:?} {signatures:?}"),
        "AccessKey { id: \"SWAKAAAAAAAAAAAAAAA7\", .. } Signatures"
    );
    let error = Signatures::new(&MASTER[..31]).unwrap_err().to_string();
    assert_eq!(error, "master secret: must have at least 32 bytes");
    assert!(Signatures::new(&MASTER[..32]).is_ok());
}

#[test]
fn a_date_may_be_five_minutes_off_and_no_more() {
    let request = first("python");
    assert_eq!(request.headers["x-amz-date"], "20261116T023601Z");
    let signed = UtcTime::from_civil(2026, 11, 16) + Duration::from_secs((2 * 60 + 36) * 60 + 1);
    let nano = Duration::from_nanos(1);
    assert_eq!(MAX_SKEW, Duration::from_secs(300));
    assert!(request.verify_at(signed + MAX_SKEW).is_ok());
    assert_eq!(request.verify_at(signed + MAX_SKEW + nano), Err(SignatureRefusal::ClockSkew));
    let before =
        |skew: Duration| UtcTime::from_nanos(signed.as_nanos() - u64::try_from(skew.as_nanos()).unwrap());
    assert!(request.verify_at(before(MAX_SKEW)).is_ok());
    assert_eq!(request.verify_at(before(MAX_SKEW + nano)), Err(SignatureRefusal::ClockSkew));
}

/// A change to a valid request, and the refusal it must cause.
type Change = (fn(&mut Recorded), SignatureRefusal);

#[test]
fn each_change_is_refused_for_its_reason() {
    use SignatureRefusal as No;
    let changes: [Change; 22] = [
        (|it| it.body.push(b' '), No::PayloadMismatch),
        (|it| it.set("x-amz-content-sha256", "UNSIGNED-PAYLOAD"), No::PayloadUnsigned),
        (|it| it.set("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), No::PayloadUnsigned),
        (|it| it.set("x-amz-content-sha256", &"0".repeat(64)), No::PayloadMismatch),
        (
            |it| {
                it.headers.append("x-amz-content-sha256", HeaderValue::from_static(""));
            },
            No::PayloadMismatch,
        ),
        (|it| it.method = Method::PUT, No::Mismatch),
        (|it| it.uri = "/model/other/converse".parse().unwrap(), No::Mismatch),
        (|it| it.uri = format!("{}?a=b", it.uri).parse().unwrap(), No::Mismatch),
        (|it| it.uri = format!("/x/..{}", it.uri).parse().unwrap(), No::PathNotCanonical),
        (|it| it.set("content-type", "text/plain"), No::Mismatch),
        (|it| it.set("host", "elsewhere"), No::Mismatch),
        (
            |it| {
                it.headers.remove("amz-sdk-request");
            },
            No::HeaderListInvalid,
        ),
        (|it| it.set("x-amz-date", "20261116T023603Z"), No::Mismatch),
        (|it| it.set("x-amz-date", "20261117T023602Z"), No::ScopeDateMismatch),
        (|it| it.set("x-amz-date", "2026-11-16T02:36:02Z"), No::DateMalformed),
        (
            |it| {
                it.headers.remove("x-amz-date");
            },
            No::DateMalformed,
        ),
        (
            |it| {
                it.headers.append("x-amz-date", HeaderValue::from_static("20261116T023602Z"));
            },
            No::DateMalformed,
        ),
        (|it| it.set("x-amz-security-token", "session"), No::SessionToken),
        (|it| it.replace("authorization", "us-west-2", "us-west-1"), No::Mismatch),
        (|it| it.replace("authorization", "/bedrock/", "/s3/"), No::Scope),
        (|it| it.replace("authorization", "MNOP", "MNOQ"), No::Mismatch),
        (|it| it.replace("authorization", "host;", ""), No::HeadersUnsigned),
    ];
    for (place, (change, refusal)) in changes.into_iter().enumerate() {
        let mut request = first("node");
        change(&mut request);
        assert_eq!(request.verify(), Err(refusal), "change {place}");
    }
}

#[test]
fn an_id_or_a_signature_of_another_shape_is_refused() {
    use SignatureRefusal as No;
    for (from, to, refusal) in [
        ("SWAKABCDEFGHIJKLMNOP", "AKIAABCDEFGHIJKLMNOP", No::KeyIdMalformed),
        ("SWAKABCDEFGHIJKLMNOP", "SWAKABCDEFGHIJKLMNO", No::KeyIdMalformed),
        ("SWAKABCDEFGHIJKLMNOP", "SWAKABCDEFGHIJKLMNOPA", No::KeyIdMalformed),
        ("SWAKABCDEFGHIJKLMNOP", "SWAKABCDEFGHIJKLMNO1", No::KeyIdMalformed),
        ("SWAKABCDEFGHIJKLMNOP", "SWAKABCDEFGHIJKLMNOp", No::KeyIdMalformed),
        ("SWAKABCDEFGHIJKLMNOP", "", No::KeyIdMalformed),
        ("Signature=", "Signature=0", No::Malformed),
        ("Signature=d", "Signature=D", No::Malformed),
        ("Signature=d", "Signature=", No::Malformed),
        ("Signature=d", "Signature=e", No::Mismatch),
    ] {
        let mut request = first("python");
        assert!(request.headers["authorization"].to_str().unwrap().contains(from), "{from}");
        request.replace("authorization", from, to);
        assert_eq!(request.verify(), Err(refusal), "{to}");
    }
}

/// A request of the vendor's published test suite: method, path, headers, body and signature.
type Published<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, &'a str);

/// The relevant requests of the suite. The others are about unencoded paths, session tokens, or paths that we refuse.
const PUBLISHED: &[Published<'_>] = &[
    ("GET", "/", &[], "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    ("POST", "/", &[], "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    (
        "GET",
        "/?Param2=value2&Param1=value1",
        &[],
        "",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    ("GET", "/?Param1=value1", &[], "", "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"),
    (
        "GET",
        "/",
        &[("my-header1", " value1"), ("my-header2", " \"a   b   c\"")],
        "",
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    ),
    (
        "GET",
        "/",
        &[("my-header1", "value2"), ("my-header1", "value2"), ("my-header1", "value1")],
        "",
        "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
    ),
    (
        "POST",
        "/",
        &[("my-header1", "value1")],
        "",
        "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
    ),
    (
        "POST",
        "/",
        &[("content-type", "application/x-www-form-urlencoded")],
        "Param1=value1",
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    ),
    (
        "GET",
        "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        &[],
        "",
        "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
    ),
];

#[test]
fn published_requests_have_their_published_signatures() {
    let (date, secret) = ("20150830T123600Z", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    for (method, address, extra, body, published) in PUBLISHED {
        let fixed = [("host", "example.amazonaws.com"), ("x-amz-date", date)];
        let mut headers = HeaderMap::new();
        for (name, value) in fixed.iter().chain(*extra) {
            headers.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let (method, uri): (Method, Uri) = (method.parse().unwrap(), address.parse().unwrap());
        let request = SignedRequest { authorization: "", method: &method, uri: &uri, headers: &headers };
        let canonical =
            canonical::request(&request, &names.join(";"), &hex::encode(sha256(body.as_bytes()))).unwrap();
        let hash = hex::encode(sha256(canonical.as_bytes()));
        let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n20150830/us-east-1/service/aws4_request\n{hash}");
        let signature = sign(secret, ["20150830", "us-east-1", "service"], &to_sign);
        assert_eq!(hex::encode(signature), *published, "{canonical}");
    }
}

proptest! {
    #[test]
    fn any_changed_bit_of_what_is_signed_is_refused(
        which: sample::Index,
        part in 0_usize..5,
        at: sample::Index,
        bit in 0_u8..7,
    ) {
        let mut request = which.get(&RECORDED).clone();
        let flip = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            bytes
        };
        let before = request.clone();
        match part {
            0 => request.body = flip(&request.body),
            1 => {
                if let Ok(uri) = Uri::try_from(flip(request.uri.to_string().as_bytes())) {
                    request.uri = uri;
                }
            }
            2 => {
                if let Ok(date) = HeaderValue::from_bytes(&flip(request.headers["x-amz-date"].as_bytes())) {
                    request.headers.insert("x-amz-date", date);
                }
            }
            _ => {
                // The whole header after its scheme: the id, the scope, the list and the signature.
                let (scheme, rest) = request.headers["authorization"].as_bytes().split_at(17);
                if let Ok(value) = HeaderValue::from_bytes(&[scheme, &flip(rest)].concat()) && value.to_str().is_ok() {
                    request.headers.insert("authorization", value);
                }
            }
        }
        // Blanks between the header's parts are not significant, and neither the URI scheme nor a fragment is signed.
        let only_blanks = |request: &Recorded| request.headers["authorization"].to_str().unwrap().replace(' ', "");
        let changed = request.body != before.body
            || request.uri.authority() != before.uri.authority()
            || request.uri.path_and_query() != before.uri.path_and_query()
            || request.headers["x-amz-date"] != before.headers["x-amz-date"]
            || only_blanks(&request) != only_blanks(&before);
        prop_assert!(!changed || request.verify().is_err(), "{request:?}");
    }
}
