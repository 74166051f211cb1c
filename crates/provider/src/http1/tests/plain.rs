//! Successful exchanges.

use super::support::{
    HandTimer, LIMITS, Then, answer_one, at_once, collect, get, listen, post, read_request, scripted, settle,
};
use crate::http1::{Http1Pool, Http1Response, PoolOptions, TcpConnect, TokioTimer, send};
use bytes::Bytes;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;

const EVENTS: usize = 43;

fn event(number: usize) -> String {
    format!("event: delta\ndata: {{\"text\":\"word {number}\"}}\n\n")
}

/// A head and as many chunks as a short answer has events.
fn burst() -> (String, String) {
    let mut answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
    let mut text = String::new();
    for number in 0..EVENTS {
        let event = event(number);
        answer.push_str(&format!("{:x}\r\n{event}\r\n", event.len()));
        text.push_str(&event);
    }
    answer.push_str("0\r\n\r\n");
    (answer, text)
}

#[tokio::test]
async fn request_and_response_arrive_whole() {
    let (listener, pool, _) = listen().await;
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = read_request(&mut stream).await.unwrap();
        stream
            .write_all(b"HTTP/1.1 429 Slow Down\r\nRetry-After: 3\r\ncontent-length: 4\r\n\r\nlate")
            .await
            .unwrap();
        request
    };
    let (request, response) = tokio::join!(server, send(&pool, post("{\"a\":1}"), &LIMITS));
    let port = pool.endpoint().port();
    let expected =
        format!("POST / HTTP/1.1\r\nhost: localhost:{port}\r\ncontent-length: 7\r\n\r\n{{\"a\":1}}");
    assert_eq!(request, expected);
    let mut response = response.unwrap();
    assert_eq!((response.status, response.headers.get("retry-after")), (429, Some(&b"3"[..])));
    assert_eq!((response.body.length(), response.body.is_done()), (Some(4), false));
    assert_eq!(collect(&mut response).await.unwrap(), b"late");
    assert_eq!(pool.idle(), 1);
}

#[tokio::test]
async fn a_burst_of_events_is_one_frame() {
    let (listener, pool, _) = listen().await;
    let (answer, text) = burst();
    let (_stream, response) = tokio::join!(answer_one(&listener, answer), send(&pool, get(), &LIMITS));
    let mut response = response.unwrap();
    let chunk = response.body.chunk().await.unwrap().unwrap();
    assert_eq!(chunk, text);
    // The end arrived with it, so the connection is returned before the next request.
    assert_eq!((response.body.is_done(), pool.idle()), (true, 1));
    assert!(response.body.chunk().await.is_none());
}

#[tokio::test]
async fn a_paced_stream_gives_each_event_as_it_comes() {
    let (listener, pool, _) = listen().await;
    let server = async {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut stream = answer_one(&listener, head).await;
        for number in 0..EVENTS {
            settle().await;
            let event = event(number);
            stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await.unwrap();
        }
        settle().await;
        stream.write_all(b"0\r\n\r\n").await.unwrap();
        stream
    };
    let client = async {
        let mut response = send(&pool, get(), &LIMITS).await.unwrap();
        let mut chunks = Vec::new();
        while let Some(chunk) = response.body.chunk().await {
            chunks.push(chunk.unwrap());
        }
        chunks
    };
    let (_stream, chunks) = tokio::join!(server, client);
    assert_eq!(chunks.len(), EVENTS);
    assert_eq!(chunks[7], event(7));
    assert_eq!(pool.idle(), 1);
}

#[tokio::test]
async fn every_cut_of_a_chunked_answer_gives_the_same() {
    let answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nt: u\r\n\r\n";
    let (listener, pool, _) = listen().await;
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        for cut in 0..=answer.len() {
            read_request(&mut stream).await.unwrap();
            stream.write_all(&answer[..cut]).await.unwrap();
            settle().await;
            stream.write_all(&answer[cut..]).await.unwrap();
        }
    };
    let client = async {
        for cut in 0..=answer.len() {
            let mut response = send(&pool, get(), &LIMITS).await.unwrap();
            assert_eq!(collect(&mut response).await.unwrap(), b"hello world", "cut at {cut}");
            assert_eq!((pool.idle(), response.resent), (1, false));
        }
    };
    tokio::join!(server, client);
}

#[tokio::test]
async fn an_answer_that_trickles_is_read_whole() {
    let (listener, pool, _) = listen().await;
    let answer = b"HTTP/1.1 200 OK\r\na: b\r\ncontent-length: 11\r\n\r\nhello world";
    let server = async {
        let mut stream = answer_one(&listener, "").await;
        for byte in answer.chunks(1) {
            stream.write_all(byte).await.unwrap();
            settle().await;
        }
        stream
    };
    let client = async { collect(&mut send(&pool, get(), &LIMITS).await.unwrap()).await };
    let (_stream, body) = tokio::join!(server, client);
    assert_eq!(body.unwrap(), b"hello world");
    assert_eq!(pool.idle(), 1);
}

#[tokio::test]
async fn a_body_may_end_with_its_connection() {
    let (listener, pool, _) = listen().await;
    let answer = "HTTP/1.1 200 OK\r\n\r\nuntil I close";
    let (stream, response) = tokio::join!(answer_one(&listener, answer), send(&pool, get(), &LIMITS));
    drop(stream);
    let mut response = response.unwrap();
    assert_eq!(response.body.length(), None);
    assert_eq!(collect(&mut response).await.unwrap(), b"until I close");
    assert_eq!(pool.idle(), 0);
}

#[tokio::test]
async fn a_large_body_passes_both_ways() {
    let (listener, pool, _) = listen().await;
    let large = vec![b'x'; 1 << 20];
    let answer = [&b"HTTP/1.1 200 OK\r\ncontent-length: 1048576\r\n\r\n"[..], &large].concat();
    let client = async {
        let mut response = send(&pool, post(large.clone()), &LIMITS).await.unwrap();
        collect(&mut response).await.unwrap()
    };
    let (_stream, received) = tokio::join!(answer_one(&listener, answer), client);
    assert!(received == large, "{} bytes", received.len());
    assert_eq!(pool.idle(), 1);
}

#[tokio::test]
async fn an_answer_that_comes_before_the_request_has_ended_is_taken() {
    let (listener, pool, _) = listen().await;
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno").await.unwrap();
        stream
    };
    // More than the socket buffers hold.
    let request = post(Bytes::from(vec![b'x'; 64 << 20]));
    let (_stream, response) = tokio::join!(server, send(&pool, request, &LIMITS));
    let mut response = response.unwrap();
    assert_eq!(response.status, 413);
    assert_eq!(collect(&mut response).await.unwrap(), b"no");
    // The peer would take what follows for the rest of the body.
    assert_eq!(pool.idle(), 0);
}

#[tokio::test]
async fn ten_thousand_requests_share_eight_connections() {
    const CLIENTS: usize = 8;
    const REQUESTS: usize = 1_250;
    let (listener, _, _) = listen().await;
    let address = listener.local_addr().unwrap();
    let pool = Http1Pool::new(
        super::support::endpoint(address),
        TcpConnect(address),
        TokioTimer::new(),
        PoolOptions::default(),
    );
    let accepted = AtomicUsize::new(0);
    let server = async {
        let mut connections = JoinSet::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            accepted.fetch_add(1, Ordering::Relaxed);
            connections.spawn(async move {
                while let Some(request) = read_request(&mut stream).await {
                    let body = request.split_once("\r\n\r\n").unwrap().1;
                    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
                    let answer = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunked}");
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    };
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let pool = pool.clone();
        clients.spawn(async move {
            for number in 0..REQUESTS {
                let text = format!("request {number} of {client}");
                let mut response = send(&pool, post(text.clone()), &LIMITS).await.unwrap();
                assert_eq!(collect(&mut response).await.unwrap(), text.as_bytes());
            }
        });
    }
    tokio::select! {
        () = server => {}
        _ = clients.join_all() => {}
    }
    assert_eq!((accepted.load(Ordering::Relaxed), pool.idle()), (CLIENTS, CLIENTS));
}

#[test]
fn what_waits_for_the_socket_may_move_between_threads() {
    fn is_send<T: Send>(_: &T) {}
    let pool = scripted(&[], Then::Close);
    is_send(&pool);
    is_send(&send(&pool, get(), &LIMITS));
    let mut answer: Http1Response<_, HandTimer> = {
        let pool = scripted(&[b"HTTP/1.1 200 OK\r\n\r\n"], Then::Close);
        at_once(send(&pool, get(), &LIMITS)).unwrap()
    };
    is_send(&answer.body.chunk());
}
