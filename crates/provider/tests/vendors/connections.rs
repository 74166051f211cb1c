//! Which connections are reused, closed and replaced.

use crate::support::{
    ask, beside, calls, chunk, listen, options, over_http2, question, read_request, run, say, target,
};
use seawall_core::failure::FailureKind;
use seawall_model::engine::{Fault, Pace};
use seawall_provider::{ClientOptions, UpstreamResponse};
use seawall_wire::dialect::DialectId;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

const MESSAGES: DialectId = DialectId::ANTHROPIC_MESSAGES;
const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

/// Waits until the simulated model's list of calls shows this end.
async fn ends_as(address: SocketAddr, end: &str) {
    for _ in 0..500 {
        let calls = calls(address).await;
        if calls[0]["end"] == end {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the model did not see it: {}", calls(address).await);
}

#[test]
fn a_call_that_is_dropped_is_seen_by_the_model() {
    let ways: [fn(SocketAddr) -> ClientOptions; 2] = [options, over_http2];
    for way in ways {
        for (stream, fault) in [(false, Fault::Hang { after: 0 }), (true, Fault::Hang { after: 2 })] {
            beside(Pace::Instant, vec![fault], async |address, _| {
                let mut options = way(address);
                options.limits.head_timeout = Duration::from_secs(60);
                options.limits.idle_timeout = Duration::from_secs(60);
                let target = target(MESSAGES, options);
                if stream {
                    let Ok(UpstreamResponse::Stream(mut chunks)) =
                        target.call(question(MESSAGES, true)).await
                    else {
                        panic!("no stream")
                    };
                    chunk(chunks.as_mut()).await.unwrap().unwrap();
                    ends_as(address, "open").await;
                } else {
                    let mut calling = target.call(question(MESSAGES, false));
                    tokio::select! {
                        _ = &mut calling => panic!("it answered"),
                        () = ends_as(address, "open") => {}
                    }
                }
                ends_as(address, "caller_gone").await;
            });
        }
    }
}

#[test]
fn one_connection_carries_many_calls() {
    run(async {
        let (listener, address) = listen().await;
        let target = target(MESSAGES, options(address));
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            for _ in 0..20 {
                read_request(&mut stream).await.unwrap();
                stream.write_all(ANSWER.as_bytes()).await.unwrap();
            }
        };
        let client = async {
            for _ in 0..20 {
                assert_eq!(ask(target.as_ref(), false).await.unwrap().0, b"{}");
            }
        };
        tokio::join!(server, client);
    });
}

#[test]
fn a_connection_that_the_server_closed_meanwhile_is_replaced() {
    run(async {
        let (listener, address) = listen().await;
        let target = target(MESSAGES, options(address));
        let close = async |stream: TcpStream| drop(stream);
        for _ in 0..3 {
            let ((stream, _), answer) = tokio::join!(say(&listener, ANSWER), ask(target.as_ref(), false));
            assert_eq!(answer.unwrap().0, b"{}");
            close(stream).await;
        }
    });
}

#[test]
fn a_connection_that_closes_in_the_moment_of_sending_is_replaced_once() {
    run(async {
        let (listener, address) = listen().await;
        let target = target(MESSAGES, options(address));
        let ((mut first, _), _) = tokio::join!(say(&listener, ANSWER), ask(target.as_ref(), false));
        let server = async {
            read_request(&mut first).await.unwrap();
            drop(first);
            say(&listener, ANSWER).await
        };
        let (_, answer) = tokio::join!(server, ask(target.as_ref(), false));
        assert_eq!(answer.unwrap().0, b"{}");
    });
}

#[test]
fn cores_have_connections_of_their_own() {
    beside(Pace::Instant, vec![], async |address, _| {
        let target = target(MESSAGES, ClientOptions { cores: 2, ..options(address) });
        for core in [0, 1, 2] {
            seawall_provider::set_current_core(core);
            assert!(ask(target.as_ref(), false).await.unwrap().1.is_ok());
        }
        seawall_provider::set_current_core(0);
    });
}

#[test]
fn calls_at_once_share_one_http2_connection() {
    beside(Pace::Instant, vec![Fault::Drip { every: Duration::from_millis(2) }], async |address, _| {
        let (listener, front) = listen().await;
        let target = target(MESSAGES, over_http2(front));
        let mut lines = tokio::task::JoinSet::new();
        let mut count = 0;
        let crowd = async {
            let ask = || ask(target.as_ref(), true);
            let (a, b, c, d) = tokio::join!(ask(), ask(), ask(), ask());
            assert!([a, b, c, d].into_iter().all(|answer| answer.unwrap().1.is_ok()));
        };
        let relay = async {
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                count += 1;
                lines.spawn(async move {
                    let mut far = TcpStream::connect(address).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        };
        tokio::select! {
            () = crowd => {}
            () = relay => unreachable!(),
        }
        assert_eq!(count, 1);
    });
}

#[test]
fn an_http2_connection_carries_as_many_calls_at_once_as_settings_say() {
    beside(Pace::Instant, vec![Fault::Hang { after: 2 }], async |address, _| {
        let (listener, front) = listen().await;
        let options = ClientOptions { max_concurrent_streams: 2, ..over_http2(front) };
        let target = target(MESSAGES, options);
        let mut lines = tokio::task::JoinSet::new();
        let mut count = 0;
        let crowd = async {
            let mut streams = Vec::new();
            for _ in 0..5 {
                streams
                    .push(target.call(question(MESSAGES, true)).await.unwrap_or_else(|_| panic!("refused")));
            }
            // A dropped stream frees its slot.
            drop(streams.pop());
            drop(streams.remove(0));
            streams.push(target.call(question(MESSAGES, true)).await.unwrap_or_else(|_| panic!("refused")));
        };
        let relay = async {
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                count += 1;
                lines.spawn(async move {
                    let mut far = TcpStream::connect(address).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        };
        tokio::select! {
            () = crowd => {}
            () = relay => unreachable!(),
        }
        assert_eq!(count, 3);
    });
}

#[test]
fn an_http2_connection_that_was_cut_is_replaced() {
    beside(Pace::Instant, vec![], async |address, _| {
        let (listener, front) = listen().await;
        let target = target(MESSAGES, over_http2(front));
        for _ in 0..3 {
            // Dropping the call closes the connection; the next call detects that and opens another.
            let line = async {
                let (mut near, _) = listener.accept().await.unwrap();
                let mut far = TcpStream::connect(address).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            };
            tokio::select! {
                () = line => panic!("the line ended"),
                answer = ask(target.as_ref(), true) => assert!(answer.unwrap().1.is_ok()),
            }
        }
    });
}

#[test]
fn a_server_that_speaks_no_http2_is_not_understood() {
    run(async {
        let (listener, address) = listen().await;
        let target = target(MESSAGES, over_http2(address));
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            stream
        };
        let (_stream, answer) = tokio::join!(server, ask(target.as_ref(), false));
        assert_eq!(answer.unwrap_err().kind, FailureKind::Unrecognised);
    });
}
