//! HTTP/2 against a server written in the test, on a manual clock.

mod leaving;
mod limits;

use super::pool::{Http2Pool, StreamLease};
use super::{Http2Response, send};
use crate::http1::tests::support::{HandTimer, LIMITS};
use crate::http1::{BodyFailure, Endpoint, HttpRequest, PoolOptions, Scheme, SendFailure};
use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Connection, SendResponse};
use std::future::poll_fn;
use std::time::Duration;
use tokio::io::DuplexStream;

pub(super) type Server = Connection<DuplexStream, Bytes>;
pub(super) type Answering = SendResponse<Bytes>;

pub(super) const IDLE: Duration = Duration::from_secs(5);

pub(super) fn pool(timer: &HandTimer, streams: usize) -> Http2Pool<HandTimer> {
    let options = PoolOptions { max_idle_age: IDLE, ..PoolOptions::default() };
    Http2Pool::new(timer.clone(), streams, options)
}

/// A new connection of this pool, and its server.
pub(super) async fn connect(
    pool: &Http2Pool<HandTimer>,
    server: &h2::server::Builder,
) -> (Server, StreamLease<HandTimer>) {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (server, lease) = tokio::join!(server.handshake(far), pool.handshake(near, None));
    (server.unwrap(), lease.unwrap_or_else(|failure| panic!("{failure}")))
}

pub(super) fn request(body: Bytes) -> HttpRequest<'static> {
    HttpRequest {
        method: "POST",
        path: "/v1/messages",
        headers: &[("x-api-key", "hush")],
        body,
        resend_on_stale: true,
    }
}

pub(super) async fn ask(
    lease: StreamLease<HandTimer>,
    body: Bytes,
    is_pooled: bool,
) -> Result<Http2Response<HandTimer>, SendFailure> {
    let endpoint = Endpoint::new(Scheme::Http, "localhost", 8080).unwrap();
    send(&endpoint, &request(body), &LIMITS, lease, is_pooled).await
}

pub(super) async fn accept(server: &mut Server) -> (http::Request<RecvStream>, Answering) {
    server.accept().await.unwrap().unwrap()
}

/// Drives a server while another future runs.
pub(super) async fn beside<T>(server: &mut Server, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            request = server.accept() => {
                // Closed or refused; the test examines the client's reaction.
                if request.is_none() {
                    return work.await;
                }
            }
        }
    }
}

pub(super) fn ok() -> http::Response<()> {
    http::Response::new(())
}

pub(super) async fn chunk(response: &mut Http2Response<HandTimer>) -> Option<Result<Bytes, BodyFailure>> {
    poll_fn(|context| response.body.poll_chunk(context)).await
}

#[tokio::test]
async fn a_request_goes_out_as_it_was_meant_and_its_answer_comes_back() {
    let timer = HandTimer::default();
    let pool = pool(&timer, 10);
    let (mut server, lease) = connect(&pool, &h2::server::Builder::new()).await;
    let body = Bytes::from(vec![b'q'; 40_000]);
    let serve = async {
        let (request, mut answering) = accept(&mut server).await;
        let (head, mut asked) = request.into_parts();
        assert_eq!(
            (head.method.as_str(), head.uri.to_string().as_str()),
            ("POST", "http://localhost:8080/v1/messages")
        );
        assert_eq!(
            (&head.headers["x-api-key"], &head.headers["content-length"]),
            (&"hush".parse().unwrap(), &"40000".parse().unwrap())
        );
        let mut answer = answering.send_response(ok(), false).unwrap();
        beside(&mut server, async {
            let mut whole = Vec::new();
            while let Some(piece) = asked.data().await {
                let piece = piece.unwrap();
                asked.flow_control().release_capacity(piece.len()).unwrap();
                whole.extend_from_slice(&piece);
            }
            assert_eq!(whole, vec![b'q'; 40_000]);
            answer.send_data(Bytes::from_static(b"he"), false).unwrap();
            answer.send_data(Bytes::new(), false).unwrap();
            answer.send_data(Bytes::from_static(b"llo"), false).unwrap();
            let mut trailers = http::HeaderMap::new();
            trailers.insert("x-end", "1".parse().unwrap());
            answer.send_trailers(trailers).unwrap();
        })
        .await;
        server
    };
    let client = async {
        let mut response = ask(lease, body, false).await.unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(response.status, 200);
        let mut whole = Vec::new();
        while let Some(piece) = chunk(&mut response).await {
            let piece = piece.unwrap();
            assert!(!piece.is_empty());
            whole.extend_from_slice(&piece);
        }
        assert_eq!(whole, b"hello");
        assert!(chunk(&mut response).await.is_none());
    };
    let (mut server, ()) = tokio::join!(
        async {
            let mut server = serve.await;
            for _ in 0..20 {
                beside(&mut server, tokio::task::yield_now()).await;
            }
            server
        },
        client
    );
    beside(&mut server, tokio::task::yield_now()).await;
    assert_eq!(pool.open_connections(), 1);
}
