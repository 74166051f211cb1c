//! The vendor's usage section.

use crate::chat::{Usage, UsageReport};
use crate::features::ServiceOption;
use crate::lenient::Lenient;
use seawall_core::money::{PriceDimension, UsageExtras};
use serde::{Deserialize, Serialize};

/// The usage of an answer. In a stream, each event carries what is known by then, so an absent field means unchanged.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct AnthropicUsageFields {
    input_tokens: Lenient<u64>,
    cache_creation_input_tokens: Lenient<u64>,
    cache_read_input_tokens: Lenient<u64>,
    output_tokens: Lenient<u64>,
    #[serde(skip_serializing_if = "Lenient::is_absent")]
    cache_creation: Lenient<CacheCreation>,
    #[serde(skip_serializing_if = "Lenient::is_absent")]
    server_tool_use: Lenient<ServerToolUse>,
    #[serde(skip_serializing)]
    service_tier: ServiceOption,
    #[serde(skip_serializing)]
    speed: ServiceOption,
    #[serde(skip_serializing)]
    inference_geo: ServiceOption,
    /// The model passes that the vendor made internally. Usage for context management (compaction) is only reported
    /// here, not in the figures above.
    #[serde(skip_serializing)]
    iterations: Lenient<Vec<Lenient<Iteration>>>,
}

/// Cache writes by time to live.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct CacheCreation {
    ephemeral_5m_input_tokens: Lenient<u64>,
    ephemeral_1h_input_tokens: Lenient<u64>,
}

/// Number of uses of the vendor's own tools. Fetching a page has no fee.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct ServerToolUse {
    web_search_requests: Lenient<u64>,
}

/// One of several internal passes.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Iteration {
    input_tokens: Lenient<u64>,
    cache_creation_input_tokens: Lenient<u64>,
    cache_read_input_tokens: Lenient<u64>,
    output_tokens: Lenient<u64>,
    cache_creation: Lenient<CacheCreation>,
}

impl AnthropicUsageFields {
    pub(super) fn report(&self) -> UsageReport {
        UsageReport { usage: self.merge_over(Usage::default()), output_reported: self.output_reported() }
    }

    /// Whether the output tokens were reported.
    pub(super) const fn output_reported(&self) -> bool {
        self.output_tokens.get().is_some()
    }

    /// Updates earlier usage with every reported field. If any input figure is unusable, the whole input is reset to
    /// unknown (0), because a partial figure would be taken for the total.
    pub(super) fn merge_over(&self, before: Usage) -> Usage {
        let mut usage = Usage {
            input: self.input_tokens.count().unwrap_or(before.input),
            cache_read: self.cache_read_input_tokens.count().unwrap_or(before.cache_read),
            cache_write: self.cache_creation_input_tokens.count().unwrap_or(before.cache_write),
            output: self.output_tokens.count().unwrap_or(before.output),
            extras: self.extras_over(before.extras),
        };
        self.iterations.get().into_iter().for_each(|passes| raise_to_sum_of_passes(&mut usage, passes));
        if self.has_invalid_input() {
            (usage.input, usage.cache_read, usage.cache_write) = (0, 0, 0);
        }
        usage
    }

    fn has_invalid_input(&self) -> bool {
        let hour =
            self.cache_creation.get().is_some_and(|creation| creation.ephemeral_1h_input_tokens.is_invalid());
        let uses =
            self.server_tool_use.get().is_some_and(|creation| creation.web_search_requests.is_invalid());
        hour || uses
            || self.cache_creation.is_invalid()
            || self.server_tool_use.is_invalid()
            || self.iterations.is_invalid()
            || self.iterations.get().is_some_and(|passes| passes.iter().any(Iteration::has_invalid_input))
            || self.input_tokens.is_invalid()
            || self.cache_read_input_tokens.is_invalid()
            || self.cache_creation_input_tokens.is_invalid()
    }

    fn extras_over(&self, before: UsageExtras) -> UsageExtras {
        let hour = self.cache_creation.get().and_then(|creation| creation.ephemeral_1h_input_tokens.count());
        let searches = self.server_tool_use.get().and_then(|used| used.web_search_requests.count());
        let service = self.service_tier.apply_to(before.service, PriceDimension::Tier);
        let service = self.speed.apply_to(service, PriceDimension::Speed);
        UsageExtras {
            cache_write_1h: hour.or(before.cache_write_1h),
            tool_uses: searches.unwrap_or(before.tool_uses),
            service: self.inference_geo.apply_to(service, PriceDimension::Geography),
        }
    }
}

impl Iteration {
    /// Whether an input figure of this pass is unusable.
    fn has_invalid_input(pass: &Lenient<Self>) -> bool {
        let figures =
            |pass: &Self| [pass.input_tokens, pass.cache_creation_input_tokens, pass.cache_read_input_tokens];
        let is_invalid = |pass| figures(pass).iter().any(Lenient::is_invalid);
        pass.is_invalid() || pass.get().is_some_and(is_invalid)
    }
}

/// Takes the sum over all passes where it exceeds the reported total, because that sum is what was billed.
fn raise_to_sum_of_passes(usage: &mut Usage, passes: &[Lenient<Iteration>]) {
    let sum = |part: fn(&Iteration) -> Lenient<u64>| {
        let parts = passes.iter().filter_map(|pass| part(pass.get()?).count());
        parts.fold(0_u64, u64::saturating_add)
    };
    usage.input = usage.input.max(sum(|pass| pass.input_tokens));
    usage.cache_read = usage.cache_read.max(sum(|pass| pass.cache_read_input_tokens));
    usage.cache_write = usage.cache_write.max(sum(|pass| pass.cache_creation_input_tokens));
    usage.output = usage.output.max(sum(|pass| pass.output_tokens));
    let hour = sum(|pass| {
        pass.cache_creation.get().map_or(Lenient::Absent, |creation| creation.ephemeral_1h_input_tokens)
    });
    if hour > 0 {
        usage.extras.cache_write_1h = usage.extras.cache_write_1h.max(Some(hour));
    }
}

impl From<Usage> for AnthropicUsageFields {
    fn from(usage: Usage) -> Self {
        let tool_uses = Some(usage.extras.tool_uses).filter(|uses| *uses > 0);
        let creation = |hour| CacheCreation {
            ephemeral_5m_input_tokens: Lenient::Present(usage.cache_write.saturating_sub(hour)),
            ephemeral_1h_input_tokens: Lenient::Present(hour),
        };
        Self {
            input_tokens: Lenient::Present(usage.input),
            cache_creation_input_tokens: Lenient::Present(usage.cache_write),
            cache_read_input_tokens: Lenient::Present(usage.cache_read),
            output_tokens: Lenient::Present(usage.output),
            cache_creation: usage.extras.cache_write_1h.map(creation).into(),
            server_tool_use: tool_uses
                .map(|uses| ServerToolUse { web_search_requests: Lenient::Present(uses) })
                .into(),
            service_tier: ServiceOption::default(),
            speed: ServiceOption::default(),
            inference_geo: ServiceOption::default(),
            iterations: Lenient::Absent,
        }
    }
}
