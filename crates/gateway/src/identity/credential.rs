//! Extracts the credential of a request.
//!
//! It runs on the head of a request, before the body is read. It inspects four headers (`x-api-key`, Gemini's
//! `x-goog-api-key`, `authorization`, and `cookie` if none of them is present) and distinguishes credentials by their
//! format alone. The verifiers decide whether a credential is valid.
//!
//! It does not choose between credentials: a repeated header, or two different credentials at once, are rejected. It
//! would be unclear which one counts, and a proxy in front may have used the other. The same credential in several
//! places counts as one. A credential in the query is rejected even beside a valid one, so that clients do not get used
//! to sending it where every log shows it: also `?key=` of Gemini's documentation, because that vendor's clients send
//! the header. No header can name a tier or a user.

use super::guest::GUEST_COOKIE;
use super::refusal::{INVALID_CREDENTIAL, MALFORMED_CREDENTIAL, SEVERAL_CREDENTIALS, refusals};
use super::signature::{ALGORITHM, SignedRequest};
use hyper::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};
use seawall_wire::bedrock::decode_path;
use std::net::IpAddr;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const GOOGLE_API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// Maximum size of a credential header in bytes.
pub(super) const MAX_CREDENTIAL_LENGTH: usize = 16 * 1024;

/// The parts of a request that may contain a credential, or that a signature covers.
#[derive(Clone, Copy, Debug)]
pub struct HttpRequestHead<'a> {
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
pub enum RequestCredential<'a> {
    /// An API key: ours, or one that the settings list.
    ApiKey(&'a str),
    /// A JSON Web Token.
    Token(&'a str),
    /// A signature over the request.
    Signed(SignedRequest<'a>),
    /// No credential.
    Anonymous {
        /// The guest's cookie, if there is one.
        cookie: Option<&'a str>,
        /// The client address.
        address: IpAddr,
    },
}

impl std::fmt::Debug for RequestCredential<'_> {
    /// Only the kind: a credential in a log could be used by anyone who reads the log.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::ApiKey(_) => "ApiKey",
            Self::Token(_) => "Token",
            Self::Signed(_) => "Signed",
            Self::Anonymous { .. } => "Anonymous",
        })
    }
}

refusals! {
    /// Why no credential could be extracted.
    pub enum CredentialError {
        /// A header is repeated.
        Repeated = "credential_repeated", SEVERAL_CREDENTIALS;
        /// Two different credentials are present.
        Several = "credential_several", SEVERAL_CREDENTIALS;
        /// A header is longer than any credential.
        TooLong = "credential_too_long", MALFORMED_CREDENTIAL;
        /// A header contains a character that is in no credential: a blank, a control character, or not ASCII.
        Malformed = "credential_malformed", MALFORMED_CREDENTIAL;
        /// A header is present and empty.
        Empty = "credential_empty", MALFORMED_CREDENTIAL;
        /// The `authorization` scheme is not supported.
        Scheme = "credential_scheme", INVALID_CREDENTIAL;
        /// A key or a token is in the query, where every log shows it.
        InQuery = "credential_in_query", "credentials in the query string are not accepted: send the API key in x-api-key or authorization";
        /// A presigned URL.
        Presigned = "credential_presigned", "presigned URLs are not supported: send the signature in the authorization header";
    }
}

/// The credential of this request.
pub fn extract_credential(request: HttpRequestHead<'_>) -> Result<RequestCredential<'_>, CredentialError> {
    if let Some(query) = request.uri.query() {
        check_query(query)?;
    }
    let mut key = None;
    for name in [&API_KEY, &GOOGLE_API_KEY] {
        let Some(value) = single_value(request.headers, name)? else { continue };
        let value = single_word(value)?;
        if key.is_some_and(|key| key != value) {
            return Err(CredentialError::Several);
        }
        key = Some(value);
    }
    let authorization = single_value(request.headers, &AUTHORIZATION)?;
    match (key, authorization) {
        (Some(key), Some(authorization)) => {
            require_same(key, parse_authorization(printable_text(authorization)?, request)?)
        }
        (Some(key), None) => Ok(RequestCredential::ApiKey(key)),
        (None, Some(authorization)) => parse_authorization(printable_text(authorization)?, request),
        (None, None) => Ok(RequestCredential::Anonymous {
            cookie: guest_cookie(request.headers)?,
            address: request.address,
        }),
    }
}

/// Query parameters in which clients of other services send a credential.
const QUERY_NAMES: [&str; 7] =
    ["key", "api_key", "api-key", "apikey", "x-api-key", "access_token", "authorization"];
/// Query parameters of a presigned URL.
const PRESIGNED_NAMES: [&str; 3] = ["x-amz-signature", "x-amz-credential", "x-amz-security-token"];

/// Rejects a query that contains a credential. Only parameter names are inspected.
fn check_query(query: &str) -> Result<(), CredentialError> {
    for pair in query.split('&') {
        let name = pair.split('=').next().unwrap_or_default();
        let decoded = decode_path(name);
        let name = decoded.as_deref().unwrap_or(name.as_bytes());
        let is_one_of =
            |names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        if is_one_of(&PRESIGNED_NAMES) {
            return Err(CredentialError::Presigned);
        }
        if is_one_of(&QUERY_NAMES) {
            return Err(CredentialError::InQuery);
        }
    }
    Ok(())
}

/// Accepts one credential that is in both headers, as some clients send it.
fn require_same<'a>(
    key: &str,
    authorization: RequestCredential<'a>,
) -> Result<RequestCredential<'a>, CredentialError> {
    match authorization {
        RequestCredential::ApiKey(text) | RequestCredential::Token(text) if text == key => Ok(authorization),
        _ => Err(CredentialError::Several),
    }
}

fn parse_authorization<'a>(
    authorization: &'a str,
    request: HttpRequestHead<'a>,
) -> Result<RequestCredential<'a>, CredentialError> {
    let (scheme, credentials) = authorization.split_once(' ').unwrap_or((authorization, ""));
    let credentials = credentials.trim_matches(' ');
    if scheme.is_empty() || credentials.is_empty() {
        return Err(CredentialError::Empty);
    }
    if scheme == ALGORITHM {
        let HttpRequestHead { method, uri, headers, .. } = request;
        return Ok(RequestCredential::Signed(SignedRequest {
            authorization: credentials,
            method,
            uri,
            headers,
        }));
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(CredentialError::Scheme);
    }
    if credentials.contains(' ') {
        return Err(CredentialError::Malformed);
    }
    Ok(if is_token(credentials) {
        RequestCredential::Token(credentials)
    } else {
        RequestCredential::ApiKey(credentials)
    })
}

/// Whether the text has the format of a JSON Web Token: three parts, of which the first is base64 that decodes to an
/// opening brace. The third may be empty, so that an unsigned token is rejected as such. A key of ours has no dots; a
/// key from elsewhere that happens to look like this must be sent as `x-api-key`.
fn is_token(text: &str) -> bool {
    let starts_like_an_object =
        matches!(text.as_bytes(), [b'e', b'w'..=b'z' | b'0'..=b'9' | b'-' | b'_', ..]);
    starts_like_an_object && text.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// The value of a header that must not be repeated.
fn single_value<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a HeaderValue>, CredentialError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(CredentialError::Repeated);
    }
    Ok(first)
}

/// A header of visible ASCII characters and blanks.
fn printable_text(value: &HeaderValue) -> Result<&str, CredentialError> {
    if value.len() > MAX_CREDENTIAL_LENGTH {
        return Err(CredentialError::TooLong);
    }
    let text = value.to_str().map_err(|_| CredentialError::Malformed)?;
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(CredentialError::Malformed);
    }
    Ok(text)
}

/// A header of visible ASCII characters only.
fn single_word(value: &HeaderValue) -> Result<&str, CredentialError> {
    let text = printable_text(value)?.trim_matches(' ');
    match text {
        "" => Err(CredentialError::Empty),
        _ if text.contains(' ') => Err(CredentialError::Malformed),
        _ => Ok(text),
    }
}

/// The guest cookie. Other cookies may contain any bytes and are ignored. HTTP/2 may split cookies over several
/// headers, so only the guest cookie itself must not be repeated.
fn guest_cookie(headers: &HeaderMap) -> Result<Option<&str>, CredentialError> {
    let mut found = None;
    for header in headers.get_all(COOKIE) {
        if header.len() > MAX_CREDENTIAL_LENGTH {
            return Err(CredentialError::TooLong);
        }
        for pair in header.as_bytes().split(|byte| *byte == b';') {
            let pair = pair.trim_ascii();
            let value = pair.strip_prefix(GUEST_COOKIE.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
            let Some(value) = value else { continue };
            if found.is_some() {
                return Err(CredentialError::Repeated);
            }
            if !value.iter().all(u8::is_ascii_graphic) {
                return Err(CredentialError::Malformed);
            }
            found = Some(std::str::from_utf8(value).map_err(|_| CredentialError::Malformed)?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
