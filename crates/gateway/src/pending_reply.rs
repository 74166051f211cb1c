//! A streamed reply that is still awaited: the pipeline waits for targets or tries one after the other.
//!
//! Usually the reply starts before a [keep-alive](crate::keep_alive) is due, and the response has its status and headers.
//! After a keep-alive the response has begun with status 200, and what the pipeline returns then is written into the
//! stream: an answer as it is, and a rejection as the error event of the caller's dialect. The record of the request is the
//! same in both cases, because the pipeline writes it. Dropping a pending reply cancels the request and settles it.

use crate::encode::complete_stream;
use crate::face::error_in_stream;
use crate::runtime::TokioRuntime;
use bytes::Bytes;
use seawall_pipeline::{Rejection, Reply, ReplyContent, ReplyStream};
use seawall_wire::dialect::DialectId;
use seawall_wire::reply::{ReplyEncoder, ReplyIdentity};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// See the module documentation.
pub(crate) struct PendingReply {
    /// On the heap, because it moves from the task that waits for the reply into the body.
    work: Pin<Box<dyn Future<Output = Reply<TokioRuntime>> + Send>>,
    dialect: DialectId,
    /// What an error event refers to in dialects where it has to refer to an answer.
    identity: ReplyIdentity,
}

/// How a stream starts after a keep-alive.
pub(crate) enum StreamStart {
    Started(Box<ReplyStream<TokioRuntime>>),
    /// All of it: a prepared reply, or an error event.
    Complete(Bytes),
}

impl PendingReply {
    pub(crate) fn new(
        work: impl Future<Output = Reply<TokioRuntime>> + Send + 'static,
        dialect: DialectId,
        identity: ReplyIdentity,
    ) -> Self {
        Self { work: Box::pin(work), dialect, identity }
    }

    pub(crate) const fn dialect(&self) -> DialectId {
        self.dialect
    }

    /// The reply. Must not be polled again after it.
    pub(crate) fn poll_reply(&mut self, context: &mut Context<'_>) -> Poll<Reply<TokioRuntime>> {
        self.work.as_mut().poll(context)
    }

    /// The reply as part of a stream that has begun. A panic ends this stream only and no other request of the connection.
    pub(crate) fn poll_start(&mut self, context: &mut Context<'_>) -> Poll<StreamStart> {
        let reply = match catch_unwind(AssertUnwindSafe(|| self.poll_reply(context))) {
            Ok(reply) => ready!(reply),
            Err(_) => return Poll::Ready(StreamStart::Complete(self.error(&Rejection::Internal, None))),
        };
        let Reply { content, metadata } = reply;
        Poll::Ready(match content {
            ReplyContent::Stream(stream) => StreamStart::Started(stream),
            ReplyContent::CompleteStream(events, encoder) => {
                StreamStart::Complete(complete_stream(&events, encoder))
            }
            ReplyContent::Rejected(rejection) => {
                StreamStart::Complete(self.error(&rejection, metadata.failed_targets.as_deref()))
            }
            // Unreachable: the request asks for a stream.
            ReplyContent::Unstreamed(_) => StreamStart::Complete(self.error(&Rejection::Internal, None)),
        })
    }

    fn error(&self, rejection: &Rejection, failed_targets: Option<&str>) -> Bytes {
        let (kind, message) = error_in_stream(rejection, failed_targets);
        ReplyEncoder::typed(self.dialect, self.identity.clone(), false).interruption(kind, &message)
    }
}
