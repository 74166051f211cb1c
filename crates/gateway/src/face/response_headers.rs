//! Response headers that describe how an answer was produced.

use super::error_response::whole_seconds;
use crate::digits::padded;
use bytes::{BufMut as _, BytesMut};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use seawall_pipeline::dialect::{Face, request_id_header};
use seawall_pipeline::{ReplyMetadata, format_request_id};

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
const BUFFER_SIZE: usize = 256;
/// Number of headers written here.
const MAX_WRITTEN: usize = 9;
/// Number of headers of an answer. With less capacity the map would have to grow.
pub(super) const HEADER_CAPACITY: usize = MAX_WRITTEN + 4;

/// Adds what is known when the response head is sent.
pub(super) fn write_headers(headers: &mut HeaderMap, face: Face, metadata: &ReplyMetadata, id: u64) {
    headers.reserve(MAX_WRITTEN);
    let mut buffer = HeaderBuffer(BytesMut::with_capacity(BUFFER_SIZE));
    buffer.0.put_slice(format_request_id(id).as_bytes());
    buffer.insert(headers, request_id_name(face));
    if let Some(rung) = metadata.rung {
        headers.insert(RUNG, HeaderValue::from_static(rung.name()));
    }
    if let Some(target) = &metadata.target {
        buffer.0.put_slice(target.as_bytes());
        buffer.insert(headers, TARGET);
    }
    if metadata.rung.is_some() || metadata.attempts > 0 {
        headers.insert(ATTEMPTS, small_number(u64::from(metadata.attempts)));
    }
    if metadata.is_cost_unknown {
        headers.insert(COST, HeaderValue::from_static("unknown"));
    } else if let Some(cost) = metadata.cost {
        // Dollars without a currency sign, with full precision.
        buffer.number(cost.as_nanos() / 1_000_000_000);
        buffer.fraction(cost.as_nanos() % 1_000_000_000, 9);
        buffer.insert(headers, COST);
    }
    if let Some(limit) = metadata.max_tokens {
        headers.insert(MAX_TOKENS, HeaderValue::from(limit));
    }
    if let Some(overhead) = metadata.overhead {
        let micros = u64::try_from(overhead.as_micros()).unwrap_or(u64::MAX);
        buffer.number(micros / 1_000);
        buffer.fraction(micros % 1_000, 3);
        buffer.insert(headers, OVERHEAD);
    }
    if let Some(level) = metadata.level {
        headers.insert(LEVEL, small_number(level.index() as u64));
    }
    if let Some((view, name)) = &metadata.reported_limit {
        buffer.0.put_u8(b'"');
        buffer.0.put_slice(name.as_bytes());
        buffer.0.put_slice(b"\";r=");
        buffer.number(view.remaining.into());
        if let Some(retry_after) = metadata.retry_after {
            buffer.0.put_slice(b";t=");
            buffer.number(whole_seconds(retry_after));
        }
        buffer.insert(headers, LIMIT);
    }
    if let Some(policy) = &metadata.policy {
        buffer.0.put_slice(policy.as_bytes());
        buffer.insert(headers, POLICY);
    }
}

/// Adds the request id, under the header name of this face.
pub(super) fn write_request_id(headers: &mut HeaderMap, face: Face, id: u64) {
    if let Ok(name) = HeaderValue::from_str(&format_request_id(id)) {
        headers.insert(request_id_name(face), name);
    }
}

fn request_id_name(face: Face) -> HeaderName {
    match request_id_header(face) {
        "request-id" => HeaderName::from_static("request-id"),
        "x-request-id" => HeaderName::from_static("x-request-id"),
        _ => HeaderName::from_static("x-amzn-requestid"),
    }
}

/// A number that nearly always has one digit.
fn small_number(number: u64) -> HeaderValue {
    const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let digit = usize::try_from(number).ok().and_then(|number| DIGITS.get(number));
    digit.map_or_else(|| HeaderValue::from(number), |digit| HeaderValue::from_static(digit))
}

/// Formats header values one after the other into one buffer, without `core::fmt`: this runs for every answer.
struct HeaderBuffer(BytesMut);

impl HeaderBuffer {
    /// Adds a header with what has been written since the last one.
    fn insert(&mut self, headers: &mut HeaderMap, name: HeaderName) {
        // A value that is not a valid header value is left out.
        if let Ok(value) = HeaderValue::from_maybe_shared(self.0.split().freeze()) {
            headers.insert(name, value);
        }
    }

    fn number(&mut self, number: u64) {
        self.0.put_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// A decimal point and `width` digits.
    fn fraction(&mut self, number: u64, width: u32) {
        self.0.put_u8(b'.');
        self.0.put_slice(padded(number, width).as_bytes());
    }
}
