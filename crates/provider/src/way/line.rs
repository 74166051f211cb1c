//! An open line to a server: plain or encrypted.

use super::names::{Names, Place};
use super::tls::TlsSettings;
use crate::http1::{Connect, Endpoint, Scheme, TcpConnect, TokioTimer};
use rustls::pki_types::ServerName;
use seawall_core::deadline::Deadline;
use seawall_core::handle::{Timer, within};
use seawall_core::setting::SettingError;
use seawall_core::time::Timestamp;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Which protocols a server is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    Http1,
    Either,
    Http2,
}

impl Offer {
    const fn protocols(self) -> &'static [&'static [u8]] {
        match self {
            Self::Http1 => &[b"http/1.1"],
            Self::Either => &[b"h2", b"http/1.1"],
            Self::Http2 => &[b"h2"],
        }
    }
}

/// A line that is open.
pub struct Line {
    stream: LineStream,
    place: Place,
}

enum LineStream {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl Line {
    /// Whether both sides agreed on HTTP/2.
    #[must_use]
    pub fn chose_http2(&self) -> bool {
        match &self.stream {
            LineStream::Plain(_) => false,
            LineStream::Secure(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }

    pub(crate) const fn place(&self) -> &Place {
        &self.place
    }
}

/// Opens lines to one server, wherever its name leads, encrypted where its scheme says so.
pub struct LineConnect {
    names: Names,
    secure: Option<(TlsConnector, ServerName<'static>)>,
    timer: TokioTimer,
    limit: Duration,
}

impl LineConnect {
    /// `tls` must be there for a server that is called by `https`. All addresses together get `limit`.
    pub(crate) fn new(
        endpoint: &Endpoint,
        names: Names,
        offer: Offer,
        tls: Option<&TlsSettings>,
        (timer, limit): (TokioTimer, Duration),
    ) -> Result<Self, SettingError> {
        let secure = match (endpoint.scheme(), tls) {
            (Scheme::Http, _) => None,
            (Scheme::Https, None) => {
                return Err(SettingError::new("tls", "an https address needs to know whom to trust"));
            }
            (Scheme::Https, Some(tls)) => {
                let name = ServerName::try_from(endpoint.host().to_owned());
                let name = name.map_err(|error| SettingError::new("url", error.to_string()))?;
                Some((TlsConnector::from(tls.offering(offer.protocols())), name))
            }
        };
        Ok(Self { names, secure, timer, limit })
    }

    /// Tries one address after the other, each with an even share of the time that is left. The last one is limited by
    /// who called, so that running out of time reads as that.
    async fn open_any(&self) -> io::Result<Line> {
        let began = self.timer.monotonic();
        let until = began + self.limit;
        let places = self.names.places(began).await?;
        let count = places.len();
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for (tried, place) in places.into_iter().enumerate() {
            let (left, address) = (count - tried, place.address);
            let opened = if left == 1 {
                self.open(place).await
            } else {
                let now = self.timer.monotonic();
                let share = (until - now) / u32::try_from(left).unwrap_or(u32::MAX);
                let opened = within(&self.timer, Deadline::after(now, share), self.open(place)).await;
                opened.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
            };
            match opened {
                Ok(line) => {
                    if tried > 0 {
                        self.names.prefer(address);
                    }
                    return Ok(line);
                }
                Err(error) => failure = error,
            }
        }
        self.names.doubt(self.timer.monotonic());
        Err(failure)
    }

    async fn open(&self, place: Place) -> io::Result<Line> {
        let stream = TcpConnect(place.address).connect().await?;
        let stream = match &self.secure {
            None => LineStream::Plain(stream),
            Some((connector, name)) => {
                LineStream::Secure(Box::new(connector.connect(name.clone(), stream).await?))
            }
        };
        Ok(Line { stream, place })
    }
}

impl Connect for LineConnect {
    type Stream = Line;

    async fn connect(&self) -> io::Result<Line> {
        // In a box of its own: a handshake is large, and every request would carry the room for one.
        Box::pin(self.open_any()).await
    }

    fn is_current(&self, line: &Line, now: Timestamp) -> bool {
        self.names.renew_if_due(now);
        line.place.is_current()
    }
}

/// Calls the same method on whichever stream it is.
macro_rules! on_stream {
    ($line:expr, $stream:ident => $call:expr) => {
        match &mut $line.get_mut().stream {
            LineStream::Plain(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
            LineStream::Secure(stream) => {
                let $stream = Pin::new(stream.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for Line {
    fn poll_read(
        self: Pin<&mut Self>,
        wake: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_stream!(self, stream => stream.poll_read(wake, into))
    }
}

impl AsyncWrite for Line {
    fn poll_write(self: Pin<&mut Self>, wake: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => stream.poll_write(wake, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        wake: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => stream.poll_write_vectored(wake, parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, wake: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => stream.poll_flush(wake))
    }

    fn poll_shutdown(self: Pin<&mut Self>, wake: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => stream.poll_shutdown(wake))
    }
}
