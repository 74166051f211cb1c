//! The usage section of a response.

use crate::chat::Usage;
use crate::lenient::Lenient;
use serde::{Deserialize, Serialize};

/// The vendor's usage section. `input_tokens` includes cached tokens and those written to the cache.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct ResponsesUsageFields {
    input_tokens: Lenient<u64>,
    input_tokens_details: Lenient<InputDetails>,
    output_tokens: Lenient<u64>,
    output_tokens_details: Lenient<OutputDetails>,
    total_tokens: Lenient<u64>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Lenient<u64>,
    cache_write_tokens: Lenient<u64>,
    #[serde(skip_serializing_if = "Lenient::is_absent")]
    cache_write_tokens_details: Lenient<CacheWrites>,
}

/// Tokens written to the cache, by lifetime. The shorter lifetime has the base price of cache writes.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct CacheWrites {
    ttl_12h_tokens: Lenient<u64>,
}

/// Part of the output tokens. It is written because clients require it, and never read.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Lenient<u64>,
}

impl ResponsesUsageFields {
    pub(super) fn read(&self) -> Usage {
        let (input, output) =
            (self.input_tokens.count().unwrap_or(0), self.output_tokens.count().unwrap_or(0));
        // The excess of the total over its parts was used; it is counted as output, the most expensive it can have
        // been.
        let total = self.total_tokens.count().filter(|_| !self.input_tokens.is_invalid());
        let output = total.map_or(output, |total| output.max(total.saturating_sub(input)));
        if self.has_invalid_input() {
            // A partial input figure would be taken for the total.
            return Usage { output, ..Usage::default() };
        }
        let details = self.input_tokens_details.get();
        let count =
            |field: fn(&InputDetails) -> Lenient<u64>| details.and_then(|details| field(details).count());
        let read = count(|details| details.cached_tokens).unwrap_or(0);
        let write = count(|details| details.cache_write_tokens).unwrap_or(0);
        let mut usage = Usage::from_whole_prompt(input, read, write, output);
        let writes = details.and_then(|details| details.cache_write_tokens_details.get());
        usage.extras.cache_write_1h = writes.and_then(|writes| writes.ttl_12h_tokens.count());
        usage
    }

    fn has_invalid_input(&self) -> bool {
        let details = self.input_tokens_details.get();
        self.input_tokens.is_invalid()
            || self.input_tokens_details.is_invalid()
            || details.is_some_and(|details| {
                details.cached_tokens.is_invalid() || details.cache_write_tokens.is_invalid()
            })
    }

    /// Whether the output tokens were reported.
    pub(super) const fn output_reported(&self) -> bool {
        self.output_tokens.get().is_some()
            || self.input_tokens.get().is_some() && self.total_tokens.get().is_some()
    }
}

impl From<Usage> for ResponsesUsageFields {
    fn from(usage: Usage) -> Self {
        let input = usage.total_input();
        Self {
            input_tokens: Lenient::Present(input),
            input_tokens_details: Lenient::Present(InputDetails {
                cached_tokens: Lenient::Present(usage.cache_read),
                cache_write_tokens: Lenient::Present(usage.cache_write),
                cache_write_tokens_details: Lenient::Absent,
            }),
            output_tokens: Lenient::Present(usage.output),
            output_tokens_details: Lenient::Present(OutputDetails { reasoning_tokens: Lenient::Present(0) }),
            total_tokens: Lenient::Present(input.saturating_add(usage.output)),
        }
    }
}

/// The uses of tools that the vendor runs.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ToolUsageFields {
    web_search: Lenient<WebSearchUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WebSearchUsage {
    num_requests: Lenient<u64>,
}

impl ToolUsageFields {
    /// The uses that are billed per use.
    pub(super) fn billed_uses(&self) -> u64 {
        self.web_search.get().and_then(|search| search.num_requests.count()).unwrap_or(0)
    }
}
