//! What a target says of its answer while it streams: usage, end and failure.

use bytes::{Bytes, BytesMut};
use seawall_core::tokens::OutputMeter;
use seawall_provider::TargetDialect;
use seawall_wire::anthropic::AnthropicStream;
use seawall_wire::bedrock::{ConverseStream, FrameLimits, InvokeStream, SseToInvoke};
use seawall_wire::chat::{FinishReason, StreamEvent, Usage, UsageReport};
use seawall_wire::openai::{ChunkNames, OpenAiStream};
use seawall_wire::sse::{SseLimits, whole_length};
use std::time::Duration;

/// What chunks are called whose vendor did not say.
const NO_NAMES: ChunkNames<'static> = ChunkNames { id: "chatcmpl", model: "", created: 0 };

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

    pub(super) fn report(&self) -> UsageReport {
        match self {
            Self::Messages(stream) => stream.report(),
            Self::Completions(stream) => stream.report(),
            Self::Invoke(stream) => stream.report(),
            Self::Converse(stream) => stream.report(),
        }
    }

    /// How many bytes of an unfinished event have come.
    pub(super) fn unfinished(&self) -> usize {
        match self {
            Self::Messages(stream) => stream.unfinished(),
            Self::Completions(stream) => stream.unfinished(),
            Self::Invoke(stream) => stream.unfinished(),
            Self::Converse(stream) => stream.unfinished(),
        }
    }

    /// What has arrived of the answer.
    pub(super) const fn meter(&self) -> &OutputMeter {
        match self {
            Self::Messages(stream) => stream.meter(),
            Self::Completions(stream) => stream.meter(),
            Self::Invoke(stream) => stream.meter(),
            Self::Converse(stream) => stream.meter(),
        }
    }

    /// Appends what ends the stream here in the target's own dialect, as its vendor does at a limit of output. `last` are
    /// the bytes that came last. OpenAI's callers get the usage only where they asked for it.
    pub(super) fn write_end(
        &self,
        out: &mut BytesMut,
        last: &[u8],
        usage: Usage,
        wants_usage: bool,
        took: Duration,
    ) {
        match self {
            Self::Messages(stream) => stream.write_end(out, usage),
            Self::Completions(stream) => {
                stream.write_end(out, last, NO_NAMES, wants_usage.then_some(usage));
            }
            Self::Invoke(_) => {
                let mut events = BytesMut::new();
                self.write_events_end(&mut events, usage);
                frame_end(&mut SseToInvoke::new(SseLimits::default()), &events, took, out);
            }
            Self::Converse(stream) => stream.write_end(out, usage, took),
        }
    }

    /// The same as events of Anthropic's, which two dialects are made of.
    pub(super) fn write_events_end(&self, out: &mut BytesMut, usage: Usage) {
        match self {
            Self::Messages(stream) => stream.write_end(out, usage),
            Self::Invoke(stream) => stream.write_end(out, usage),
            Self::Completions(_) | Self::Converse(_) => {}
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

/// Puts the events of an end into frames.
pub(super) fn frame_end(frames: &mut SseToInvoke, events: &[u8], took: Duration, out: &mut BytesMut) {
    let framed = frames.feed(events, took, out);
    // What was just written can be read.
    debug_assert!(framed.is_ok(), "{framed:?}");
}
