//! The vendor's usage section.
//!
//! The vendor counts in four parts that do not overlap, and `totalTokenCount` is their sum:
//!
//! | field | meaning | counted as |
//! | --- | --- | --- |
//! | `promptTokenCount` | the prompt, cached tokens included | input |
//! | `toolUsePromptTokenCount` | results of the vendor's tools, which the model reads | input |
//! | `candidatesTokenCount` | the answers | output |
//! | `thoughtsTokenCount` | thoughts, billed at the output price | output |
//!
//! `cachedContentTokenCount` is a part of the prompt: it is counted as cache read and subtracted from the input. A zero
//! is left out by the vendor, so an absent field is a zero.
//!
//! Two exceptions: if the total is exactly prompt, tool results and answers, the thoughts are already included in the
//! answers and are not added a second time. If the total exceeds its parts, the excess was used; it is counted as
//! output, the most expensive it can have been.

use crate::chat::{Usage, UsageReport};
use crate::features::ServiceOption;
use crate::lenient::Lenient;
use seawall_core::money::{PriceDimension, ServiceTier};
use serde::{Deserialize, Serialize};

/// The token counts of an answer, or of a stream so far.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GeminiUsageFields {
    prompt_token_count: Lenient<u64>,
    #[serde(skip_serializing_if = "Lenient::is_absent")]
    cached_content_token_count: Lenient<u64>,
    candidates_token_count: Lenient<u64>,
    #[serde(skip_serializing_if = "Lenient::is_absent")]
    thoughts_token_count: Lenient<u64>,
    #[serde(skip_serializing_if = "Lenient::is_absent")]
    tool_use_prompt_token_count: Lenient<u64>,
    total_token_count: Lenient<u64>,
    #[serde(skip_serializing)]
    service_tier: ServiceOption,
}

impl GeminiUsageFields {
    /// These counts, updated by those of a later chunk. The counts of a stream are cumulative, so a count that the later
    /// chunk does not repeat stays.
    pub(super) fn updated(self, later: &Self) -> Self {
        const fn last(earlier: Lenient<u64>, later: Lenient<u64>) -> Lenient<u64> {
            if later.is_absent() { earlier } else { later }
        }
        Self {
            prompt_token_count: last(self.prompt_token_count, later.prompt_token_count),
            cached_content_token_count: last(
                self.cached_content_token_count,
                later.cached_content_token_count,
            ),
            candidates_token_count: last(self.candidates_token_count, later.candidates_token_count),
            thoughts_token_count: last(self.thoughts_token_count, later.thoughts_token_count),
            tool_use_prompt_token_count: last(
                self.tool_use_prompt_token_count,
                later.tool_use_prompt_token_count,
            ),
            total_token_count: last(self.total_token_count, later.total_token_count),
            service_tier: if later.names_tier() { later.service_tier } else { self.service_tier },
        }
    }

    /// Whether the service tier is one with its own price.
    fn names_tier(&self) -> bool {
        self.service_tier.apply_to(ServiceTier::default(), PriceDimension::Tier) != ServiceTier::default()
    }

    /// The usage, with this number of billed searches.
    pub(super) fn report(&self, searches: u64) -> UsageReport {
        let mut usage = self.read();
        usage.extras.tool_uses = searches;
        usage.extras.service = self.service_tier.apply_to(usage.extras.service, PriceDimension::Tier);
        UsageReport { usage, output_reported: self.output_reported() }
    }

    fn read(&self) -> Usage {
        let prompt = self.prompt_token_count.count().unwrap_or(0);
        let tools = self.tool_use_prompt_token_count.count().unwrap_or(0);
        let input = prompt.saturating_add(tools);
        let output = self.output(input);
        if self.has_invalid_input() {
            // A partial input figure would be taken for the total.
            return Usage { output, ..Usage::default() };
        }
        let cached = self.cached_content_token_count.count().unwrap_or(0);
        Usage::from_whole_prompt(input, cached, 0, output)
    }

    fn output(&self, input: u64) -> u64 {
        let answers = self.candidates_token_count.count().unwrap_or(0);
        let output = answers.saturating_add(self.thoughts_token_count.count().unwrap_or(0));
        let is_input_known =
            !self.prompt_token_count.is_invalid() && !self.tool_use_prompt_token_count.is_invalid();
        match self.total_token_count.count().filter(|_| is_input_known) {
            Some(total) if answers > 0 && total == input.saturating_add(answers) => answers,
            Some(total) => output.max(total.saturating_sub(input)),
            None => output,
        }
    }

    const fn has_invalid_input(&self) -> bool {
        self.prompt_token_count.is_invalid()
            || self.cached_content_token_count.is_invalid()
            || self.tool_use_prompt_token_count.is_invalid()
    }

    /// Whether the output tokens were reported: by themselves, or by a total.
    const fn output_reported(&self) -> bool {
        if self.candidates_token_count.is_invalid() || self.thoughts_token_count.is_invalid() {
            return self.prompt_token_count.get().is_some() && self.total_token_count.get().is_some();
        }
        self.candidates_token_count.get().is_some()
            || self.thoughts_token_count.get().is_some()
            || self.prompt_token_count.get().is_some() && self.total_token_count.get().is_some()
    }
}

impl From<Usage> for GeminiUsageFields {
    /// The vendor has no field for tokens written to a cache; they are part of the prompt.
    fn from(usage: Usage) -> Self {
        let prompt = usage.total_input();
        Self {
            prompt_token_count: Lenient::Present(prompt),
            cached_content_token_count: Some(usage.cache_read).filter(|cached| *cached > 0).into(),
            candidates_token_count: Lenient::Present(usage.output),
            total_token_count: Lenient::Present(prompt.saturating_add(usage.output)),
            ..Self::default()
        }
    }
}
