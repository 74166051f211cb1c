//! Translates a stream from one dialect to another, event by event.

use super::Occasion;
use super::reader::Reader;
use super::watch::Unreadable;
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
    reader: Reader,
    writer: Writer,
    names: Names,
    /// Whether a failure of the target was forwarded to the caller.
    told_failure: bool,
}

/// The IDs of the answer and its model.
#[derive(Debug)]
struct Names {
    id: String,
    model: String,
}

#[derive(Debug)]
enum Writer {
    Messages(anthropic::ChatWriter),
    Completions(openai::ChatWriter),
    Invoke(anthropic::ChatWriter, Box<SseToInvoke>),
    Converse(bedrock::ChatWriter),
}

impl Translation {
    pub(super) fn new(
        face: TargetDialect,
        target: TargetDialect,
        model: &str,
        wants_usage: bool,
        occasion: &Occasion<'_>,
    ) -> Self {
        let reader = Reader::new(target, occasion.id, model);
        let writer = match face {
            TargetDialect::AnthropicMessages => Writer::Messages(anthropic::ChatWriter::new()),
            TargetDialect::OpenAiChat => {
                Writer::Completions(openai::ChatWriter::new(occasion.created, wants_usage))
            }
            TargetDialect::BedrockInvoke => {
                Writer::Invoke(anthropic::ChatWriter::new(), Box::new(SseToInvoke::new(SseLimits::default())))
            }
            TargetDialect::BedrockConverse => Writer::Converse(bedrock::ChatWriter::new()),
        };
        let names = Names { id: occasion.id.to_owned(), model: model.to_owned() };
        Self { reader, writer, names, told_failure: false }
    }

    /// Whether a failure of the target was forwarded to the caller.
    pub(super) const fn told_failure(&self) -> bool {
        self.told_failure
    }

    /// Appends the translation of a piece.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        took: Duration,
        out: &mut BytesMut,
    ) -> Result<(), Unreadable> {
        let Self { reader, writer, names, told_failure } = self;
        reader.feed(bytes, |event| {
            *told_failure |= matches!(event, ChatEvent::Failed { .. });
            writer.write(out, &names.put_into(event), took);
        })
    }

    /// Appends what was held back until the end of the stream.
    pub(super) fn end(&mut self, took: Duration, out: &mut BytesMut) {
        let Self { reader, writer, names, .. } = self;
        reader.end(|event| writer.write(out, &names.put_into(event), took));
    }

    /// Appends an end at the output limit.
    pub(super) fn end_at_limit(&mut self, usage: Usage, took: Duration, out: &mut BytesMut) {
        self.writer.write(out, &ChatEvent::Usage(usage), took);
        self.writer.write(out, &ChatEvent::Finished(FinishReason::MaxTokens), took);
    }
}

impl Names {
    /// Uses the caller's model name, and adds an ID if the answer has none.
    fn put_into(&self, event: ChatEvent) -> ChatEvent {
        match event {
            ChatEvent::Started { id, usage, .. } => {
                let id = if id.is_empty() { self.id.clone() } else { id };
                ChatEvent::Started { id, model: self.model.clone(), usage }
            }
            other => other,
        }
    }
}

impl Writer {
    fn write(&mut self, out: &mut BytesMut, event: &ChatEvent, took: Duration) {
        match self {
            Self::Messages(writer) => writer.write(out, event),
            Self::Completions(writer) => writer.write(out, event),
            Self::Converse(writer) => {
                writer.set_latency(took);
                writer.write(out, event);
            }
            Self::Invoke(writer, frames) => {
                let mut events = BytesMut::new();
                writer.write(&mut events, event);
                let framed = frames.feed(&events, took, out);
                // The writer's own output is valid.
                debug_assert!(framed.is_ok(), "{framed:?}");
            }
        }
    }
}
