//! Converts a target's bytes to a face's.

use super::chat_converter::ChatConverter;
use super::monitor::{StreamMonitor, Unreadable, frame_end};
use super::partial_event::PartialEvent;
use super::translation::Translation;
use super::{AnswerDefaults, DialectRequest};
use bytes::{Bytes, BytesMut};
use seawall_provider::TargetDialect;
use seawall_wire::bedrock::{FrameLimits, InvokeToSse, SseToInvoke};
use seawall_wire::chat::Usage;
use seawall_wire::openai::UsageFilter;
use seawall_wire::sse::SseLimits;
use std::time::Duration;

/// Maximum size of an incomplete event. The largest event or frame has 4 MiB; its name and line prefixes come on top.
const MAX_PARTIAL_EVENT: usize = 5 << 20;

/// The conversion from a target's bytes to a face's.
#[derive(Debug)]
pub(super) enum StreamConverter {
    /// Same dialect: bytes are forwarded unchanged.
    PassThrough(PartialEvent),
    /// Same dialect, for a caller that did not ask for usage.
    WithoutUsage(UsageFilter),
    /// Anthropic's events, wrapped into frames.
    Framed(Box<SseToInvoke>),
    /// Anthropic's events, unwrapped from frames.
    Unframed(InvokeToSse),
    /// The chat protocol.
    Chat(Box<ChatConverter>),
    /// Everything else.
    Translated(Box<Translation>),
}

impl StreamConverter {
    pub(super) fn new(
        request: &DialectRequest,
        target: TargetDialect,
        defaults: &AnswerDefaults<'_>,
    ) -> Self {
        let events = SseLimits::default();
        let Some(face) = request.face().dialect() else {
            return Self::Chat(Box::new(ChatConverter::new(target, request.model(), defaults)));
        };
        match (face, target) {
            (TargetDialect::OpenAiChat, TargetDialect::OpenAiChat) if !request.wants_usage() => {
                Self::WithoutUsage(UsageFilter::new(MAX_PARTIAL_EVENT))
            }
            _ if face == target => Self::PassThrough(PartialEvent::default()),
            (TargetDialect::BedrockInvoke, TargetDialect::AnthropicMessages) => {
                Self::Framed(Box::new(SseToInvoke::new(events)))
            }
            (TargetDialect::AnthropicMessages, TargetDialect::BedrockInvoke) => {
                Self::Unframed(InvokeToSse::new(FrameLimits::default()))
            }
            _ => {
                let (model, wants_usage) = (request.model(), request.wants_usage());
                Self::Translated(Box::new(Translation::new(face, target, model, wants_usage, defaults)))
            }
        }
    }

    /// Appends the translation of a chunk. Unchanged bytes are forwarded by [`forward`](Self::forward).
    pub(super) fn translate(
        &mut self,
        chunk: &Bytes,
        elapsed: Duration,
        out: &mut BytesMut,
    ) -> Result<(), Unreadable> {
        match self {
            Self::PassThrough(_) | Self::WithoutUsage(_) => Ok(()),
            Self::Framed(frames) => frames.feed(chunk, elapsed, out).map_err(|_| Unreadable),
            Self::Unframed(events) => events.feed(chunk, out).map_err(|_| Unreadable),
            Self::Chat(chat) => chat.feed(chunk),
            Self::Translated(translation) => translation.feed(chunk, elapsed, out),
        }
    }

    /// Forwards unchanged bytes, and text that the guardrail has released. The chunk must have been watched before.
    pub(super) fn forward(
        &mut self,
        chunk: &Bytes,
        monitor: &StreamMonitor,
        into: &mut impl FnMut(Bytes),
    ) -> Result<(), Unreadable> {
        match self {
            Self::PassThrough(partial) => {
                let whole = monitor.whole_length(partial.pending(), chunk);
                partial.forward(chunk, whole, MAX_PARTIAL_EVENT, into).map_err(|_| Unreadable)
            }
            Self::WithoutUsage(filter) => filter.feed(chunk, into).map_err(|_| Unreadable),
            Self::Chat(chat) => {
                chat.flush(into);
                Ok(())
            }
            Self::Framed(_) | Self::Unframed(_) | Self::Translated(_) => Ok(()),
        }
    }

    /// Whether the caller has also received a failure that the target reported. Without translation it was forwarded
    /// with everything else.
    pub(super) const fn forwarded_failure(&self) -> bool {
        match self {
            Self::Translated(translation) => translation.forwarded_failure(),
            // The pipeline reports it, with the number of characters delivered.
            Self::Chat(_) => false,
            Self::PassThrough(_) | Self::WithoutUsage(_) | Self::Framed(_) | Self::Unframed(_) => true,
        }
    }

    /// Appends what was held back until the end of the stream.
    pub(super) fn end(&mut self, elapsed: Duration, out: &mut BytesMut) {
        if let Self::Translated(translation) = self {
            translation.end(elapsed, out);
        }
    }

    /// Appends a regular end at the output limit, as the vendor would. `last` is the last chunk. The chat face's final
    /// event is sent by the pipeline.
    pub(super) fn end_at_limit(
        &mut self,
        monitor: &StreamMonitor,
        last: &[u8],
        usage: Usage,
        elapsed: Duration,
        out: &mut BytesMut,
    ) {
        match self {
            Self::PassThrough(_) => monitor.write_end(out, last, usage, true, elapsed),
            Self::WithoutUsage(_) => monitor.write_end(out, last, usage, false, elapsed),
            Self::Framed(frames) => {
                let mut events = BytesMut::new();
                monitor.write_events_end(&mut events, usage);
                frame_end(frames, &events, elapsed, out);
            }
            Self::Unframed(_) => monitor.write_events_end(out, usage),
            Self::Chat(_) => {}
            Self::Translated(translation) => translation.end_at_limit(usage, elapsed, out),
        }
    }

    /// Ends the guardrail's check of a complete answer. Returns whether it blocks.
    pub(super) fn blocks_at_end(&mut self) -> bool {
        match self {
            Self::Chat(chat) => {
                chat.end_text();
                chat.blocked_by().is_some()
            }
            Self::PassThrough(_)
            | Self::WithoutUsage(_)
            | Self::Framed(_)
            | Self::Unframed(_)
            | Self::Translated(_) => false,
        }
    }

    /// The chat conversion, if the caller uses the chat face.
    pub(super) const fn chat(&self) -> Option<&ChatConverter> {
        match self {
            Self::Chat(chat) => Some(chat),
            _ => None,
        }
    }

    pub(super) const fn chat_mut(&mut self) -> Option<&mut ChatConverter> {
        match self {
            Self::Chat(chat) => Some(chat),
            _ => None,
        }
    }
}
