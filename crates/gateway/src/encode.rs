//! Encoders at the edge: the events of a reply become the bytes of a response body.
//!
//! The pipeline and the assistant yield events. A vendor's dialect is written by the reply's encoder, the chat protocol as
//! server-sent events. Bytes that pass through unparsed are sent as they are.

use crate::pending_reply::{PendingReply, StreamStart};
use crate::runtime::TokioRuntime;
use bytes::{Bytes, BytesMut};
use seawall_assistant::ChatStream;
use seawall_pipeline::ReplyStream;
use seawall_wire::chat_face::{ChatReply, ChatReplyEvent};
use seawall_wire::dialect::DialectId;
use seawall_wire::reply::{ReplyEncoder, ReplyEvent};
use std::task::{Context, Poll, ready};

/// A streamed reply and its encoder.
pub(crate) enum EncodedStream {
    /// A vendor's dialect.
    Api(Box<ReplyStream<TokioRuntime>>, ReplyEncoder),
    /// The chat protocol.
    Chat(Box<ChatStream<TokioRuntime>>),
    /// A vendor's dialect whose reply is still awaited.
    Pending(Box<PendingReply>),
    /// Nothing follows.
    Ended,
}

impl EncodedStream {
    /// A reply in a vendor's dialect.
    pub(crate) fn api(stream: Box<ReplyStream<TokioRuntime>>, dialect: DialectId) -> Self {
        let encoder = stream.encoder().unwrap_or_else(|| ReplyEncoder::pass_through(dialect));
        Self::Api(stream, encoder)
    }

    /// The vendor's dialect, if it is one.
    pub(crate) fn dialect(&self) -> Option<DialectId> {
        match self {
            Self::Api(_, encoder) => Some(encoder.dialect()),
            Self::Pending(pending) => Some(pending.dialect()),
            Self::Chat(_) | Self::Ended => None,
        }
    }

    /// The next bytes; `None` at the end. Events that are ready together are written together.
    pub(crate) fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            match self {
                Self::Api(stream, encoder) => {
                    let Some(event) = ready!(stream.poll_event(context)) else { return Poll::Ready(None) };
                    if !matches!(event, ReplyEvent::Opaque(_)) && stream.is_finished() {
                        encoder.set_elapsed(stream.elapsed());
                    }
                    let bytes = encoder.encode(event, || stream.take_ready());
                    // A dialect may have nothing to write for an event.
                    if !bytes.is_empty() {
                        return Poll::Ready(Some(bytes));
                    }
                }
                Self::Chat(stream) => {
                    return stream.poll_event(context).map(|event| event.map(|event| sse(&[event])));
                }
                Self::Pending(pending) => match ready!(pending.poll_start(context)) {
                    StreamStart::Started(stream) => *self = Self::api(stream, pending.dialect()),
                    StreamStart::Complete(bytes) => {
                        *self = Self::Ended;
                        return Poll::Ready(Some(bytes));
                    }
                },
                Self::Ended => return Poll::Ready(None),
            }
        }
    }

    /// The pipeline ends a pending reply at its deadline by itself.
    pub(crate) fn check_deadline(&mut self) {
        match self {
            Self::Api(stream, _) => stream.check_deadline(),
            Self::Chat(stream) => stream.check_deadline(),
            Self::Pending(_) | Self::Ended => {}
        }
    }

    pub(crate) fn end_for_stalled_client(&mut self) {
        match self {
            Self::Api(stream, _) => stream.end_for_stalled_client(),
            Self::Chat(stream) => stream.end_for_stalled_client(),
            // This cancels the request, as if the client had disconnected.
            Self::Pending(_) => *self = Self::Ended,
            Self::Ended => {}
        }
    }

    /// A pending reply notices the shutdown by itself.
    pub(crate) fn end_for_shutdown(&mut self) {
        match self {
            Self::Api(stream, _) => stream.end_for_shutdown(),
            Self::Chat(stream) => stream.end_for_shutdown(),
            Self::Pending(_) | Self::Ended => {}
        }
    }
}

/// A stream of a vendor's dialect that is already complete.
pub(crate) fn complete_stream(events: &[ReplyEvent], mut encoder: ReplyEncoder) -> Bytes {
    let mut out = BytesMut::new();
    events.iter().for_each(|event| encoder.append(&mut out, event));
    out.freeze()
}

/// A streamed answer of the chat that is already complete.
pub(crate) fn complete_chat(reply: ChatReply) -> Bytes {
    sse(&reply.into_events())
}

fn sse(events: &[ChatReplyEvent]) -> Bytes {
    let mut out = BytesMut::new();
    events.iter().for_each(|event| event.write_sse(&mut out));
    out.freeze()
}
