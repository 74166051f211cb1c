//! The service's usage section, and the service options that an answer reports.

use crate::chat::{Usage, UsageReport};
use crate::features::Served;
use crate::reported::Reported;
use seawall_core::money::{PriceDimension, UsageExtras};
use serde::{Deserialize, Serialize};

/// The token counts of an answer.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct UsageFields {
    input_tokens: Reported<u64>,
    output_tokens: Reported<u64>,
    total_tokens: Reported<u64>,
    cache_read_input_tokens: Reported<u64>,
    cache_write_input_tokens: Reported<u64>,
    #[serde(skip_serializing_if = "Reported::is_absent")]
    cache_details: Reported<Vec<CacheDetail>>,
}

/// Cache writes by time to live.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct CacheDetail {
    ttl: Reported<String>,
    input_tokens: Reported<u64>,
}

impl CacheDetail {
    fn new(ttl: &str, tokens: u64) -> Self {
        Self { ttl: Reported::Told(ttl.to_owned()), input_tokens: Reported::Told(tokens) }
    }

    /// Whether the entries have the shortest, cheapest time to live. An unknown time counts as longer.
    fn is_short(&self) -> bool {
        self.ttl.told().is_some_and(|ttl| ttl == "5m")
    }
}

/// `serviceTier` of an answer.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct TierFields {
    #[serde(rename = "type")]
    tier: Served,
}

/// `performanceConfig` of an answer.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PerformanceFields {
    latency: Served,
}

/// The usage that an answer reports, including the service options that affect its price.
pub(super) fn served_usage(
    usage: &Reported<UsageFields>,
    tier: &Reported<TierFields>,
    performance: &Reported<PerformanceFields>,
) -> UsageReport {
    let mut report = usage.told().map(UsageFields::report).unwrap_or_default();
    let service = &mut report.usage.extras.service;
    if let Some(served) = tier.told() {
        *service = served.tier.onto(*service, PriceDimension::Tier);
    }
    if let Some(served) = performance.told() {
        *service = served.latency.onto(*service, PriceDimension::Latency);
    }
    report
}

impl UsageFields {
    fn report(&self) -> UsageReport {
        UsageReport { usage: self.read(), has_output: self.output_tokens.told().is_some() }
    }

    pub(super) fn read(&self) -> Usage {
        let details = self.cache_details.told().map(Vec::as_slice);
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
        if self.has_unusable_input() {
            // A partial input figure would be taken for the total.
            return Usage { output: usage.output, ..Usage::default() };
        }
        // The excess of the total over its parts was used; it is counted as output, the most expensive it can have
        // been.
        let total = self.total_tokens.count().unwrap_or(0);
        usage.output = usage.output.max(total.saturating_sub(usage.total_input()));
        usage
    }

    fn has_unusable_input(&self) -> bool {
        let details = self.cache_details.told().map(Vec::as_slice).unwrap_or_default();
        self.input_tokens.is_unusable()
            || self.cache_read_input_tokens.is_unusable()
            || self.cache_write_input_tokens.is_unusable()
            || self.cache_details.is_unusable()
            || details.iter().any(|detail| detail.input_tokens.is_unusable())
    }
}

impl From<Usage> for UsageFields {
    fn from(usage: Usage) -> Self {
        let details = |hour: u64| {
            vec![CacheDetail::new("1h", hour), CacheDetail::new("5m", usage.cache_write.saturating_sub(hour))]
        };
        Self {
            input_tokens: Reported::Told(usage.input),
            output_tokens: Reported::Told(usage.output),
            total_tokens: Reported::Told(usage.total_input().saturating_add(usage.output)),
            cache_read_input_tokens: Reported::Told(usage.cache_read),
            cache_write_input_tokens: Reported::Told(usage.cache_write),
            cache_details: usage.extras.cache_write_1h.map(details).into(),
        }
    }
}
