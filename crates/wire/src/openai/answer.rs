//! Reads usage and finish reason from a whole answer that passes through.

use crate::answer_error::AnswerError;
use crate::chat::{FinishReason, Usage, UsageReport};
use crate::features::Served;
use crate::reported::Reported;
use seawall_core::money::PriceDimension;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Reads usage and finish reason from a whole answer. If there are several choices, the first one decides the reason.
pub fn read_answer(body: &[u8]) -> Result<(UsageReport, FinishReason), AnswerError> {
    let answer: Body<'_> =
        serde_json::from_slice(body).map_err(|error| AnswerError::unreadable(&error.to_string()))?;
    let choice = answer.choices.into_iter().next();
    let has_refused = choice.as_ref().is_some_and(Choice::has_refused);
    let finish = choice.and_then(|choice| choice.finish_reason);
    let finish = finish.map_or(FinishReason::Other, |Word(name)| finish_of(&name));
    let finish = if has_refused { refused(finish) } else { finish };
    let mut report = answer.usage.told().map(UsageFields::report).unwrap_or_default();
    let service = &mut report.usage.extras.service;
    *service = answer.service_tier.onto(*service, PriceDimension::Tier);
    Ok((report, finish))
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
    #[serde(default)]
    usage: Reported<UsageFields>,
    #[serde(default)]
    service_tier: Served,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    finish_reason: Option<Word<'a>>,
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
        self.message.as_ref().and_then(|message| message.refusal).is_some_and(is_something)
    }
}

/// Whether a field of a message has content.
pub(super) fn is_something(raw: &RawValue) -> bool {
    !matches!(raw.get(), "null" | r#""""# | "[]")
}

/// The finish reason of a message with a `refusal`: a normal end of turn becomes a refusal.
pub(super) const fn refused(finish: FinishReason) -> FinishReason {
    match finish {
        FinishReason::EndTurn => FinishReason::Refusal,
        other => other,
    }
}

/// A string that is borrowed if possible. The wrapper is needed because serde does not borrow a `Cow` inside an
/// `Option`.
#[derive(Deserialize)]
pub(super) struct Word<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// The vendor's usage section. `prompt_tokens` includes cached tokens.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct UsageFields {
    prompt_tokens: Reported<u64>,
    completion_tokens: Reported<u64>,
    /// Some vendors include reasoning tokens here and nowhere else.
    total_tokens: Reported<u64>,
    prompt_tokens_details: Reported<PromptDetails>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Reported<u64>,
    cache_write_tokens: Reported<u64>,
}

impl UsageFields {
    pub(super) fn read(&self) -> Usage {
        let details = self.prompt_tokens_details.told();
        let read = details.and_then(|details| details.cached_tokens.count()).unwrap_or(0);
        let write = details.and_then(|details| details.cache_write_tokens.count()).unwrap_or(0);
        let (prompt, told) =
            (self.prompt_tokens.count().unwrap_or(0), self.completion_tokens.count().unwrap_or(0));
        // The excess of the total over its parts was used; it is counted as output, the most expensive it can have
        // been.
        let total = self.total_tokens.count().filter(|_| !self.prompt_tokens.is_unusable());
        let output = total.map_or(told, |total| told.max(total.saturating_sub(prompt)));
        if self.has_unusable_input() {
            // A partial input figure would be taken for the total.
            return Usage { output, ..Usage::default() };
        }
        Usage::from_whole_prompt(prompt, read, write, output)
    }

    fn has_unusable_input(&self) -> bool {
        let details = self.prompt_tokens_details.told();
        self.prompt_tokens.is_unusable()
            || self.prompt_tokens_details.is_unusable()
            || details
                .is_some_and(|told| told.cached_tokens.is_unusable() || told.cache_write_tokens.is_unusable())
    }

    pub(super) fn report(&self) -> UsageReport {
        UsageReport { usage: self.read(), has_output: self.has_output() }
    }

    /// Whether the output tokens were reported.
    pub(super) const fn has_output(&self) -> bool {
        self.completion_tokens.told().is_some()
            || self.prompt_tokens.told().is_some() && self.total_tokens.told().is_some()
    }
}

impl From<Usage> for UsageFields {
    fn from(usage: Usage) -> Self {
        let prompt = usage.total_input();
        Self {
            prompt_tokens: Reported::Told(prompt),
            completion_tokens: Reported::Told(usage.output),
            total_tokens: Reported::Told(prompt.saturating_add(usage.output)),
            prompt_tokens_details: Reported::Told(PromptDetails {
                cached_tokens: Reported::Told(usage.cache_read),
                cache_write_tokens: Reported::Told(usage.cache_write),
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
