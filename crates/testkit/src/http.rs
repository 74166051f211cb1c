//! A blocking HTTP/1.1 client that sends exactly the bytes it is given, for tests of what a server does with them.

use anyhow::{Context as _, bail};
use serde_json::Value;
use std::borrow::Cow;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// An HTTP response.
#[derive(Clone, Debug)]
pub struct HttpReply {
    /// The status code.
    pub status: u16,
    /// The status line and the headers, as received.
    pub head: String,
    /// The body, as received: chunks are not joined.
    pub body: Vec<u8>,
}

impl HttpReply {
    /// The value of this header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// The body as JSON.
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| self.text().into_owned())
    }

    fn parse(mut bytes: Vec<u8>) -> anyhow::Result<Self> {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            bail!("no answer: {}", String::from_utf8_lossy(&bytes));
        };
        let body = bytes.split_off(end + 4);
        let head = String::from_utf8(bytes)?;
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        Ok(Self { status, head, body })
    }
}

/// Sends these bytes on a new connection and reads until the server closes it.
pub fn exchange(address: impl ToSocketAddrs, bytes: impl AsRef<[u8]>) -> anyhow::Result<HttpReply> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(READ_TIMEOUT))?;
    // A request that is rejected early need not be read to its end.
    let _ = connection.write_all(bytes.as_ref());
    let mut received = Vec::new();
    // After a complete head, a reset is how a server ends a connection whose request it did not read to its end.
    let read = connection.read_to_end(&mut received);
    HttpReply::parse(received).map_err(|error| match read {
        Ok(_) => error,
        Err(cause) => error.context(cause),
    })
}

#[cfg(test)]
mod tests {
    use super::{HttpReply, exchange};
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    #[test]
    fn a_response_has_status_headers_and_body() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let reply = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut connection, _) = listener.accept().unwrap();
                let mut request = [0; 4];
                connection.read_exact(&mut request).unwrap();
                assert_eq!(&request, b"ping");
                connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text\r\n\r\n{\"a\":1}").unwrap();
            });
            exchange(address, "ping").unwrap()
        });
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("text")));
        assert_eq!((reply.text(), reply.json().unwrap()["a"].as_u64()), ("{\"a\":1}".into(), Some(1)));
        assert!(reply.header("date").is_none());
    }

    #[test]
    fn half_a_head_is_no_response() {
        assert!(HttpReply::parse(b"HTTP/1.1 200 OK\r\n".to_vec()).is_err());
        assert!(HttpReply::parse(b"hello\r\n\r\n".to_vec()).is_err());
    }
}
