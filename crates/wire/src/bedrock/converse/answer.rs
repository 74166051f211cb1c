//! Reads and writes whole answers.

use super::shapes::{Block, BlockFields, Metrics, finish_of, name_of};
use super::usage::{PerformanceFields, TierFields, UsageFields, served_usage};
use crate::AnswerError;
use crate::bedrock::refusal::json;
use crate::chat::{AnswerPart, ChatAnswer, FinishReason, UsageReport};
use crate::reported::Reported;
use crate::request::Name;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::time::Duration;

/// Reads usage and finish reason from a whole answer that passes through.
pub fn read_converse_usage(body: &[u8]) -> Result<(UsageReport, FinishReason), AnswerError> {
    let answer: AccountFields<'_> = parse(body)?;
    let report = served_usage(&answer.usage, &answer.service_tier, &answer.performance_config);
    Ok((report, finish_of(&answer.stop_reason.0)))
}

/// Parses a whole answer. The body contains neither an id nor the model: `id` is the header `x-amzn-requestid`, and
/// `model` the one that was called.
pub fn read_chat_answer(body: &[u8], id: &str, model: &str) -> Result<ChatAnswer, AnswerError> {
    let answer: AnswerFields<'_> = parse(body)?;
    let parts: Result<Vec<_>, _> = answer.output.message.content.into_iter().map(read_part).collect();
    Ok(ChatAnswer {
        id: id.to_owned(),
        model: model.to_owned(),
        parts: parts?.into_iter().flatten().collect(),
        finish: finish_of(&answer.stop_reason.0),
        usage: answer.usage.told().map(UsageFields::read).unwrap_or_default(),
    })
}

/// Writes the body of a whole answer; `latency` is the time it took. The id is sent in the header `x-amzn-requestid`.
#[must_use]
pub fn write_chat_answer(answer: &ChatAnswer, latency: Duration) -> Bytes {
    let content = answer.parts.iter().map(|part| match part {
        AnswerPart::Text(text) => Block::Text(text),
        AnswerPart::ToolCall(call) => call.into(),
    });
    json(&Answer {
        metrics: Metrics { latency_ms: latency.as_millis() },
        output: Output { message: Message { content: content.collect(), role: "assistant" } },
        stop_reason: name_of(answer.finish),
        usage: answer.usage.into(),
    })
}

fn read_part(raw: &RawValue) -> Result<Option<AnswerPart>, AnswerError> {
    let unreadable = |problem: &str| AnswerError::Unreadable { problem: format!("{problem}: {raw}") };
    let mut block = BlockFields::read(raw).ok_or_else(|| unreadable("this is no block of an answer"))?;
    if let Some(text) = block.text.take().or_else(|| block.marked_text()) {
        return Ok(Some(AnswerPart::Text(text)));
    }
    // A tool call that the service executes itself is dropped, like every other block without a neutral form.
    Ok(block.tool_use.and_then(|call| call.into_call()).map(AnswerPart::ToolCall))
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, AnswerError> {
    serde_json::from_slice(body).map_err(|error| AnswerError::Unreadable { problem: error.to_string() })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccountFields<'a> {
    #[serde(borrow)]
    stop_reason: Name<'a>,
    #[serde(default)]
    usage: Reported<UsageFields>,
    #[serde(default)]
    service_tier: Reported<TierFields>,
    #[serde(default)]
    performance_config: Reported<PerformanceFields>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerFields<'a> {
    #[serde(borrow)]
    output: OutputFields<'a>,
    #[serde(borrow)]
    stop_reason: Name<'a>,
    #[serde(default)]
    usage: Reported<UsageFields>,
}

#[derive(Deserialize)]
struct OutputFields<'a> {
    #[serde(borrow)]
    message: MessageFields<'a>,
}

#[derive(Deserialize)]
struct MessageFields<'a> {
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    metrics: Metrics,
    output: Output<'a>,
    stop_reason: &'static str,
    usage: UsageFields,
}

#[derive(Serialize)]
struct Output<'a> {
    message: Message<'a>,
}

#[derive(Serialize)]
struct Message<'a> {
    content: Vec<Block<'a>>,
    role: &'static str,
}
