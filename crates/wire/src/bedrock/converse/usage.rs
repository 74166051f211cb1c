//! The service's usage section, and the service options that an answer reports.

use crate::chat::{Usage, UsageReport};
use crate::features::ServiceOption;
use crate::lenient::Lenient;
use seawall_core::money::{PriceDimension, UsageExtras};
use serde::{Deserialize, Serialize};

/// The token counts of an answer.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ConverseUsageFields {
    input_tokens: Lenient<u64>,
    output_tokens: Lenient<u64>,
    total_tokens: Lenient<u64>,
    cache_read_input_tokens: Lenient<u64>,
    cache_write_input_tokens: Lenient<u64>,
    #[serde(skip_serializing_if = "Lenient::is_absent")]
    cache_details: Lenient<Vec<CacheDetail>>,
}

/// Cache writes by time to live.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct CacheDetail {
    ttl: Lenient<String>,
    input_tokens: Lenient<u64>,
}

impl CacheDetail {
    fn new(ttl: &str, tokens: u64) -> Self {
        Self { ttl: Lenient::Present(ttl.to_owned()), input_tokens: Lenient::Present(tokens) }
    }

    /// Whether the entries have the shortest, cheapest time to live. An unknown time counts as longer.
    fn is_short(&self) -> bool {
        self.ttl.get().is_some_and(|ttl| ttl == "5m")
    }
}

/// `serviceTier` of an answer.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct TierFields {
    #[serde(rename = "type")]
    tier: ServiceOption,
}

/// `performanceConfig` of an answer.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PerformanceFields {
    latency: ServiceOption,
}

/// The usage that an answer reports, including the service options that affect its price.
pub(super) fn read_usage_report(
    usage: &Lenient<ConverseUsageFields>,
    tier: &Lenient<TierFields>,
    performance: &Lenient<PerformanceFields>,
) -> UsageReport {
    let mut report = usage.get().map(ConverseUsageFields::report).unwrap_or_default();
    let service = &mut report.usage.extras.service;
    if let Some(served) = tier.get() {
        *service = served.tier.apply_to(*service, PriceDimension::Tier);
    }
    if let Some(served) = performance.get() {
        *service = served.latency.apply_to(*service, PriceDimension::Latency);
    }
    report
}

impl ConverseUsageFields {
    fn report(&self) -> UsageReport {
        UsageReport { usage: self.read(), output_reported: self.output_tokens.get().is_some() }
    }

    pub(super) fn read(&self) -> Usage {
        let details = self.cache_details.get().map(Vec::as_slice);
        let written = |is_counted: fn(&CacheDetail) -> bool| {
            let details = details.unwrap_or_default().iter().filter(|detail| is_counted(detail));
            details.filter_map(|detail| detail.input_tokens.count()).fold(0_u64, u64::saturating_add)
        };
        let cache_write = self.cache_write_input_tokens.count().unwrap_or(0).max(written(|_| true));
        let hour = details.map(|_| written(|detail| !detail.is_short()));
        let mut usage = Usage {
            input: self.input_tokens.count().unwrap_or(0),
            cache_read: self.cache_read_input_tokens.count().unwrap_or(0),
            cache_write,
            output: self.output_tokens.count().unwrap_or(0),
            extras: UsageExtras { cache_write_1h: hour, ..UsageExtras::NONE },
        };
        if self.has_invalid_input() {
            // A partial input figure would be taken for the total.
            return Usage { output: usage.output, ..Usage::default() };
        }
        // The excess of the total over its parts was used; it is counted as output, the most expensive it can have
        // been.
        let total = self.total_tokens.count().unwrap_or(0);
        usage.output = usage.output.max(total.saturating_sub(usage.total_input()));
        usage
    }

    fn has_invalid_input(&self) -> bool {
        let details = self.cache_details.get().map(Vec::as_slice).unwrap_or_default();
        self.input_tokens.is_invalid()
            || self.cache_read_input_tokens.is_invalid()
            || self.cache_write_input_tokens.is_invalid()
            || self.cache_details.is_invalid()
            || details.iter().any(|detail| detail.input_tokens.is_invalid())
    }
}

impl From<Usage> for ConverseUsageFields {
    fn from(usage: Usage) -> Self {
        let details = |hour: u64| {
            vec![CacheDetail::new("1h", hour), CacheDetail::new("5m", usage.cache_write.saturating_sub(hour))]
        };
        Self {
            input_tokens: Lenient::Present(usage.input),
            output_tokens: Lenient::Present(usage.output),
            total_tokens: Lenient::Present(usage.total_input().saturating_add(usage.output)),
            cache_read_input_tokens: Lenient::Present(usage.cache_read),
            cache_write_input_tokens: Lenient::Present(usage.cache_write),
            cache_details: usage.extras.cache_write_1h.map(details).into(),
        }
    }
}
