//! A stream of one dialect, told in another, event by event.

use super::watch::Unreadable;
use super::{Face, Occasion};
use bytes::BytesMut;
use seawall_provider::TargetDialect;
use seawall_wire::bedrock::{FrameLimits, InvokeToSse, SseToInvoke, StreamEnding};
use seawall_wire::chat::ChatEvent;
use seawall_wire::sse::SseLimits;
use seawall_wire::{anthropic, bedrock, openai};
use std::time::Duration;

/// Reads a stream whole and writes it anew.
#[derive(Debug)]
pub(super) struct Translation {
    reader: Reader,
    writer: Writer,
    names: Names,
    /// Whether the caller was told that the target failed.
    told_failure: bool,
}

/// What the answer and its model are called.
#[derive(Debug)]
struct Names {
    id: String,
    model: String,
}

#[derive(Debug)]
enum Reader {
    Messages(anthropic::ChatReader),
    Completions(openai::ChatReader),
    Invoke(InvokeToSse, anthropic::ChatReader),
    Converse(bedrock::ChatReader),
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
        face: Face,
        target: TargetDialect,
        model: &str,
        wants_usage: bool,
        occasion: &Occasion<'_>,
    ) -> Self {
        let (events, frames) = (SseLimits::default(), FrameLimits::default());
        let reader = match target {
            TargetDialect::AnthropicMessages => Reader::Messages(anthropic::ChatReader::new(events)),
            TargetDialect::OpenAiChat => Reader::Completions(openai::ChatReader::new(events)),
            TargetDialect::BedrockInvoke => {
                Reader::Invoke(InvokeToSse::new(frames), anthropic::ChatReader::new(events))
            }
            TargetDialect::BedrockConverse => {
                Reader::Converse(bedrock::ChatReader::new(frames, occasion.id, model))
            }
        };
        let writer = match face {
            Face::AnthropicMessages => Writer::Messages(anthropic::ChatWriter::new()),
            Face::OpenAiChat => Writer::Completions(openai::ChatWriter::new(occasion.created, wants_usage)),
            Face::BedrockInvoke => {
                Writer::Invoke(anthropic::ChatWriter::new(), Box::new(SseToInvoke::new(events)))
            }
            Face::BedrockConverse => Writer::Converse(bedrock::ChatWriter::new()),
        };
        let names = Names { id: occasion.id.to_owned(), model: model.to_owned() };
        Self { reader, writer, names, told_failure: false }
    }

    /// Whether the caller was told that the target failed.
    pub(super) const fn told_failure(&self) -> bool {
        self.told_failure
    }

    /// Appends what a piece says.
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

    /// Appends what was held back until the bytes ended.
    pub(super) fn end(&mut self, took: Duration, out: &mut BytesMut) {
        let Self { reader, writer, names, .. } = self;
        reader.end(|event| writer.write(out, &names.put_into(event), took));
    }
}

impl Names {
    /// The model is called as the caller called it, and an answer without a name gets one.
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

impl Reader {
    fn feed(&mut self, bytes: &[u8], on_event: impl FnMut(ChatEvent)) -> Result<(), Unreadable> {
        match self {
            Self::Messages(reader) => reader.feed(bytes, on_event).map_err(|_| Unreadable),
            Self::Completions(reader) => reader.feed(bytes, on_event).map_err(|_| Unreadable),
            Self::Invoke(frames, reader) => {
                let mut events = BytesMut::new();
                let taken_out = frames.feed(bytes, &mut events);
                // What came before the frame that cannot be read was said all the same.
                reader.feed(&events, on_event).map_err(|_| Unreadable)?;
                taken_out.map_err(|_| Unreadable)
            }
            Self::Converse(reader) => reader.feed(bytes, on_event).map_err(|_| Unreadable),
        }
    }

    fn end(&mut self, on_event: impl FnMut(ChatEvent)) {
        if let Self::Converse(reader) = self {
            // How it ended is known from who watches.
            let (StreamEnding::Complete | StreamEnding::Interrupted) = reader.finish(on_event);
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
                // What was just written can be read.
                debug_assert!(framed.is_ok(), "{framed:?}");
            }
        }
    }
}
