//! Parses a target's stream completely.

use super::monitor::Unreadable;
use bytes::BytesMut;
use seawall_provider::TargetDialect;
use seawall_wire::bedrock::{FrameLimits, InvokeToSse, StreamEnding};
use seawall_wire::chat::ChatEvent;
use seawall_wire::sse::SseLimits;
use seawall_wire::{anthropic, bedrock, openai};

/// Parses a stream of one dialect into common events.
#[derive(Debug)]
pub(super) enum DialectReader {
    Messages(anthropic::AnthropicChatReader),
    Completions(openai::OpenAiChatReader),
    Invoke(InvokeToSse, anthropic::AnthropicChatReader),
    Converse(bedrock::ConverseChatReader),
}

impl DialectReader {
    /// `id` and `model` are used for the dialect that reports neither.
    pub(super) fn new(target: TargetDialect, id: &str, model: &str) -> Self {
        let (events, frames) = (SseLimits::default(), FrameLimits::default());
        match target {
            TargetDialect::AnthropicMessages => Self::Messages(anthropic::AnthropicChatReader::new(events)),
            TargetDialect::OpenAiChat => Self::Completions(openai::OpenAiChatReader::new(events)),
            TargetDialect::BedrockInvoke => {
                Self::Invoke(InvokeToSse::new(frames), anthropic::AnthropicChatReader::new(events))
            }
            TargetDialect::BedrockConverse => {
                Self::Converse(bedrock::ConverseChatReader::new(frames, id, model))
            }
        }
    }

    /// Emits the events of a piece.
    pub(super) fn feed(&mut self, bytes: &[u8], on_event: impl FnMut(ChatEvent)) -> Result<(), Unreadable> {
        match self {
            Self::Messages(reader) => reader.feed(bytes, on_event).map_err(|_| Unreadable),
            Self::Completions(reader) => reader.feed(bytes, on_event).map_err(|_| Unreadable),
            Self::Invoke(frames, reader) => {
                let mut events = BytesMut::new();
                let unframed = frames.feed(bytes, &mut events);
                // Events before the unreadable frame are still valid.
                reader.feed(&events, on_event).map_err(|_| Unreadable)?;
                unframed.map_err(|_| Unreadable)
            }
            Self::Converse(reader) => reader.feed(bytes, on_event).map_err(|_| Unreadable),
        }
    }

    /// Whether the model explains a refusal, for the dialect that distinguishes it from an answer.
    pub(super) const fn has_refused(&self) -> bool {
        matches!(self, Self::Completions(reader) if reader.has_refused())
    }

    /// Emits the events that were held back until the end of the stream.
    pub(super) fn end(&mut self, on_event: impl FnMut(ChatEvent)) {
        if let Self::Converse(reader) = self {
            // The monitor detects how the stream ended.
            let (StreamEnding::Complete | StreamEnding::Interrupted) = reader.finish(on_event);
        }
    }
}
