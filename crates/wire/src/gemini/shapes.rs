//! JSON shapes shared by requests, answers and streams.

use super::usage::GeminiUsageFields;
use crate::chat::{FinishReason, JsonText};
use crate::lenient::Lenient;
use crate::request::CowStr;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A whole answer, or one chunk of a stream.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AnswerFields<'a> {
    #[serde(borrow)]
    pub(super) candidates: Option<Vec<CandidateFields<'a>>>,
    pub(super) prompt_feedback: Option<PromptFeedbackFields>,
    pub(super) usage_metadata: Lenient<GeminiUsageFields>,
    #[serde(borrow)]
    pub(super) model_version: Option<CowStr<'a>>,
    #[serde(borrow)]
    pub(super) response_id: Option<CowStr<'a>>,
    pub(super) error: Option<Value>,
}

impl<'a> AnswerFields<'a> {
    /// Whether the vendor's filter blocked the prompt. Such an answer has no candidates.
    pub(super) fn is_blocked(&self) -> bool {
        self.prompt_feedback.as_ref().is_some_and(PromptFeedbackFields::is_blocked)
    }

    /// The first candidate.
    pub(super) fn take_first(&mut self) -> Option<CandidateFields<'a>> {
        let candidates = self.candidates.take().unwrap_or_default();
        candidates.into_iter().find(|candidate| candidate.index.unwrap_or(0) == 0)
    }

    /// The number of billed searches, over all candidates.
    pub(super) fn searches(&self) -> u64 {
        let candidates = self.candidates.as_deref().unwrap_or_default();
        candidates.iter().map(|candidate| searches_of(&candidate.grounding_metadata)).sum()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptFeedbackFields {
    block_reason: Option<IgnoredAny>,
}

impl PromptFeedbackFields {
    pub(super) const fn is_blocked(&self) -> bool {
        self.block_reason.is_some()
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CandidateFields<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) content: Option<ContentFields<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<CowStr<'a>>,
    #[serde(borrow)]
    pub(super) finish_message: Option<CowStr<'a>>,
    pub(super) grounding_metadata: Lenient<GroundingFields>,
}

impl<'a> CandidateFields<'a> {
    pub(super) fn take_parts(&mut self) -> Vec<PartFields<'a>> {
        self.content.take().and_then(|content| content.parts).unwrap_or_default()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ContentFields<'a> {
    #[serde(borrow)]
    parts: Option<Vec<PartFields<'a>>>,
}

/// A part as read. Parts of other kinds (images, code that the vendor runs) have none of these fields.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PartFields<'a> {
    #[serde(borrow)]
    pub(super) text: Option<CowStr<'a>>,
    pub(super) thought: Option<bool>,
    #[serde(borrow)]
    pub(super) function_call: Option<CallFields<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct CallFields<'a> {
    #[serde(borrow)]
    pub(super) id: Option<CowStr<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<CowStr<'a>>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

impl CallFields<'_> {
    /// The arguments; `None` if they are not an object. Without arguments they are `{}`.
    pub(super) fn arguments(&self) -> Option<&str> {
        match self.args.map_or("{}", RawValue::get) {
            "null" => Some("{}"),
            text => text.starts_with('{').then_some(text),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GroundingFields {
    web_search_queries: Lenient<Vec<IgnoredAny>>,
}

pub(super) fn searches_of(grounding: &Lenient<GroundingFields>) -> u64 {
    let queries = grounding.get().and_then(|grounding| grounding.web_search_queries.get());
    queries.map_or(0, |queries| queries.len() as u64)
}

/// The text of an optional string.
pub(super) fn owned(text: Option<CowStr<'_>>) -> Option<String> {
    text.map(|CowStr(text)| text.into_owned()).filter(|text| !text.is_empty())
}

/// Maximum number of characters that a generated id takes from the id of the answer.
const MAX_ID_LENGTH: usize = 24;

/// An id for a function call that the vendor sent without one. It contains the id of the answer, so that the calls of
/// a conversation have different ids, and only characters that other vendors accept.
pub(super) fn generated_id(answer: &str, index: usize) -> String {
    let is_kept = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
    let answer: String = answer.chars().filter(is_kept).take(MAX_ID_LENGTH).collect();
    format!("call_{answer}_{index}")
}

/// A part as written: exactly one of the fields with content is present.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiPartOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thought: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inline_data: Option<BlobOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function_call: Option<CallOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function_response: Option<ResultOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlobOut<'a> {
    pub(super) mime_type: &'a str,
    pub(super) data: &'a str,
}

#[derive(Serialize)]
pub(super) struct CallOut<'a> {
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) args: &'a JsonText,
}

#[derive(Serialize)]
pub(super) struct ResultOut<'a> {
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) response: OutputOut,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<GeminiPartOut<'a>>,
}

/// The result of a function, in the field that the vendor documents for it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum OutputOut {
    Output(String),
    Error(String),
}

/// A whole answer or a chunk as written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AnswerOut<'a> {
    pub(super) candidates: Vec<CandidateOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage_metadata: Option<GeminiUsageFields>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) model_version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) response_id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CandidateOut<'a> {
    pub(super) content: ContentOut<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finish_reason: Option<&'static str>,
    pub(super) index: u32,
}

#[derive(Serialize)]
pub(super) struct ContentOut<'a> {
    parts: Vec<GeminiPartOut<'a>>,
    role: &'static str,
}

impl<'a> ContentOut<'a> {
    /// Content of the model. The vendor sends an empty text if there is nothing else, and programs rely on it: they
    /// append the text of each chunk.
    pub(super) fn new(mut parts: Vec<GeminiPartOut<'a>>) -> Self {
        if parts.is_empty() {
            parts.push(GeminiPartOut { text: Some(""), ..GeminiPartOut::default() });
        }
        Self { parts, role: "model" }
    }
}

/// The reason of an answer that the model could not produce: its function call or its whole response is malformed.
pub(super) fn is_malformed(name: &str) -> bool {
    matches!(name, MALFORMED_CALL | "MALFORMED_RESPONSE")
}

pub(super) const MALFORMED_CALL: &str = "MALFORMED_FUNCTION_CALL";

/// The finish reason of this name. The vendor has none for a function call: such an answer ends with `STOP`.
pub(super) fn finish_of(name: &str, has_calls: bool) -> FinishReason {
    match name {
        "STOP" if has_calls => FinishReason::ToolUse,
        "STOP" => FinishReason::EndTurn,
        "MAX_TOKENS" => FinishReason::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => FinishReason::Refusal,
        _ => FinishReason::Other,
    }
}

/// The vendor's name of a finish reason. It has fewer reasons: a stop sequence, a tool call and a pause map to `STOP`,
/// and an exceeded context window maps to `MAX_TOKENS`.
pub(super) const fn name_of(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::EndTurn
        | FinishReason::StopSequence
        | FinishReason::ToolUse
        | FinishReason::PauseTurn => "STOP",
        FinishReason::MaxTokens | FinishReason::ContextWindowExceeded => "MAX_TOKENS",
        FinishReason::Refusal => "SAFETY",
        FinishReason::Other => "OTHER",
    }
}
