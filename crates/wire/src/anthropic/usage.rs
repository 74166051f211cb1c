//! The vendor's usage section.

use crate::chat::{Usage, UsageReport};
use crate::features::Served;
use crate::reported::Reported;
use seawall_core::money::{PriceDimension, UsageExtras};
use serde::{Deserialize, Serialize};

/// The usage of an answer. In a stream, each event carries what is known by then, so an absent field means unchanged.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct UsageFields {
    input_tokens: Reported<u64>,
    cache_creation_input_tokens: Reported<u64>,
    cache_read_input_tokens: Reported<u64>,
    output_tokens: Reported<u64>,
    #[serde(skip_serializing_if = "Reported::is_absent")]
    cache_creation: Reported<CacheCreation>,
    #[serde(skip_serializing_if = "Reported::is_absent")]
    server_tool_use: Reported<ServerToolUse>,
    #[serde(skip_serializing)]
    service_tier: Served,
    #[serde(skip_serializing)]
    speed: Served,
    #[serde(skip_serializing)]
    inference_geo: Served,
    /// The model passes that the vendor made internally. Usage for context management (compaction) is only reported
    /// here, not in the figures above.
    #[serde(skip_serializing)]
    iterations: Reported<Vec<Reported<Iteration>>>,
}

/// Cache writes by time to live.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct CacheCreation {
    ephemeral_5m_input_tokens: Reported<u64>,
    ephemeral_1h_input_tokens: Reported<u64>,
}

/// Number of uses of the vendor's own tools. Fetching a page has no fee.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct ServerToolUse {
    web_search_requests: Reported<u64>,
}

/// One of several internal passes.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Iteration {
    input_tokens: Reported<u64>,
    cache_creation_input_tokens: Reported<u64>,
    cache_read_input_tokens: Reported<u64>,
    output_tokens: Reported<u64>,
    cache_creation: Reported<CacheCreation>,
}

impl UsageFields {
    pub(super) fn report(&self) -> UsageReport {
        UsageReport { usage: self.over(Usage::default()), has_output: self.has_output() }
    }

    /// Whether the output tokens were reported.
    pub(super) const fn has_output(&self) -> bool {
        self.output_tokens.told().is_some()
    }

    /// Updates earlier usage with every reported field. If any input figure is unusable, the whole input is reset to
    /// unknown (0), because a partial figure would be taken for the total.
    pub(super) fn over(&self, before: Usage) -> Usage {
        let mut usage = Usage {
            input: self.input_tokens.count().unwrap_or(before.input),
            cache_read: self.cache_read_input_tokens.count().unwrap_or(before.cache_read),
            cache_write: self.cache_creation_input_tokens.count().unwrap_or(before.cache_write),
            output: self.output_tokens.count().unwrap_or(before.output),
            extras: self.extras_over(before.extras),
        };
        self.iterations.told().into_iter().for_each(|passes| take_larger(&mut usage, passes));
        if self.has_unusable_input() {
            (usage.input, usage.cache_read, usage.cache_write) = (0, 0, 0);
        }
        usage
    }

    fn has_unusable_input(&self) -> bool {
        let hour =
            self.cache_creation.told().is_some_and(|told| told.ephemeral_1h_input_tokens.is_unusable());
        let uses = self.server_tool_use.told().is_some_and(|told| told.web_search_requests.is_unusable());
        hour || uses
            || self.cache_creation.is_unusable()
            || self.server_tool_use.is_unusable()
            || self.iterations.is_unusable()
            || self.iterations.told().is_some_and(|passes| passes.iter().any(Iteration::hides_input))
            || self.input_tokens.is_unusable()
            || self.cache_read_input_tokens.is_unusable()
            || self.cache_creation_input_tokens.is_unusable()
    }

    fn extras_over(&self, before: UsageExtras) -> UsageExtras {
        let hour = self.cache_creation.told().and_then(|told| told.ephemeral_1h_input_tokens.count());
        let searches = self.server_tool_use.told().and_then(|used| used.web_search_requests.count());
        let service = self.service_tier.onto(before.service, PriceDimension::Tier);
        let service = self.speed.onto(service, PriceDimension::Speed);
        UsageExtras {
            cache_write_1h: hour.or(before.cache_write_1h),
            tool_uses: searches.unwrap_or(before.tool_uses),
            service: self.inference_geo.onto(service, PriceDimension::Geography),
        }
    }
}

impl Iteration {
    /// Whether an input figure of this pass is unusable.
    fn hides_input(pass: &Reported<Self>) -> bool {
        let figures =
            |pass: &Self| [pass.input_tokens, pass.cache_creation_input_tokens, pass.cache_read_input_tokens];
        let is_unusable = |pass| figures(pass).iter().any(Reported::is_unusable);
        pass.is_unusable() || pass.told().is_some_and(is_unusable)
    }
}

/// Takes the sum over all passes where it exceeds the reported total, because that sum is what was billed.
fn take_larger(usage: &mut Usage, passes: &[Reported<Iteration>]) {
    let sum = |part: fn(&Iteration) -> Reported<u64>| {
        let parts = passes.iter().filter_map(|pass| part(pass.told()?).count());
        parts.fold(0_u64, u64::saturating_add)
    };
    usage.input = usage.input.max(sum(|pass| pass.input_tokens));
    usage.cache_read = usage.cache_read.max(sum(|pass| pass.cache_read_input_tokens));
    usage.cache_write = usage.cache_write.max(sum(|pass| pass.cache_creation_input_tokens));
    usage.output = usage.output.max(sum(|pass| pass.output_tokens));
    let hour = sum(|pass| {
        pass.cache_creation.told().map_or(Reported::Absent, |told| told.ephemeral_1h_input_tokens)
    });
    if hour > 0 {
        usage.extras.cache_write_1h = usage.extras.cache_write_1h.max(Some(hour));
    }
}

impl From<Usage> for UsageFields {
    fn from(usage: Usage) -> Self {
        let tool_uses = Some(usage.extras.tool_uses).filter(|uses| *uses > 0);
        let creation = |hour| CacheCreation {
            ephemeral_5m_input_tokens: Reported::Told(usage.cache_write.saturating_sub(hour)),
            ephemeral_1h_input_tokens: Reported::Told(hour),
        };
        Self {
            input_tokens: Reported::Told(usage.input),
            cache_creation_input_tokens: Reported::Told(usage.cache_write),
            cache_read_input_tokens: Reported::Told(usage.cache_read),
            output_tokens: Reported::Told(usage.output),
            cache_creation: usage.extras.cache_write_1h.map(creation).into(),
            server_tool_use: tool_uses
                .map(|uses| ServerToolUse { web_search_requests: Reported::Told(uses) })
                .into(),
            service_tier: Served::default(),
            speed: Served::default(),
            inference_geo: Served::default(),
            iterations: Reported::Absent,
        }
    }
}
