//! Checks AWS signatures (version 4) of requests.

use super::Refusal;
use super::state::FakeCredentials;
use aws_lc_rs::{digest, hmac};
use hyper::HeaderMap;
use hyper::http::request::Parts;
use std::collections::BTreeMap;

/// What a valid signature says.
pub(super) struct SignedScope {
    pub account: String,
    pub region: String,
    pub service: String,
}

fn invalid(message: &str) -> Refusal {
    Refusal::new(403, "InvalidSignatureException", message)
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Checks the signature of a request against the known credentials.
pub(super) fn verify(
    head: &Parts,
    body: &[u8],
    known: &BTreeMap<String, FakeCredentials>,
) -> Result<SignedScope, Refusal> {
    let missing = || Refusal::new(403, "MissingAuthenticationTokenException", "the request is not signed");
    let authorization = header(&head.headers, "authorization").ok_or_else(missing)?;
    let fields = authorization.strip_prefix("AWS4-HMAC-SHA256 ").ok_or_else(missing)?;
    let field = |name: &str| {
        let found = fields.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
        found.ok_or_else(|| invalid("the authorization header is incomplete"))
    };
    let (credential, signed, signature) = (field("Credential")?, field("SignedHeaders")?, field("Signature")?);
    let scope: Vec<&str> = credential.split('/').collect();
    let [key_id, date, region, service, "aws4_request"] = scope[..] else {
        return Err(invalid("the credential scope is not one"));
    };
    let unknown = || Refusal::new(403, "UnrecognizedClientException", "the access key is unknown");
    let credentials = known.get(key_id).ok_or_else(unknown)?;
    if credentials.session_token.as_deref() != header(&head.headers, "x-amz-security-token") {
        return Err(Refusal::new(403, "UnrecognizedClientException", "the session token is not that of the key"));
    }
    let time = header(&head.headers, "x-amz-date").ok_or_else(|| invalid("x-amz-date is missing"))?;
    if !time.starts_with(date) || !signed.split(';').any(|name| name == "host") {
        return Err(invalid("the date or the host is not signed"));
    }
    let mut canonical = format!("{}\n{}\n{}\n", head.method, head.uri.path(), canonical_query(head));
    for name in signed.split(';') {
        let value = header(&head.headers, name).ok_or_else(|| invalid("a signed header is missing"))?;
        canonical.push_str(&format!("{name}:{}\n", value.trim()));
    }
    canonical.push_str(&format!("\n{signed}\n{}", sha256_hex(body)));
    let scope = format!("{date}/{region}/{service}/aws4_request");
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", sha256_hex(canonical.as_bytes()));
    let mut key = format!("AWS4{}", credentials.secret).into_bytes();
    for part in [date, region, service, "aws4_request"] {
        key = sign(&key, part.as_bytes());
    }
    if hex::encode(sign(&key, to_sign.as_bytes())) != signature {
        return Err(invalid("the signature does not match"));
    }
    Ok(SignedScope {
        account: credentials.account.clone(),
        region: region.to_owned(),
        service: service.to_owned(),
    })
}

fn canonical_query(head: &Parts) -> String {
    let mut pairs: Vec<&str> = head.uri.query().unwrap_or("").split('&').filter(|pair| !pair.is_empty()).collect();
    pairs.sort_unstable();
    let with_equals = |pair: &&str| if pair.contains('=') { (*pair).to_owned() } else { format!("{pair}=") };
    pairs.iter().map(with_equals).collect::<Vec<_>>().join("&")
}

fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, bytes))
}

fn sign(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
}
