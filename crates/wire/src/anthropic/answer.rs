//! Reads usage and finish reason from a whole answer that passes through.

use super::usage::AnthropicUsageFields;
use crate::answer_error::AnswerError;
use crate::chat::{FinishReason, UsageReport};
use crate::lenient::Lenient;
use crate::request::CowStr;
use serde::Deserialize;
use std::borrow::Cow;

/// Reads usage and finish reason from a whole answer.
pub fn read_answer(body: &[u8]) -> Result<(UsageReport, FinishReason), AnswerError> {
    let unreadable = |error: serde_json::Error| AnswerError::Unreadable { problem: error.to_string() };
    let answer: AnswerFields<'_> = serde_json::from_slice(body).map_err(unreadable)?;
    if answer.kind != "message" {
        return Err(AnswerError::NotAMessage { kind: answer.kind.into_owned() });
    }
    let finish = answer.stop_reason.map_or(FinishReason::Other, |CowStr(name)| finish_of(&name));
    let report = answer.usage.get().map(AnthropicUsageFields::report);
    Ok((report.unwrap_or_default(), finish))
}

#[derive(Deserialize)]
struct AnswerFields<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    stop_reason: Option<CowStr<'a>>,
    #[serde(default)]
    usage: Lenient<AnthropicUsageFields>,
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

/// The vendor's name of a finish reason. A reason without a name is written as the normal end of a turn.
pub(super) fn name_of(finish: FinishReason) -> &'static str {
    FINISH_NAMES.iter().find(|(_, known)| *known == finish).map_or("end_turn", |(name, _)| *name)
}
