//! Reads usage and finish reason from a whole answer that passes through.

use crate::answer_error::AnswerError;
use crate::chat::{FinishReason, Usage, UsageReport};
use crate::features::ServiceOption;
use crate::lenient::Lenient;
use crate::request::CowStr;
use seawall_core::money::PriceDimension;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Reads usage and finish reason from a whole answer. If there are several choices, the first one decides the reason.
pub fn read_answer(body: &[u8]) -> Result<(UsageReport, FinishReason), AnswerError> {
    let answer: Body<'_> =
        serde_json::from_slice(body).map_err(|error| AnswerError::unreadable(&error.to_string()))?;
    let choice = answer.choices.into_iter().next();
    let has_refused = choice.as_ref().is_some_and(Choice::has_refused);
    let finish = choice.and_then(|choice| choice.finish_reason);
    let finish = finish.map_or(FinishReason::Other, |CowStr(name)| finish_of(&name));
    let finish = if has_refused { as_refusal(finish) } else { finish };
    let mut report = answer.usage.get().map(OpenAiUsageFields::report).unwrap_or_default();
    let service = &mut report.usage.extras.service;
    *service = answer.service_tier.apply_to(*service, PriceDimension::Tier);
    Ok((report, finish))
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
    #[serde(default)]
    usage: Lenient<OpenAiUsageFields>,
    #[serde(default)]
    service_tier: ServiceOption,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    finish_reason: Option<CowStr<'a>>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
}

impl Choice<'_> {
    fn has_refused(&self) -> bool {
        self.message.as_ref().and_then(|message| message.refusal).is_some_and(is_non_empty)
    }
}

/// Whether a field of a message has content.
pub(super) fn is_non_empty(raw: &RawValue) -> bool {
    !matches!(raw.get(), "null" | r#""""# | "[]")
}

/// The finish reason of a message with a `refusal`: a normal end of turn becomes a refusal.
pub(super) const fn as_refusal(finish: FinishReason) -> FinishReason {
    match finish {
        FinishReason::EndTurn => FinishReason::Refusal,
        other => other,
    }
}

/// The vendor's usage section. `prompt_tokens` includes cached tokens.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct OpenAiUsageFields {
    prompt_tokens: Lenient<u64>,
    completion_tokens: Lenient<u64>,
    /// Some vendors include reasoning tokens here and nowhere else.
    total_tokens: Lenient<u64>,
    prompt_tokens_details: Lenient<PromptDetails>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Lenient<u64>,
    cache_write_tokens: Lenient<u64>,
}

impl OpenAiUsageFields {
    pub(super) fn read(&self) -> Usage {
        let details = self.prompt_tokens_details.get();
        let read = details.and_then(|details| details.cached_tokens.count()).unwrap_or(0);
        let write = details.and_then(|details| details.cache_write_tokens.count()).unwrap_or(0);
        let (prompt, completion) =
            (self.prompt_tokens.count().unwrap_or(0), self.completion_tokens.count().unwrap_or(0));
        // The excess of the total over its parts was used; it is counted as output, the most expensive it can have
        // been.
        let total = self.total_tokens.count().filter(|_| !self.prompt_tokens.is_invalid());
        let output = total.map_or(completion, |total| completion.max(total.saturating_sub(prompt)));
        if self.has_invalid_input() {
            // A partial input figure would be taken for the total.
            return Usage { output, ..Usage::default() };
        }
        Usage::from_whole_prompt(prompt, read, write, output)
    }

    fn has_invalid_input(&self) -> bool {
        let details = self.prompt_tokens_details.get();
        self.prompt_tokens.is_invalid()
            || self.prompt_tokens_details.is_invalid()
            || details.is_some_and(|completion| {
                completion.cached_tokens.is_invalid() || completion.cache_write_tokens.is_invalid()
            })
    }

    pub(super) fn report(&self) -> UsageReport {
        UsageReport { usage: self.read(), output_reported: self.output_reported() }
    }

    /// Whether the output tokens were reported.
    pub(super) const fn output_reported(&self) -> bool {
        self.completion_tokens.get().is_some()
            || self.prompt_tokens.get().is_some() && self.total_tokens.get().is_some()
    }
}

impl From<Usage> for OpenAiUsageFields {
    fn from(usage: Usage) -> Self {
        let prompt = usage.total_input();
        Self {
            prompt_tokens: Lenient::Present(prompt),
            completion_tokens: Lenient::Present(usage.output),
            total_tokens: Lenient::Present(prompt.saturating_add(usage.output)),
            prompt_tokens_details: Lenient::Present(PromptDetails {
                cached_tokens: Lenient::Present(usage.cache_read),
                cache_write_tokens: Lenient::Present(usage.cache_write),
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

/// The vendor's name of a finish reason. It has fewer reasons: a stop sequence, a pause and an unknown reason map to
/// `stop`, and an exceeded context window maps to `length`.
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
