//! Timeouts of each phase, on a manual clock.

use super::support::{
    HandTimer, LIMITS, SECOND, answer_one, collect, get, listen, pool_to, post, read_request, settle,
};
use crate::http1::{BodyFailure, HttpLimits, SendFailure, Timer as _, send};
use bytes::Bytes;
use seawall_core::time::Timestamp;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};

const INSTANT: Duration = Duration::from_nanos(1);

#[tokio::test]
async fn connecting_to_a_server_that_does_not_accept_times_out() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // Fills the accept queue, so that the system drops further connections.
    let _first = TcpStream::connect(address).await.unwrap();
    let _second = TcpStream::connect(address).await.unwrap();

    let timer = HandTimer::default();
    let pool = pool_to(address, &timer);
    let patience = async {
        timer.advance_when_awaited(LIMITS.connect_timeout - INSTANT).await;
        timer.advance_when_awaited(INSTANT).await;
    };
    let ((), response) = tokio::join!(patience, send(&pool, get(), &LIMITS));
    let failure = response.map(|_| ()).unwrap_err();
    assert!(matches!(failure, SendFailure::ConnectTimedOut), "{failure:?}");
    assert!(!failure.request_began());
}

#[tokio::test]
async fn a_server_that_does_not_read_is_not_waited_for() {
    let (listener, pool, timer) = listen().await;
    let server = async {
        let stream = listener.accept().await.unwrap();
        timer.advance_when_awaited(LIMITS.write_timeout).await;
        stream
    };
    let request = post(Bytes::from(vec![b'x'; 64 << 20]));
    let (_stream, response) = tokio::join!(server, send(&pool, request, &LIMITS));
    let failure = response.map(|_| ()).unwrap_err();
    assert!(matches!(failure, SendFailure::WriteTimedOut { began: true }), "{failure:?}");
}

#[tokio::test]
async fn a_slow_head_is_not_waited_for() {
    for (words, began) in [("", false), ("HTTP/1.1 200 OK\r\n", true)] {
        let (listener, pool, timer) = listen().await;
        let server = async {
            let mut stream = answer_one(&listener, "").await;
            timer.advance_when_awaited(LIMITS.head_timeout - INSTANT).await;
            // Partial data does not restart the timeout.
            stream.write_all(words.as_bytes()).await.unwrap();
            settle().await;
            timer.advance_when_awaited(INSTANT).await;
            stream
        };
        let (_stream, response) = tokio::join!(server, send(&pool, get(), &LIMITS));
        let failure = response.map(|_| ()).unwrap_err();
        assert!(matches!(failure, SendFailure::HeadTimedOut { response_began } if response_began == began));
        assert_eq!(pool.idle(), 0);
    }
}

#[tokio::test]
async fn a_head_in_time_is_no_failure_however_long_the_alarm_was_set() {
    let (listener, pool, timer) = listen().await;
    let limits = HttpLimits { idle_timeout: Duration::MAX, ..LIMITS };
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..10 {
            read_request(&mut stream).await.unwrap();
            timer.advance_when_awaited(LIMITS.head_timeout - INSTANT).await;
            settle().await;
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        }
    };
    let client = async {
        for _ in 0..10 {
            assert_eq!(send(&pool, get(), &limits).await.unwrap().status, 204);
        }
    };
    tokio::join!(server, client);
}

#[tokio::test]
async fn a_body_that_stands_still_is_not_waited_for() {
    for framing in ["content-length: 100", "transfer-encoding: chunked", "x-until: close"] {
        let (listener, pool, timer) = listen().await;
        let server = async {
            let head = format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n");
            let mut stream = answer_one(&listener, head).await;
            // Each chunk restarts the timeout.
            for _ in 0..2 {
                timer.advance_when_awaited(LIMITS.idle_timeout - INSTANT).await;
                stream.write_all(b"1\r\na\r\n").await.unwrap();
                settle().await;
            }
            timer.advance_when_awaited(LIMITS.idle_timeout).await;
            stream
        };
        let client = async {
            let mut response = send(&pool, get(), &LIMITS).await.unwrap();
            let mut chunks = 0;
            loop {
                match response.body.chunk().await.unwrap() {
                    Ok(_) => chunks += 1,
                    Err(failure) => break (chunks, failure),
                }
            }
        };
        let (_stream, outcome) = tokio::join!(server, client);
        assert_eq!(outcome, (2, BodyFailure::TimedOut), "{framing}");
        assert_eq!(pool.idle(), 0);
    }
}

#[tokio::test]
async fn asking_again_and_again_does_not_begin_the_time_anew() {
    let (listener, pool, timer) = listen().await;
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n";
    let (_stream, response) = tokio::join!(answer_one(&listener, head), send(&pool, get(), &LIMITS));
    let mut response = response.unwrap();
    let mut asked = 0;
    let failure = loop {
        let chunk = poll_fn(|context| Poll::Ready(response.body.poll_chunk(context))).await;
        match chunk {
            Poll::Ready(chunk) => break chunk.unwrap().unwrap_err(),
            Poll::Pending => timer.advance(SECOND),
        }
        asked += 1;
    };
    assert_eq!((failure, asked), (BodyFailure::TimedOut, 40));
}

#[tokio::test]
async fn chunks_without_content_do_not_count_as_progress() {
    let (listener, pool, timer) = listen().await;
    let server = async {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;";
        let mut stream = answer_one(&listener, head).await;
        loop {
            settle().await;
            timer.advance_when_awaited(SECOND).await;
            let _ = stream.write_all(b"x").await;
        }
    };
    let client = async { collect(&mut send(&pool, get(), &LIMITS).await.unwrap()).await };
    let body = tokio::select! {
        () = server => panic!("the server goes on for ever"),
        body = client => body,
    };
    assert_eq!(body, Err(BodyFailure::TimedOut));
    assert_eq!(timer.monotonic(), Timestamp::ZERO + LIMITS.idle_timeout);
}

#[tokio::test]
async fn requests_in_quick_succession_share_one_timer() {
    let (listener, pool, timer) = listen().await;
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..1000 {
            read_request(&mut stream).await.unwrap();
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        }
    };
    let client = async {
        for _ in 0..1000 {
            assert_eq!(send(&pool, get(), &LIMITS).await.unwrap().status, 204);
            timer.advance(Duration::from_millis(1));
        }
    };
    tokio::join!(server, client);
    assert!(timer.started() <= 2, "{} timers", timer.started());
}
