//! Watches a target's stream for usage, end and failure.

use bytes::{Bytes, BytesMut};
use seawall_core::tokens::OutputMeter;
use seawall_provider::TargetDialect;
use seawall_wire::anthropic::AnthropicStream;
use seawall_wire::bedrock::{ConverseStream, FrameLimits, InvokeStream, OpaqueStream, SseToInvoke};
use seawall_wire::chat::{FinishReason, StreamEvent, Usage, UsageReport};
use seawall_wire::openai::{ChunkIdentity, OpenAiStream};
use seawall_wire::sse::{SseLimits, whole_length};
use std::time::Duration;

/// Names for chunks if the vendor sent none.
const NO_NAMES: ChunkIdentity<'static> = ChunkIdentity { id: "chatcmpl", model: "", created: 0 };

/// Parses a target's stream for accounting, whatever the caller's dialect.
#[derive(Debug)]
pub(super) enum StreamMonitor {
    Messages(AnthropicStream),
    Completions(OpenAiStream),
    Invoke(Box<InvokeStream>),
    Opaque(Box<OpaqueStream>),
    Converse(ConverseStream),
}

/// The stream cannot be parsed any further.
#[derive(Debug)]
pub(super) struct Unreadable;

impl StreamMonitor {
    /// For a target of this dialect. `is_opaque` means that only the framing can be parsed.
    pub(super) fn new(target: TargetDialect, is_opaque: bool) -> Self {
        let (events, frames) = (SseLimits::default(), FrameLimits::default());
        match target {
            TargetDialect::BedrockInvoke if is_opaque => Self::Opaque(Box::new(OpaqueStream::new(frames))),
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
            Self::Opaque(stream) => stream.feed(bytes, on_event).map_err(|_| Unreadable),
            Self::Converse(stream) => stream.feed(bytes, on_event).map_err(|_| Unreadable),
        }
    }

    /// How much of the chunk just fed belongs to complete events. `pending` is the start of the current one.
    pub(super) fn whole_length(&self, pending: &[u8], chunk: &Bytes) -> usize {
        match self {
            Self::Messages(_) | Self::Completions(_) => whole_length(pending, chunk),
            Self::Invoke(stream) => chunk.len().saturating_sub(stream.unfinished()),
            Self::Opaque(stream) => chunk.len().saturating_sub(stream.unfinished()),
            Self::Converse(stream) => chunk.len().saturating_sub(stream.unfinished()),
        }
    }

    pub(super) fn usage(&self) -> Usage {
        match self {
            Self::Messages(stream) => stream.usage(),
            Self::Completions(stream) => stream.usage(),
            Self::Invoke(stream) => stream.usage(),
            Self::Opaque(stream) => stream.report().usage,
            Self::Converse(stream) => stream.usage().unwrap_or_default(),
        }
    }

    pub(super) fn report(&self) -> UsageReport {
        match self {
            Self::Messages(stream) => stream.report(),
            Self::Completions(stream) => stream.report(),
            Self::Invoke(stream) => stream.report(),
            Self::Opaque(stream) => stream.report(),
            Self::Converse(stream) => stream.report(),
        }
    }

    /// Bytes received of an incomplete event.
    pub(super) fn unfinished(&self) -> usize {
        match self {
            Self::Messages(stream) => stream.unfinished(),
            Self::Completions(stream) => stream.unfinished(),
            Self::Invoke(stream) => stream.unfinished(),
            Self::Opaque(stream) => stream.unfinished(),
            Self::Converse(stream) => stream.unfinished(),
        }
    }

    pub(super) const fn meter(&mut self) -> &mut OutputMeter {
        match self {
            Self::Messages(stream) => stream.meter(),
            Self::Completions(stream) => stream.meter(),
            Self::Invoke(stream) => stream.meter(),
            Self::Opaque(stream) => stream.meter(),
            Self::Converse(stream) => stream.meter(),
        }
    }

    /// Appends a regular end at the output limit in the target's own dialect, as its vendor would. `last` is the last
    /// chunk. OpenAI's callers get the usage only if they asked for it.
    pub(super) fn write_end(
        &self,
        out: &mut BytesMut,
        last: &[u8],
        usage: Usage,
        wants_usage: bool,
        elapsed: Duration,
    ) {
        match self {
            Self::Messages(stream) => stream.write_end(out, usage),
            Self::Completions(stream) => {
                stream.write_end(out, last, NO_NAMES, wants_usage.then_some(usage));
            }
            Self::Invoke(_) => {
                let mut events = BytesMut::new();
                self.write_events_end(&mut events, usage);
                frame_end(&mut SseToInvoke::new(SseLimits::default()), &events, elapsed, out);
            }
            Self::Converse(stream) => stream.write_end(out, usage, elapsed),
            // Its output is not metered, so it is never ended at a limit.
            Self::Opaque(_) => {}
        }
    }

    /// The same as Anthropic's events, which two dialects consist of.
    pub(super) fn write_events_end(&self, out: &mut BytesMut, usage: Usage) {
        match self {
            Self::Messages(stream) => stream.write_end(out, usage),
            Self::Invoke(stream) => stream.write_end(out, usage),
            Self::Completions(_) | Self::Converse(_) | Self::Opaque(_) => {}
        }
    }

    pub(super) const fn finish(&self) -> Option<FinishReason> {
        match self {
            Self::Messages(stream) => stream.finish_reason(),
            Self::Completions(stream) => stream.finish_reason(),
            Self::Invoke(stream) => stream.finish_reason(),
            Self::Opaque(_) => None,
            Self::Converse(stream) => stream.finish_reason(),
        }
    }

    /// Whether the answer is complete if the stream ends here.
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Self::Messages(stream) => stream.is_complete(),
            Self::Completions(stream) => stream.is_complete(),
            Self::Invoke(stream) => stream.is_complete(),
            Self::Opaque(stream) => stream.is_complete(),
            Self::Converse(stream) => stream.is_complete(),
        }
    }
}

/// Wraps the final events into frames.
pub(super) fn frame_end(frames: &mut SseToInvoke, events: &[u8], elapsed: Duration, out: &mut BytesMut) {
    let framed = frames.feed(events, elapsed, out);
    // The writer's own output is valid.
    debug_assert!(framed.is_ok(), "{framed:?}");
}
