//! One exchange over one connection: how callers ask, and how the demonstration reads books and bills.
//!
//! Every request has a connection of its own, so that no answer depends on how another one ended.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// The two halves of a connection: what is asked through, and what moves the bytes.
pub type Line = (SendRequest<Full<Bytes>>, Connection<TokioIo<TcpStream>, Full<Bytes>>);

/// A connection that can be asked through.
pub async fn open(stream: TcpStream) -> io::Result<Line> {
    stream.set_nodelay(true)?;
    handshake(TokioIo::new(stream)).await.map_err(io::Error::other)
}

/// The outcome of `work`, while the connection moves the bytes that it needs.
pub async fn driven<T>(
    connection: Connection<TokioIo<TcpStream>, Full<Bytes>>,
    work: impl Future<Output = T>,
) -> T {
    let driver = async {
        // How it ended is told to the work.
        let _ = connection.await;
        pending::<T>().await
    };
    tokio::select! {
        biased;
        outcome = work => outcome,
        outcome = driver => outcome,
    }
}

/// What is at this path.
pub async fn get(address: SocketAddr, path: &str) -> io::Result<Bytes> {
    let (mut sender, connection) = open(TcpStream::connect(address).await?).await?;
    let request = Request::get(path).header(HOST, address.to_string()).body(Full::default());
    let request = request.map_err(io::Error::other)?;
    driven(connection, async move {
        let response = sender.send_request(request).await.map_err(io::Error::other)?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        if status == StatusCode::OK { Ok(body) } else { Err(io::Error::other(format!("status {status}"))) }
    })
    .await
}
