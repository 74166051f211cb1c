use super::{CredentialError, HttpRequestHead, MAX_CREDENTIAL_LENGTH, RequestCredential, extract_credential};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};
use proptest::prelude::{any, prop_assert, proptest};
use proptest::{collection, sample};
use std::net::{IpAddr, Ipv4Addr};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The credential that was found, with its text.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Key(String),
    Token(String),
    Signed(String),
    Nobody(Option<String>),
}

fn look(uri: &str, headers: &[(&'static str, &[u8])]) -> Result<Found, CredentialError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
    }
    let uri: Uri = uri.parse().unwrap();
    let found = extract_credential(HttpRequestHead {
        method: &Method::POST,
        uri: &uri,
        headers: &map,
        address: HERE,
    })?;
    let text = format!("{found:?}");
    for (_, value) in headers.iter().filter(|(_, value)| value.len() > 8) {
        assert!(!text.contains(std::str::from_utf8(value).unwrap_or("never")), "a proof shows itself");
    }
    Ok(match found {
        RequestCredential::ApiKey(key) => Found::Key(key.to_owned()),
        RequestCredential::Token(token) => Found::Token(token.to_owned()),
        RequestCredential::Signed(signed) => Found::Signed(signed.authorization.to_owned()),
        RequestCredential::Anonymous { cookie, address } => {
            assert_eq!(address, HERE);
            Found::Nobody(cookie.map(str::to_owned))
        }
    })
}

fn found(headers: &[(&'static str, &[u8])]) -> Result<Found, CredentialError> {
    look("/v1/messages", headers)
}

#[test]
fn each_credential_is_recognised_by_its_format() {
    let key = |text: &str| Ok(Found::Key(text.to_owned()));
    assert_eq!(found(&[("x-api-key", b"sw_a_b")]), key("sw_a_b"));
    assert_eq!(found(&[("x-api-key", b" any.opaque.key ")]), key("any.opaque.key"));
    assert_eq!(found(&[("authorization", b"Bearer sw_a_b")]), key("sw_a_b"));
    assert_eq!(found(&[("authorization", b"bearer  sk-ant-1")]), key("sk-ant-1"));
    assert_eq!(found(&[("authorization", b"BEARER dotted.opaque.key")]), key("dotted.opaque.key"));
    for opaque in ["eyJhIjoxfQ.e30", "eyJhIjoxfQ.a.b.c.d", "evJh.e30.c2ln", "fyJh.e30.c2ln", "e", "e.."] {
        assert_eq!(found(&[("authorization", format!("Bearer {opaque}").as_bytes())]), key(opaque));
    }
    for token in
        ["eyJhIjoxfQ.e30.c2ln", "eyJhIjoxfQ.e30.", "ewogfQ.e30.c2ln", "e30.e30.c2ln", "ezzz.e30.c2ln"]
    {
        let header = format!("Bearer {token}");
        assert_eq!(found(&[("authorization", header.as_bytes())]), Ok(Found::Token(token.to_owned())));
    }
    let signed = Ok(Found::Signed("Credential=a, SignedHeaders=b".to_owned()));
    assert_eq!(found(&[("authorization", b"AWS4-HMAC-SHA256 Credential=a, SignedHeaders=b")]), signed);
}

#[test]
fn two_credentials_are_refused() {
    let bearer: (&str, &[u8]) = ("authorization", b"Bearer sw_a_b");
    assert_eq!(found(&[bearer, bearer]), Err(CredentialError::Repeated));
    assert_eq!(found(&[bearer, ("authorization", b"Bearer other")]), Err(CredentialError::Repeated));
    assert_eq!(found(&[("x-api-key", b"sw_a_b"), ("x-api-key", b"sw_a_b")]), Err(CredentialError::Repeated));
    assert_eq!(found(&[("x-api-key", b"sw_a_c"), bearer]), Err(CredentialError::Several));
    assert_eq!(
        found(&[("x-api-key", b"a"), ("authorization", b"AWS4-HMAC-SHA256 a")]),
        Err(CredentialError::Several)
    );
}

#[test]
fn the_same_credential_in_both_headers_is_one() {
    let key = Ok(Found::Key("sw_a_b".to_owned()));
    assert_eq!(found(&[("x-api-key", b"sw_a_b"), ("authorization", b"Bearer sw_a_b")]), key);
    let token = "eyJhIjoxfQ.e30.c2ln";
    let bearer = format!("Bearer {token}");
    let both: [(&str, &[u8]); 2] = [("x-api-key", token.as_bytes()), ("authorization", bearer.as_bytes())];
    assert_eq!(found(&both), Ok(Found::Token(token.to_owned())));
    for authorization in [&b"Basic sw_a_b"[..], b"Bearer", b"Bearer sw_a_b x"] {
        assert!(found(&[("x-api-key", b"sw_a_b"), ("authorization", authorization)]).is_err());
    }
}

#[test]
fn malformed_credentials_are_refused() {
    for (header, value, refusal) in [
        ("x-api-key", &b""[..], CredentialError::Empty),
        ("x-api-key", b"  ", CredentialError::Empty),
        ("x-api-key", b"a b", CredentialError::Malformed),
        ("x-api-key", b"a\tb", CredentialError::Malformed),
        ("x-api-key", b"\xffkey", CredentialError::Malformed),
        ("authorization", b"", CredentialError::Empty),
        ("authorization", b"Bearer", CredentialError::Empty),
        ("authorization", b"Bearer  ", CredentialError::Empty),
        ("authorization", b" sw_a_b", CredentialError::Empty),
        ("authorization", b"Bearer a b", CredentialError::Malformed),
        ("authorization", b"Bearer a\tb", CredentialError::Malformed),
        ("authorization", b"Bearer \xc3\xa4", CredentialError::Malformed),
        ("authorization", b"Basic YTpi", CredentialError::Scheme),
        ("authorization", b"aws4-hmac-sha256 Credential=a", CredentialError::Scheme),
        ("authorization", b"sw_a_b x", CredentialError::Scheme),
    ] {
        assert_eq!(found(&[(header, value)]), Err(refusal), "{header}: {value:?}");
    }
}

#[test]
fn a_header_may_be_as_long_as_the_longest_and_no_longer() {
    let longest = vec![b'k'; MAX_CREDENTIAL_LENGTH];
    assert_eq!(MAX_CREDENTIAL_LENGTH, 16_384);
    assert!(found(&[("x-api-key", &longest)]).is_ok());
    for name in ["x-api-key", "authorization", "cookie"] {
        assert_eq!(found(&[(name, &[&longest[..], b"k"].concat())]), Err(CredentialError::TooLong), "{name}");
    }
    assert_eq!(found(&[("cookie", &longest)]), Ok(Found::Nobody(None)));
}

#[test]
fn only_the_guests_own_cookie_is_read() {
    let nobody = |cookie: Option<&str>| Ok(Found::Nobody(cookie.map(str::to_owned)));
    assert_eq!(found(&[]), nobody(None));
    assert_eq!(found(&[("cookie", b"a=b; seawall_guest=x.1.y;c=\xff")]), nobody(Some("x.1.y")));
    assert_eq!(found(&[("cookie", b"a=b"), ("cookie", b"seawall_guest=x")]), nobody(Some("x")));
    assert_eq!(found(&[("cookie", b"seawall_guest=")]), nobody(Some("")));
    for other in [
        &b"seawall_guest"[..],
        b"xseawall_guest=a",
        b"seawall_guests=a",
        b"Seawall_guest=a",
        b"seawall_guest =a",
    ] {
        assert_eq!(found(&[("cookie", other)]), nobody(None));
    }
    assert_eq!(found(&[("cookie", b"seawall_guest=a; seawall_guest=a")]), Err(CredentialError::Repeated));
    assert_eq!(
        found(&[("cookie", b"seawall_guest=a"), ("cookie", b"seawall_guest=b")]),
        Err(CredentialError::Repeated)
    );
    assert_eq!(found(&[("cookie", b"seawall_guest=a b")]), Err(CredentialError::Malformed));
    assert_eq!(found(&[("cookie", b"seawall_guest=\xff")]), Err(CredentialError::Malformed));
    assert_eq!(found(&[("cookie", b"seawall_guest=a"), ("x-api-key", b"k")]), Ok(Found::Key("k".to_owned())));
}

#[test]
fn a_credential_in_the_query_is_refused_even_beside_a_valid_one() {
    for (query, expected) in [
        ("key=sw_a_b", CredentialError::InQuery),
        ("beta=true&api_key=sw_a_b", CredentialError::InQuery),
        ("API-Key=sw_a_b", CredentialError::InQuery),
        ("%61pi%5Fkey=sw_a_b", CredentialError::InQuery),
        ("access_token=eyJhIjoxfQ.e30.c2ln", CredentialError::InQuery),
        ("key", CredentialError::InQuery),
        ("X-Amz-Algorithm=a&X-Amz-Signature=00&key=b", CredentialError::Presigned),
        ("X-Amz-Credential=SWAK", CredentialError::Presigned),
    ] {
        let uri = format!("/v1/messages?{query}");
        assert_eq!(look(&uri, &[]), Err(expected), "{query}");
        assert_eq!(look(&uri, &[("x-api-key", b"sw_a_b")]), Err(expected), "{query}");
    }
    for query in ["", "beta=true", "keys=1", "x=key", "x=api_key=1", "%zz=key"] {
        assert_eq!(look(&format!("/v1/messages?{query}"), &[]), Ok(Found::Nobody(None)), "{query}");
    }
}

#[test]
fn gemini_clients_send_a_key_in_their_own_header() {
    let key = Ok(Found::Key("sw_a_b".to_owned()));
    assert_eq!(found(&[("x-goog-api-key", b"sw_a_b")]), key);
    assert_eq!(found(&[("x-goog-api-key", b"sw_a_b"), ("x-api-key", b"sw_a_b")]), key);
    assert_eq!(found(&[("x-goog-api-key", b"a"), ("x-api-key", b"b")]), Err(CredentialError::Several));
    assert_eq!(found(&[("x-goog-api-key", b"")]), Err(CredentialError::Empty));
    let path = "/v1beta/models/m:generateContent?key=sw_a_b";
    assert_eq!(look(path, &[("x-goog-api-key", b"sw_a_b")]), Err(CredentialError::InQuery));
}

#[test]
fn a_claim_in_a_header_proves_nothing() {
    for name in ["x-user-tier", "x-seawall-tier", "x-user-id", "proxy-authorization", "x-amz-security-token"]
    {
        assert_eq!(found(&[(name, b"prime")]), Ok(Found::Nobody(None)), "{name}");
    }
}

proptest! {
    #[test]
    fn any_bytes_in_a_header_are_answered(
        name in sample::select(vec!["authorization", "x-api-key", "x-goog-api-key", "cookie"]),
        start in sample::select(vec!["", "Bearer ", "AWS4-HMAC-SHA256 ", "seawall_guest="]),
        bytes in collection::vec(any::<u8>(), 0..80),
    ) {
        let value: Vec<u8> = [start.as_bytes(), &bytes].concat();
        if HeaderValue::from_bytes(&value).is_ok()
            && let Ok(Found::Key(text) | Found::Token(text) | Found::Nobody(Some(text))) = found(&[(name, &value)])
        {
            prop_assert!(text.bytes().all(|sign| sign.is_ascii_graphic()));
        }
    }
}
