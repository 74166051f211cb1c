//! What InvokeModel says in headers.

use crate::chat::Usage;
use std::time::Duration;

/// The content type of a stream of frames.
pub const STREAM_CONTENT_TYPE: &str = "application/vnd.amazon.eventstream";
/// What the chunks of a stream hold; said in `x-amzn-bedrock-content-type`.
pub const INVOKE_CONTENT_TYPE: &str = "application/json";

const INPUT: &str = "x-amzn-bedrock-input-token-count";
const OUTPUT: &str = "x-amzn-bedrock-output-token-count";
const CACHE_READ: &str = "x-amzn-bedrock-cache-read-input-token-count";
const CACHE_WRITE: &str = "x-amzn-bedrock-cache-write-input-token-count";
const LATENCY: &str = "x-amzn-bedrock-invocation-latency";

/// The headers of a whole answer. Counts of cached tokens are left out where there are none.
#[must_use]
pub fn usage_headers(usage: Usage, latency: Duration) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        (INPUT, usage.input.to_string()),
        (OUTPUT, usage.output.to_string()),
        (LATENCY, latency.as_millis().to_string()),
    ];
    let cached = [(CACHE_READ, usage.cache_read), (CACHE_WRITE, usage.cache_write)];
    headers.extend(
        cached.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| (name, count.to_string())),
    );
    headers
}

/// The usage as headers tell it (asked for by lower-case name), for an answer whose body does not. Nothing, unless
/// input and output are both there; the input is without what came from the cache or went there.
#[must_use]
pub fn read_usage_headers<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<Usage> {
    let count = |name: &str| header(name).and_then(|text| text.trim().parse().ok());
    Some(Usage {
        input: count(INPUT)?,
        output: count(OUTPUT)?,
        cache_read: count(CACHE_READ).unwrap_or(0),
        cache_write: count(CACHE_WRITE).unwrap_or(0),
        ..Usage::default()
    })
}
