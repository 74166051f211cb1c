//! Converts a whole answer to and from the dialect-neutral form.

use super::answer::{OpenAiUsageFields, as_refusal, finish_of, name_of};
use super::messages::input_of;
use crate::answer_error::AnswerError;
use crate::chat::{AnswerPart, ChatAnswer, FinishReason, ToolCall, custom_tool};
use crate::json_out::put_json;
use crate::lenient::Lenient;
use crate::request::{CowStr, MAX_INPUT_DEPTH};
use bytes::BytesMut;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Parses an answer into the dialect-neutral form. Only the first choice is used. Its text comes before its tool calls,
/// and an empty text is dropped. A `refusal` is read as text and turns a normal end of turn into a refusal.
pub fn read_chat_answer(body: &[u8]) -> Result<ChatAnswer, AnswerError> {
    let answer: Body<'_> =
        serde_json::from_slice(body).map_err(|error| AnswerError::unreadable(&error.to_string()))?;
    let Some(choice) = answer.choices.into_iter().next() else {
        return Err(AnswerError::unreadable("there are no choices"));
    };
    let Message { content, refusal, tool_calls } = choice.message;
    let mut finish = choice.finish_reason.map_or(FinishReason::Other, |CowStr(name)| finish_of(&name));
    let non_empty =
        |word: Option<CowStr<'_>>| word.map(|CowStr(text)| text.into_owned()).filter(|text| !text.is_empty());
    let refusal = non_empty(refusal);
    if refusal.is_some() {
        finish = as_refusal(finish);
    }
    let mut parts: Vec<_> = non_empty(content).into_iter().chain(refusal).map(AnswerPart::Text).collect();
    for Call { id, function } in tool_calls.unwrap_or_default() {
        let input = input_of(
            function.arguments.map(|CowStr(text)| text.into_owned()).unwrap_or_default(),
            MAX_INPUT_DEPTH,
        );
        let input =
            input.ok_or_else(|| AnswerError::unreadable("the arguments of a tool call are not an object"))?;
        parts.push(AnswerPart::ToolCall(ToolCall {
            id: id.into_owned(),
            name: function.name.into_owned(),
            input,
        }));
    }
    let (id, model) = (answer.id.into_owned(), answer.model.into_owned());
    let usage = answer.usage.get().map(OpenAiUsageFields::read).unwrap_or_default();
    Ok(ChatAnswer { id, model, parts, finish, usage })
}

/// Appends a whole answer in this dialect; `created` is in seconds since 1970. A message has a single text, so several
/// texts are joined; it comes before the tool calls. The dialect has fewer finish reasons: a stop sequence, a pause and
/// an unknown reason map to the normal end, and an exceeded context window maps to the output limit.
pub fn write_chat_answer(out: &mut BytesMut, answer: &ChatAnswer, created: u64) {
    let mut content = String::new();
    let mut tool_calls = Vec::new();
    for part in &answer.parts {
        match part {
            AnswerPart::Text(text) => content.push_str(text),
            AnswerPart::ToolCall(call) => tool_calls.push(CallOut::of(call)),
        }
    }
    let content = if content.is_empty() { None } else { Some(content) };
    let message = MessageOut { role: "assistant", content, refusal: None, tool_calls };
    let choice = ChoiceOut { index: 0, message, logprobs: None, finish_reason: name_of(answer.finish) };
    put_json(
        out,
        &BodyOut {
            id: &answer.id,
            object: "chat.completion",
            created,
            model: &answer.model,
            choices: [choice],
            usage: answer.usage.into(),
        },
    );
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    model: Cow<'a, str>,
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
    #[serde(default)]
    usage: Lenient<OpenAiUsageFields>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    message: Message<'a>,
    #[serde(borrow)]
    finish_reason: Option<CowStr<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<CowStr<'a>>,
    #[serde(borrow)]
    refusal: Option<CowStr<'a>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<Call<'a>>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<CowStr<'a>>,
}

#[derive(Serialize)]
struct BodyOut<'a> {
    id: &'a str,
    object: &'a str,
    created: u64,
    model: &'a str,
    choices: [ChoiceOut<'a>; 1],
    usage: OpenAiUsageFields,
}

#[derive(Serialize)]
struct ChoiceOut<'a> {
    index: u32,
    message: MessageOut<'a>,
    logprobs: Option<()>,
    finish_reason: &'a str,
}

#[derive(Serialize)]
struct MessageOut<'a> {
    role: &'a str,
    content: Option<String>,
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallOut<'a>>,
}

#[derive(Serialize)]
struct CallOut<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<FunctionOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    custom: Option<CustomOut<'a>>,
}

impl<'a> CallOut<'a> {
    /// A call, of a tool with free text if its name is marked.
    fn of(call: &'a ToolCall) -> Self {
        let ToolCall { id, name, input } = call;
        match custom_tool::marked_name(name) {
            Some(name) => {
                let custom = Some(CustomOut { name, input: custom_tool::unwrap(input.get()) });
                Self { id, kind: "custom", function: None, custom }
            }
            None => {
                let function = Some(FunctionOut { name, arguments: input.get() });
                Self { id, kind: "function", function, custom: None }
            }
        }
    }
}

#[derive(Serialize)]
struct CustomOut<'a> {
    name: &'a str,
    input: Cow<'a, str>,
}

#[derive(Serialize)]
struct FunctionOut<'a> {
    name: &'a str,
    arguments: &'a str,
}
