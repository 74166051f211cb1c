//! Heads: what is accepted, what is rejected, and when a connection is kept.

use super::support::LIMITS;
use super::support::{Then, at_once, collect, get, scripted};
use crate::http1::head::{HeadSearch, ResponseFraming, ResponseHead, parse};
use crate::http1::{BodyFailure, HEAD_LIMIT, HEADER_LIMIT, HeadError, HttpRequest, SendFailure, send};
use bytes::Bytes;

fn head(lines: &str) -> Result<ResponseHead, HeadError> {
    let head = format!("{lines}\r\n\r\n");
    assert_eq!(HeadSearch::default().end(head.as_bytes()), Ok(Some(head.len())));
    parse(Bytes::from(head), false)
}

#[test]
fn headers_are_found_whatever_their_case() {
    let head =
        head("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Empty:\r\nx-twice: 1\r\nX-Twice: 2").unwrap();
    assert_eq!((head.status, head.headers.len(), head.headers.is_empty()), (200, 4, false));
    assert_eq!(head.headers.get("content-type"), Some(&b"text/html"[..]));
    assert_eq!(head.headers.get("X-EMPTY"), Some(&b""[..]));
    assert_eq!(head.headers.get("x-twice"), Some(&b"1"[..]));
    assert_eq!(head.headers.get("x-absent"), None);
    let names: Vec<_> = head.headers.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["Content-Type", "X-Empty", "x-twice", "X-Twice"]);
}

#[test]
fn the_end_of_the_body_and_of_the_connection_are_read_from_the_head() {
    for (lines, framing, keep_alive) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 5", ResponseFraming::Length(5), true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5", ResponseFraming::Length(5), true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5, 5", ResponseFraming::Length(5), true),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked", ResponseFraming::Chunked, true),
        ("HTTP/1.1 200 OK", ResponseFraming::UntilClose, false),
        ("HTTP/1.1 204 No Content", ResponseFraming::Length(0), true),
        ("HTTP/1.1 304 Not Modified\r\ncontent-length: 5", ResponseFraming::Length(0), true),
        ("HTTP/1.1 200\r\ncontent-length: 0\r\nconnection: close", ResponseFraming::Length(0), false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nConnection: x, Close", ResponseFraming::Length(0), false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive", ResponseFraming::Length(0), true),
        ("HTTP/1.0 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive", ResponseFraming::Length(0), false),
    ] {
        let head = head(lines).unwrap();
        assert_eq!((head.framing, head.keep_alive), (framing, keep_alive), "{lines}");
    }
    let answer = Bytes::from_static(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
    assert_eq!(parse(answer, true).unwrap().framing, ResponseFraming::Length(0));
}

#[test]
fn a_head_that_can_be_read_in_two_ways_is_refused() {
    for (lines, fault) in [
        ("HTTP/1.1 200 OK\r\na: b\r\n c", HeadError::Malformed),
        ("HTTP/1.1 200 OK\r\na : b", HeadError::Malformed),
        ("HTTP/1.1 200 OK\r\na", HeadError::Malformed),
        ("HTTP/1.1 200 OK\r\n: b", HeadError::Malformed),
        ("HTTP/1.1 200 OK\r\na: b\0c", HeadError::Malformed),
        ("HTTP/1.1 200 OK\r\na: b\rc", HeadError::Malformed),
        ("HTTP/1.1 20 OK", HeadError::Malformed),
        ("HTTP/1.2 200 OK", HeadError::Malformed),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6", HeadError::BadLength),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5, 6", HeadError::BadLength),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5,", HeadError::BadLength),
        ("HTTP/1.1 200 OK\r\ncontent-length:", HeadError::BadLength),
        ("HTTP/1.1 200 OK\r\ncontent-length: +5", HeadError::BadLength),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0x5", HeadError::BadLength),
        ("HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551616", HeadError::BadLength),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked", HeadError::LengthAndChunks),
        ("HTTP/1.1 304 Hm\r\ncontent-length: 5\r\ntransfer-encoding: chunked", HeadError::LengthAndChunks),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked", HeadError::UnknownCoding),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: identity", HeadError::UnknownCoding),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked",
            HeadError::UnknownCoding,
        ),
    ] {
        assert_eq!(head(lines).map(|_| ()), Err(fault), "{lines:?}");
    }
}

#[test]
fn nonsense_is_noticed_without_waiting_for_its_end() {
    for (received, fault) in [
        (&b"x"[..], HeadError::NotHttp),
        (b"\r\nHTTP/1.1 200 OK\r\n", HeadError::NotHttp),
        (b"HTTP/2 200", HeadError::NotHttp),
        (b"HTTP/1.1 200 OK\n", HeadError::BareLineFeed),
        (b"HTTP/1.1 200 OK\r\na: b\n\r\n", HeadError::BareLineFeed),
    ] {
        assert_eq!(HeadSearch::default().end(received), Err(fault));
    }
}

#[test]
fn the_end_of_a_head_is_found_at_every_cut() {
    let received = b"HTTP/1.1 200 OK\r\na: b\r\n\r\nHTTP/1.1 body\r\n\r\n";
    for cut in 0..=received.len() {
        let mut search = HeadSearch::default();
        let early = search.end(&received[..cut]).unwrap();
        assert_eq!(early, (cut >= 25).then_some(25), "cut at {cut}");
        assert_eq!(search.end(received), Ok(Some(25)), "cut at {cut}");
    }
}

fn failure(pieces: &[&[u8]]) -> String {
    let pool = scripted(pieces, Then::Close);
    let failure = at_once(send(&pool, get(), &LIMITS)).map(|_| ()).unwrap_err();
    assert_eq!(pool.idle(), 0);
    format!("{failure:?}")
}

#[test]
fn a_head_that_is_too_large_is_cut_off() {
    let long = format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "x".repeat(HEAD_LIMIT));
    assert_eq!(failure(&[long.as_bytes()]), format!("{:?}", SendFailure::HeadTooLarge));
    let mut fits = format!("HTTP/1.1 204 OK\r\na: {}\r\n\r\n", "x".repeat(HEAD_LIMIT - 24));
    assert_eq!(fits.len(), HEAD_LIMIT);
    let pool = scripted(&[fits.as_bytes()], Then::Wait);
    let response = at_once(send(&pool, get(), &LIMITS)).unwrap();
    assert_eq!(response.headers.get("a").unwrap().len(), HEAD_LIMIT - 24);
    fits.insert(20, 'x');
    assert_eq!(failure(&[fits.as_bytes()]), "HeadTooLarge");
}

#[test]
fn headers_are_counted() {
    let lines = |count| format!("HTTP/1.1 204 OK\r\n{}\r\n", "a: b\r\n".repeat(count));
    let pool = scripted(&[lines(HEADER_LIMIT).as_bytes()], Then::Wait);
    assert_eq!(at_once(send(&pool, get(), &LIMITS)).unwrap().headers.len(), HEADER_LIMIT);
    assert_eq!(failure(&[lines(HEADER_LIMIT + 1).as_bytes()]), "BadHead(TooManyHeaders)");
}

#[test]
fn interim_responses_are_skipped_but_not_for_ever() {
    let early = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
    let last = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
    let interim = format!("HTTP/1.1 100 Continue\r\n\r\n{early}");
    let pool = scripted(&[interim.as_bytes(), early.as_bytes(), last.as_bytes()], Then::Wait);
    let mut response = at_once(send(&pool, get(), &LIMITS)).unwrap();
    assert_eq!((response.status, response.headers.get("link")), (200, None));
    assert_eq!(at_once(collect(&mut response)).unwrap(), b"hi");
    assert_eq!(pool.idle(), 1);

    assert_eq!(failure(&[b"HTTP/1.1 101 Switching\r\n\r\n"]), "BadHead(SwitchedProtocol)");
    assert_eq!(failure(&[b"HTTP/1.1 099 Odd\r\n\r\n"]), "BadHead(Malformed)");
    assert_eq!(failure(&[early.repeat(17).as_bytes()]), "BadHead(TooManyInterim)");
    let expected = "ClosedBeforeHead { response_began: true, source: None }";
    assert_eq!(failure(&[early.as_bytes()]), expected);
}

#[test]
fn an_answer_without_a_body_gives_its_connection_back_at_once() {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n";
    let pool = scripted(&[answer], Then::Wait);
    let response = at_once(send(&pool, HttpRequest { method: "HEAD", ..get() }, &LIMITS)).unwrap();
    assert!(response.body.is_done());
    assert_eq!((pool.idle(), response.body.length()), (1, Some(0)));
}

#[test]
fn a_body_larger_than_its_limit_is_cut_off() {
    let limits = crate::http1::HttpLimits { max_body_bytes: 5, ..LIMITS };
    let head = "HTTP/1.1 200 OK\r\n";
    for (answer, expected) in [
        (format!("{head}content-length: 5\r\n\r\nhello"), Ok(b"hello".to_vec())),
        (format!("{head}content-length: 6\r\n\r\nhello!"), Err(BodyFailure::TooLarge)),
        (format!("{head}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), Ok(b"hello".to_vec())),
        (
            format!("{head}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n"),
            Err(BodyFailure::TooLarge),
        ),
        (format!("{head}\r\nhello!"), Err(BodyFailure::TooLarge)),
    ] {
        let pool = scripted(&[answer.as_bytes()], Then::Close);
        let mut response = at_once(send(&pool, get(), &limits)).unwrap();
        assert_eq!(at_once(collect(&mut response)), expected, "{answer}");
        assert!(at_once(response.body.chunk()).is_none());
    }
}
