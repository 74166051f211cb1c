//! Extracts the credential of a request.
//!
//! It runs on the head of a request, before the body is read. It inspects three headers (`x-api-key`, `authorization`,
//! and `cookie` if neither is present) and distinguishes credentials by their format alone. The verifiers decide
//! whether a credential is valid.
//!
//! It does not choose between credentials: a repeated header, or two different credentials at once, are refused. It
//! would be unclear which one counts, and a proxy in front may have used the other. The same credential as `x-api-key`
//! and as `authorization` counts as one. A credential in the query is refused even beside a valid one, so that clients
//! do not get used to sending it where every log shows it. No header can name a tier or a user.

use super::guest::GUEST_COOKIE;
use super::refusal::{NOT_VALID, ONE_PROOF, UNREADABLE, refusals};
use super::signature::{ALGORITHM, SignedRequest};
use hyper::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};
use seawall_wire::bedrock::decode_path;
use std::net::IpAddr;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Maximum size of a credential header in bytes.
pub(super) const LONGEST: usize = 16 * 1024;

/// The parts of a request that may contain a credential, or that a signature covers.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The method as received.
    pub method: &'a Method,
    /// The URI as received: neither decoded nor normalised.
    pub uri: &'a Uri,
    /// The headers as received.
    pub headers: &'a HeaderMap,
    /// The client address, from [`client_address`](super::client_address).
    pub address: IpAddr,
}

/// The credential that a request carries, not yet verified.
#[derive(Clone, Copy)]
pub enum Proof<'a> {
    /// An API key: ours, or one that the settings list.
    ApiKey(&'a str),
    /// A JSON Web Token.
    Token(&'a str),
    /// A signature over the request.
    Signed(SignedRequest<'a>),
    /// No credential.
    Nobody {
        /// The guest's cookie, if there is one.
        cookie: Option<&'a str>,
        /// The client address.
        address: IpAddr,
    },
}

impl std::fmt::Debug for Proof<'_> {
    /// Only the kind: a credential in a log could be used by anyone who reads the log.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::ApiKey(_) => "ApiKey",
            Self::Token(_) => "Token",
            Self::Signed(_) => "Signed",
            Self::Nobody { .. } => "Nobody",
        })
    }
}

refusals! {
    /// Why no credential could be extracted.
    pub enum ProofError {
        /// A header is repeated.
        Twice = "proof_twice", ONE_PROOF;
        /// Two different credentials are present.
        TwoKinds = "proof_two_kinds", ONE_PROOF;
        /// A header is longer than any credential.
        TooLong = "proof_too_long", UNREADABLE;
        /// A header contains a character that is in no credential: a blank, a control character, or not ASCII.
        Unreadable = "proof_unreadable", UNREADABLE;
        /// A header is present and empty.
        Empty = "proof_empty", UNREADABLE;
        /// The `authorization` scheme is not supported.
        Scheme = "proof_scheme", NOT_VALID;
        /// A key or a token is in the query, where every log shows it.
        InQuery = "proof_in_query", "credentials do not belong in the query: send a key as x-api-key or authorization";
        /// A presigned URL.
        Presigned = "proof_presigned", "presigned URLs are not accepted: send the signature in the authorization header";
    }
}

/// The credential of this request.
pub fn proof_of(request: RequestHead<'_>) -> Result<Proof<'_>, ProofError> {
    if let Some(query) = request.uri.query() {
        check_query(query)?;
    }
    let key = only(request.headers, &API_KEY)?;
    let authorization = only(request.headers, &AUTHORIZATION)?;
    match (key, authorization) {
        (Some(key), Some(authorization)) => same(word(key)?, authorized(text(authorization)?, request)?),
        (Some(key), None) => word(key).map(Proof::ApiKey),
        (None, Some(authorization)) => authorized(text(authorization)?, request),
        (None, None) => Ok(Proof::Nobody { cookie: cookie(request.headers)?, address: request.address }),
    }
}

/// Query parameters in which clients of other services send a credential.
const QUERY_NAMES: [&str; 7] =
    ["key", "api_key", "api-key", "apikey", "x-api-key", "access_token", "authorization"];
/// Query parameters of a presigned URL.
const PRESIGNED_NAMES: [&str; 3] = ["x-amz-signature", "x-amz-credential", "x-amz-security-token"];

/// Refuses a query that contains a credential. Only parameter names are inspected.
fn check_query(query: &str) -> Result<(), ProofError> {
    for pair in query.split('&') {
        let name = pair.split('=').next().unwrap_or_default();
        let decoded = decode_path(name);
        let name = decoded.as_deref().unwrap_or(name.as_bytes());
        let is_one_of =
            |names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        if is_one_of(&PRESIGNED_NAMES) {
            return Err(ProofError::Presigned);
        }
        if is_one_of(&QUERY_NAMES) {
            return Err(ProofError::InQuery);
        }
    }
    Ok(())
}

/// Accepts one credential that is in both headers, as some clients send it.
fn same<'a>(key: &str, authorized: Proof<'a>) -> Result<Proof<'a>, ProofError> {
    match authorized {
        Proof::ApiKey(text) | Proof::Token(text) if text == key => Ok(authorized),
        _ => Err(ProofError::TwoKinds),
    }
}

fn authorized<'a>(authorization: &'a str, request: RequestHead<'a>) -> Result<Proof<'a>, ProofError> {
    let (scheme, proof) = authorization.split_once(' ').unwrap_or((authorization, ""));
    let proof = proof.trim_matches(' ');
    if scheme.is_empty() || proof.is_empty() {
        return Err(ProofError::Empty);
    }
    if scheme == ALGORITHM {
        let RequestHead { method, uri, headers, .. } = request;
        return Ok(Proof::Signed(SignedRequest { authorization: proof, method, uri, headers }));
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(ProofError::Scheme);
    }
    if proof.contains(' ') {
        return Err(ProofError::Unreadable);
    }
    Ok(if is_token(proof) { Proof::Token(proof) } else { Proof::ApiKey(proof) })
}

/// Whether the text has the format of a JSON Web Token: three parts, of which the first is base64 that decodes to an
/// opening brace. The third may be empty, so that an unsigned token is refused as such. A key of ours has no dots; a
/// key from elsewhere that happens to look like this must be sent as `x-api-key`.
fn is_token(text: &str) -> bool {
    let starts_like_an_object =
        matches!(text.as_bytes(), [b'e', b'w'..=b'z' | b'0'..=b'9' | b'-' | b'_', ..]);
    starts_like_an_object && text.bytes().filter(|sign| *sign == b'.').count() == 2
}

/// The value of a header that must not be repeated.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, ProofError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(ProofError::Twice);
    }
    Ok(first)
}

/// A header of visible ASCII characters and blanks.
fn text(value: &HeaderValue) -> Result<&str, ProofError> {
    if value.len() > LONGEST {
        return Err(ProofError::TooLong);
    }
    let text = value.to_str().map_err(|_| ProofError::Unreadable)?;
    if text.bytes().any(|sign| sign.is_ascii_control()) {
        return Err(ProofError::Unreadable);
    }
    Ok(text)
}

/// A header of visible ASCII characters only.
fn word(value: &HeaderValue) -> Result<&str, ProofError> {
    let word = text(value)?.trim_matches(' ');
    match word {
        "" => Err(ProofError::Empty),
        _ if word.contains(' ') => Err(ProofError::Unreadable),
        _ => Ok(word),
    }
}

/// The guest cookie. Other cookies may contain any bytes and are ignored. HTTP/2 may split cookies over several
/// headers, so only the guest cookie itself must not be repeated.
fn cookie(headers: &HeaderMap) -> Result<Option<&str>, ProofError> {
    let mut found = None;
    for header in headers.get_all(COOKIE) {
        if header.len() > LONGEST {
            return Err(ProofError::TooLong);
        }
        for pair in header.as_bytes().split(|sign| *sign == b';') {
            let pair = pair.trim_ascii();
            let value = pair.strip_prefix(GUEST_COOKIE.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
            let Some(value) = value else { continue };
            if found.is_some() {
                return Err(ProofError::Twice);
            }
            if !value.iter().all(u8::is_ascii_graphic) {
                return Err(ProofError::Unreadable);
            }
            found = Some(std::str::from_utf8(value).map_err(|_| ProofError::Unreadable)?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
