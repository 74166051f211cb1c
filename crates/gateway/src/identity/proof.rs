//! Which proof a request carries.
//!
//! It acts on the head of a request, before its body is read. It looks at three headers (`x-api-key`, `authorization`, and
//! `cookie` for who has neither) and tells the proofs apart by their shape alone. Whether a proof holds is for its verifier
//! to say.
//!
//! It will not choose: a header that comes twice, or two kinds of proof at once, are refused, because nobody can say which
//! was meant and a proxy in front may have read the other. It will not look at the address of a request for a proof, so
//! that nobody gets used to putting one where every log shows it. It knows no header that names a tier or a user.

use super::guest::GUEST_COOKIE;
use super::refusal::{NOT_VALID, ONE_PROOF, UNREADABLE, refusals};
use super::signature::{ALGORITHM, SignedRequest};
use hyper::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};
use std::net::IpAddr;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The longest header that is read, in bytes.
pub(super) const LONGEST: usize = 16 * 1024;

/// What a proof is looked for in, and what a signature covers.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// As it came.
    pub method: &'a Method,
    /// As it came: neither decoded nor tidied.
    pub uri: &'a Uri,
    /// As they came.
    pub headers: &'a HeaderMap,
    /// Whom the request is from, as [`client_address`](super::client_address) says.
    pub address: IpAddr,
}

/// What a request shows of who asks.
#[derive(Clone, Copy)]
pub enum Proof<'a> {
    /// A key: ours, or one that the settings list.
    ApiKey(&'a str),
    /// A JSON Web Token.
    Token(&'a str),
    /// A signature over the request.
    Signed(SignedRequest<'a>),
    /// Nothing.
    Nobody {
        /// The guest's cookie, if there is one.
        cookie: Option<&'a str>,
        /// Where the request came from.
        address: IpAddr,
    },
}

impl std::fmt::Debug for Proof<'_> {
    /// The kind only: a proof in a log is a proof for who reads the log.
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
    /// Why no proof could be read.
    pub enum ProofError {
        /// One header came twice.
        Twice = "proof_twice", ONE_PROOF;
        /// Two kinds of proof came together.
        TwoKinds = "proof_two_kinds", ONE_PROOF;
        /// A header is longer than any proof.
        TooLong = "proof_too_long", UNREADABLE;
        /// A sign in it is no part of any proof: a blank, a control character, or not ASCII.
        Unreadable = "proof_unreadable", UNREADABLE;
        /// A header is there and says nothing.
        Empty = "proof_empty", UNREADABLE;
        /// A scheme that nobody here speaks.
        Scheme = "proof_scheme", NOT_VALID;
    }
}

/// The proof of this request.
pub fn proof_of(request: RequestHead<'_>) -> Result<Proof<'_>, ProofError> {
    let key = only(request.headers, &API_KEY)?;
    let authorization = only(request.headers, &AUTHORIZATION)?;
    match (key, authorization) {
        (Some(_), Some(_)) => Err(ProofError::TwoKinds),
        (Some(key), None) => word(key).map(Proof::ApiKey),
        (None, Some(authorization)) => authorized(text(authorization)?, request),
        (None, None) => Ok(Proof::Nobody { cookie: cookie(request.headers)?, address: request.address }),
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

/// Whether this has a token's shape: three parts, of which the first is base64 for something that begins with a brace.
/// The third may be empty, so that an unsigned token is refused as what it is. A key of ours has no dots; a key from
/// elsewhere that looked like this by accident would have to be sent as `x-api-key`.
fn is_token(text: &str) -> bool {
    let starts_like_an_object =
        matches!(text.as_bytes(), [b'e', b'w'..=b'z' | b'0'..=b'9' | b'-' | b'_', ..]);
    starts_like_an_object && text.bytes().filter(|sign| *sign == b'.').count() == 2
}

/// The one value of a header.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, ProofError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(ProofError::Twice);
    }
    Ok(first)
}

/// A header of visible signs and blanks.
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

/// A header of visible signs only.
fn word(value: &HeaderValue) -> Result<&str, ProofError> {
    let word = text(value)?.trim_matches(' ');
    match word {
        "" => Err(ProofError::Empty),
        _ if word.contains(' ') => Err(ProofError::Unreadable),
        _ => Ok(word),
    }
}

/// The guest's cookie. Cookies of others may hold any bytes and are passed over; HTTP/2 may spread them over several
/// headers, so that only the cookie itself must not come twice.
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
