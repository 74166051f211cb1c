//! What goes out: a reply in one piece, or piece by piece.

use crate::runtime::TokioRuntime;
use crate::stopping::Cut;
use crate::unread::Watched;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use seawall_pipeline::ReplyStream;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

/// The body of a response. Dropped by the server when the caller goes away, and with it the way upstream.
pub(crate) enum ReplyBody {
    Whole(Option<Bytes>),
    Stream(Arc<Reading>),
}

/// A stream that is read, and looked at by others when it is not.
pub(crate) struct Reading(Mutex<Box<ReplyStream<TokioRuntime>>>);

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
    /// A stream that is told by `cut` when its time is over.
    pub(crate) fn stream(stream: Box<ReplyStream<TokioRuntime>>, cut: &Cut) -> Self {
        let stream = Arc::new(Reading(Mutex::new(stream)));
        let watched: Weak<Reading> = Arc::downgrade(&stream);
        cut.streams().add(watched);
        // The end may have come while it began.
        if cut.is_over() {
            stream.stop();
        }
        Self::Stream(stream)
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
                stream.stream().poll_frame(context).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes))))
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
