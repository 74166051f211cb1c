//! Reads and writes whole answers.

use super::shapes::{BlockFields, ConverseBlock, ConverseMetrics, finish_of, name_of};
use super::usage::{ConverseUsageFields, PerformanceFields, TierFields, read_usage_report};
use crate::AnswerError;
use crate::bedrock::error_response::json;
use crate::chat::{AnswerPart, ChatAnswer, FinishReason, UsageReport};
use crate::lenient::Lenient;
use crate::request::CowStr;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::time::Duration;

/// Reads usage and finish reason from a whole answer that passes through.
pub fn read_converse_usage(body: &[u8]) -> Result<(UsageReport, FinishReason), AnswerError> {
    let answer: AccountFields<'_> = parse(body)?;
    let report = read_usage_report(&answer.usage, &answer.service_tier, &answer.performance_config);
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
        usage: answer.usage.get().map(ConverseUsageFields::read).unwrap_or_default(),
    })
}

/// Writes the body of a whole answer; `latency` is the time it took. The id is sent in the header `x-amzn-requestid`.
#[must_use]
pub fn write_chat_answer(answer: &ChatAnswer, latency: Duration) -> Bytes {
    let content = answer.parts.iter().map(|part| match part {
        AnswerPart::Text(text) => ConverseBlock::Text(text),
        AnswerPart::ToolCall(call) => call.into(),
    });
    json(&AnswerOut {
        metrics: ConverseMetrics { latency_ms: latency.as_millis() },
        output: Output { message: Message { content: content.collect(), role: "assistant" } },
        stop_reason: name_of(answer.finish),
        usage: answer.usage.into(),
    })
}

fn read_part(raw: &RawValue) -> Result<Option<AnswerPart>, AnswerError> {
    let unreadable = |problem: &str| AnswerError::Unreadable { problem: format!("{problem}: {raw}") };
    let mut block = BlockFields::read(raw).ok_or_else(|| unreadable("invalid content block"))?;
    if let Some(text) = block.text.take().or_else(|| block.annotated_text()) {
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
    stop_reason: CowStr<'a>,
    #[serde(default)]
    usage: Lenient<ConverseUsageFields>,
    #[serde(default)]
    service_tier: Lenient<TierFields>,
    #[serde(default)]
    performance_config: Lenient<PerformanceFields>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerFields<'a> {
    #[serde(borrow)]
    output: OutputFields<'a>,
    #[serde(borrow)]
    stop_reason: CowStr<'a>,
    #[serde(default)]
    usage: Lenient<ConverseUsageFields>,
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
struct AnswerOut<'a> {
    metrics: ConverseMetrics,
    output: Output<'a>,
    stop_reason: &'static str,
    usage: ConverseUsageFields,
}

#[derive(Serialize)]
struct Output<'a> {
    message: Message<'a>,
}

#[derive(Serialize)]
struct Message<'a> {
    content: Vec<ConverseBlock<'a>>,
    role: &'static str,
}
