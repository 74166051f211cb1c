//! What requests, answers and streams are made of.

use crate::bedrock::body::read_object;
use crate::chat::{FinishReason, Image, JsonText, ToolCall, Usage, UsageReport};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A block of a turn as it is read: one of these is there.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BlockFields<'a> {
    pub(super) text: Option<String>,
    pub(super) image: Option<ImageFields>,
    pub(super) tool_use: Option<ToolUseFields>,
    #[serde(borrow)]
    pub(super) tool_result: Option<ToolResultFields<'a>>,
    pub(super) guard_content: Option<GuardFields>,
    pub(super) citations_content: Option<CitationsFields>,
    pub(super) json: Option<JsonText>,
    pub(super) cache_point: Option<IgnoredAny>,
    pub(super) reasoning_content: Option<IgnoredAny>,
}

impl<'a> BlockFields<'a> {
    pub(super) fn read(raw: &'a RawValue) -> Option<Self> {
        read_object(raw)
    }

    /// The words of a block that is words with marks.
    pub(super) fn marked_text(&mut self) -> Option<String> {
        let guarded = self.guard_content.take().and_then(|guard| guard.text).map(|guard| guard.text);
        guarded.or_else(|| {
            let pieces = self.citations_content.take()?.content;
            Some(pieces.into_iter().filter_map(|piece| piece.text).collect())
        })
    }
}

#[derive(Deserialize)]
pub(super) struct ImageFields {
    format: String,
    source: SourceFields,
}

#[derive(Deserialize)]
struct SourceFields {
    bytes: Option<String>,
}

impl ImageFields {
    pub(super) fn into_image(self) -> Option<Image> {
        let media_type = format!("image/{}", self.format);
        format_of(&media_type)?;
        Some(Image::Base64 { media_type, content: self.source.bytes? })
    }
}

/// The service's word for a kind of picture.
pub(super) fn format_of(media_type: &str) -> Option<&'static str> {
    match media_type {
        "image/png" => Some("png"),
        "image/jpeg" | "image/jpg" => Some("jpeg"),
        "image/gif" => Some("gif"),
        "image/webp" => Some("webp"),
        _ => None,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolUseFields {
    tool_use_id: String,
    name: String,
    input: JsonText,
    #[serde(rename = "type")]
    kind: Option<IgnoredAny>,
}

impl ToolUseFields {
    /// The call, unless the service makes it itself or its input is no object.
    pub(super) fn into_call(self) -> Option<ToolCall> {
        let is_ours = self.kind.is_none() && self.input.get().starts_with('{');
        is_ours.then_some(ToolCall { id: self.tool_use_id, name: self.name, input: self.input })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolResultFields<'a> {
    pub(super) tool_use_id: String,
    #[serde(borrow)]
    pub(super) content: Vec<&'a RawValue>,
    pub(super) status: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct GuardFields {
    text: Option<GuardedText>,
}

#[derive(Deserialize)]
struct GuardedText {
    text: String,
}

#[derive(Deserialize)]
pub(super) struct CitationsFields {
    #[serde(default)]
    content: Vec<CitedText>,
}

#[derive(Deserialize)]
struct CitedText {
    text: Option<String>,
}

/// A block as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Block<'a> {
    Text(&'a str),
    Image { format: &'static str, source: Source<'a> },
    ToolUse { tool_use_id: &'a str, name: &'a str, input: &'a JsonText },
    ToolResult { tool_use_id: &'a str, content: Vec<Self>, status: &'static str },
}

#[derive(Serialize)]
pub(super) struct Source<'a> {
    pub(super) bytes: &'a str,
}

impl<'a> From<&'a ToolCall> for Block<'a> {
    fn from(call: &'a ToolCall) -> Self {
        Self::ToolUse { tool_use_id: &call.id, name: &call.name, input: &call.input }
    }
}

/// Usage as the service writes it.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageFields {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_write_input_tokens: Option<u64>,
}

impl UsageFields {
    pub(super) fn report(&self) -> UsageReport {
        UsageReport { usage: self.read(), has_output: self.output_tokens.is_some() }
    }

    fn read(&self) -> Usage {
        let mut usage = Usage {
            input: self.input_tokens.unwrap_or(0),
            cache_read: self.cache_read_input_tokens.unwrap_or(0),
            cache_write: self.cache_write_input_tokens.unwrap_or(0),
            output: self.output_tokens.unwrap_or(0),
            ..Usage::default()
        };
        // What the total has beyond its parts was used, and output is the dearest it can have been.
        let total = self.total_tokens.unwrap_or(0);
        usage.output = usage.output.max(total.saturating_sub(usage.total_input()));
        usage
    }
}

impl From<UsageFields> for Usage {
    fn from(fields: UsageFields) -> Self {
        fields.read()
    }
}

impl From<Usage> for UsageFields {
    fn from(usage: Usage) -> Self {
        let cached = usage.cache_read.saturating_add(usage.cache_write);
        Self {
            input_tokens: Some(usage.input),
            output_tokens: Some(usage.output),
            total_tokens: Some(usage.input.saturating_add(cached).saturating_add(usage.output)),
            cache_read_input_tokens: Some(usage.cache_read),
            cache_write_input_tokens: Some(usage.cache_write),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metrics {
    pub(super) latency_ms: u128,
}

/// The first word for each reason is the one that is written.
const FINISH_NAMES: [(&str, FinishReason); 7] = [
    ("end_turn", FinishReason::EndTurn),
    ("max_tokens", FinishReason::MaxTokens),
    ("stop_sequence", FinishReason::StopSequence),
    ("tool_use", FinishReason::ToolUse),
    ("content_filtered", FinishReason::Refusal),
    ("guardrail_intervened", FinishReason::Refusal),
    ("model_context_window_exceeded", FinishReason::ContextWindowExceeded),
];

pub(super) fn finish_of(name: &str) -> FinishReason {
    FINISH_NAMES.iter().find(|(known, _)| *known == name).map_or(FinishReason::Other, |(_, finish)| *finish)
}

/// The service's word for a finish reason. A reason that has none reads as the usual end.
pub(super) fn name_of(finish: FinishReason) -> &'static str {
    FINISH_NAMES.iter().find(|(_, known)| *known == finish).map_or("end_turn", |(name, _)| *name)
}
