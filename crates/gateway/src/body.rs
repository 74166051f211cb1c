//! What goes out: a reply in one piece, or piece by piece.

use crate::runtime::TokioRuntime;
use crate::stopping::Cut;
use crate::unread::Watched;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use seawall_pipeline::ReplyStream;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

/// The body of a response. Dropped by the server when the caller goes away, and with it the way upstream.
pub(crate) enum ReplyBody {
    Whole(Option<Bytes>),
    Stream(Box<StreamBody>),
}

/// A stream, and the end of the time it may take.
pub(crate) struct StreamBody {
    stream: Arc<Reading>,
    cut: Option<Cut>,
    /// Waits for that end from the first time on that there is nothing to send.
    waits: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// A stream that is read, and looked at by others when it is not.
struct Reading(Mutex<Box<ReplyStream<TokioRuntime>>>);

impl Reading {
    fn stream(&self) -> MutexGuard<'_, Box<ReplyStream<TokioRuntime>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched for Reading {
    fn look(&self) {
        self.stream().look();
    }

    fn stop(&self) {
        self.stream().stop();
    }
}

impl ReplyBody {
    pub(crate) fn stream(stream: Box<ReplyStream<TokioRuntime>>, cut: Cut) -> Self {
        let stream = Arc::new(Reading(Mutex::new(stream)));
        let watched: Weak<Reading> = Arc::downgrade(&stream);
        cut.streams.add(watched);
        Self::Stream(Box::new(StreamBody { stream, cut: Some(cut), waits: None }))
    }
}

impl StreamBody {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut stream = self.stream.stream();
        if let Poll::Ready(frame) = stream.poll_frame(context) {
            return Poll::Ready(frame);
        }
        if let Some(cut) = self.cut.take() {
            self.waits = Some(Box::pin(cut.told()));
        }
        let Some(waits) = &mut self.waits else { return Poll::Pending };
        if waits.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.waits = None;
        stream.stop();
        stream.poll_frame(context)
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(stream) => {
                stream.poll_frame(context).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
