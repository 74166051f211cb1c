//! The minimal proxy as a baseline: hyper towards the caller, our client or hyper's towards the model, nothing in between.

use super::hyper_hop::HyperPool;
use super::start;
use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use seawall_provider::http1::{
    BodyFailure, Endpoint, Http1Body, Http1Pool, HttpLimits, HttpRequest, PoolOptions, Scheme, TcpConnect,
    TokioTimer, send,
};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;

/// The client of the minimal proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum HopClient {
    /// Seawall's own.
    Own,
    /// hyper's, for comparison.
    Hyper,
}

/// Forwards requests until it is killed.
pub(crate) async fn run(listen: SocketAddr, upstream: SocketAddr, client: HopClient) -> anyhow::Result<()> {
    match client {
        HopClient::Own => {
            let endpoint = Endpoint::new(Scheme::Http, &upstream.ip().to_string(), upstream.port())?;
            let pool =
                Http1Pool::new(endpoint, TcpConnect(upstream), TokioTimer::new(), PoolOptions::default());
            serve(listen, move |request| forward(pool.clone(), request)).await
        }
        HopClient::Hyper => {
            let pool = HyperPool::new(upstream);
            serve(listen, move |request| pool.clone().forward(request)).await
        }
    }
}

/// Accepts connections and answers their requests by `forward`.
async fn serve<F, B>(
    listen: SocketAddr,
    forward: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<Response<B>>> + Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let listener = TcpListener::bind(listen).await.context("cannot listen")?;
    loop {
        let (stream, _) = listener.accept().await.context("cannot accept")?;
        let _ = stream.set_nodelay(true);
        let service = service_fn(forward.clone());
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        start(async move {
            // A broken connection is closed by its other end.
            let _ = connection.await;
        });
    }
}

async fn forward(pool: Http1Pool, request: Request<Incoming>) -> anyhow::Result<Response<ForwardedBody>> {
    let minute = Duration::from_secs(60);
    let limits = HttpLimits {
        connect_timeout: minute,
        write_timeout: minute,
        head_timeout: minute,
        idle_timeout: minute,
        max_body_bytes: 64 << 20,
    };
    let body = request.into_body().collect().await?.to_bytes();
    let outgoing = HttpRequest {
        method: "POST",
        path: "/v1/messages",
        headers: &[("content-type", "application/json")],
        body,
        resend_on_stale: true,
    };
    let answer = send(&pool, outgoing, &limits).await?;
    let content_type = answer.headers.get("content-type").map(HeaderValue::from_bytes).transpose()?;
    let mut response = Response::new(ForwardedBody(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status)?;
    if let Some(content_type) = content_type {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    Ok(response)
}

struct ForwardedBody(Http1Body);

impl HttpBody for ForwardedBody {
    type Data = Bytes;
    type Error = BodyFailure;

    fn poll_frame(
        self: Pin<&mut Self>,
        wake: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyFailure>>> {
        self.get_mut().0.poll_chunk(wake).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_done()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.0.length().map_or_else(hyper::body::SizeHint::default, hyper::body::SizeHint::with_exact)
    }
}
