//! What a target says of its answer while it streams: usage, end and failure.

use bytes::Bytes;
use seawall_provider::TargetDialect;
use seawall_wire::anthropic::AnthropicStream;
use seawall_wire::bedrock::{ConverseStream, FrameLimits, InvokeStream};
use seawall_wire::chat::{FinishReason, StreamEvent, Usage};
use seawall_wire::openai::OpenAiStream;
use seawall_wire::sse::{SseLimits, whole_length};

/// Reads a target's stream for the accounts, whoever it is told to.
#[derive(Debug)]
pub(super) enum Watch {
    Messages(AnthropicStream),
    Completions(OpenAiStream),
    Invoke(Box<InvokeStream>),
    Converse(ConverseStream),
}

/// The stream cannot be read any further.
#[derive(Debug)]
pub(super) struct Unreadable;

impl Watch {
    pub(super) fn new(target: TargetDialect) -> Self {
        let (events, frames) = (SseLimits::default(), FrameLimits::default());
        match target {
            TargetDialect::AnthropicMessages => {
                Self::Messages(AnthropicStream::new(events).checking_content())
            }
            TargetDialect::OpenAiChat => Self::Completions(OpenAiStream::new(events)),
            TargetDialect::BedrockInvoke => Self::Invoke(Box::new(InvokeStream::new(frames))),
            TargetDialect::BedrockConverse => Self::Converse(ConverseStream::new(frames)),
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8], on_event: impl FnMut(StreamEvent)) -> Result<(), Unreadable> {
        match self {
            Self::Messages(stream) => stream.feed(bytes, on_event).map_err(|_| Unreadable),
            Self::Completions(stream) => stream.feed(bytes, on_event).map_err(|_| Unreadable),
            Self::Invoke(stream) => stream.feed(bytes, on_event).map_err(|_| Unreadable),
            Self::Converse(stream) => stream.feed(bytes, on_event).map_err(|_| Unreadable),
        }
    }

    /// How much of a frame that was just fed belongs to whole events. `pending` is what came of one before it.
    pub(super) fn whole_length(&self, pending: &[u8], frame: &Bytes) -> usize {
        match self {
            Self::Messages(_) | Self::Completions(_) => whole_length(pending, frame),
            Self::Invoke(stream) => frame.len().saturating_sub(stream.unfinished()),
            Self::Converse(stream) => frame.len().saturating_sub(stream.unfinished()),
        }
    }

    pub(super) fn usage(&self) -> Usage {
        match self {
            Self::Messages(stream) => stream.usage(),
            Self::Completions(stream) => stream.usage(),
            Self::Invoke(stream) => stream.usage(),
            Self::Converse(stream) => stream.usage().unwrap_or_default(),
        }
    }

    pub(super) const fn finish(&self) -> Option<FinishReason> {
        match self {
            Self::Messages(stream) => stream.finish_reason(),
            Self::Completions(stream) => stream.finish_reason(),
            Self::Invoke(stream) => stream.finish_reason(),
            Self::Converse(stream) => stream.finish_reason(),
        }
    }

    /// Whether the answer is complete, if the stream ends here.
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Self::Messages(stream) => stream.is_complete(),
            Self::Completions(stream) => stream.is_complete(),
            Self::Invoke(stream) => stream.is_complete(),
            Self::Converse(stream) => stream.is_complete(),
        }
    }
}
