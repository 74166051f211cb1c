//! Where a request goes, and how a connection to there is made.

use seawall_core::setting::SettingError;
use std::future::Future;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// One server: the name it is called by and the address it was found at.
///
/// The address is resolved by who makes the endpoint. A name that moves to another address is another endpoint with
/// a pool of its own, so that connections to the old one are never mixed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    address: SocketAddr,
    authority: String,
}

impl Endpoint {
    /// A server called `host` (a name or a bare address, without brackets) on `port`, found at `address`. Refuses a
    /// host that could not stand in a `host` header.
    pub fn new(host: &str, port: u16, address: SocketAddr) -> Result<Self, SettingError> {
        let is_ipv6 = host.parse::<Ipv6Addr>().is_ok();
        let is_name = !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
        if !is_ipv6 && !is_name {
            return Err(SettingError::new("host", format!("{host:?} is neither a name nor an address")));
        }
        let bracketed = if is_ipv6 { format!("[{host}]") } else { host.to_owned() };
        let authority = if port == 80 { bracketed } else { format!("{bracketed}:{port}") };
        Ok(Self { host: host.to_owned(), port, address, authority })
    }

    /// The server's name, as a certificate would carry it.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port by which it is known.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Where connections go.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the `host` header says.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

/// Makes connections. Encryption is another implementation of this, whose stream ends its handshake before it is
/// handed over; the connect time limit covers both.
pub trait Connect: Send + Sync + 'static {
    /// What is read from and written to.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// A new connection to the endpoint.
    fn connect(&self, endpoint: &Endpoint) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// Plain TCP, with small writes sent at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnect;

impl Connect for TcpConnect {
    type Stream = TcpStream;

    async fn connect(&self, endpoint: &Endpoint) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(endpoint.address()).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::Endpoint;
    use std::net::SocketAddr;

    fn authority(host: &str, port: u16) -> Result<String, String> {
        let endpoint = Endpoint::new(host, port, SocketAddr::from(([127, 0, 0, 1], port)));
        endpoint.map(|endpoint| endpoint.authority().to_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_authority_names_the_port_where_it_is_not_the_usual_one() {
        assert_eq!(authority("api.example.com", 80).as_deref(), Ok("api.example.com"));
        assert_eq!(authority("api.example.com", 8080).as_deref(), Ok("api.example.com:8080"));
        assert_eq!(authority("::1", 8080).as_deref(), Ok("[::1]:8080"));
    }

    #[test]
    fn a_host_that_would_break_the_header_is_refused() {
        for host in ["", "a b", "a\r\nx: y", "[::1]", "user@host", "a/b"] {
            let refusal = format!("host: {host:?} is neither a name nor an address");
            assert_eq!(authority(host, 80), Err(refusal));
        }
    }
}
