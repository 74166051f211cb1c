//! Translates a stream from one dialect to another, event by event.

use super::AnswerDefaults;
use super::monitor::Unreadable;
use super::reader::DialectReader;
use bytes::BytesMut;
use seawall_provider::TargetDialect;
use seawall_wire::bedrock::SseToInvoke;
use seawall_wire::chat::{ChatEvent, FinishReason, Usage};
use seawall_wire::sse::SseLimits;
use seawall_wire::{anthropic, bedrock, openai};
use std::time::Duration;

/// Parses a stream completely and writes it again.
#[derive(Debug)]
pub(super) struct Translation {
    reader: DialectReader,
    writer: DialectWriter,
    ids: AnswerIds,
    /// Whether a failure of the target was forwarded to the caller.
    forwarded_failure: bool,
}

/// The IDs of the answer and its model.
#[derive(Debug)]
struct AnswerIds {
    id: String,
    model: String,
}

#[derive(Debug)]
enum DialectWriter {
    Messages(anthropic::AnthropicChatWriter),
    Completions(openai::OpenAiChatWriter),
    Invoke(anthropic::AnthropicChatWriter, Box<SseToInvoke>),
    Converse(bedrock::ConverseChatWriter),
}

impl Translation {
    pub(super) fn new(
        face: TargetDialect,
        target: TargetDialect,
        model: &str,
        wants_usage: bool,
        defaults: &AnswerDefaults<'_>,
    ) -> Self {
        let reader = DialectReader::new(target, defaults.id, model);
        let writer = match face {
            TargetDialect::AnthropicMessages => {
                DialectWriter::Messages(anthropic::AnthropicChatWriter::new())
            }
            TargetDialect::OpenAiChat => {
                DialectWriter::Completions(openai::OpenAiChatWriter::new(defaults.created, wants_usage))
            }
            TargetDialect::BedrockInvoke => DialectWriter::Invoke(
                anthropic::AnthropicChatWriter::new(),
                Box::new(SseToInvoke::new(SseLimits::default())),
            ),
            TargetDialect::BedrockConverse => DialectWriter::Converse(bedrock::ConverseChatWriter::new()),
        };
        let ids = AnswerIds { id: defaults.id.to_owned(), model: model.to_owned() };
        Self { reader, writer, ids, forwarded_failure: false }
    }

    /// Whether a failure of the target was forwarded to the caller.
    pub(super) const fn forwarded_failure(&self) -> bool {
        self.forwarded_failure
    }

    /// Appends the translation of a piece.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        elapsed: Duration,
        out: &mut BytesMut,
    ) -> Result<(), Unreadable> {
        let Self { reader, writer, ids, forwarded_failure } = self;
        reader.feed(bytes, |event| {
            *forwarded_failure |= matches!(event, ChatEvent::Failed { .. });
            writer.write(out, &ids.apply(event), elapsed);
        })
    }

    /// Appends what was held back until the end of the stream.
    pub(super) fn end(&mut self, elapsed: Duration, out: &mut BytesMut) {
        let Self { reader, writer, ids, .. } = self;
        reader.end(|event| writer.write(out, &ids.apply(event), elapsed));
    }

    /// Appends an end at the output limit.
    pub(super) fn end_at_limit(&mut self, usage: Usage, elapsed: Duration, out: &mut BytesMut) {
        self.writer.write(out, &ChatEvent::Usage(usage), elapsed);
        self.writer.write(out, &ChatEvent::Finished(FinishReason::MaxTokens), elapsed);
    }
}

impl AnswerIds {
    /// Uses the caller's model name, and adds an ID if the answer has none.
    fn apply(&self, event: ChatEvent) -> ChatEvent {
        match event {
            ChatEvent::Started { id, usage, .. } => {
                let id = if id.is_empty() { self.id.clone() } else { id };
                ChatEvent::Started { id, model: self.model.clone(), usage }
            }
            other => other,
        }
    }
}

impl DialectWriter {
    fn write(&mut self, out: &mut BytesMut, event: &ChatEvent, elapsed: Duration) {
        match self {
            Self::Messages(writer) => writer.write(out, event),
            Self::Completions(writer) => writer.write(out, event),
            Self::Converse(writer) => {
                writer.set_latency(elapsed);
                writer.write(out, event);
            }
            Self::Invoke(writer, frames) => {
                let mut events = BytesMut::new();
                writer.write(&mut events, event);
                let framed = frames.feed(&events, elapsed, out);
                // The writer's own output is valid.
                debug_assert!(framed.is_ok(), "{framed:?}");
            }
        }
    }
}
