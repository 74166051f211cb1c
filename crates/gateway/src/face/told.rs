//! What an answer's headers say of how it came about.

use arrayvec::ArrayString;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use seawall_core::money::Money;
use seawall_pipeline::speech::{Face, request_id_header};
use seawall_pipeline::{Notes, request_name};
use std::fmt::{Arguments, Write as _};

const RUNG: HeaderName = HeaderName::from_static("x-seawall-rung");
const TARGET: HeaderName = HeaderName::from_static("x-seawall-target");
const ATTEMPTS: HeaderName = HeaderName::from_static("x-seawall-attempts");
const COST: HeaderName = HeaderName::from_static("x-seawall-cost");
const OVERHEAD: HeaderName = HeaderName::from_static("x-seawall-overhead-ms");
const LEVEL: HeaderName = HeaderName::from_static("x-seawall-level");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Tells what is known when the head of the answer goes out.
pub(super) fn tell(headers: &mut HeaderMap, face: Face, notes: &Notes, id: u64) {
    headers.reserve(9);
    tell_name(headers, face, id);
    let mut put = |name: HeaderName, value: Option<HeaderValue>| {
        if let Some(value) = value {
            headers.insert(name, value);
        }
    };
    put(RUNG, notes.rung.map(|rung| HeaderValue::from_static(rung.name())));
    put(TARGET, notes.target.as_deref().and_then(|target| HeaderValue::from_str(target).ok()));
    if notes.rung.is_some() || notes.attempts > 0 {
        put(ATTEMPTS, Some(HeaderValue::from(notes.attempts)));
    }
    put(COST, notes.cost.and_then(|cost| written(format_args!("{}", Dollars(cost)))));
    put(
        OVERHEAD,
        notes.overhead.and_then(|overhead| {
            let micros = overhead.as_micros();
            written(format_args!("{}.{:03}", micros / 1_000, micros % 1_000))
        }),
    );
    put(LEVEL, notes.level.map(|level| HeaderValue::from(level.index())));
    if let Some((view, name)) = &notes.tightest {
        put(LIMIT, written(format_args!("\"{name}\";r={}", view.remaining)));
    }
    put(POLICY, notes.policy.as_deref().and_then(|policy| HeaderValue::from_str(policy).ok()));
}

/// Tells what the request is called, where this face's callers look for it.
pub(super) fn tell_name(headers: &mut HeaderMap, face: Face, id: u64) {
    let header = match request_id_header(face) {
        "request-id" => HeaderName::from_static("request-id"),
        "x-request-id" => HeaderName::from_static("x-request-id"),
        _ => HeaderName::from_static("x-amzn-requestid"),
    };
    if let Ok(name) = HeaderValue::from_str(&request_name(id)) {
        headers.insert(header, name);
    }
}

/// Dollars without a sign and with all that is known.
struct Dollars(Money);

impl std::fmt::Display for Dollars {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nanos = self.0.as_nanos();
        write!(formatter, "{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
    }
}

/// A value that was written; nothing if it is longer than any that we write.
fn written(value: Arguments<'_>) -> Option<HeaderValue> {
    let mut text = ArrayString::<96>::new();
    text.write_fmt(value).ok()?;
    HeaderValue::from_str(&text).ok()
}
