//! Server names, and how connections are made.

use seawall_core::setting::SettingError;
use seawall_core::time::Timestamp;
use std::future::Future;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// The URL scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

impl Scheme {
    /// The scheme as written in a URL.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The default port of the scheme.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// One server by name. A [`Connect`] determines its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    scheme: Scheme,
    host: String,
    port: u16,
    authority: String,
}

impl Endpoint {
    /// A server with this host (a name or an address without brackets) and port. The error means that the host is
    /// invalid in a `host` header.
    pub fn new(scheme: Scheme, host: &str, port: u16) -> Result<Self, SettingError> {
        let is_ipv6 = host.parse::<Ipv6Addr>().is_ok();
        let is_name = !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
        if !is_ipv6 && !is_name {
            return Err(SettingError::new(
                "host",
                format!("{host:?} is neither a host name nor an IP address"),
            ));
        }
        let bracketed = if is_ipv6 { format!("[{host}]") } else { host.to_owned() };
        let authority = if port == scheme.default_port() { bracketed } else { format!("{bracketed}:{port}") };
        Ok(Self { scheme, host: host.to_owned(), port, authority })
    }

    /// The URL scheme.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host name, as in the server's certificate.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The value of the `host` header.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

/// Opens connections. An implementation with TLS completes the handshake before it returns the stream; the connect
/// timeout covers both.
pub trait Connect: Send + Sync + 'static {
    /// The byte stream of a connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Opens a new connection.
    fn connect(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Whether a pooled connection still leads to an address that a new one would use. Checked before each use.
    fn is_current(&self, stream: &Self::Stream, now: Timestamp) -> bool {
        let _ = (stream, now);
        true
    }
}

/// Plain TCP to one address, with `TCP_NODELAY`.
#[derive(Clone, Copy, Debug)]
pub struct TcpConnect(pub SocketAddr);

impl Connect for TcpConnect {
    type Stream = TcpStream;

    async fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.0).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, Scheme};

    fn authority(scheme: Scheme, host: &str, port: u16) -> Result<String, String> {
        let endpoint = Endpoint::new(scheme, host, port);
        endpoint.map(|endpoint| endpoint.authority().to_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_authority_names_the_port_where_it_is_not_the_usual_one() {
        let (plain, secure) = (Scheme::Http, Scheme::Https);
        assert_eq!(authority(plain, "api.example.com", 80).as_deref(), Ok("api.example.com"));
        assert_eq!(authority(plain, "api.example.com", 443).as_deref(), Ok("api.example.com:443"));
        assert_eq!(authority(secure, "api.example.com", 443).as_deref(), Ok("api.example.com"));
        assert_eq!(authority(secure, "api.example.com", 80).as_deref(), Ok("api.example.com:80"));
        assert_eq!(authority(plain, "::1", 8080).as_deref(), Ok("[::1]:8080"));
    }

    #[test]
    fn a_host_that_would_break_the_header_is_refused() {
        for host in ["", "a b", "a\r\nx: y", "[::1]", "user@host", "a/b"] {
            let refusal = format!("host: {host:?} is neither a host name nor an IP address");
            assert_eq!(authority(Scheme::Http, host, 80), Err(refusal));
        }
    }
}
