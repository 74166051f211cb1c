//! A whole answer, read for its usage and its end.

use crate::answer_error::AnswerError;
use crate::chat::{FinishReason, Usage, UsageReport};
use crate::features::Served;
use seawall_core::money::PriceDimension;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Reads usage and finish reason out of a whole answer. Of several choices the first tells the reason.
pub fn read_answer(body: &[u8]) -> Result<(UsageReport, FinishReason), AnswerError> {
    let answer: Body<'_> =
        serde_json::from_slice(body).map_err(|error| AnswerError::unreadable(&error.to_string()))?;
    let finish = answer.choices.into_iter().next().and_then(|choice| choice.finish_reason);
    let finish = finish.map_or(FinishReason::Other, |Word(name)| finish_of(&name));
    let mut report = answer.usage.unwrap_or_default().report();
    let service = &mut report.usage.extras.service;
    *service = answer.service_tier.onto(*service, PriceDimension::Tier);
    Ok((report, finish))
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
    usage: Option<UsageFields>,
    #[serde(default)]
    service_tier: Served,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    finish_reason: Option<Word<'a>>,
}

/// A word that is borrowed where it can be; inside an `Option` only a wrapper is.
#[derive(Deserialize)]
pub(super) struct Word<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// Usage as the vendor writes it: the prompt's tokens are all of them, cached or not.
#[derive(Default, Deserialize, Serialize)]
pub(super) struct UsageFields {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    /// Some vendors count reasoning here and nowhere else.
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize, Serialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

impl UsageFields {
    pub(super) fn read(&self) -> Usage {
        let details = self.prompt_tokens_details.as_ref();
        let read = details.and_then(|details| details.cached_tokens).unwrap_or(0);
        let write = details.and_then(|details| details.cache_write_tokens).unwrap_or(0);
        let (prompt, told) = (self.prompt_tokens.unwrap_or(0), self.completion_tokens.unwrap_or(0));
        // What the total has beyond its parts was used, and output is the dearest it can have been.
        let output = self.total_tokens.map_or(told, |total| told.max(total.saturating_sub(prompt)));
        Usage::from_whole_prompt(prompt, read, write, output)
    }

    pub(super) fn report(&self) -> UsageReport {
        UsageReport { usage: self.read(), has_output: self.has_output() }
    }

    /// Whether it says how much output there was.
    pub(super) const fn has_output(&self) -> bool {
        self.completion_tokens.is_some() || self.prompt_tokens.is_some() && self.total_tokens.is_some()
    }
}

impl From<Usage> for UsageFields {
    fn from(usage: Usage) -> Self {
        let prompt = usage.total_input();
        Self {
            prompt_tokens: Some(prompt),
            completion_tokens: Some(usage.output),
            total_tokens: Some(prompt.saturating_add(usage.output)),
            prompt_tokens_details: Some(PromptDetails {
                cached_tokens: Some(usage.cache_read),
                cache_write_tokens: Some(usage.cache_write),
            }),
        }
    }
}

pub(super) fn finish_of(name: &str) -> FinishReason {
    match name {
        "stop" => FinishReason::EndTurn,
        "length" => FinishReason::MaxTokens,
        "tool_calls" | "function_call" => FinishReason::ToolUse,
        "content_filter" => FinishReason::Refusal,
        _ => FinishReason::Other,
    }
}

/// The vendor's word for a finish reason. It has fewer of them: a stop sequence, a pause and what is not known read as the
/// usual end, and a full window as a reached limit.
pub(super) const fn name_of(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::EndTurn
        | FinishReason::StopSequence
        | FinishReason::PauseTurn
        | FinishReason::Other => "stop",
        FinishReason::MaxTokens | FinishReason::ContextWindowExceeded => "length",
        FinishReason::ToolUse => "tool_calls",
        FinishReason::Refusal => "content_filter",
    }
}
