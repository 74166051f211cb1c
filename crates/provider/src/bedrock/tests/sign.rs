//! Compares signatures with AWS's published examples and with its own crate.

use crate::bedrock::sign::{Signature, Signer, SigningEndpoint};
use crate::headers::FixedHeaders;
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use seawall_core::time::UtcTime;
use std::time::{Duration, SystemTime};

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

type Pairs = Vec<(String, String)>;

/// 30 August 2015, 12:36.
fn example_date() -> UtcTime {
    UtcTime::from_civil(2015, 8, 30) + Duration::from_secs(12 * 3_600 + 36 * 60)
}

fn keys(id: &str, secret: &str, token: Option<&str>) -> Credentials {
    Credentials::new(id, secret, token.map(str::to_owned), None, "test")
}

fn recipient<'a>(region: &'a str, path: &'a str) -> SigningEndpoint<'a> {
    SigningEndpoint { region, service: "bedrock", method: "POST", authority: "host", path }
}

fn signer(recipient: &SigningEndpoint<'_>, headers: &[(String, String)]) -> Signer {
    Signer::new(recipient, &FixedHeaders::new(Vec::new(), headers).unwrap()).unwrap()
}

fn pairs(headers: &[(&str, &str)]) -> Pairs {
    headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The same request, signed by AWS's own crate.
fn by_the_vendor(
    recipient: &SigningEndpoint<'_>,
    headers: &[(String, String)],
    credentials: &Credentials,
    date: UtcTime,
    body: &[u8],
) -> Signature {
    let identity = credentials.clone().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(recipient.region)
        .name(recipient.service)
        .time(SystemTime::UNIX_EPOCH + Duration::from_nanos(date.as_nanos()))
        .settings(SigningSettings::default())
        .build()
        .unwrap()
        .into();
    let address = format!("https://{}{}", recipient.authority, recipient.path);
    let ours = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let signable = SignableRequest::new(recipient.method, &address, ours, SignableBody::Bytes(body)).unwrap();
    let (instructions, _) = sign(signable, &params).unwrap().into_parts();
    let value = |wanted: &str| {
        instructions.headers().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned()).unwrap()
    };
    if let Some(token) = credentials.session_token() {
        assert_eq!(value("x-amz-security-token"), token);
    }
    Signature { date: value("x-amz-date"), authorization: value("authorization") }
}

#[test]
fn signatures_are_those_of_the_vendors_examples() {
    let token = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
    for (method, headers, token, signed, signature) in [
        (
            "POST",
            &[][..],
            None,
            "host;x-amz-date",
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ),
        (
            "GET",
            &[],
            Some(token),
            "host;x-amz-date;x-amz-security-token",
            "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
        ),
        (
            "POST",
            &[("My-Header1", "VALUE1")],
            None,
            "host;my-header1;x-amz-date",
            "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
        ),
    ] {
        let authority = "example.amazonaws.com";
        let to = SigningEndpoint { region: "us-east-1", service: "service", method, authority, path: "/" };
        let credentials = keys("AKIDEXAMPLE", SECRET, token);
        let made = signer(&to, &pairs(headers)).sign(&credentials, example_date(), b"").unwrap();
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders={signed}, Signature={signature}"
        );
        assert_eq!(made, Signature { date: "20150830T123600Z".to_owned(), authorization });
    }
}

#[test]
fn everything_that_is_sent_changes_the_signature() {
    let sign = |region: &str, date, path: &str, accept: &str, body: &[u8]| {
        let signer = signer(&recipient(region, path), &pairs(&[("accept", accept)]));
        let signed = signer.sign(&keys("AKIDEXAMPLE", SECRET, None), date, body).unwrap();
        signed.authorization.rsplit_once("Signature=").unwrap().1.to_owned()
    };
    let date = example_date();
    let mut signatures = vec![
        sign("us-east-1", date, "/model/a%3A0/invoke", "x", b"{}"),
        sign("us-east-2", date, "/model/a%3A0/invoke", "x", b"{}"),
        sign("us-east-1", date + Duration::from_secs(1), "/model/a%3A0/invoke", "x", b"{}"),
        sign("us-east-1", date, "/model/a%3A1/invoke", "x", b"{}"),
        sign("us-east-1", date, "/model/a:0/invoke", "x", b"{}"),
        sign("us-east-1", date, "/model/a%3A0/invoke", "y", b"{}"),
        sign("us-east-1", date, "/model/a%3A0/invoke", "x", b"{ }"),
    ];
    let count = signatures.len();
    signatures.sort();
    signatures.dedup();
    assert_eq!(signatures.len(), count);
}

#[test]
fn headers_of_one_call_are_signed_as_those_of_all_calls_are() {
    let (to, keys) = (recipient("us-east-1", "/model/a/invoke"), keys("AKIDEXAMPLE", SECRET, Some("token")));
    let own = [("x-amzn-bedrock-service-tier", "flex"), ("x-amzn-bedrock-guardrailidentifier", " a  b ")];
    let fixed = pairs(&[("accept", "x")]);
    let signer = signer(&to, &fixed);
    let all = [fixed, pairs(&own)].concat();
    let expected = by_the_vendor(&to, &all, &keys, example_date(), b"{}");
    assert_eq!(signer.sign_with(&keys, example_date(), &own, b"{}"), Some(expected));
    let plain = by_the_vendor(&to, &all[..1], &keys, example_date(), b"{}");
    assert_eq!(signer.sign(&keys, example_date(), b"{}"), Some(plain), "they are kept for no other call");
}

#[test]
fn a_header_that_belongs_to_the_signature_is_refused() {
    for name in ["X-Amz-Date", "authorization", "x-amz-Security-token"] {
        let headers = FixedHeaders::new(Vec::new(), &pairs(&[(name, "x")])).unwrap();
        let refusal = Signer::new(&recipient("us-east-1", "/"), &headers).err().unwrap();
        let name = name.to_ascii_lowercase();
        assert_eq!(
            refusal.to_string(),
            format!("headers: {name}: is set by the request signature and cannot be configured")
        );
    }
}

#[test]
fn keys_that_cannot_stand_in_a_header_sign_nothing() {
    let signer = signer(&recipient("us-east-1", "/"), &[]);
    let is_signed = |id, token| signer.sign(&keys(id, SECRET, token), example_date(), b"").is_some();
    assert!(is_signed("AKID", None) && is_signed("AKID", Some("to ken")));
    assert!(!is_signed("AK\nID", None) && !is_signed("AKID", Some("to\rken")));
    assert!(!is_signed("AKID\u{e9}", None) && !is_signed("AKID", Some("\u{7f}")));
    assert!(is_signed("AKID", None), "what cannot be used spoils nothing");
}

/// The prepared state of a signer must be replaced when credentials, session or day change.
#[test]
fn new_keys_and_a_new_day_take_effect_at_once() {
    let to = recipient("eu-west-1", "/model/a/invoke");
    let headers = pairs(&[("accept", "application/json")]);
    let kept = signer(&to, &headers);
    let midnight = UtcTime::from_civil(2026, 11, 17);
    let before = UtcTime::from_nanos(midnight.as_nanos() - 1);
    let late = midnight + Duration::from_secs(86_399);
    for (credentials, date) in [
        (keys("AKID", SECRET, None), before),
        (keys("AKID", SECRET, None), midnight),
        (keys("AKID", SECRET, None), late),
        (keys("AKID", SECRET, None), before),
        (keys("AKID", "another", None), before),
        (keys("OTHER", "another", None), before),
        (keys("OTHER", "another", Some("one")), before),
        (keys("OTHER", "another", Some("two")), before),
        (keys("OTHER", "another", None), before),
    ] {
        for body in [&b"{}"[..], b"[]"] {
            let expected = by_the_vendor(&to, &headers, &credentials, date, body);
            assert_eq!(kept.sign(&credentials, date, body), Some(expected), "{credentials:?} {date:?}");
        }
    }
}

/// Printable text, rich in characters that signatures treat specially.
fn text(longest: usize) -> impl Strategy<Value = String> {
    let piece = prop_oneof![Just(" ".to_owned()), Just("  ".to_owned()), "[!-~]{1,6}"];
    proptest::collection::vec(piece, 0..longest).prop_map(|pieces| pieces.concat())
}

fn header() -> impl Strategy<Value = (String, String)> {
    let name = prop_oneof![
        "[a-zA-Z][a-zA-Z0-9-]{0,8}",
        "[xX]-[aA]mz-[a-z]{1,9}",
        Just("x-amz-datf".to_owned()),
        Just("x-amz-dat".to_owned()),
        Just("User-Agent".to_owned()),
        Just("x-amzn-trace-id".to_owned()),
    ];
    (name, text(5))
}

fn path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("/".to_owned()),
        Just("/.".to_owned()),
        Just("/..".to_owned()),
        Just("/%2F".to_owned()),
        // What a URL path may contain, and what occurs in model names.
        "/[a-zA-Z0-9._~:!$&'()*+,;=%-]{0,8}",
    ];
    proptest::collection::vec(part, 1..6).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn signatures_are_those_of_the_vendors_own_code(
        path in path(),
        authority in "[a-z][a-z0-9.-]{0,12}(:8[0-9]{1,3})?",
        headers in proptest::collection::vec(header(), 0..6),
        id in "[A-Z0-9]{1,20}",
        secret in "[ -~]{0,80}",
        token in proptest::option::of("[!-~]{1,40}"),
        nanos in 0..7_000_000_000_000_000_000_u64,
        body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut headers = headers;
        let own = ["host", "content-length", "connection", "x-amz-date", "accept-encoding"];
        let is_kept = |at: usize, name: &str, all: &Pairs| {
            !own.iter().any(|own| name.eq_ignore_ascii_case(own))
                && !all[..at].iter().any(|(before, _)| before.eq_ignore_ascii_case(name))
        };
        let all = headers.clone();
        let mut at = 0;
        headers.retain(|(name, _)| {
            at += 1;
            is_kept(at - 1, name, &all)
        });
        let to = SigningEndpoint { region: "eu-central-1", service: "bedrock", method: "POST", authority: &authority, path: &path };
        let (credentials, date) = (keys(&id, &secret, token.as_deref()), UtcTime::from_nanos(nanos));
        let ours = signer(&to, &headers).sign(&credentials, date, &body);
        prop_assert_eq!(ours, Some(by_the_vendor(&to, &headers, &credentials, date, &body)));
    }
}
