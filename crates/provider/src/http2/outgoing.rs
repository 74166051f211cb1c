//! A request's body on its way out, and a mark of when it has gone.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use seawall_core::handle::Timer;
use seawall_core::time::Timestamp;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// How much is handed over at once. A piece is asked for only when the peer has room, so that small ones tell how far
/// writing has come.
const PIECE: usize = 16 * 1024;

/// The body of a request.
pub(super) struct Outgoing<T> {
    rest: Bytes,
    timer: T,
    progress: Arc<Progress>,
}

/// When the whole body was taken, for who waits for the answer.
#[derive(Default)]
pub(super) struct Progress(Mutex<(Option<Timestamp>, Option<Waker>)>);

impl Progress {
    /// When the whole body was taken. Until then, `wake` is told of it.
    pub(super) fn poll_taken(&self, wake: &Context<'_>) -> Option<Timestamp> {
        let mut progress = self.lock();
        if progress.0.is_none() {
            progress.1 = Some(wake.waker().clone());
        }
        progress.0
    }

    fn taken(&self, now: Timestamp) {
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

impl<T: Timer> Outgoing<T> {
    pub(super) fn new(body: Bytes, timer: T) -> Self {
        let outgoing = Self { rest: body, timer, progress: Arc::default() };
        if outgoing.rest.is_empty() {
            // Nobody asks for the pieces of a body that has none.
            outgoing.progress.taken(outgoing.timer.monotonic());
        }
        outgoing
    }

    pub(super) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }
}

impl<T: Timer + Unpin> Body for Outgoing<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let size = self.rest.len().min(PIECE);
        let piece = self.rest.split_to(size);
        if self.rest.is_empty() {
            self.progress.taken(self.timer.monotonic());
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
