//! A response body that plays the rest of a script, or is available at once.

use super::service::ConnectionBroken;
use crate::engine::{ScriptAction, ScriptEnding};
use crate::playback::Playback;
use bytes::Bytes;
use hyper::body::{Body, Frame};
use seawall_core::runtime::Timer;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

#[expect(clippy::large_enum_variant, reason = "the large one is the usual one")]
pub(super) enum ScriptBody<T> {
    /// Delivered when due, and billed then.
    Scripted {
        play: Playback<T>,
        /// Whether hyper has had a chance to flush the chunks before the connection breaks.
        is_flushed: bool,
    },
    /// A free response in one chunk; `None` once it was sent.
    Buffered(Option<Bytes>),
}

/// Nothing is structurally pinned: the timer of a play is boxed.
impl<T> Unpin for ScriptBody<T> {}

impl<T> ScriptBody<T> {
    pub(super) const fn new(play: Playback<T>) -> Self {
        Self::Scripted { play, is_flushed: false }
    }
}

impl<T: Timer> Body for ScriptBody<T> {
    type Data = Bytes;
    type Error = ConnectionBroken;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionBroken>>> {
        let (play, is_flushed) = match self.get_mut() {
            Self::Scripted { play, is_flushed } => (play, is_flushed),
            Self::Buffered(bytes) => return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        };
        loop {
            match ready!(play.poll_action(context)) {
                Some(ScriptAction::Body(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(ScriptAction::Head(_)) => {}
                None => break,
            }
        }
        if !matches!(play.ending(), ScriptEnding::Close | ScriptEnding::Reset) {
            return Poll::Ready(None);
        }
        if !std::mem::replace(is_flushed, true) {
            // hyper discards buffered data on an error; returning `Pending` once lets it flush first.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Err(ConnectionBroken)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Scripted { play, .. } => play.is_at_end(),
            Self::Buffered(bytes) => bytes.is_none(),
        }
    }
}
