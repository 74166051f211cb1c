//! Converts a target's bytes to a face's.

use super::chat_converter::ChatConverter;
use super::partial_event::PartialEvent;
use super::translation::Translation;
use super::{AnswerDefaults, DialectRequest};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use seawall_wire::dialect::{DialectId, StreamEndMarker, StreamMonitor, StreamRewriter, UnreadableStream};
use seawall_wire::sse::MAX_PARTIAL_EVENT;
use std::time::Duration;

/// The conversion from a target's bytes to a face's.
#[derive(Debug)]
pub(super) enum StreamConverter {
    /// Same dialect: bytes are forwarded unchanged.
    PassThrough(PartialEvent),
    /// The same events in another framing, or without what the caller did not ask for.
    Rewritten(Box<dyn StreamRewriter>, Vec<Bytes>),
    /// The chat protocol.
    Chat(Box<ChatConverter>),
    /// Everything else.
    Translated(Box<Translation>),
}

impl StreamConverter {
    pub(super) fn new(request: &DialectRequest, target: DialectId, defaults: &AnswerDefaults<'_>) -> Self {
        let (model, wants_usage) = (request.model(), request.wants_usage());
        let Some(face) = request.face().dialect() else {
            return Self::Chat(Box::new(ChatConverter::new(target, model, defaults)));
        };
        match face.rewrite_stream(target, wants_usage) {
            Some(rewriter) => Self::Rewritten(rewriter, Vec::new()),
            None if face == target => Self::PassThrough(PartialEvent::default()),
            None => Self::Translated(Box::new(Translation::new(face, target, model, wants_usage, defaults))),
        }
    }

    /// Converts a chunk: appends its translation, or keeps what [`forward`](Self::forward) sends.
    pub(super) fn translate(
        &mut self,
        chunk: &Bytes,
        elapsed: Duration,
        out: &mut BytesMut,
    ) -> Result<(), UnreadableStream> {
        match self {
            Self::PassThrough(_) => Ok(()),
            Self::Rewritten(rewriter, ready) => rewriter.feed(chunk, elapsed, &mut |bytes| ready.push(bytes)),
            Self::Chat(chat) => chat.feed(chunk),
            Self::Translated(translation) => translation.feed(chunk, elapsed, out),
        }
    }

    /// Forwards unchanged bytes, and text that the guardrail has released. The chunk must have been watched before.
    pub(super) fn forward(
        &mut self,
        chunk: &Bytes,
        monitor: &dyn StreamMonitor,
        into: &mut impl FnMut(Bytes),
    ) -> Result<(), UnreadableStream> {
        match self {
            Self::PassThrough(partial) => {
                let whole = monitor.whole_length(partial.pending(), chunk);
                partial.forward(chunk, whole, MAX_PARTIAL_EVENT, into).map_err(|_| UnreadableStream)
            }
            Self::Rewritten(_, ready) => {
                ready.drain(..).for_each(into);
                Ok(())
            }
            Self::Chat(chat) => {
                chat.flush(into);
                Ok(())
            }
            Self::Translated(_) => Ok(()),
        }
    }

    /// Whether the caller has also received a failure that the target reported. Without translation it was forwarded
    /// with everything else.
    pub(super) const fn forwarded_failure(&self) -> bool {
        match self {
            Self::Translated(translation) => translation.forwarded_failure().is_some(),
            // The pipeline reports it, with the number of characters delivered.
            Self::Chat(_) => false,
            Self::PassThrough(_) | Self::Rewritten(..) => true,
        }
    }

    /// The failure that the target reported, as far as the stream is parsed. Some dialects report a failure as a finish
    /// reason, which is an end like any other to a caller of the same dialect, but cannot be translated to one.
    pub(super) const fn parsed_failure(&self) -> Option<Failure> {
        match self {
            Self::Translated(translation) => translation.forwarded_failure(),
            Self::Chat(chat) => chat.failure(),
            Self::PassThrough(_) | Self::Rewritten(..) => None,
        }
    }

    /// Appends what was held back until the end of the stream.
    pub(super) fn end(&mut self, elapsed: Duration, out: &mut BytesMut) {
        if let Self::Translated(translation) = self {
            translation.end(elapsed, out);
        }
    }

    /// Appends a regular end at the output limit, as the vendor would. The chat face's final event is sent by the
    /// pipeline.
    pub(super) fn end_at_limit(
        &mut self,
        monitor: &dyn StreamMonitor,
        end: &StreamEndMarker<'_>,
        out: &mut BytesMut,
    ) {
        match self {
            Self::PassThrough(_) => monitor.write_end(out, end),
            Self::Rewritten(rewriter, _) => {
                let mut written = BytesMut::new();
                monitor.write_end(&mut written, end);
                rewriter.write_end(&written, end.elapsed, out);
            }
            Self::Chat(_) => {}
            Self::Translated(translation) => translation.end_at_limit(end.usage, end.elapsed, out),
        }
    }

    /// The event that ends an incomplete stream, if it refers to the earlier ones.
    pub(super) fn write_interruption(
        &mut self,
        monitor: &dyn StreamMonitor,
        kind: FailureKind,
        message: &str,
    ) -> Option<Bytes> {
        match self {
            Self::PassThrough(_) => monitor.write_interruption(kind, message),
            Self::Translated(translation) => translation.write_interruption(kind, message),
            Self::Rewritten(..) | Self::Chat(_) => None,
        }
    }

    /// Ends the guardrail's check of a complete answer. Returns whether it blocks.
    pub(super) fn blocks_at_end(&mut self) -> bool {
        match self {
            Self::Chat(chat) => {
                chat.end_text();
                chat.blocked_by().is_some()
            }
            Self::PassThrough(_) | Self::Rewritten(..) | Self::Translated(_) => false,
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
