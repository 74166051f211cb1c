//! The minimal proxy with hyper's client, which shows what our own client is worth.
//!
//! The pool is a stack of idle connections: less than any pool that could be used in production, so that the comparison
//! favours hyper.

use super::start;
use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::net::TcpStream;

/// The idle connections to the model.
#[derive(Clone)]
pub(super) struct HyperPool {
    upstream: SocketAddr,
    idle: Arc<Mutex<Vec<SendRequest<Full<Bytes>>>>>,
}

impl HyperPool {
    pub(super) fn new(upstream: SocketAddr) -> Self {
        Self { upstream, idle: Arc::default() }
    }

    pub(super) async fn forward(self, request: Request<Incoming>) -> anyhow::Result<Response<PooledBody>> {
        let body = request.into_body().collect().await?.to_bytes();
        let outgoing = Request::post("/v1/messages")
            .header(HOST, self.upstream.to_string())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(Full::new(body))?;
        let mut connection = self.connection().await?;
        let (head, body) = connection.send_request(outgoing).await?.into_parts();
        let mut response =
            Response::new(PooledBody { body, connection: Some(connection), idle: Arc::clone(&self.idle) });
        *response.status_mut() = head.status;
        if let Some(content_type) = head.headers.get(CONTENT_TYPE) {
            response.headers_mut().insert(CONTENT_TYPE, content_type.clone());
        }
        Ok(response)
    }

    /// An idle connection, or a new one.
    async fn connection(&self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mut idle) = idle else { break };
            if idle.ready().await.is_ok() {
                return Ok(idle);
            }
        }
        let stream = TcpStream::connect(self.upstream).await.context("cannot connect")?;
        let _ = stream.set_nodelay(true);
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        start(async move {
            // The request that uses it receives its error.
            let _ = connection.await;
        });
        Ok(sender)
    }
}

/// The body of an answer. Returns its connection to the pool when it was read to its end.
pub(super) struct PooledBody {
    body: Incoming,
    connection: Option<SendRequest<Full<Bytes>>>,
    idle: Arc<Mutex<Vec<SendRequest<Full<Bytes>>>>>,
}

impl HttpBody for PooledBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        wake: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(wake)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for PooledBody {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take().filter(|_| self.body.is_end_stream()) {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}
