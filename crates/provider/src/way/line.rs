//! Open connections, with or without TLS.

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

/// The protocols offered to a server.
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

/// An open connection.
pub struct Line {
    stream: LineStream,
    place: Place,
}

enum LineStream {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl Line {
    /// Whether HTTP/2 was negotiated.
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

/// Connects to one server at any of its addresses, with TLS if its scheme requires it.
pub struct LineConnect {
    names: Names,
    secure: Option<(TlsConnector, ServerName<'static>)>,
    timer: TokioTimer,
    limit: Duration,
}

impl LineConnect {
    /// `tls` is required for `https`. All addresses together share the timeout `limit`.
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

    /// Tries the addresses in turn, each with an equal share of the remaining time. The last one is bounded by the
    /// caller's timeout, so that running out of time is reported as a timeout.
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
        // Boxed, because the handshake's future is large and every request would carry it.
        Box::pin(self.open_any()).await
    }

    fn is_current(&self, line: &Line, now: Timestamp) -> bool {
        self.names.renew_if_due(now);
        line.place.is_current()
    }
}

/// Calls the same method on either kind of stream.
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
