//! Writes answers, streams and errors in the vendor's format.

use super::answer::name_of;
use super::error_response::AnthropicErrorBody;
use super::usage::AnthropicUsageFields;
use crate::chat::{AnswerPart, ChatAnswer, FinishReason, JsonText, Usage};
use crate::json_out::put_json;
use bytes::{BufMut, BytesMut};
use serde::Serialize;

/// The fields at the start of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerStart<'a> {
    /// The id of the answer.
    pub id: &'a str,
    /// The model that answers.
    pub model: &'a str,
    /// The usage known at this point.
    pub usage: Usage,
}

/// A whole answer with one text block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextAnswer<'a> {
    /// Its id, its model and its total usage.
    pub start: AnswerStart<'a>,
    /// The text of the answer.
    pub text: &'a str,
    /// The finish reason.
    pub finish: FinishReason,
}

/// Appends the body of a whole answer.
pub fn write_answer(out: &mut BytesMut, answer: &TextAnswer<'_>) {
    let content = [Block::Text { text: answer.text }];
    put_json(out, &Message::new(&answer.start, &content, Some(name_of(answer.finish))));
}

/// Appends a whole answer in this dialect. Empty parts are dropped, because the vendor never sends any.
pub fn write_chat_answer(out: &mut BytesMut, answer: &ChatAnswer) {
    let content = answer.parts.iter().filter_map(|part| match part {
        AnswerPart::Text(text) => (!text.is_empty()).then_some(Block::Text { text }),
        AnswerPart::ToolCall(call) => {
            Some(Block::ToolUse { id: &call.id, name: &call.name, input: &call.input })
        }
    });
    let content: Vec<_> = content.collect();
    let start = AnswerStart { id: &answer.id, model: &answer.model, usage: answer.usage };
    put_json(out, &Message::new(&start, &content, Some(name_of(answer.finish))));
}

/// Appends the `message_start` event.
pub fn write_message_start(out: &mut BytesMut, start: &AnswerStart<'_>) {
    put_event(out, "message_start", &Event::MessageStart { message: Message::new(start, &[], None) });
}

/// Appends the event that starts a text block.
pub fn write_block_start(out: &mut BytesMut, index: usize) {
    let content_block = Block::Text { text: "" };
    put_event(out, "content_block_start", &Event::ContentBlockStart { index, content_block });
}

/// Appends the event that starts a thinking block. It has no signature, because only the vendor can sign.
pub(super) fn write_thinking_start(out: &mut BytesMut, index: usize) {
    let content_block = Block::Thinking { thinking: "", signature: "" };
    put_event(out, "content_block_start", &Event::ContentBlockStart { index, content_block });
}

/// Appends a thinking delta.
pub(super) fn write_thinking_delta(out: &mut BytesMut, index: usize, thinking: &str) {
    let delta = BlockDelta::Thinking { thinking };
    put_event(out, "content_block_delta", &Event::ContentBlockDelta { index, delta });
}

/// Appends the event that starts a tool call.
pub(super) fn write_tool_start(out: &mut BytesMut, index: usize, id: &str, name: &str) {
    let content_block = Block::ToolUse { id, name, input: &JsonText::empty_object() };
    put_event(out, "content_block_start", &Event::ContentBlockStart { index, content_block });
}

/// Appends a delta of a tool call's input.
pub(super) fn write_input_delta(out: &mut BytesMut, index: usize, partial_json: &str) {
    let delta = BlockDelta::InputJson { partial_json };
    put_event(out, "content_block_delta", &Event::ContentBlockDelta { index, delta });
}

/// Appends a text delta.
pub fn write_text_delta(out: &mut BytesMut, index: usize, text: &str) {
    let delta = BlockDelta::Text { text };
    put_event(out, "content_block_delta", &Event::ContentBlockDelta { index, delta });
}

/// Appends the event that ends a block.
pub fn write_block_stop(out: &mut BytesMut, index: usize) {
    put_event(out, "content_block_stop", &Event::ContentBlockStop { index });
}

/// Appends the `message_delta` event with the finish reason and the total usage.
pub fn write_message_delta(out: &mut BytesMut, finish: FinishReason, usage: Usage) {
    let delta = MessageEnd { stop_reason: name_of(finish), stop_sequence: None };
    put_event(out, "message_delta", &Event::MessageDelta { delta, usage: usage.into() });
}

/// Appends the `message_stop` event, which ends a complete stream.
pub fn write_message_stop(out: &mut BytesMut) {
    put_event(out, "message_stop", &Event::MessageStop);
}

/// Appends a `ping` event, which only keeps the connection alive.
pub fn write_ping(out: &mut BytesMut) {
    put_event(out, "ping", &Event::Ping);
}

/// Appends the body of an error response.
pub fn write_error(out: &mut BytesMut, reply: &AnthropicErrorBody<'_>) {
    put_json(out, &Event::from(reply));
}

/// Appends the error event that ends a stream that cannot be completed. It must be written at an event boundary.
pub fn write_error_event(out: &mut BytesMut, reply: &AnthropicErrorBody<'_>) {
    put_event(out, "error", &Event::from(reply));
}

fn put_event(out: &mut BytesMut, name: &str, event: &Event<'_>) {
    out.put_slice(b"event: ");
    out.put_slice(name.as_bytes());
    out.put_slice(b"\ndata: ");
    // The JSON has no line breaks, so one data line is enough.
    put_json(out, event);
    out.put_slice(b"\n\n");
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event<'a> {
    MessageStart { message: Message<'a> },
    ContentBlockStart { index: usize, content_block: Block<'a> },
    ContentBlockDelta { index: usize, delta: BlockDelta<'a> },
    ContentBlockStop { index: usize },
    MessageDelta { delta: MessageEnd<'a>, usage: AnthropicUsageFields },
    MessageStop,
    Ping,
    Error { error: ErrorFields<'a>, request_id: Option<&'a str> },
}

#[derive(Serialize)]
struct Message<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    role: &'a str,
    model: &'a str,
    content: &'a [Block<'a>],
    stop_reason: Option<&'a str>,
    stop_sequence: Option<&'a str>,
    usage: AnthropicUsageFields,
}

impl<'a> Message<'a> {
    fn new(start: &AnswerStart<'a>, content: &'a [Block<'a>], stop_reason: Option<&'a str>) -> Self {
        Self {
            id: start.id,
            kind: "message",
            role: "assistant",
            model: start.model,
            content,
            stop_reason,
            stop_sequence: None,
            usage: start.usage.into(),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text { text: &'a str },
    Thinking { thinking: &'a str, signature: &'a str },
    ToolUse { id: &'a str, name: &'a str, input: &'a JsonText },
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum BlockDelta<'a> {
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: &'a str },
}

#[derive(Serialize)]
struct MessageEnd<'a> {
    stop_reason: &'a str,
    stop_sequence: Option<&'a str>,
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details<'a>>,
}

#[derive(Serialize)]
struct Details<'a> {
    error_code: &'a str,
}

impl<'a> From<&AnthropicErrorBody<'a>> for Event<'a> {
    fn from(reply: &AnthropicErrorBody<'a>) -> Self {
        let details = reply.error_code.map(|error_code| Details { error_code });
        let error = ErrorFields { kind: reply.error_type, message: reply.message, details };
        Self::Error { error, request_id: reply.request_id }
    }
}
