//! Converts a whole answer to and from the dialect-neutral form.

use super::answer::{OutputSeen, ResponseEnd, parse_answer};
use super::chat_writer::output_of;
use super::items::input_of;
use super::output::{ItemContent, OutputItem, ResponseIdentity, ResponseOut, ResponseStatus};
use super::output_read::ReadItem;
use crate::answer_error::AnswerError;
use crate::chat::{AnswerPart, ChatAnswer, ToolCall, custom_tool};
use crate::json_out::put_json;
use crate::request::{CowStr, MAX_INPUT_DEPTH};
use bytes::BytesMut;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Parses an answer into the dialect-neutral form.
///
/// A refusal is read as text and turns a normal end of turn into a refusal. Empty texts are dropped. Reasoning and the
/// calls of tools that the vendor runs are dropped. A call of a tool that is not a function is an error: no such tool can
/// have been offered to the model.
pub fn read_chat_answer(body: &[u8]) -> Result<ChatAnswer, AnswerError> {
    let end: ResponseEnd<'_> = parse_answer(body)?;
    end.check(body)?;
    let answer: Body<'_> = parse_answer(body)?;
    let mut parts = Vec::new();
    for item in answer.output {
        let item = ReadItem::read(item).map_err(|problem| AnswerError::unreadable(&problem))?;
        read_parts(item, &mut parts)?;
    }
    let owned = |name: Option<CowStr<'_>>| name.map(|CowStr(name)| name.into_owned()).unwrap_or_default();
    Ok(ChatAnswer {
        id: owned(answer.id),
        model: owned(answer.model),
        parts,
        finish: end.finish(OutputSeen::default()),
        usage: end.usage().unwrap_or_default(),
    })
}

fn read_parts(item: ReadItem, parts: &mut Vec<AnswerPart>) -> Result<(), AnswerError> {
    match item {
        ReadItem::Message(texts) => parts.extend(texts.into_iter().map(|part| AnswerPart::Text(part.text))),
        ReadItem::Call { call_id, name, arguments } => {
            let problem = "the arguments of a function call are not an object";
            let input = input_of(arguments, MAX_INPUT_DEPTH);
            let input = input.ok_or_else(|| AnswerError::unreadable(problem))?;
            parts.push(AnswerPart::ToolCall(ToolCall { id: call_id, name, input }));
        }
        ReadItem::OtherCall => {
            return Err(AnswerError::unreadable("a call of a tool that is not a function"));
        }
        ReadItem::Reasoning(_) | ReadItem::Other => {}
    }
    Ok(())
}

/// Appends a whole answer in this dialect; `created` is in seconds since 1970. Each part becomes an item. The dialect has
/// fewer finish reasons: a stop sequence, a pause and an unknown reason map to the normal end, and an exceeded context
/// window maps to the output limit. The settings of the request are not repeated: they have the vendor's defaults.
pub fn write_chat_answer(out: &mut BytesMut, answer: &ChatAnswer, created: u64) {
    let item = |(index, part): (usize, &AnswerPart)| {
        let content = match part {
            AnswerPart::Text(text) => ItemContent::Message { text: text.clone() },
            AnswerPart::ToolCall(call) => {
                let input = match custom_tool::marked_name(&call.name) {
                    Some(_) => custom_tool::unwrap(call.input.get()),
                    None => call.input.get().into(),
                };
                ItemContent::call(&call.id, &call.name, &input)
            }
        };
        OutputItem::numbered(&answer.id, index, content)
    };
    let items: Vec<_> = answer.parts.iter().enumerate().map(item).collect();
    let (id, model) = (answer.id.clone(), answer.model.clone());
    let identity = ResponseIdentity { id, model, created_at: created };
    let status = ResponseStatus::of(answer.finish);
    let response = ResponseOut::new(&identity, status, output_of(&items, status));
    put_json(out, &response.with_usage(answer.usage));
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    id: Option<CowStr<'a>>,
    #[serde(borrow)]
    model: Option<CowStr<'a>>,
    #[serde(borrow)]
    output: Vec<&'a RawValue>,
}
