//! Response headers that describe how an answer was produced.

use super::refusal::whole_seconds;
use crate::digits::{decimal, padded};
use bytes::{BufMut as _, BytesMut};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use seawall_pipeline::speech::{Face, request_id_header};
use seawall_pipeline::{Notes, request_name};

const RUNG: HeaderName = HeaderName::from_static("x-seawall-rung");
const TARGET: HeaderName = HeaderName::from_static("x-seawall-target");
const ATTEMPTS: HeaderName = HeaderName::from_static("x-seawall-attempts");
const COST: HeaderName = HeaderName::from_static("x-seawall-cost");
const MAX_TOKENS: HeaderName = HeaderName::from_static("x-seawall-max-tokens");
const OVERHEAD: HeaderName = HeaderName::from_static("x-seawall-overhead-ms");
const LEVEL: HeaderName = HeaderName::from_static("x-seawall-level");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Usual size of all header values of an answer together.
const LONGEST: usize = 256;
/// Number of headers written here.
const TOLD: usize = 9;
/// Number of headers of an answer. With less capacity the map would have to grow.
pub(super) const MOST: usize = TOLD + 4;

/// Adds what is known when the response head is sent.
pub(super) fn tell(headers: &mut HeaderMap, face: Face, notes: &Notes, id: u64) {
    headers.reserve(TOLD);
    let mut text = Text(BytesMut::with_capacity(LONGEST));
    text.0.put_slice(request_name(id).as_bytes());
    text.tell(headers, name_header(face));
    if let Some(rung) = notes.rung {
        headers.insert(RUNG, HeaderValue::from_static(rung.name()));
    }
    if let Some(target) = &notes.target {
        text.0.put_slice(target.as_bytes());
        text.tell(headers, TARGET);
    }
    if notes.rung.is_some() || notes.attempts > 0 {
        headers.insert(ATTEMPTS, small(u64::from(notes.attempts)));
    }
    if let Some(cost) = notes.cost {
        // Dollars without a currency sign, with full precision.
        text.number(cost.as_nanos() / 1_000_000_000);
        text.fraction(cost.as_nanos() % 1_000_000_000, 9);
        text.tell(headers, COST);
    }
    if let Some(limit) = notes.max_tokens {
        headers.insert(MAX_TOKENS, HeaderValue::from(limit));
    }
    if let Some(overhead) = notes.overhead {
        let micros = u64::try_from(overhead.as_micros()).unwrap_or(u64::MAX);
        text.number(micros / 1_000);
        text.fraction(micros % 1_000, 3);
        text.tell(headers, OVERHEAD);
    }
    if let Some(level) = notes.level {
        headers.insert(LEVEL, small(level.index() as u64));
    }
    if let Some((view, name)) = &notes.tightest {
        text.0.put_u8(b'"');
        text.0.put_slice(name.as_bytes());
        text.0.put_slice(b"\";r=");
        text.number(view.remaining.into());
        if let Some(resets) = notes.limit_resets {
            text.0.put_slice(b";t=");
            text.number(whole_seconds(resets));
        }
        text.tell(headers, LIMIT);
    }
    if let Some(policy) = &notes.policy {
        text.0.put_slice(policy.as_bytes());
        text.tell(headers, POLICY);
    }
}

/// Adds the request id, under the header name of this face.
pub(super) fn tell_name(headers: &mut HeaderMap, face: Face, id: u64) {
    if let Ok(name) = HeaderValue::from_str(&request_name(id)) {
        headers.insert(name_header(face), name);
    }
}

fn name_header(face: Face) -> HeaderName {
    match request_id_header(face) {
        "request-id" => HeaderName::from_static("request-id"),
        "x-request-id" => HeaderName::from_static("x-request-id"),
        _ => HeaderName::from_static("x-amzn-requestid"),
    }
}

/// A number that nearly always has one digit.
fn small(number: u64) -> HeaderValue {
    const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let digit = usize::try_from(number).ok().and_then(|number| DIGITS.get(number));
    digit.map_or_else(|| HeaderValue::from(number), |digit| HeaderValue::from_static(digit))
}

/// Formats header values one after the other into one buffer, without `core::fmt`: this runs for every answer.
struct Text(BytesMut);

impl Text {
    /// Adds a header with what has been written since the last one.
    fn tell(&mut self, headers: &mut HeaderMap, name: HeaderName) {
        // A value that is not a valid header value is left out.
        if let Ok(value) = HeaderValue::from_maybe_shared(self.0.split().freeze()) {
            headers.insert(name, value);
        }
    }

    fn number(&mut self, number: u64) {
        self.0.put_slice(decimal(number).as_bytes());
    }

    /// A decimal point and `width` digits.
    fn fraction(&mut self, number: u64, width: u32) {
        self.0.put_u8(b'.');
        self.0.put_slice(padded(number, width).as_bytes());
    }
}
