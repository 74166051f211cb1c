//! Servers with responses that no model should send.

use crate::support::{ask, chunk, listen, options, question, read, refusal, run, say, target};
use seawall_core::failure::{Failure, FailureKind};
use seawall_provider::UpstreamResponse;
use seawall_wire::dialect::DialectId;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;

const MESSAGES: DialectId = DialectId::ANTHROPIC_MESSAGES;
const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";

/// The result of a call that is answered with these bytes.
async fn answered(words: &str, stream: bool) -> Result<(Vec<u8>, Result<(), Failure>), Failure> {
    let (listener, address) = listen().await;
    let target = target(MESSAGES, options(address));
    let (_held, outcome) = tokio::join!(say(&listener, words), ask(target.as_ref(), stream));
    outcome
}

#[test]
fn a_redirect_is_not_followed() {
    run(async {
        let (elsewhere, internal) = listen().await;
        for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
            // The content of the body alone does not make it an error of the vendor.
            let body = r#"{"error":{"type":"rate_limit_error"}}"#;
            let words = format!(
                "HTTP/1.1 {status}\r\nlocation: http://{internal}/\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let failure = answered(&words, false).await.unwrap_err();
            // Nothing was generated for it either.
            assert_eq!((failure.kind, failure.not_executed), (FailureKind::Unrecognised, true), "{status}");
        }
        let follower =
            std::future::poll_fn(|context| std::task::Poll::Ready(elsewhere.poll_accept(context).is_ready()));
        assert!(!follower.await, "it was followed");
    });
}

#[test]
fn other_successes_are_no_answer() {
    run(async {
        for status in ["201 Created", "202 Accepted", "204 No Content", "206 Partial"] {
            let words = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            let failure = answered(&words, false).await.unwrap_err();
            assert_eq!(failure.kind, FailureKind::Unrecognised, "{status}");
        }
    });
}

#[test]
fn a_compressed_answer_is_not_read() {
    run(async {
        for (coding, stream) in [("gzip", false), ("br", true), ("GZIP", false), ("identity, gzip", true)] {
            let words = format!("{STREAM}content-encoding: {coding}\r\ncontent-length: 3\r\n\r\n\x1f\x08x");
            let failure = answered(&words, stream).await.unwrap_err();
            assert_eq!(failure.kind, FailureKind::Unrecognised, "{coding}");
        }
        let words = format!("{STREAM}content-encoding: identity\r\ncontent-length: 2\r\n\r\nhi");
        assert_eq!(answered(&words, true).await.unwrap(), (b"hi".to_vec(), Ok(())));
    });
}

#[test]
fn an_answer_must_be_of_the_type_that_was_asked_for() {
    run(async {
        for (content, stream, is_fine) in [
            ("application/json", false, true),
            ("application/json; charset=utf-8", false, true),
            ("text/plain", false, true),
            ("text/html; charset=utf-8", false, false),
            ("text/event-stream", false, false),
            ("application/vnd.amazon.eventstream", false, false),
            ("text/event-stream", true, true),
            ("Text/Event-Stream; charset=utf-8", true, true),
            ("application/json", true, false),
            ("application/vnd.amazon.eventstream", true, false),
        ] {
            let words =
                format!("HTTP/1.1 200 OK\r\ncontent-type: {content}\r\ncontent-length: 2\r\n\r\n{{}}");
            assert_eq!(answered(&words, stream).await.is_ok(), is_fine, "{content} {stream}");
        }
        for stream in [false, true] {
            let words = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
            assert!(answered(words, stream).await.is_ok());
        }
    });
}

#[test]
fn headers_without_an_end_are_cut_off() {
    run(async {
        let (listener, address) = listen().await;
        let target = target(MESSAGES, options(address));
        let server = async {
            let (mut stream, _) = say(&listener, "HTTP/1.1 200 OK\r\n").await;
            let line = format!("x-more: {}\r\n", "x".repeat(1_000));
            while stream.write_all(line.as_bytes()).await.is_ok() {}
        };
        let ((), failure) = tokio::join!(server, refusal(target.as_ref(), true));
        assert_eq!(failure.kind, FailureKind::Unrecognised);
    });
}

#[test]
fn a_line_without_an_end_passes_in_small_pieces_and_is_not_gathered() {
    const SIZE: usize = 10 << 20;
    run(async {
        for (limit, is_whole) in [(SIZE as u64, true), (SIZE as u64 - 1, false)] {
            let (listener, address) = listen().await;
            let mut options = options(address);
            options.limits.max_body_bytes = limit;
            let target = target(MESSAGES, options);
            let server = async {
                let (mut stream, _) = say(&listener, format!("{STREAM}connection: close\r\n\r\n")).await;
                let piece = vec![b'x'; 1 << 16];
                for _ in 0..SIZE / piece.len() {
                    // The client may close the connection early.
                    let _ = stream.write_all(&piece).await;
                }
            };
            let client = async {
                let answer = target.call(question(MESSAGES, true)).await;
                let Ok(UpstreamResponse::Stream(mut chunks)) = answer else { panic!("no stream") };
                let mut length = 0;
                loop {
                    match chunk(chunks.as_mut()).await {
                        Some(Ok(bytes)) => {
                            assert!(bytes.len() <= 1 << 17, "{} bytes at once", bytes.len());
                            length += bytes.len();
                        }
                        Some(Err(failure)) => return (length, Some(failure.kind)),
                        None => return (length, None),
                    }
                }
            };
            let ((), (length, failure)) = tokio::join!(server, client);
            if is_whole {
                assert_eq!((length, failure), (SIZE, None));
            } else {
                assert!(length < SIZE);
                assert_eq!(failure, Some(FailureKind::Unrecognised));
            }
        }
    });
}

#[test]
fn an_error_is_read_by_its_status_when_its_body_does_not_end() {
    run(async {
        let words = "HTTP/1.1 429 Too Many\r\nretry-after: 3\r\ncontent-length: 100\r\n\r\n{\"error\"";
        let failure = answered(words, true).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Throttled);
        assert_eq!(failure.retry_after, Some(Duration::from_secs(3)));
    });
}

#[test]
fn nonsense_about_when_to_come_back_is_ignored() {
    run(async {
        for (value, expected) in [
            ("-1", None),
            ("0", Some(Duration::ZERO)),
            ("1000000000000", Some(Duration::from_secs(1_000_000_000_000))),
            ("Thu, 01 Jan 1970 00:00:00 GMT", None),
            ("soon", None),
            ("1e99", None),
        ] {
            let words = format!("HTTP/1.1 503 Busy\r\nretry-after: {value}\r\ncontent-length: 0\r\n\r\n");
            let failure = answered(&words, false).await.unwrap_err();
            assert_eq!((failure.kind, failure.retry_after), (FailureKind::Overloaded, expected), "{value}");
        }
    });
}

#[test]
fn nothing_in_a_body_is_read_as_another_request() {
    run(async {
        let (listener, address) = listen().await;
        let target = target(MESSAGES, options(address));
        // Nothing in a call reaches the head; its body is never anything else than a body.
        let call = seawall_provider::Call::new("\r\n\r\nGET / HTTP/1.1\r\n\r\n".into(), false);
        let server = say(&listener, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        let ((_held, request), answer) = tokio::join!(server, target.call(call));
        assert!(request.contains("content-length: 22\r\n"), "{request}");
        assert!(read(answer.unwrap_or_else(|_| panic!("refused"))).await.1.is_ok());
    });
}
