//! Parses a whole answer for conversion to another dialect.

use super::answer::finish_of;
use super::usage::AnthropicUsageFields;
use crate::answer_error::AnswerError;
use crate::chat::{AnswerPart, ChatAnswer, FinishReason, JsonText, ToolCall, Usage};
use crate::fields::object_of;
use crate::lenient::Lenient;
use crate::request::{CowStr, MAX_INPUT_DEPTH};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Parses an answer into the dialect-neutral form. Blocks other than text and tool calls (thinking, results of the
/// vendor's tools, unknown types) are dropped, and so are empty texts.
pub fn read_chat_answer(body: &[u8]) -> Result<ChatAnswer, AnswerError> {
    let answer: Body<'_> =
        serde_json::from_slice(body).map_err(|error| AnswerError::unreadable(&error.to_string()))?;
    if answer.kind != "message" {
        return Err(AnswerError::NotAMessage { kind: answer.kind.into_owned() });
    }
    Ok(ChatAnswer {
        id: answer.id.into_owned(),
        model: answer.model.into_owned(),
        parts: answer
            .content
            .into_iter()
            .filter_map(|block| block.read().transpose())
            .collect::<Result<_, _>>()?,
        finish: answer.stop_reason.map_or(FinishReason::Other, |CowStr(name)| finish_of(&name)),
        usage: answer.usage.get().map(|usage| usage.merge_over(Usage::default())).unwrap_or_default(),
    })
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    model: Cow<'a, str>,
    #[serde(borrow)]
    content: Vec<AnswerBlock<'a>>,
    #[serde(borrow)]
    stop_reason: Option<CowStr<'a>>,
    #[serde(default)]
    usage: Lenient<AnthropicUsageFields>,
}

/// A content block of an answer: complete, or as a stream opens it.
#[derive(Deserialize)]
pub(super) struct AnswerBlock<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) text: Option<CowStr<'a>>,
    #[serde(borrow)]
    pub(super) id: Option<CowStr<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<CowStr<'a>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

impl AnswerBlock<'_> {
    fn read(self) -> Result<Option<AnswerPart>, AnswerError> {
        let needed = |word: Option<CowStr<'_>>, problem| match word {
            Some(CowStr(word)) => Ok(word.into_owned()),
            None => Err(AnswerError::unreadable(problem)),
        };
        Ok(match &*self.kind {
            "text" => {
                let text = needed(self.text, "a text block has no text")?;
                (!text.is_empty()).then_some(AnswerPart::Text(text))
            }
            "tool_use" => Some(AnswerPart::ToolCall(ToolCall {
                id: needed(self.id, "a tool call has no id")?,
                name: needed(self.name, "a tool call has no name")?,
                input: match self.input {
                    Some(raw) => object_of(raw.get().to_owned(), MAX_INPUT_DEPTH).ok_or_else(|| {
                        AnswerError::unreadable("the input of a tool call is not an object")
                    })?,
                    None => JsonText::empty_object(),
                },
            })),
            _ => None,
        })
    }
}
