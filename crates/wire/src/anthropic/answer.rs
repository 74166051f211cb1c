//! A whole answer, read for its usage and its end.

use crate::answer_error::AnswerError;
use crate::chat::{FinishReason, Usage, UsageReport};
use crate::features::Served;
use seawall_core::money::{PriceDimension, UsageExtras};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Reads usage and finish reason out of a whole answer.
pub fn read_answer(body: &[u8]) -> Result<(UsageReport, FinishReason), AnswerError> {
    let unreadable = |error: serde_json::Error| AnswerError::Unreadable { problem: error.to_string() };
    let answer: AnswerFields<'_> = serde_json::from_slice(body).map_err(unreadable)?;
    if answer.kind != "message" {
        return Err(AnswerError::NotAMessage { kind: answer.kind.into_owned() });
    }
    let finish = answer.stop_reason.map_or(FinishReason::Other, |Word(name)| finish_of(&name));
    Ok((answer.usage.unwrap_or_default().report(), finish))
}

#[derive(Deserialize)]
struct AnswerFields<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    stop_reason: Option<Word<'a>>,
    usage: Option<UsageFields>,
}

/// A word that is borrowed where it can be; inside an `Option` only a wrapper is.
#[derive(Deserialize)]
pub(super) struct Word<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// Usage as the vendor writes it. In a stream each message carries what is known by then, so a field that is
/// not there has not changed.
#[derive(Default, Deserialize, Serialize)]
pub(super) struct UsageFields {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache_creation: Option<CacheCreation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server_tool_use: Option<ServerToolUse>,
    #[serde(default, skip_serializing)]
    service_tier: Served,
    #[serde(default, skip_serializing)]
    speed: Served,
    #[serde(default, skip_serializing)]
    inference_geo: Served,
}

/// How long the tokens live that were written to the cache.
#[derive(Deserialize, Serialize)]
struct CacheCreation {
    ephemeral_5m_input_tokens: Option<u64>,
    ephemeral_1h_input_tokens: Option<u64>,
}

/// How often tools of the vendor were used. Fetching a page has no fee.
#[derive(Deserialize, Serialize)]
struct ServerToolUse {
    web_search_requests: Option<u64>,
}

impl UsageFields {
    pub(super) fn report(&self) -> UsageReport {
        UsageReport { usage: self.over(Usage::default()), has_output: self.has_output() }
    }

    /// Whether it says how much output there was.
    pub(super) const fn has_output(&self) -> bool {
        self.output_tokens.is_some()
    }

    /// What was known before, with every field that is given replaced.
    pub(super) fn over(&self, before: Usage) -> Usage {
        Usage {
            input: self.input_tokens.unwrap_or(before.input),
            cache_read: self.cache_read_input_tokens.unwrap_or(before.cache_read),
            cache_write: self.cache_creation_input_tokens.unwrap_or(before.cache_write),
            output: self.output_tokens.unwrap_or(before.output),
            extras: self.extras_over(before.extras),
        }
    }

    fn extras_over(&self, before: UsageExtras) -> UsageExtras {
        let hour = self.cache_creation.as_ref().and_then(|creation| creation.ephemeral_1h_input_tokens);
        let searches = self.server_tool_use.as_ref().and_then(|used| used.web_search_requests);
        let service = self.service_tier.onto(before.service, PriceDimension::Tier);
        let service = self.speed.onto(service, PriceDimension::Speed);
        UsageExtras {
            cache_write_1h: hour.or(before.cache_write_1h),
            tool_uses: searches.unwrap_or(before.tool_uses),
            service: self.inference_geo.onto(service, PriceDimension::Geography),
        }
    }
}

impl From<Usage> for UsageFields {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: Some(usage.input),
            cache_creation_input_tokens: Some(usage.cache_write),
            cache_read_input_tokens: Some(usage.cache_read),
            output_tokens: Some(usage.output),
            cache_creation: usage.extras.cache_write_1h.map(|hour| CacheCreation {
                ephemeral_5m_input_tokens: Some(usage.cache_write.saturating_sub(hour)),
                ephemeral_1h_input_tokens: Some(hour),
            }),
            server_tool_use: Some(usage.extras.tool_uses)
                .filter(|uses| *uses > 0)
                .map(|uses| ServerToolUse { web_search_requests: Some(uses) }),
            service_tier: Served::default(),
            speed: Served::default(),
            inference_geo: Served::default(),
        }
    }
}

const FINISH_NAMES: [(&str, FinishReason); 7] = [
    ("end_turn", FinishReason::EndTurn),
    ("max_tokens", FinishReason::MaxTokens),
    ("stop_sequence", FinishReason::StopSequence),
    ("tool_use", FinishReason::ToolUse),
    ("pause_turn", FinishReason::PauseTurn),
    ("refusal", FinishReason::Refusal),
    ("model_context_window_exceeded", FinishReason::ContextWindowExceeded),
];

pub(super) fn finish_of(name: &str) -> FinishReason {
    FINISH_NAMES.iter().find(|(known, _)| *known == name).map_or(FinishReason::Other, |(_, finish)| *finish)
}

/// The vendor's word for a finish reason. A reason that has none reads as the usual end.
pub(super) fn name_of(finish: FinishReason) -> &'static str {
    FINISH_NAMES.iter().find(|(_, known)| *known == finish).map_or("end_turn", |(name, _)| *name)
}
