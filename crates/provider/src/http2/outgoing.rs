//! Request bodies, with a record of when they were sent.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use seawall_core::runtime::Timer;
use seawall_core::time::Timestamp;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Size of each piece. A piece is requested only when the peer's flow-control window has room, so small pieces show the
/// progress of writing.
const CHUNK_SIZE: usize = 16 * 1024;

/// The body of a request.
pub(super) struct OutgoingBody<T> {
    rest: Bytes,
    timer: T,
    progress: Arc<SendProgress>,
}

/// Records when the whole body was taken, which starts the response timeout.
#[derive(Default)]
pub(super) struct SendProgress(Mutex<(Option<Timestamp>, Option<Waker>)>);

impl SendProgress {
    /// When the whole body was taken. Until then the task is registered to be woken.
    pub(super) fn poll_sent(&self, context: &Context<'_>) -> Option<Timestamp> {
        let mut progress = self.lock();
        if progress.0.is_none() {
            progress.1 = Some(context.waker().clone());
        }
        progress.0
    }

    fn mark_sent(&self, now: Timestamp) {
        let mut progress = self.lock();
        progress.0.get_or_insert(now);
        if let Some(waiting) = progress.1.take() {
            waiting.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Option<Timestamp>, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Timer> OutgoingBody<T> {
    pub(super) fn new(body: Bytes, timer: T) -> Self {
        let outgoing = Self { rest: body, timer, progress: Arc::default() };
        if outgoing.rest.is_empty() {
            // hyper does not poll an empty body.
            outgoing.progress.mark_sent(outgoing.timer.monotonic());
        }
        outgoing
    }

    pub(super) fn progress(&self) -> Arc<SendProgress> {
        Arc::clone(&self.progress)
    }
}

impl<T: Timer + Unpin> Body for OutgoingBody<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let size = self.rest.len().min(CHUNK_SIZE);
        let piece = self.rest.split_to(size);
        if self.rest.is_empty() {
            self.progress.mark_sent(self.timer.monotonic());
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
