//! Response bodies: complete in memory, or streamed.
//!
//! A large answer is sent in pieces although all of it is in memory. This shows whether the caller reads it (see
//! [`stalled_streams`](crate::stalled_streams)), and little of it is copied before it is sent.

use crate::connection::InFlightRequest;
use crate::core_registry::{ConnectionTimeouts, CoreRegistry};
use crate::encode::EncodedStream;
use crate::keep_alive::KeepAlive;
use crate::pending_reply::PendingReply;
use crate::runtime::TokioRuntime;
use crate::stalled_streams::{ReadPace, StallChecked};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use seawall_core::body_memory::ChargedBytes;
use seawall_pipeline::Reply;
use seawall_wire::dialect::DialectId;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

/// The body of a response. The server drops it when the caller disconnects, which also ends the call to the upstream.
pub(crate) enum ReplyBody {
    Full(Option<Bytes>),
    Large(Arc<LargeAnswer>),
    Stream(Arc<StreamedAnswer>),
    /// Any of the above, on a connection that counts its requests in flight.
    Counted {
        body: Box<ReplyBody>,
        _in_flight: InFlightRequest,
    },
}

/// Answers larger than this are watched for callers that do not read.
const LARGE: usize = 64 << 10;
/// The size of the pieces in which they are sent.
const PIECE: usize = 64 << 10;

/// The answer was ended because the client stopped reading.
#[derive(Debug, thiserror::Error)]
#[error("the client stopped reading the answer (server.send_timeout)")]
pub(crate) struct StalledAnswer;

/// A stream that the server reads, and that the stall check inspects when the server does not.
pub(crate) struct StreamedAnswer(Mutex<OpenAnswer>);

struct OpenAnswer {
    stream: EncodedStream,
    pace: ReadPace,
    keep_alive: KeepAlive,
}

impl StreamedAnswer {
    /// Registers the answer with its core, which checks it.
    fn register(
        stream: EncodedStream,
        pace: ReadPace,
        dialect: Option<DialectId>,
        core: &CoreRegistry,
    ) -> Arc<Self> {
        let open = OpenAnswer { stream, pace, keep_alive: KeepAlive::new(dialect) };
        let answer = Arc::new(Self(Mutex::new(open)));
        let watched: Weak<Self> = Arc::downgrade(&answer);
        core.streams().add(watched);
        answer
    }

    /// An answer whose reply is still awaited.
    pub(crate) fn pending(reply: PendingReply, core: &CoreRegistry) -> Arc<Self> {
        let dialect = reply.dialect();
        let mut pace = ReadPace::default();
        // There is nothing to read yet.
        pace.record_poll(false);
        Self::register(EncodedStream::Pending(Box::new(reply)), pace, Some(dialect), core)
    }

    /// The reply of a pending answer; `None` if a keep-alive is due before. The response then begins without it.
    pub(crate) async fn reply(&self) -> Option<Reply<TokioRuntime>> {
        poll_fn(|context| {
            let OpenAnswer { stream, pace, keep_alive } = &mut *self.open();
            let EncodedStream::Pending(pending) = stream else { return Poll::Ready(None) };
            match pending.poll_reply(context) {
                Poll::Ready(reply) => Poll::Ready(Some(reply)),
                Poll::Pending if keep_alive.is_due() => {
                    *pace = ReadPace::default();
                    Poll::Ready(None)
                }
                Poll::Pending => {
                    keep_alive.register(context);
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn open(&self) -> MutexGuard<'_, OpenAnswer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StallChecked for StreamedAnswer {
    fn check(&self, timeouts: &ConnectionTimeouts) {
        let OpenAnswer { stream, pace, keep_alive } = &mut *self.open();
        stream.check_deadline();
        if pace.check(timeouts.max_stalled_checks) {
            stream.end_for_stalled_client();
        }
        keep_alive.check(timeouts.max_silent_checks);
    }

    fn end_for_shutdown(&self) {
        self.open().stream.end_for_shutdown();
    }
}

impl OpenAnswer {
    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Self { stream, pace, keep_alive } = self;
        let mut polled = stream.poll_bytes(context);
        match &polled {
            Poll::Ready(_) => keep_alive.record_bytes(),
            // Between two events of the answer, because all bytes of a stream are whole events.
            Poll::Pending => match keep_alive.take_due() {
                Some(bytes) => polled = Poll::Ready(Some(Bytes::from_static(bytes))),
                None => keep_alive.register(context),
            },
        }
        pace.record_poll(polled.is_ready());
        polled
    }
}

/// A complete answer in memory that is sent in pieces.
pub(crate) struct LargeAnswer(Mutex<Unsent>);

struct Unsent {
    /// `None` once the answer was ended because the client stopped reading.
    bytes: Option<Bytes>,
    pace: ReadPace,
    /// The part of its caller's memory allowance that it uses.
    charged: Option<ChargedBytes>,
}

impl LargeAnswer {
    fn unsent(&self) -> MutexGuard<'_, Unsent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges the answer to its caller's memory allowance, in place of the request body.
    pub(crate) fn charge(&self, body: ChargedBytes) {
        let mut unsent = self.unsent();
        let length = unsent.bytes.as_ref().map_or(0, Bytes::len);
        unsent.charged = Some(body.into_response(length as u64));
    }

    fn next(&self) -> Option<Result<Bytes, StalledAnswer>> {
        let mut unsent = self.unsent();
        let Some(bytes) = &mut unsent.bytes else { return Some(Err(StalledAnswer)) };
        let piece = bytes.split_to(bytes.len().min(PIECE));
        unsent.pace.record_poll(true);
        (!piece.is_empty()).then_some(Ok(piece))
    }
}

impl StallChecked for LargeAnswer {
    fn check(&self, timeouts: &ConnectionTimeouts) {
        let mut unsent = self.unsent();
        if unsent.pace.check(timeouts.max_stalled_checks) {
            (unsent.bytes, unsent.charged) = (None, None);
        }
    }

    /// Nothing to do: at shutdown the answer has had the drain timeout to be read, like any other.
    fn end_for_shutdown(&self) {}
}

impl ReplyBody {
    /// A complete answer. A large one is registered with its core, which ends it if the client stops reading.
    pub(crate) fn whole(bytes: Bytes, core: Option<&CoreRegistry>) -> Self {
        let Some(core) = core.filter(|_| bytes.len() > LARGE) else {
            return Self::Full(Some(bytes));
        };
        let unsent = Unsent { bytes: Some(bytes), pace: ReadPace::default(), charged: None };
        let answer = Arc::new(LargeAnswer(Mutex::new(unsent)));
        let watched: Weak<LargeAnswer> = Arc::downgrade(&answer);
        core.streams().add(watched);
        Self::Large(answer)
    }

    /// A streamed answer. Its core ends it when the drain timeout has expired.
    pub(crate) fn stream(stream: EncodedStream, core: &CoreRegistry) -> Self {
        let dialect = stream.dialect();
        let answer = StreamedAnswer::register(stream, ReadPace::default(), dialect, core);
        Self::of_answer(answer, core)
    }

    /// The stream of an answer that was pending, as the reply has started before a keep-alive was due.
    pub(crate) fn started(answer: Arc<StreamedAnswer>, stream: EncodedStream, core: &CoreRegistry) -> Self {
        {
            let open = &mut *answer.open();
            (open.stream, open.pace) = (stream, ReadPace::default());
        }
        Self::of_answer(answer, core)
    }

    fn of_answer(answer: Arc<StreamedAnswer>, core: &CoreRegistry) -> Self {
        // The drain timeout may have expired while the stream was being opened.
        if core.is_terminating() {
            answer.end_for_shutdown();
        }
        Self::Stream(answer)
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = StalledAnswer;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StalledAnswer>>> {
        match self.get_mut() {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Large(answer) => Poll::Ready(answer.next().map(|next| next.map(Frame::data))),
            Self::Stream(answer) => {
                answer.open().poll_bytes(context).map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
            }
            Self::Counted { body, .. } => Pin::new(&mut **body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.is_none(),
            Self::Large(answer) => answer.unsent().bytes.as_ref().is_some_and(Bytes::is_empty),
            Self::Stream(_) => false,
            Self::Counted { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Large(answer) => {
                let length = answer.unsent().bytes.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(length as u64)
            }
            Self::Stream(_) => SizeHint::default(),
            Self::Counted { body, .. } => body.size_hint(),
        }
    }
}
