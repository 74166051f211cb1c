//! The canonical request of AWS Signature Version 4, which both sides sign.
//!
//! Clients of every service but one encode the path a second time: it arrives encoded once, so each `%` becomes `%25`.

use super::{DATE, SignatureRefusal, SignedRequest};
use hyper::header::{HeaderMap, HeaderName};
use percent_encoding::{percent_decode_str, percent_encode, utf8_percent_encode};
use seawall_wire::bedrock::{RESERVED, RESERVED_IN_PATH};
use std::borrow::Cow;
use std::fmt::Write as _;

/// Over HTTP/2 the vendor's client for JavaScript signs this instead of `host`.
const AUTHORITY: &str = ":authority";

/// The canonical request, with the listed headers.
pub(super) fn request(
    request: &SignedRequest<'_>,
    signed_headers: &str,
    payload: &str,
) -> Result<String, SignatureRefusal> {
    let path = path(request.uri.path())?;
    let query = query(request.uri.query().unwrap_or(""));
    let mut text = format!("{}\n{path}\n{query}\n", request.method);
    let (mut before, mut has_host, mut has_date) = ("", false, false);
    for name in signed_headers.split(';') {
        // Sorted and unique, as every client writes them, so that a set of headers has exactly one list.
        if name <= before || name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(SignatureRefusal::HeaderListInvalid);
        }
        before = name;
        has_host |= ["host", AUTHORITY].contains(&name);
        has_date |= name == DATE;
        let value = match name {
            "host" => host(request)?,
            AUTHORITY => authority(request)?,
            _ => header(request.headers, name)?,
        };
        let _ = writeln!(text, "{name}:{value}");
    }
    if !has_host || !has_date || !all_signed(request.headers, signed_headers) {
        return Err(SignatureRefusal::HeadersUnsigned);
    }
    let _ = write!(text, "\n{signed_headers}\n{payload}");
    Ok(text)
}

/// Whether every header is signed that the service acts on. Over plain HTTP an intermediary could add one; every client
/// signs those that it sends.
fn all_signed(headers: &HeaderMap, signed: &str) -> bool {
    let must_be_signed = |name: &str| name.starts_with("x-amz-") || name.starts_with("x-amzn-bedrock-");
    headers
        .keys()
        .map(HeaderName::as_str)
        .filter(|name| must_be_signed(name))
        .all(|name| signed.split(';').any(|one| one == name))
}

/// The host. With HTTP/2 it is in the URI, and most clients send no header beside it.
fn host(request: &SignedRequest<'_>) -> Result<String, SignatureRefusal> {
    if request.headers.contains_key("host") {
        let host = header(request.headers, "host")?;
        // With two hosts, one could be signed and the other used.
        return if host.contains(',') { Err(SignatureRefusal::HeaderListInvalid) } else { Ok(host) };
    }
    authority(request)
}

fn authority(request: &SignedRequest<'_>) -> Result<String, SignatureRefusal> {
    request.uri.authority().map(ToString::to_string).ok_or(SignatureRefusal::HeaderListInvalid)
}

/// All values of a header, trimmed, with single blanks, joined by commas.
fn header(headers: &HeaderMap, name: &str) -> Result<String, SignatureRefusal> {
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| SignatureRefusal::HeaderListInvalid)?;
    let mut all = Vec::new();
    for value in headers.get_all(name) {
        let value = std::str::from_utf8(value.as_bytes()).map_err(|_| SignatureRefusal::HeaderMalformed)?;
        all.push(value.split([' ', '\t']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "));
    }
    if all.is_empty() {
        return Err(SignatureRefusal::HeaderListInvalid);
    }
    Ok(all.join(","))
}

/// The path as received, encoded once more.
fn path(path: &str) -> Result<String, SignatureRefusal> {
    let path = if path.is_empty() { "/" } else { path };
    let mut segments =
        path.strip_prefix('/').ok_or(SignatureRefusal::PathNotCanonical)?.split('/').peekable();
    while let Some(segment) = segments.next() {
        // Only the last segment may be empty: then the path ends in a slash.
        if matches!(segment, "." | "..") || (segment.is_empty() && segments.peek().is_some()) {
            return Err(SignatureRefusal::PathNotCanonical);
        }
    }
    Ok(utf8_percent_encode(path, RESERVED_IN_PATH).to_string())
}

/// Pairs sorted by encoded name, then by value. A name without a value has an empty one.
fn query(query: &str) -> String {
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (reencode(name), reencode(value)))
        .collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// The text in the canonical encoding, however the client encoded it.
fn reencode(text: &str) -> String {
    let decoded = Cow::from(percent_decode_str(text));
    percent_encode(&decoded, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::{SignatureRefusal, SignedRequest, path, query, request};
    use hyper::header::{HeaderMap, HeaderName, HeaderValue};
    use hyper::{Method, Uri};
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    #[test]
    fn a_path_is_encoded_once_more() {
        for (came, signed) in [
            ("", "/"),
            ("/", "/"),
            ("/model/a.b-v1%3A0/converse", "/model/a.b-v1%253A0/converse"),
            ("/model/arn%3Aaws%2Fx/invoke", "/model/arn%253Aaws%252Fx/invoke"),
            ("/a/b/", "/a/b/"),
            ("/a~_-.b!*'()", "/a~_-.b%21%2A%27%28%29"),
            ("/%2e%2e/...", "/%252e%252e/..."),
        ] {
            assert_eq!(path(came).as_deref(), Ok(signed));
        }
        for other in ["/..", "/a/../b", "/./a", "/a/.", "//", "//a", "/a//b", "*", "a"] {
            assert_eq!(path(other), Err(SignatureRefusal::PathNotCanonical), "{other}");
        }
    }

    #[test]
    fn a_query_is_put_in_order() {
        for (came, signed) in [
            ("", ""),
            ("Param2=value2&Param1=value1", "Param1=value1&Param2=value2"),
            ("Param1=b&Param1=a", "Param1=a&Param1=b"),
            ("a", "a="),
            ("a=b=c", "a=b%3Dc"),
            ("-._~09AZaz=-._~09AZaz", "-._~09AZaz=-._~09AZaz"),
            ("%7E=%2f&x=%20", "x=%20&~=%2F"),
            ("a=%&b=%4&c=%zz", "a=%25&b=%254&c=%25zz"),
            ("&&a=1&", "a=1"),
            ("a=1+1", "a=1%2B1"),
        ] {
            assert_eq!(query(came), signed);
        }
    }

    fn canonical(
        uri: &str,
        headers: &[(&'static str, &[u8])],
        signed: &str,
    ) -> Result<String, SignatureRefusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
        }
        let uri: Uri = uri.parse().unwrap();
        let signed_request =
            SignedRequest { authorization: "", method: &Method::GET, uri: &uri, headers: &map };
        request(&signed_request, signed, "hash")
    }

    #[test]
    fn headers_are_trimmed_and_joined() {
        let headers: [(&str, &[u8]); 5] = [
            ("x-amz-date", b"d"),
            ("host", b"h:1"),
            ("my", b" a   b\t c "),
            ("my", b"\"a  b\""),
            ("unsigned", b"x"),
        ];
        let expected = "GET\n/\n\nhost:h:1\nmy:a b c,\"a b\"\nx-amz-date:d\n\nhost;my;x-amz-date\nhash";
        assert_eq!(canonical("/", &headers, "host;my;x-amz-date").as_deref(), Ok(expected));
    }

    #[test]
    fn the_host_may_stand_in_the_address() {
        let expected = Ok("GET\n/\n\nhost:h:1\nx-amz-date:d\n\nhost;x-amz-date\nhash".to_owned());
        assert_eq!(canonical("http://h:1/", &[("x-amz-date", b"d")], "host;x-amz-date"), expected);
        let named = canonical("http://h:1/", &[("x-amz-date", b"d")], ":authority;x-amz-date");
        assert_eq!(
            named.as_deref(),
            Ok("GET\n/\n\n:authority:h:1\nx-amz-date:d\n\n:authority;x-amz-date\nhash")
        );
        let both: [(&str, &[u8]); 2] = [("host", b"h:1"), ("x-amz-date", b"d")];
        assert_eq!(canonical("/", &both, ":authority;x-amz-date"), Err(SignatureRefusal::HeaderListInvalid));
        assert_eq!(canonical("http://other/", &both, "host;x-amz-date"), expected);
        let none = canonical("/", &[("x-amz-date", b"d")], "host;x-amz-date");
        assert_eq!(none, Err(SignatureRefusal::HeaderListInvalid));
        let two: [(&str, &[u8]); 3] = [("host", b"a"), ("host", b"b"), ("x-amz-date", b"d")];
        assert_eq!(canonical("/", &two, "host;x-amz-date"), Err(SignatureRefusal::HeaderListInvalid));
    }

    #[test]
    fn a_list_of_headers_that_is_not_in_order_is_refused() {
        use SignatureRefusal as No;
        let headers: [(&str, &[u8]); 4] =
            [("host", b"h"), ("x-amz-date", b"d"), ("a", b"1"), ("odd", b"\xff")];
        for (list, refusal) in [
            ("", No::HeaderListInvalid),
            ("host", No::HeadersUnsigned),
            ("x-amz-date", No::HeadersUnsigned),
            ("a", No::HeadersUnsigned),
            ("x-amz-date;host", No::HeaderListInvalid),
            ("host;host;x-amz-date", No::HeaderListInvalid),
            ("Host;x-amz-date", No::HeaderListInvalid),
            ("a;;host;x-amz-date", No::HeaderListInvalid),
            ("host;x-amz-date;", No::HeaderListInvalid),
            ("b;host;x-amz-date", No::HeaderListInvalid),
            ("a b;host;x-amz-date", No::HeaderListInvalid),
            ("host;odd;x-amz-date", No::HeaderMalformed),
        ] {
            assert_eq!(canonical("/", &headers, list), Err(refusal), "{list}");
        }
        assert!(canonical("/", &headers, "a;host;x-amz-date").is_ok());
    }

    #[test]
    fn what_the_service_would_act_on_must_be_signed() {
        let with = |name: &'static str, list: &str| {
            canonical("/", &[("host", b"h"), ("x-amz-date", b"d"), (name, b"1")], list).is_ok()
        };
        for name in ["x-amz-target", "x-amzn-bedrock-trace"] {
            assert!(!with(name, "host;x-amz-date"), "{name}");
            let mut list = ["host", "x-amz-date", name];
            list.sort_unstable();
            assert!(with(name, &list.join(";")), "{name}");
        }
        assert!(with("x-amzn-trace-id", "host;x-amz-date") && with("content-type", "host;x-amz-date"));
    }

    proptest! {
        #[test]
        fn encoding_a_query_anew_changes_it_only_once(text: String) {
            let once = query(&text);
            prop_assert!(once.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(query(&once), once);
        }
    }
}
