//! Exchanges that break off, and how that is detected.

use super::support::{LIMITS, answer_one, collect, get, listen, post, read_request};
use crate::http1::{BodyFailure, SendFailure, Timer as _, TokioTimer, send};
use bytes::Bytes;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;

#[tokio::test]
async fn an_early_end_in_the_head_tells_whether_it_had_begun() {
    for (answer, began) in [("", false), ("H", true), ("HTTP/1.1 200 OK\r\n", true)] {
        let (listener, pool, _) = listen().await;
        let server = async { drop(answer_one(&listener, answer).await) };
        let ((), response) = tokio::join!(server, send(&pool, post("{}"), &LIMITS));
        let failure = response.map(|_| ()).unwrap_err();
        assert!(matches!(failure, SendFailure::ClosedBeforeHead { .. }), "{failure:?}");
        assert_eq!((failure.request_began(), failure.response_began()), (true, began), "{answer}");
        assert_eq!(pool.idle(), 0);
    }
}

#[tokio::test]
async fn an_early_end_in_the_body_is_never_taken_for_the_end() {
    let head = "HTTP/1.1 200 OK\r\n";
    for (framing, body, expected) in [
        ("content-length: 5", "hell", "hell"),
        ("content-length: 5", "", ""),
        ("transfer-encoding: chunked", "", ""),
        ("transfer-encoding: chunked", "5", ""),
        ("transfer-encoding: chunked", "5\r\nhell", "hell"),
        ("transfer-encoding: chunked", "5\r\nhello", "hello"),
        ("transfer-encoding: chunked", "5\r\nhello\r\n", "hello"),
        ("transfer-encoding: chunked", "5\r\nhello\r\n0\r\n", "hello"),
        ("transfer-encoding: chunked", "5\r\nhello\r\n0\r\nt: u\r\n", "hello"),
    ] {
        let (listener, pool, _) = listen().await;
        let answer = format!("{head}{framing}\r\n\r\n{body}");
        let server = async { drop(answer_one(&listener, answer).await) };
        let ((), response) = tokio::join!(server, send(&pool, get(), &LIMITS));
        let mut response = response.unwrap();
        if !expected.is_empty() {
            assert_eq!(response.body.chunk().await.unwrap().unwrap(), expected);
        }
        assert_eq!(response.body.chunk().await, Some(Err(BodyFailure::ClosedEarly)), "{body:?}");
        assert_eq!(response.body.chunk().await, None);
        assert_eq!((pool.idle(), response.body.is_done()), (0, true));
    }
}

#[tokio::test]
async fn a_reset_is_an_early_end_even_where_closing_is_the_end() {
    let (listener, pool, _) = listen().await;
    let answer = "HTTP/1.1 200 OK\r\n\r\nuntil I close";
    let (stream, response) = tokio::join!(answer_one(&listener, answer), send(&pool, get(), &LIMITS));
    let mut response = response.unwrap();
    assert!(response.body.chunk().await.unwrap().is_ok());
    stream.set_zero_linger().unwrap();
    drop(stream);
    assert_eq!(response.body.chunk().await, Some(Err(BodyFailure::ClosedEarly)));
}

#[tokio::test]
async fn bad_chunks_are_a_failure_of_the_body() {
    for body in ["5\r\nhello!!", "g\r\n", "10000000000000000\r\n", "5\nhello\r\n"] {
        let (listener, pool, _) = listen().await;
        let answer = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{body}");
        let (mut stream, response) = tokio::join!(answer_one(&listener, answer), send(&pool, get(), &LIMITS));
        let mut response = response.unwrap();
        assert_eq!(collect(&mut response).await, Err(BodyFailure::BadChunk), "{body}");
        assert_eq!(response.body.chunk().await, None);
        // The connection is closed at once, not when the body is dropped.
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap_or(0), 0);
    }
}

#[tokio::test]
async fn a_refused_connection_is_a_failure_before_anything_was_sent() {
    let (listener, pool, _) = listen().await;
    drop(listener);
    let failure = send(&pool, post("{}"), &LIMITS).await.map(|_| ()).unwrap_err();
    assert!(matches!(failure, SendFailure::Connect(_)), "{failure:?}");
    assert!(failure.failure().not_executed);
}

#[tokio::test]
async fn a_peer_that_resets_while_we_write_is_a_failed_write() {
    let (listener, pool, _) = listen().await;
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_exact(&mut [0; 100]).await.unwrap();
        stream.set_zero_linger().unwrap();
    };
    let request = post(Bytes::from(vec![b'x'; 64 << 20]));
    let ((), response) = tokio::join!(server, send(&pool, request, &LIMITS));
    let failure = response.map(|_| ()).unwrap_err();
    assert!(matches!(failure, SendFailure::Write { began: true, .. }), "{failure:?}");
}

#[tokio::test]
async fn a_request_that_cannot_be_written_opens_no_connection() {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let pool = super::support::pool_to(address, &super::support::HandTimer::default());
    let request = crate::http1::HttpRequest { headers: &[("a", "b\r\nc: d")], ..get() };
    let failure = send(&pool, request, &LIMITS).await.map(|_| ()).unwrap_err();
    assert!(matches!(failure, SendFailure::InvalidRequest(_)), "{failure:?}");
}

const PROMPTLY: Duration = Duration::from_millis(50);

#[tokio::test]
async fn dropping_a_body_reaches_the_provider_promptly() {
    let (listener, pool, _) = listen().await;
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let (mut stream, response) = tokio::join!(answer_one(&listener, answer), send(&pool, get(), &LIMITS));
    let mut response = response.unwrap();
    assert_eq!(response.body.chunk().await.unwrap().unwrap(), "hello");

    let clock = TokioTimer::new();
    let dropped = clock.monotonic();
    drop(response);
    assert_eq!(stream.read(&mut [0; 8]).await.unwrap_or(0), 0);
    let took = clock.monotonic() - dropped;
    assert!(took < PROMPTLY, "{took:?}");
    assert_eq!(pool.idle(), 0);
}

#[tokio::test]
async fn giving_up_on_a_response_reaches_the_provider_promptly() {
    let (listener, pool, _) = listen().await;
    let clock = TokioTimer::new();
    let mut sending = Box::pin(send(&pool, post("{}"), &LIMITS));
    let accept = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await.unwrap();
        stream
    };
    let mut stream = tokio::select! {
        _ = &mut sending => panic!("nothing was answered"),
        stream = accept => stream,
    };
    let dropped = clock.monotonic();
    drop(sending);
    assert_eq!(stream.read(&mut [0; 8]).await.unwrap_or(0), 0);
    let took = clock.monotonic() - dropped;
    assert!(took < PROMPTLY, "{took:?}");
}
