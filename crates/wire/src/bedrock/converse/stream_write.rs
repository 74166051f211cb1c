//! Writes a stream from dialect-neutral events.

use super::shapes::{ConverseMetrics, name_of};
use super::usage::ConverseUsageFields;
use crate::bedrock::error_response::{StreamKind, json, write_failure_frame};
use crate::bedrock::frame::write_event_frame;
use crate::chat::{ChatEvent, FinishReason, Usage};
use bytes::BytesMut;
use serde::Serialize;
use std::time::Duration;

/// Writes a ConverseStream.
///
/// Usage is written once, at the end: earlier reports are kept until then. As in the service's own streams, a text
/// block has no start event and a tool call has one. Tool input outside a tool call is dropped.
#[derive(Debug, Default)]
pub struct ConverseChatWriter {
    usage: Usage,
    latency: Duration,
    /// The index of the open block, or of the next one.
    index: usize,
    open: OpenBlock,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OpenBlock {
    #[default]
    Nothing,
    Thinking,
    Text,
    Call,
}

impl ConverseChatWriter {
    /// Creates a writer at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the latency of the answer; must be called before its end is written.
    pub const fn set_latency(&mut self, latency: Duration) {
        self.latency = latency;
    }

    /// Appends the frames for this event.
    pub fn write(&mut self, out: &mut BytesMut, event: &ChatEvent) {
        match event {
            ChatEvent::Started { usage, .. } => {
                self.usage = *usage;
                put(out, "messageStart", &MessageStart { role: "assistant" });
            }
            ChatEvent::Thinking(text) if text.is_empty() => {}
            ChatEvent::Thinking(text) => {
                if self.open != OpenBlock::Thinking {
                    self.close(out);
                    self.open = OpenBlock::Thinking;
                }
                self.put_delta(out, Delta::ReasoningContent { text });
            }
            ChatEvent::Text(text) => {
                if self.open != OpenBlock::Text {
                    self.close(out);
                    self.open = OpenBlock::Text;
                }
                self.put_delta(out, Delta::Text(text));
            }
            ChatEvent::ToolCallStarted { id, name } => {
                self.close(out);
                self.open = OpenBlock::Call;
                let start = Start::ToolUse { tool_use_id: id, name };
                put(out, "contentBlockStart", &BlockStart { start, content_block_index: self.index });
            }
            ChatEvent::ToolInput(input) => {
                if self.open == OpenBlock::Call {
                    self.put_delta(out, Delta::ToolUse { input });
                }
            }
            ChatEvent::Usage(usage) => self.usage = *usage,
            ChatEvent::Finished(finish) => {
                self.close(out);
                put(out, "messageStop", &MessageStop { stop_reason: name_of(*finish) });
                let metrics = ConverseMetrics { latency_ms: self.latency.as_millis() };
                put(out, "metadata", &Metadata { usage: self.usage.into(), metrics });
            }
            ChatEvent::Failed { failure, message } => {
                write_failure_frame(out, StreamKind::Converse, failure.kind, message);
            }
        }
    }

    fn put_delta(&self, out: &mut BytesMut, delta: Delta<'_>) {
        put(out, "contentBlockDelta", &BlockDelta { delta, content_block_index: self.index });
    }

    fn close(&mut self, out: &mut BytesMut) {
        if self.open != OpenBlock::Nothing {
            put(out, "contentBlockStop", &BlockStop { content_block_index: self.index });
            self.open = OpenBlock::Nothing;
            self.index = self.index.saturating_add(1);
        }
    }
}

/// Appends the frames that end a stream at the output limit; `open` is the index of the open block.
pub(super) fn write_end(out: &mut BytesMut, open: Option<usize>, usage: Usage, latency: Duration) {
    if let Some(content_block_index) = open {
        put(out, "contentBlockStop", &BlockStop { content_block_index });
    }
    put(out, "messageStop", &MessageStop { stop_reason: name_of(FinishReason::MaxTokens) });
    let metrics = ConverseMetrics { latency_ms: latency.as_millis() };
    put(out, "metadata", &Metadata { usage: usage.into(), metrics });
}

fn put(out: &mut BytesMut, name: &'static str, payload: &impl Serialize) {
    write_event_frame(out, name, json(payload));
}

#[derive(Serialize)]
struct MessageStart {
    role: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BlockStart<'a> {
    start: Start<'a>,
    content_block_index: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Start<'a> {
    ToolUse { tool_use_id: &'a str, name: &'a str },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BlockDelta<'a> {
    delta: Delta<'a>,
    content_block_index: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Delta<'a> {
    Text(&'a str),
    ReasoningContent { text: &'a str },
    ToolUse { input: &'a str },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BlockStop {
    content_block_index: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MessageStop {
    stop_reason: &'static str,
}

#[derive(Serialize)]
struct Metadata {
    usage: ConverseUsageFields,
    metrics: ConverseMetrics,
}
