//! JSON shapes shared by requests, answers and streams.

use crate::bedrock::body::read_object;
use crate::chat::{CacheLifetime, Document, FinishReason, Image, JsonText, RequestPart, ToolCall};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A content block as read: exactly one of the fields is present.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BlockFields<'a> {
    pub(super) text: Option<String>,
    pub(super) image: Option<ImageFields>,
    pub(super) document: Option<DocumentFields>,
    pub(super) tool_use: Option<ToolUseFields>,
    #[serde(borrow)]
    pub(super) tool_result: Option<ToolResultFields<'a>>,
    pub(super) guard_content: Option<GuardFields>,
    pub(super) citations_content: Option<CitationsFields>,
    pub(super) json: Option<JsonText>,
    pub(super) cache_point: Option<CachePointFields>,
    pub(super) reasoning_content: Option<IgnoredAny>,
}

/// A mark up to which the service caches the prompt.
#[derive(Deserialize)]
pub(super) struct CachePointFields {
    #[serde(default)]
    ttl: Option<String>,
}

impl CachePointFields {
    pub(super) fn lifetime(&self) -> CacheLifetime {
        CacheLifetime::of_ttl(self.ttl.as_deref())
    }
}

impl<'a> BlockFields<'a> {
    pub(super) fn read(raw: &'a RawValue) -> Option<Self> {
        read_object(raw)
    }

    /// The text of a block that wraps text with annotations (guard content, citations).
    pub(super) fn annotated_text(&mut self) -> Option<String> {
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

#[derive(Deserialize)]
pub(super) struct DocumentFields {
    format: Option<String>,
    name: String,
    source: DocumentSourceFields,
}

#[derive(Deserialize)]
struct DocumentSourceFields {
    bytes: Option<String>,
    text: Option<String>,
}

impl DocumentFields {
    /// The document; plain text becomes text, with its name in front.
    pub(super) fn into_part(self) -> Option<RequestPart> {
        let Self { format, name, source } = self;
        if let Some(text) = source.text {
            return Some(RequestPart::Text(format!("{name}\n\n{text}")));
        }
        let media_type = DOCUMENT_FORMATS.iter().find(|(known, _)| Some(*known) == format.as_deref())?.1;
        let content = Image::Base64 { media_type: media_type.to_owned(), content: source.bytes? };
        Some(RequestPart::Document(Document { name: Some(name), content }))
    }
}

/// The service's names of document formats, and their media types.
const DOCUMENT_FORMATS: [(&str, &str); 9] = [
    ("pdf", "application/pdf"),
    ("csv", "text/csv"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("html", "text/html"),
    ("txt", "text/plain"),
    ("md", "text/markdown"),
];

/// The service's name of a document format.
pub(super) fn document_format_of(media_type: &str) -> Option<&'static str> {
    DOCUMENT_FORMATS.iter().find(|(_, known)| *known == media_type).map(|(format, _)| *format)
}

/// The name of a document: the service allows letters, digits, single spaces, hyphens, parentheses and brackets.
pub(super) fn document_name(name: &str) -> String {
    let allowed = |character: char| {
        if character.is_ascii_alphanumeric() || "-()[]".contains(character) { character } else { ' ' }
    };
    let cleaned: String = name.chars().map(allowed).take(200).collect();
    let words: Vec<&str> = cleaned.split_whitespace().collect();
    if words.is_empty() { "document".to_owned() } else { words.join(" ") }
}

/// The service's name of an image format.
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
    /// The tool call, unless the service executes it itself or its input is not an object.
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

/// A content block as written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum ConverseBlock<'a> {
    Text(&'a str),
    Image { format: &'static str, source: ImageSource<'a> },
    Document { format: &'static str, name: String, source: ImageSource<'a> },
    ToolUse { tool_use_id: &'a str, name: &'a str, input: &'a JsonText },
    ToolResult { tool_use_id: &'a str, content: Vec<Self>, status: &'static str },
    CachePoint(CachePoint),
}

/// A mark up to which the service caches the prompt.
#[derive(Clone, Copy, Serialize)]
pub(super) struct CachePoint {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

impl CachePoint {
    pub(super) const fn of(lifetime: CacheLifetime) -> Self {
        Self { kind: "default", ttl: lifetime.ttl() }
    }
}

#[derive(Serialize)]
pub(super) struct ImageSource<'a> {
    pub(super) bytes: &'a str,
}

impl<'a> From<&'a ToolCall> for ConverseBlock<'a> {
    fn from(call: &'a ToolCall) -> Self {
        Self::ToolUse { tool_use_id: &call.id, name: &call.name, input: &call.input }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConverseMetrics {
    pub(super) latency_ms: u128,
}

/// Names of finish reasons. The first name of each reason is the one that is written.
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

/// The service's name of a finish reason. A reason without a name is written as the normal end of a turn.
pub(super) fn name_of(finish: FinishReason) -> &'static str {
    FINISH_NAMES.iter().find(|(_, known)| *known == finish).map_or("end_turn", |(name, _)| *name)
}
