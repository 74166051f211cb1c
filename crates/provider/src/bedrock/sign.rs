//! AWS Signature Version 4.
//!
//! The signature covers what is sent: the path, every header except those that proxies may change, and the hash of the
//! body. A signature is valid for some minutes around its date, so a wrong clock makes every request fail as
//! unauthorized.
//!
//! **When it acts.** Most of what is signed is the same for every call. It is prepared once per credentials and day,
//! together with the derived signing key; a call adds its timestamp and body hash. New credentials replace the prepared
//! state at the next call. A call with headers of its own is prepared for that call alone.
//!
//! **What it does not do.** It supports no query strings, no chunked bodies and no presigned URLs. AWS's own crate
//! does, but derives the signing key for every request; the tests compare this implementation with it.

use crate::headers::FixedHeaders;
use aws_credential_types::Credentials;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use percent_encoding::utf8_percent_encode;
use seawall_core::setting::SettingError;
use seawall_core::time::UtcTime;
use seawall_wire::bedrock::RESERVED_IN_PATH;
use std::sync::{Arc, Mutex, PoisonError};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SCOPE_END: &str = "aws4_request";
pub(super) const DATE: &str = "x-amz-date";
pub(super) const AUTHORIZATION: &str = "authorization";
pub(super) const SECURITY_TOKEN: &str = "x-amz-security-token";
/// Sent but not signed, because proxies may change them.
const UNSIGNED: [&str; 2] = ["user-agent", "x-amzn-trace-id"];

/// The parts of a request that never change.
pub(super) struct SigningEndpoint<'a> {
    pub(super) region: &'a str,
    pub(super) service: &'static str,
    pub(super) method: &'static str,
    /// The value of the `host` header.
    pub(super) authority: &'a str,
    /// Without a query.
    pub(super) path: &'a str,
}

/// Signs requests that differ only in their bodies.
pub(super) struct Signer {
    region: String,
    service: &'static str,
    /// Method, path and empty query, in canonical form.
    canonical_prefix: String,
    /// Lowercase names and values, sorted by name.
    headers: Vec<(String, String)>,
    prepared: Mutex<Option<Arc<PreparedSignature>>>,
}

/// The headers that a signature adds to a request. A session token is sent as it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) date: String,
    pub(super) authorization: String,
}

/// The part of a signature that depends on neither the time nor the body.
struct PreparedSignature {
    credentials: Credentials,
    day: u64,
    /// The day as eight digits.
    date: String,
    key: hmac::Key,
    /// The canonical request up to the timestamp, and from there to the body hash.
    before_date: String,
    after_date: String,
    /// The credential scope.
    scope: String,
    /// The value of the `authorization` header, up to the signature.
    authorization: String,
}

impl Signer {
    /// For requests with these headers. The error names a header that the signature itself adds.
    pub(super) fn new(recipient: &SigningEndpoint<'_>, headers: &FixedHeaders) -> Result<Self, SettingError> {
        let SigningEndpoint { region, service, method, authority, path } = *recipient;
        let mut all = vec![("host".to_owned(), authority.to_owned())];
        for (name, value) in headers.pairs() {
            let name = name.to_ascii_lowercase();
            if [DATE, AUTHORIZATION, SECURITY_TOKEN].contains(&&*name) {
                return Err(SettingError::new(
                    "headers",
                    format!("{name}: is set by the request signature and cannot be configured"),
                ));
            }
            if !UNSIGNED.contains(&&*name) {
                all.push((name, collapse_spaces(value)));
            }
        }
        all.sort();
        let canonical_prefix = format!("{method}\n{}\n\n", encode_path(&canonical_path(path)));
        Ok(Self {
            region: region.to_owned(),
            service,
            canonical_prefix,
            headers: all,
            prepared: Mutex::new(None),
        })
    }

    /// Signs a request with this body. `None` if the credentials contain characters that are invalid in a header.
    pub(super) fn sign(&self, credentials: &Credentials, date: UtcTime, body: &[u8]) -> Option<Signature> {
        self.sign_with(credentials, date, &[], body)
    }

    /// The same with additional headers, whose names must be in lower case.
    pub(super) fn sign_with(
        &self,
        credentials: &Credentials,
        date: UtcTime,
        own: &[(&str, &str)],
        body: &[u8],
    ) -> Option<Signature> {
        let prepared = match own {
            [] => self.prepared(credentials, date)?,
            own => Arc::new(self.prepare(credentials, date, own)?),
        };
        let amz_date = amz_date(&prepared.date, date);
        let mut text = String::with_capacity(prepared.before_date.len() + prepared.after_date.len() + 80);
        for part in [&prepared.before_date, &amz_date, &prepared.after_date] {
            text.push_str(part);
        }
        push_hex(&mut text, digest(&SHA256, body).as_ref());
        let request = digest(&SHA256, text.as_bytes());
        text.clear();
        for part in [ALGORITHM, "\n", &amz_date, "\n", &prepared.scope, "\n"] {
            text.push_str(part);
        }
        push_hex(&mut text, request.as_ref());
        let tag = hmac::sign(&prepared.key, text.as_bytes());
        let mut authorization = String::with_capacity(prepared.authorization.len() + 64);
        authorization.push_str(&prepared.authorization);
        push_hex(&mut authorization, tag.as_ref());
        Some(Signature { date: amz_date, authorization })
    }

    fn prepared(&self, credentials: &Credentials, date: UtcTime) -> Option<Arc<PreparedSignature>> {
        // Safe after a panic: the value is replaced as a whole.
        let mut cached = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = cached.as_ref().filter(|prepared| prepared.is_for(credentials, date)) {
            return Some(Arc::clone(prepared));
        }
        *cached = self.prepare(credentials, date, &[]).map(Arc::new);
        cached.clone()
    }

    fn prepare(
        &self,
        credentials: &Credentials,
        date: UtcTime,
        own: &[(&str, &str)],
    ) -> Option<PreparedSignature> {
        let (id, token) = (credentials.access_key_id(), credentials.session_token());
        if !is_printable(id) || !token.is_none_or(is_printable) {
            return None;
        }
        let ours = self.headers.iter().map(|(name, value)| (&**name, &**value));
        let own: Vec<(&str, String)> =
            own.iter().map(|(name, value)| (*name, collapse_spaces(value))).collect();
        let own = own.iter().map(|(name, value)| (*name, &**value));
        let mut headers: Vec<_> = ours.chain(own).chain(token.map(|token| (SECURITY_TOKEN, token))).collect();
        headers.sort_unstable();
        let date_position = headers.partition_point(|(name, _)| *name < DATE);
        let (first, last) = headers.split_at(date_position);
        let lines = |headers: &[(&str, &str)]| -> String {
            headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect()
        };
        let names: Vec<&str> = first.iter().chain([&(DATE, "")]).chain(last).map(|(name, _)| *name).collect();
        let names = names.join(";");
        let (year, month, day) = date.civil();
        let day = format!("{year:04}{month:02}{day:02}");
        let Self { region, service, canonical_prefix, .. } = self;
        let scope = format!("{day}/{region}/{service}/{SCOPE_END}");
        Some(PreparedSignature {
            credentials: credentials.clone(),
            day: date.day(),
            key: derive_signing_key(credentials.secret_access_key(), &[&day, region, service, SCOPE_END]),
            before_date: format!("{canonical_prefix}{}{DATE}:", lines(first)),
            after_date: format!("\n{}\n{names}\n", lines(last)),
            authorization: format!("{ALGORITHM} Credential={id}/{scope}, SignedHeaders={names}, Signature="),
            scope,
            date: day,
        })
    }
}

impl PreparedSignature {
    fn is_for(&self, credentials: &Credentials, date: UtcTime) -> bool {
        self.day == date.day() && self.credentials == *credentials
    }
}

/// Derives a signing key from a secret and the parts of the scope.
fn derive_signing_key(secret: &str, words: &[&str]) -> hmac::Key {
    let key = hmac::Key::new(HMAC_SHA256, format!("AWS4{secret}").as_bytes());
    words
        .iter()
        .fold(key, |key, word| hmac::Key::new(HMAC_SHA256, hmac::sign(&key, word.as_bytes()).as_ref()))
}

/// A timestamp, to the second.
fn amz_date(day: &str, date: UtcTime) -> String {
    let second = date.as_nanos() / 1_000_000_000;
    let mut amz_date = String::with_capacity(day.len() + 8);
    amz_date.push_str(day);
    amz_date.push('T');
    for number in [second / 3_600 % 24, second / 60 % 60, second % 60] {
        for digit in [number / 10, number % 10] {
            amz_date
                .push(u32::try_from(digit).ok().and_then(|digit| char::from_digit(digit, 10)).unwrap_or('0'));
        }
    }
    amz_date.push('Z');
    amz_date
}

fn is_printable(text: &str) -> bool {
    text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

fn push_hex(text: &mut String, hash: &[u8]) {
    let mut digits = [0; 64];
    // A SHA-256 hash fills the buffer, and hex digits are valid UTF-8.
    let _ = hex::encode_to_slice(hash, &mut digits);
    text.push_str(std::str::from_utf8(&digits).unwrap_or_default());
}

/// The canonical form of a header value: trimmed, with runs of spaces collapsed.
fn collapse_spaces(value: &str) -> String {
    let words: Vec<&str> = value.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// The canonical form of a path: without empty and dot segments. The path that is sent is not changed.
fn canonical_path(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let is_open = ["/", "/.", "/.."].iter().any(|end| path.ends_with(end)) && !parts.is_empty();
    format!("/{}{}", parts.join("/"), if is_open { "/" } else { "" })
}

/// Percent-encodes an already encoded path a second time, as SigV4 requires.
fn encode_path(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len() + 20);
    encoded.extend(utf8_percent_encode(path, RESERVED_IN_PATH));
    encoded
}
