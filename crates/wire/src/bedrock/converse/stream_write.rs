//! A stream, written.

use super::shapes::{Metrics, UsageFields, name_of};
use crate::bedrock::frame::write_event_frame;
use crate::bedrock::refusal::{StreamKind, json, write_failure_frame};
use crate::chat::{ChatEvent, FinishReason, Usage};
use bytes::BytesMut;
use serde::Serialize;
use std::time::Duration;

/// Writes the stream of ConverseStream.
///
/// Usage has one place, at the end: what is told earlier is kept until then. The service opens a block of text without
/// a word and a call with an event, and so does this. Input that belongs to no call is left out.
#[derive(Debug, Default)]
pub struct ChatWriter {
    usage: Usage,
    latency: Duration,
    /// The place of the block that is open, or will be opened next.
    index: usize,
    open: Open,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Open {
    #[default]
    Nothing,
    Text,
    Call,
}

impl ChatWriter {
    /// A stream of which nothing is written.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How long the answer took; to be told before its end is written.
    pub const fn set_latency(&mut self, latency: Duration) {
        self.latency = latency;
    }

    /// Appends the frames that tell an event.
    pub fn write(&mut self, out: &mut BytesMut, event: &ChatEvent) {
        match event {
            ChatEvent::Started { usage, .. } => {
                self.usage = *usage;
                put(out, "messageStart", &MessageStart { role: "assistant" });
            }
            ChatEvent::Text(text) => {
                if self.open != Open::Text {
                    self.close(out);
                    self.open = Open::Text;
                }
                self.put_delta(out, Delta::Text(text));
            }
            ChatEvent::ToolCallStarted { id, name } => {
                self.close(out);
                self.open = Open::Call;
                let start = Start::ToolUse { tool_use_id: id, name };
                put(out, "contentBlockStart", &BlockStart { start, content_block_index: self.index });
            }
            ChatEvent::ToolInput(input) => {
                if self.open == Open::Call {
                    self.put_delta(out, Delta::ToolUse { input });
                }
            }
            ChatEvent::Usage(usage) => self.usage = *usage,
            ChatEvent::Finished(finish) => {
                self.close(out);
                put(out, "messageStop", &MessageStop { stop_reason: name_of(*finish) });
                let metrics = Metrics { latency_ms: self.latency.as_millis() };
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
        if self.open != Open::Nothing {
            put(out, "contentBlockStop", &BlockStop { content_block_index: self.index });
            self.open = Open::Nothing;
            self.index = self.index.saturating_add(1);
        }
    }
}

/// Appends what ends a stream at a limit of output, in which the block of this number is open.
pub(super) fn write_end(out: &mut BytesMut, open: Option<usize>, usage: Usage, latency: Duration) {
    if let Some(content_block_index) = open {
        put(out, "contentBlockStop", &BlockStop { content_block_index });
    }
    put(out, "messageStop", &MessageStop { stop_reason: name_of(FinishReason::MaxTokens) });
    let metrics = Metrics { latency_ms: latency.as_millis() };
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
    usage: UsageFields,
    metrics: Metrics,
}
