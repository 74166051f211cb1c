//! No input makes the client panic, wait forever, or keep a connection that must be closed.

use super::support::{LIMITS, Then, at_once, collect, get, scripted};
use crate::http1::send;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_oneof, proptest};
use proptest::sample::Index;

/// Parts of responses, in any order and with anything in between.
fn response() -> impl Strategy<Value = Vec<u8>> {
    let parts = [
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n",
        "content-length: 5\r\n",
        "content-length: 0\r\n",
        "transfer-encoding: chunked\r\n",
        "connection: close\r\n",
        "\r\n",
        "5\r\nhello\r\n",
        "hello",
        "0\r\n\r\n",
    ];
    let part = prop_oneof![
        8 => proptest::sample::select(parts.to_vec()).prop_map(|part| part.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..8),
    ];
    let likely = prop_oneof![
        1 => Just(Vec::new()),
        2 => Just(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello".to_vec()),
        3 => Just(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n".to_vec()),
        3 => Just(b"HTTP/1.1 200 OK\r\n".to_vec()),
    ];
    (likely, vec(part, 0..8)).prop_map(|(start, parts)| [start, parts.concat()].concat())
}

/// Plays `bytes` in pieces of these sizes, then the end. Returns whether the response was read completely.
fn play(bytes: &[u8], sizes: &[usize], then: Then) -> bool {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, behind) = rest.split_at((*size).min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    let pool = scripted(&pieces, then);
    let Ok(mut response) = at_once(send(&pool, get(), &LIMITS)) else {
        assert_eq!(pool.idle(), 0, "a connection without an answer was kept");
        return false;
    };
    let whole = at_once(collect(&mut response)).is_ok();
    assert!(whole || pool.idle() == 0, "a connection with a broken body was kept");
    whole
}

proptest! {
    #[test]
    fn random_bytes_are_survived(bytes in vec(any::<u8>(), 0..200), sizes in vec(1_usize..50, 1..5)) {
        prop_assert!(!play(&bytes, &sizes, Then::Close));
        prop_assert!(!play(&bytes, &sizes, Then::Reset));
    }

    #[test]
    fn responses_put_together_at_random_are_survived(
        bytes in response(),
        sizes in vec(1_usize..50, 1..5),
    ) {
        let closed = play(&bytes, &sizes, Then::Close);
        let reset = play(&bytes, &sizes, Then::Reset);
        prop_assert!(closed || !reset, "a reset reads as whole what a close does not");
    }

    #[test]
    fn a_response_with_one_wrong_byte_is_survived(
        at in any::<Index>(),
        byte in any::<u8>(),
        sizes in vec(1_usize..50, 1..5),
    ) {
        let mut bytes =
            b"HTTP/1.1 200 OK\r\na: b\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0a;x=y\r\n0123456789\r\n0\r\nt: u\r\n\r\n"
                .to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        play(&bytes, &sizes, Then::Close);
        play(&bytes[..at], &sizes, Then::Reset);
    }
}
