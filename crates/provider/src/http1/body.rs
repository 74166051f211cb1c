//! Response bodies.

use super::chunked::ChunkedDecoder;
use super::connection::Connection;
use super::endpoint::{Connect, TcpConnect};
use super::failure::BodyFailure;
use super::head::ResponseFraming;
use super::pool::Http1Pool;
use super::reusable_timer::deadline_after;
use super::timer::TokioTimer;
use bytes::{Buf as _, Bytes, BytesMut};
use seawall_core::runtime::Timer;
use seawall_core::time::Timestamp;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

/// The body of a response. Each read yields one chunk.
///
/// Dropping it before its end closes the connection, which cancels the request at the provider as soon as the caller
/// disconnects. With the last chunk the connection returns to its pool, provided that the body ended where it should,
/// nothing was received after it, and the peer keeps the connection open.
#[must_use = "dropping a body before its end closes the connection"]
pub struct Http1Body<C: Connect = TcpConnect, T: Timer = TokioTimer> {
    pool: Http1Pool<C, T>,
    /// `None` once the body has ended or failed.
    connection: Option<Connection<C::Stream>>,
    rest: RemainingBody,
    keep_alive: bool,
    idle_timeout: Duration,
    /// When to stop waiting for the next chunk; set when the wait begins.
    deadline: Option<Timestamp>,
    bytes_left: u64,
}

/// The framing of the rest of the body.
enum RemainingBody {
    Length(u64),
    Chunks(ChunkedDecoder),
    UntilClose,
}

impl<C: Connect, T: Timer> Http1Body<C, T> {
    pub(super) fn new(
        pool: Http1Pool<C, T>,
        connection: Connection<C::Stream>,
        framing: ResponseFraming,
        keep_alive: bool,
        (idle_timeout, bytes_left): (Duration, u64),
    ) -> Self {
        let rest = match framing {
            ResponseFraming::Length(length) => RemainingBody::Length(length),
            ResponseFraming::Chunked => RemainingBody::Chunks(ChunkedDecoder::new()),
            ResponseFraming::UntilClose => RemainingBody::UntilClose,
        };
        let connection = Some(connection);
        let mut body = Self { pool, connection, rest, keep_alive, idle_timeout, deadline: None, bytes_left };
        body.release_if_done();
        body
    }

    /// The next chunk; `None` at the end and after a failure.
    ///
    /// A chunk is never empty. The future is cancel-safe and does not restart the timeout.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, BodyFailure>> {
        poll_fn(|context| self.poll_chunk(context)).await
    }

    /// The polling version of [`Http1Body::chunk`].
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyFailure>>> {
        if matches!(self.rest, RemainingBody::Length(length) if length > self.bytes_left) {
            return Poll::Ready(self.fail(BodyFailure::TooLarge));
        }
        loop {
            let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
            match self.rest.take(&mut connection.received) {
                Ok(Some(chunk)) => return Poll::Ready(self.deliver(chunk)),
                Ok(None) if self.rest.is_done() => {
                    self.release_if_done();
                    return Poll::Ready(None);
                }
                Ok(None) => {}
                Err(failure) => return Poll::Ready(self.fail(failure)),
            }
            match connection.poll_read(context) {
                Poll::Ready(Ok(0)) if matches!(self.rest, RemainingBody::UntilClose) => {
                    self.connection = None;
                    return Poll::Ready(None);
                }
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(self.fail(BodyFailure::ClosedEarly)),
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => {
                    let timer = self.pool.timer();
                    let until =
                        *self.deadline.get_or_insert_with(|| deadline_after(timer, self.idle_timeout));
                    return connection
                        .timeout_timer
                        .poll(context, timer, until)
                        .map(|()| self.fail(BodyFailure::TimedOut));
                }
            }
        }
    }

    /// The number of remaining bytes, if known.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        match &self.rest {
            RemainingBody::Length(length) => Some(*length),
            RemainingBody::Chunks(_) | RemainingBody::UntilClose => None,
        }
    }

    /// Whether the body has ended, so that [`Http1Body::chunk`] would return `None`.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.connection.is_none()
    }

    fn deliver(&mut self, chunk: Bytes) -> Option<Result<Bytes, BodyFailure>> {
        let Some(left) = self.bytes_left.checked_sub(chunk.len() as u64) else {
            return self.fail(BodyFailure::TooLarge);
        };
        self.bytes_left = left;
        self.deadline = None;
        self.release_if_done();
        Some(Ok(chunk))
    }

    fn fail(&mut self, failure: BodyFailure) -> Option<Result<Bytes, BodyFailure>> {
        self.connection.take().map(|_| Err(failure))
    }

    fn release_if_done(&mut self) {
        if self.rest.is_done()
            && let Some(connection) = self.connection.take()
            && self.keep_alive
            && connection.received.is_empty()
        {
            self.pool.release(connection);
        }
    }
}

impl RemainingBody {
    fn is_done(&self) -> bool {
        match self {
            Self::Length(length) => *length == 0,
            Self::Chunks(chunks) => chunks.is_done(),
            Self::UntilClose => false,
        }
    }

    /// Splits the next chunk off the received bytes; `None` if more must be received first.
    fn take(&mut self, received: &mut BytesMut) -> Result<Option<Bytes>, BodyFailure> {
        let chunk = match self {
            Self::UntilClose => received.split(),
            Self::Length(length) => {
                let available = received.len();
                let count = usize::try_from(*length).map_or(available, |length| length.min(available));
                *length -= count as u64;
                received.split_to(count)
            }
            Self::Chunks(chunks) => {
                let decoded = chunks.decode(received).map_err(|_| BodyFailure::BadChunk)?;
                let mut chunk = received.split_to(decoded.consumed);
                chunk.truncate(decoded.payload.end);
                chunk.advance(decoded.payload.start);
                chunk
            }
        };
        Ok((!chunk.is_empty()).then(|| chunk.freeze()))
    }
}
