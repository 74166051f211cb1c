//! One open connection and its buffers.

use super::alarm::Alarm;
use bytes::BytesMut;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// The most that one read takes, unless a large head made the buffer larger. A burst of some fifty events fits, and
/// since it seldom fills the buffer, Tokio knows without asking the kernel again that nothing is left.
const READ_SIZE: usize = 16 * 1024;
/// With less room than this, the buffer is renewed before a read.
const LEAST_ROOM: usize = READ_SIZE / 2;

/// A stream, and what travels with it from request to request.
pub(crate) struct Connection<S> {
    pub(crate) stream: S,
    /// Received and not yet taken. Frames are cut from it without copying; once all of them are dropped, the same
    /// memory is used again.
    pub(crate) received: BytesMut,
    /// The head of the request being sent; kept for its memory.
    pub(crate) outgoing: Vec<u8>,
    pub(crate) alarm: Alarm,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(crate) fn new(stream: S, alarm: Alarm) -> Self {
        Self { stream, received: BytesMut::new(), outgoing: Vec::new(), alarm }
    }

    /// Reads once, behind what was received before. Zero bytes mean that the peer has closed.
    pub(crate) fn poll_read(&mut self, wake: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.received.capacity() - self.received.len() < LEAST_ROOM {
            self.received.reserve(READ_SIZE);
        }
        // The future keeps nothing between two polls, so that a new one each time is the same one.
        pin!(self.stream.read_buf(&mut self.received)).poll(wake)
    }

    /// Whether the connection can carry a request: nothing was received that nobody asked for, and the peer has not
    /// closed, as far as is known without waiting. Asks the kernel only where something has happened.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let mut unasked = [0; 1];
        let mut nobody = Context::from_waker(Waker::noop());
        let read = Pin::new(&mut self.stream).poll_read(&mut nobody, &mut ReadBuf::new(&mut unasked));
        self.received.is_empty() && read.is_pending()
    }
}
