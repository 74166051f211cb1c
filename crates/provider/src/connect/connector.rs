//! Open connections, with or without TLS.

use super::dns::{DnsCache, ResolvedAddress};
use super::tls::ClientTlsSettings;
use crate::http1::{Connect, Endpoint, Scheme, TcpConnect, TokioTimer};
use rustls::pki_types::ServerName;
use seawall_core::deadline::Deadline;
use seawall_core::runtime::{Timer, timeout_at};
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
pub(crate) enum AlpnOffer {
    Http1,
    Either,
    Http2,
}

impl AlpnOffer {
    const fn protocols(self) -> &'static [&'static [u8]] {
        match self {
            Self::Http1 => &[b"http/1.1"],
            Self::Either => &[b"h2", b"http/1.1"],
            Self::Http2 => &[b"h2"],
        }
    }
}

/// An open connection.
pub struct ServerStream {
    stream: MaybeTlsStream,
    address: ResolvedAddress,
}

enum MaybeTlsStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl ServerStream {
    /// Whether HTTP/2 was negotiated.
    #[must_use]
    pub fn negotiated_http2(&self) -> bool {
        match &self.stream {
            MaybeTlsStream::Plain(_) => false,
            MaybeTlsStream::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }

    pub(crate) const fn address(&self) -> &ResolvedAddress {
        &self.address
    }
}

/// Connects to one server at any of its addresses, with TLS if its scheme requires it.
pub struct Connector {
    dns: DnsCache,
    tls_connector: Option<(TlsConnector, ServerName<'static>)>,
    timer: TokioTimer,
    timeout: Duration,
}

impl Connector {
    /// `tls` is required for `https`. All addresses together share the timeout.
    pub(crate) fn new(
        endpoint: &Endpoint,
        dns: DnsCache,
        offer: AlpnOffer,
        tls: Option<&ClientTlsSettings>,
        (timer, timeout): (TokioTimer, Duration),
    ) -> Result<Self, SettingError> {
        let tls_connector = match (endpoint.scheme(), tls) {
            (Scheme::Http, _) => None,
            (Scheme::Https, None) => {
                return Err(SettingError::new("tls", "required for an https URL"));
            }
            (Scheme::Https, Some(tls)) => {
                let name = ServerName::try_from(endpoint.host().to_owned());
                let name = name.map_err(|error| SettingError::new("base_url", error.to_string()))?;
                Some((TlsConnector::from(tls.with_alpn(offer.protocols())), name))
            }
        };
        Ok(Self { dns, tls_connector, timer, timeout })
    }

    /// Tries the addresses in turn, each with an equal share of the remaining time. The last one is bounded by the
    /// caller's timeout, so that running out of time is reported as a timeout.
    async fn open_any(&self) -> io::Result<ServerStream> {
        let began = self.timer.monotonic();
        let until = began + self.timeout;
        let addresses = self.dns.addresses(began).await?;
        let count = addresses.len();
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for (tried, resolved) in addresses.into_iter().enumerate() {
            let (left, address) = (count - tried, resolved.address);
            let opened = if left == 1 {
                self.open(resolved).await
            } else {
                let now = self.timer.monotonic();
                let share = (until - now) / u32::try_from(left).unwrap_or(u32::MAX);
                let opened = timeout_at(&self.timer, Deadline::after(now, share), self.open(resolved)).await;
                opened.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
            };
            match opened {
                Ok(stream) => {
                    if tried > 0 {
                        self.dns.prefer(address);
                    }
                    return Ok(stream);
                }
                Err(error) => failure = error,
            }
        }
        self.dns.refresh_soon(self.timer.monotonic());
        Err(failure)
    }

    async fn open(&self, address: ResolvedAddress) -> io::Result<ServerStream> {
        let stream = TcpConnect(address.address).connect().await?;
        let stream = match &self.tls_connector {
            None => MaybeTlsStream::Plain(stream),
            Some((connector, name)) => {
                MaybeTlsStream::Tls(Box::new(connector.connect(name.clone(), stream).await?))
            }
        };
        Ok(ServerStream { stream, address })
    }
}

impl Connect for Connector {
    type Stream = ServerStream;

    async fn connect(&self) -> io::Result<ServerStream> {
        // Boxed, because the handshake's future is large and every request would carry it.
        Box::pin(self.open_any()).await
    }

    fn is_current(&self, stream: &ServerStream, now: Timestamp) -> bool {
        self.dns.refresh_if_due(now);
        stream.address.is_current()
    }
}

/// Calls the same method on either kind of stream.
macro_rules! on_stream {
    ($line:expr, $stream:ident => $call:expr) => {
        match &mut $line.get_mut().stream {
            MaybeTlsStream::Plain(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
            MaybeTlsStream::Tls(stream) => {
                let $stream = Pin::new(stream.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for ServerStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_stream!(self, stream => stream.poll_read(context, into))
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => stream.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => stream.poll_shutdown(context))
    }
}
