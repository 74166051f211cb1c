//! A minimal HTTP client with one request per connection, for callers and for reading ledgers and bills.
//!
//! Every request has a connection of its own, so that no result depends on how another one ended.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper::header::{HOST, RETRY_AFTER};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// The two halves of a connection: the sender, and the future that performs the I/O.
pub type HttpConnection = (SendRequest<Full<Bytes>>, Connection<TokioIo<TcpStream>, Full<Bytes>>);

/// Performs the HTTP/1.1 handshake on a TCP stream.
pub async fn open(stream: TcpStream) -> io::Result<HttpConnection> {
    stream.set_nodelay(true)?;
    handshake(TokioIo::new(stream)).await.map_err(io::Error::other)
}

/// The output of `work`, while driving the connection.
pub async fn drive<T>(
    connection: Connection<TokioIo<TcpStream>, Full<Bytes>>,
    work: impl Future<Output = T>,
) -> T {
    let driver = async {
        // The work learns from its own futures how the connection ended.
        let _ = connection.await;
        pending::<T>().await
    };
    tokio::select! {
        biased;
        outcome = work => outcome,
        outcome = driver => outcome,
    }
}

/// Fetches the body at this path.
pub async fn get(address: SocketAddr, path: &str) -> io::Result<Bytes> {
    let (mut sender, connection) = open(TcpStream::connect(address).await?).await?;
    let request = Request::get(path).header(HOST, address.to_string()).body(Full::default());
    let request = request.map_err(io::Error::other)?;
    drive(connection, async move {
        let response = sender.send_request(request).await.map_err(io::Error::other)?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        if status == StatusCode::OK { Ok(body) } else { Err(io::Error::other(format!("status {status}"))) }
    })
    .await
}

/// Whether a rejection has a Retry-After, or states that a retry is pointless.
#[must_use]
pub fn has_retry_advice(headers: &HeaderMap) -> bool {
    headers.contains_key(RETRY_AFTER) || headers.contains_key("x-should-retry")
}

#[cfg(test)]
mod tests {
    use super::has_retry_advice;
    use hyper::HeaderMap;
    use hyper::header::HeaderValue;

    #[test]
    fn a_hint_is_a_time_to_come_back_or_the_advice_not_to() {
        for (name, is_hint) in [("retry-after", true), ("x-should-retry", true), ("request-id", false)] {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static("1"))]);
            assert_eq!(has_retry_advice(&headers), is_hint, "{name}");
        }
    }
}
