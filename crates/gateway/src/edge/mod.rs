//! Protocol checks on the bytes of a connection that hyper does not make itself.
//!
//! [`CheckedStream`] sits between the socket (or TLS) and hyper, and inspects what hyper reads:
//!
//! - **HTTP/1.1** ([`http1`]): a line of a head that ends with a bare LF. RFC 9112 lets a recipient accept it, and the
//!   server does. A proxy in front of us may not, and then the two disagree on where a request ends (request
//!   smuggling).
//! - **HTTP/2** ([`http2`]): frames that cost us work and do not advance any request. Hyper limits some types of
//!   them and serves the others without limit.
//!
//! The values of headers (`host`, `transfer-encoding`) are checked after parsing: [`framing_problem`].

mod http1;
mod http2;

use http1::HeadScanner;
use http2::FrameBudget;
use hyper::header::{HOST, TRANSFER_ENCODING};
use hyper::http::uri::Authority;
use hyper::{Request, Version};
use seawall_core::time::Timestamp;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The protocol of a connection, as far as it is known.
enum Protocol {
    /// HTTP/1.1, or not known before the first head.
    Http1(HeadScanner),
    Http2(FrameBudget),
}

/// A connection whose bytes are checked on their way to hyper.
pub(crate) struct CheckedStream<S, C, F> {
    stream: S,
    protocol: Protocol,
    /// Whether the last write of hyper was complete, so that the next byte begins an HTTP/2 frame.
    is_at_frame: bool,
    clock: C,
    on_flood: Option<F>,
}

impl<S, C: Fn() -> Timestamp, F: FnOnce()> CheckedStream<S, C, F> {
    /// `clock` is read rarely. `on_flood` is called once, when the connection is ended because of a flood.
    pub(crate) fn new(stream: S, clock: C, on_flood: F) -> Self {
        let protocol = Protocol::Http1(HeadScanner::default());
        Self { stream, protocol, is_at_frame: true, clock, on_flood: Some(on_flood) }
    }

    fn record_write(&mut self, requested: usize, polled: &Poll<io::Result<usize>>) {
        let written = match polled {
            Poll::Ready(Ok(written)) => *written,
            _ => 0,
        };
        self.is_at_frame = written == requested;
        if let Protocol::Http2(budget) = &mut self.protocol {
            budget.record_sent(written);
        }
    }
}

impl<S, C, F> AsyncRead for CheckedStream<S, C, F>
where
    S: AsyncRead + AsyncWrite + Unpin,
    C: Fn() -> Timestamp + Unpin,
    F: FnOnce() + Unpin,
{
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        let mut fresh = buffer.filled_mut().get_mut(before..).unwrap_or_default();
        if let Protocol::Http1(scanner) = &mut this.protocol
            && let Some(rest) = scanner.check(fresh)
        {
            fresh = fresh.get_mut(rest..).unwrap_or_default();
            this.protocol = Protocol::Http2(FrameBudget::new((this.clock)()));
        }
        let Protocol::Http2(budget) = &mut this.protocol else { return Poll::Ready(Ok(())) };
        if budget.spend(fresh, &this.clock) {
            return Poll::Ready(Ok(()));
        }
        if let Some(on_flood) = this.on_flood.take() {
            on_flood();
            // A client that floods and does not read is closed without a GOAWAY.
            if this.is_at_frame {
                let _ = Pin::new(&mut this.stream).poll_write(context, &budget.go_away());
                let _ = Pin::new(&mut this.stream).poll_flush(context);
            }
        }
        Poll::Ready(Err(io::Error::other("HTTP/2 flood: too many frames that do not advance any request")))
    }
}

impl<S, C, F> AsyncWrite for CheckedStream<S, C, F>
where
    S: AsyncWrite + Unpin,
    C: Fn() -> Timestamp + Unpin,
    F: FnOnce() + Unpin,
{
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.record_write(bytes.len(), &polled);
        polled
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.record_write(slices.iter().map(|slice| slice.len()).sum(), &polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// A problem in how an HTTP/1 request states its host or the end of its body. Such a request is answered with 400 and
/// its connection closed, because an intermediary between us and the client may have parsed it differently.
pub(crate) fn framing_problem<B>(request: &Request<B>) -> Option<&'static str> {
    let version = request.version();
    if version >= Version::HTTP_2 {
        return None;
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => return Some("host: the header must not be repeated"),
        (Some(host), None) => {
            let is_host = |host: &Authority| !host.host().is_empty() && !host.as_str().contains('@');
            if !Authority::try_from(host.as_bytes()).is_ok_and(|host| is_host(&host)) {
                return Some("host: must be a host name or address with an optional port");
            }
        }
        (None, _) if version == Version::HTTP_11 => return Some("host: HTTP/1.1 requires this header"),
        (None, _) => {}
    }
    let mut codings = request.headers().get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => None,
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => None,
        _ => Some("transfer-encoding: only chunked is supported"),
    }
}

#[cfg(test)]
mod tests;
