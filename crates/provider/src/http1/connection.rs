//! One open connection and its buffers.

use super::reusable_timer::ReusableTimer;
use bytes::BytesMut;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Maximum size of one read, unless a large head made the buffer larger. A burst of about fifty events fits. Since it
/// seldom fills the buffer, Tokio knows without another system call that nothing is left.
const READ_SIZE: usize = 16 * 1024;
/// With less free space than this, the buffer is renewed before a read.
const MIN_FREE_SPACE: usize = READ_SIZE / 2;

/// A stream and the state that is reused between requests.
pub(crate) struct Connection<S> {
    pub(crate) stream: S,
    /// Received bytes that were not consumed yet. Chunks are split off without copying; once all of them are dropped,
    /// the same memory is reused.
    pub(crate) received: BytesMut,
    /// The head of the request being sent; kept to reuse its memory.
    pub(crate) outgoing: Vec<u8>,
    pub(crate) timeout_timer: ReusableTimer,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(crate) fn new(stream: S, timeout_timer: ReusableTimer) -> Self {
        Self { stream, received: BytesMut::new(), outgoing: Vec::new(), timeout_timer }
    }

    /// Reads once and appends to what was received. Zero bytes mean that the peer has closed the connection.
    pub(crate) fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.received.capacity() - self.received.len() < MIN_FREE_SPACE {
            self.received.reserve(READ_SIZE);
        }
        // The future has no state between polls, so a new one for each poll is equivalent.
        pin!(self.stream.read_buf(&mut self.received)).poll(context)
    }

    /// Whether the connection can carry a request: no unsolicited bytes were received, and the peer has not closed it, as far
    /// as known without waiting. Makes a system call only if the socket had an event.
    pub(crate) fn is_reusable(&mut self) -> bool {
        let mut unsolicited = [0; 1];
        let mut context = Context::from_waker(Waker::noop());
        let read = Pin::new(&mut self.stream).poll_read(&mut context, &mut ReadBuf::new(&mut unsolicited));
        self.received.is_empty() && read.is_pending()
    }
}
