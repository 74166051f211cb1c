//! Which connections are kept, reused and dropped.

use super::support::{
    HandTimer, LIMITS, SECOND, Script, Then, answer_one, at_once, collect, get, listen, post, read_request,
    scripted, settle,
};
use crate::http1::connection::Connection;
use crate::http1::reusable_timer::ReusableTimer;
use crate::http1::{
    Http1Pool, Http1Response, HttpRequest, PoolOptions, SendFailure, TcpConnect, Timer as _, send,
};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

/// Makes a successful request, and returns the server's side of the connection.
async fn warm(listener: &TcpListener, pool: &Http1Pool<TcpConnect, HandTimer>) -> TcpStream {
    let (stream, response) = tokio::join!(answer_one(listener, HELLO), send(pool, get(), &LIMITS));
    assert_eq!(collect(&mut response.unwrap()).await.unwrap(), b"hello");
    assert_eq!(pool.idle(), 1);
    stream
}

async fn expect_hello(response: Result<Http1Response<TcpConnect, HandTimer>, SendFailure>) -> bool {
    let mut response = response.unwrap();
    assert_eq!(collect(&mut response).await.unwrap(), b"hello");
    response.resent
}

#[tokio::test]
async fn a_kept_connection_is_used_again() {
    let (listener, pool, _) = listen().await;
    let mut stream = warm(&listener, &pool).await;
    for _ in 0..100 {
        let server = async {
            read_request(&mut stream).await.unwrap();
            stream.write_all(HELLO.as_bytes()).await.unwrap();
        };
        let ((), response) = tokio::join!(server, send(&pool, post("{}"), &LIMITS));
        assert!(!expect_hello(response).await);
        assert_eq!(pool.idle(), 1);
    }
}

#[tokio::test]
async fn a_connection_that_the_peer_closed_meanwhile_is_not_used() {
    let (listener, pool, _) = listen().await;
    drop(warm(&listener, &pool).await);
    settle().await;
    // Detected before sending: with resending off, it works all the same.
    let request = HttpRequest { resend_on_stale: false, ..post("{}") };
    let (_stream, response) = tokio::join!(answer_one(&listener, HELLO), send(&pool, request, &LIMITS));
    assert!(!expect_hello(response).await);
    assert_eq!(pool.idle(), 1);
}

#[tokio::test]
async fn a_connection_on_which_something_came_unasked_is_not_used() {
    let (listener, pool, _) = listen().await;
    let mut old = warm(&listener, &pool).await;
    old.write_all(HELLO.as_bytes()).await.unwrap();
    settle().await;
    let (_stream, response) = tokio::join!(answer_one(&listener, HELLO), send(&pool, get(), &LIMITS));
    assert!(!expect_hello(response).await);
    assert!(read_request(&mut old).await.is_none(), "it was used");
}

#[tokio::test]
async fn what_follows_a_whole_response_is_never_taken_for_the_next() {
    for answer in [
        format!("{HELLO}HTTP/1.1 200 OK\r\n"),
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nx".to_owned(),
    ] {
        let (listener, pool, _) = listen().await;
        let (_stream, response) = tokio::join!(answer_one(&listener, answer), send(&pool, get(), &LIMITS));
        assert_eq!(collect(&mut response.unwrap()).await.unwrap(), b"hello");
        assert_eq!(pool.idle(), 0);
    }
}

/// A close that crosses the request: the peer reads it and closes without a response.
async fn close_on_request(mut stream: TcpStream) {
    read_request(&mut stream).await.unwrap();
}

#[tokio::test]
async fn a_request_that_met_a_closing_connection_is_sent_once_more() {
    let (listener, pool, _) = listen().await;
    let old = warm(&listener, &pool).await;
    let server = async { tokio::join!(close_on_request(old), answer_one(&listener, HELLO)) };
    let (_streams, response) = tokio::join!(server, send(&pool, post("{}"), &LIMITS));
    assert!(expect_hello(response).await);
    assert_eq!(pool.idle(), 1);
}

#[tokio::test]
async fn a_request_is_not_sent_a_third_time() {
    let (listener, pool, _) = listen().await;
    let old = warm(&listener, &pool).await;
    let server = async {
        close_on_request(old).await;
        close_on_request(listener.accept().await.unwrap().0).await;
    };
    let ((), response) = tokio::join!(server, send(&pool, post("{}"), &LIMITS));
    let failure = response.map(|_| ()).unwrap_err();
    assert!(matches!(failure, SendFailure::ClosedBeforeHead { response_began: false, .. }), "{failure:?}");
}

#[tokio::test]
async fn resending_can_be_left_off() {
    let (listener, pool, _) = listen().await;
    let old = warm(&listener, &pool).await;
    let request = HttpRequest { resend_on_stale: false, ..post("{}") };
    let ((), response) = tokio::join!(close_on_request(old), send(&pool, request, &LIMITS));
    let failure = response.map(|_| ()).unwrap_err();
    assert!(matches!(failure, SendFailure::StaleConnection), "{failure:?}");
}

#[tokio::test]
async fn a_peer_that_closes_late_or_within_its_answer_had_the_request() {
    for (wait, words) in [(SECOND + Duration::from_nanos(1), ""), (Duration::ZERO, "HTTP")] {
        let (listener, pool, timer) = listen().await;
        let mut old = warm(&listener, &pool).await;
        let server = async {
            read_request(&mut old).await.unwrap();
            timer.advance(wait);
            old.write_all(words.as_bytes()).await.unwrap();
            drop(old);
        };
        let ((), response) = tokio::join!(server, send(&pool, post("{}"), &LIMITS));
        let failure = response.map(|_| ()).unwrap_err();
        assert!(matches!(failure, SendFailure::ClosedBeforeHead { .. }), "{failure:?}");
        assert_eq!(failure.response_began(), !words.is_empty());
    }
}

#[test]
fn a_connection_whose_peer_will_close_is_not_kept() {
    for answer in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    ] {
        let pool = scripted(&[answer.as_bytes()], Then::Wait);
        let mut response = at_once(send(&pool, get(), &LIMITS)).unwrap();
        assert_eq!(at_once(collect(&mut response)).unwrap(), b"hello");
        assert_eq!(pool.idle(), 0);
    }
}

/// An open connection, identified by its mark.
fn marked(mark: u8) -> Connection<Script> {
    let mut connection =
        Connection::new(Script { pieces: VecDeque::new(), then: Then::Wait }, ReusableTimer::default());
    connection.outgoing.push(mark);
    connection
}

#[test]
fn the_newest_is_used_first_and_the_oldest_gives_way() {
    let timer = HandTimer::default();
    let address = ([127, 0, 0, 1], 80).into();
    let options = PoolOptions { max_idle: 2, max_idle_age: SECOND * 10 };
    let pool = Http1Pool::new(
        super::support::endpoint(address),
        super::support::Scripts::default(),
        timer.clone(),
        options,
    );
    let take = || pool.take(timer.monotonic()).map(|connection| connection.outgoing[0]);
    for mark in [1, 2, 3] {
        pool.release(marked(mark));
        timer.advance(SECOND);
    }
    assert_eq!((take(), take(), take()), (Some(3), Some(2), None));

    pool.release(marked(4));
    timer.advance(SECOND * 9);
    pool.release(marked(5));
    timer.advance(SECOND);
    assert_eq!(pool.idle(), 2);
    pool.close_expired(timer.monotonic());
    assert_eq!(pool.idle(), 1);
    timer.advance(SECOND * 9);
    assert_eq!((take(), pool.idle()), (None, 0));

    pool.release(marked(6));
    timer.advance(SECOND * 10);
    pool.release(marked(7));
    assert_eq!((pool.idle(), take()), (1, Some(7)));
    pool.release(marked(8));
    pool.clone().close_all();
    assert_eq!(pool.idle(), 0);
}

#[test]
fn a_pool_may_keep_nothing() {
    let options = PoolOptions { max_idle: 0, ..PoolOptions::default() };
    let address = ([127, 0, 0, 1], 80).into();
    let scripts = super::support::Scripts::default();
    let pool = Http1Pool::new(super::support::endpoint(address), scripts, HandTimer::default(), options);
    pool.release(marked(1));
    assert_eq!(pool.idle(), 0);
}
