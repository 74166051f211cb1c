//! Converts a target's bytes to the events of a reply.

use super::partial_event::PartialEvent;
use super::stream_parser::StreamParser;
use super::{AnswerDefaults, DialectRequest};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::Failure;
use seawall_wire::dialect::{DialectId, StreamEndMarker, StreamMonitor, StreamRewriter, UnreadableStream};
use seawall_wire::reply::{ReplyEncoder, ReplyEvent};
use seawall_wire::sse::MAX_PARTIAL_EVENT;
use std::time::Duration;

/// The conversion from a target's bytes to the events of a reply.
#[derive(Debug)]
pub(super) enum StreamConverter {
    /// Same dialect: bytes are forwarded unchanged.
    PassThrough(DialectId, PartialEvent),
    /// The same events in another framing, or without what the caller did not ask for.
    Rewritten(DialectId, Box<dyn StreamRewriter>, Vec<Bytes>),
    /// Everything else.
    Parsed(Box<StreamParser>),
}

impl StreamConverter {
    pub(super) fn new(request: &DialectRequest, target: DialectId, defaults: &AnswerDefaults<'_>) -> Self {
        let wants_usage = request.wants_usage();
        let face = request.face().dialect();
        let parsed = || Self::Parsed(Box::new(StreamParser::new(face, target, request, defaults)));
        let Some(face) = face else { return parsed() };
        match face.rewrite_stream(target, wants_usage) {
            Some(rewriter) => Self::Rewritten(face, rewriter, Vec::new()),
            None if face == target => Self::PassThrough(face, PartialEvent::default()),
            None => parsed(),
        }
    }

    /// Converts a chunk; [`forward`](Self::forward) sends the result.
    pub(super) fn convert(&mut self, chunk: &Bytes, elapsed: Duration) -> Result<(), UnreadableStream> {
        match self {
            Self::PassThrough(..) => Ok(()),
            Self::Rewritten(_, rewriter, ready) => {
                rewriter.feed(chunk, elapsed, &mut |bytes| ready.push(bytes))
            }
            Self::Parsed(parsed) => parsed.feed(chunk),
        }
    }

    /// Forwards the chunk, or what it was converted to. The chunk must have been monitored before.
    pub(super) fn forward(
        &mut self,
        chunk: &Bytes,
        monitor: &dyn StreamMonitor,
        into: &mut impl FnMut(ReplyEvent),
    ) -> Result<(), UnreadableStream> {
        match self {
            Self::PassThrough(_, partial) => {
                let whole = monitor.whole_length(partial.pending(), chunk);
                let mut forward = |bytes| into(ReplyEvent::Opaque(bytes));
                partial.forward(chunk, whole, MAX_PARTIAL_EVENT, &mut forward).map_err(|_| UnreadableStream)
            }
            Self::Rewritten(_, _, ready) => {
                ready.drain(..).map(ReplyEvent::Opaque).for_each(into);
                Ok(())
            }
            Self::Parsed(parsed) => {
                parsed.forward(into);
                Ok(())
            }
        }
    }

    /// Whether the caller has also received a failure that the target reported. Without parsing it was forwarded with
    /// everything else.
    pub(super) const fn forwarded_failure(&self) -> bool {
        match self {
            Self::Parsed(parsed) => parsed.forwards_failures() && parsed.failure().is_some(),
            Self::PassThrough(..) | Self::Rewritten(..) => true,
        }
    }

    /// The failure that the target reported, as far as the stream is parsed. Some dialects report a failure as a finish
    /// reason, which is an end like any other to a caller of the same dialect, but cannot be translated to one.
    pub(super) const fn parsed_failure(&self) -> Option<Failure> {
        match self {
            Self::Parsed(parsed) => parsed.failure(),
            Self::PassThrough(..) | Self::Rewritten(..) => None,
        }
    }

    /// Forwards what was held back until the end of the stream.
    pub(super) fn end(&mut self, into: &mut impl FnMut(ReplyEvent)) {
        if let Self::Parsed(parsed) = self {
            parsed.end();
            parsed.forward(into);
        }
    }

    /// Forwards a regular end at the output limit, as the vendor would send it.
    pub(super) fn end_at_limit(
        &mut self,
        monitor: &dyn StreamMonitor,
        end: &StreamEndMarker<'_>,
        into: &mut impl FnMut(ReplyEvent),
    ) {
        let mut out = BytesMut::new();
        match self {
            Self::PassThrough(..) => monitor.write_end(&mut out, end),
            Self::Rewritten(_, rewriter, _) => {
                let mut written = BytesMut::new();
                monitor.write_end(&mut written, end);
                rewriter.write_end(&written, end.elapsed, &mut out);
            }
            Self::Parsed(parsed) => {
                parsed.end_at_limit(end.usage);
                parsed.forward(into);
            }
        }
        if !out.is_empty() {
            into(ReplyEvent::Opaque(out.freeze()));
        }
    }

    /// Whether events are forwarded as the target sent them.
    pub(super) const fn is_pass_through(&self) -> bool {
        matches!(self, Self::PassThrough(..))
    }

    /// The encoder for the caller's dialect; `None` for a caller that reads the events itself.
    pub(super) fn encoder(&self) -> Option<ReplyEncoder> {
        match self {
            Self::PassThrough(face, _) | Self::Rewritten(face, ..) => Some(ReplyEncoder::pass_through(*face)),
            Self::Parsed(parsed) => parsed.encoder(),
        }
    }
}
