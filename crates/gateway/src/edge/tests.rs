//! What is let through, what is refused, and that ordinary clients are not affected.

use super::framing_problem;
use super::http1::HeadScanner;
use super::http2::FrameBudget;
use hyper::{Request, Version};
use proptest::prelude::{any, prop, prop_assert_eq, proptest};
use seawall_core::time::Timestamp;
use std::time::Duration;

/// What the server receives if these bytes arrive in pieces of these sizes, and the offset at which frames begin.
fn checked(bytes: &[u8], mut sizes: impl Iterator<Item = usize>) -> (Vec<u8>, Option<usize>) {
    let mut lines = HeadScanner::default();
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = at.saturating_add(sizes.next().unwrap_or(usize::MAX)).min(bytes.len());
        if let Some(frames) = lines.check(&mut bytes[at..end]) {
            return (bytes, Some(at + frames));
        }
        at = end;
    }
    (bytes, None)
}

#[test]
fn a_head_with_a_bare_lf_gets_a_sign_that_no_head_may_have() {
    for (bytes, expected) in [
        ("GET / HTTP/1.1\nhost: a\r\n\r\n", "GET / HTTP/1.1\0host: a\r\n\r\n"),
        ("GET / HTTP/1.1\r\nhost: a\nx: y\r\n\r\n", "GET / HTTP/1.1\r\nhost: a\0x: y\r\n\r\n"),
        ("GET / HTTP/1.1\r\nhost: a\r\n\n", "GET / HTTP/1.1\r\nhost: a\r\n\0"),
        ("\nGET / HTTP/1.1\r\nhost: a\r\n\r\n", "\0GET / HTTP/1.1\r\nhost: a\r\n\r\n"),
        // In the second request, behind each kind of body.
        ("GET / HTTP/1.1\r\n\r\n\r\nGET /\n\r\n", "GET / HTTP/1.1\r\n\r\n\r\nGET /\0\r\n"),
        (
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n\n\n\nA\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n\n\n\nA\0",
        ),
        (
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\n\n\n\r\n0\r\nt: u\r\n\r\nA\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\n\n\n\r\n0\r\nt: u\r\n\r\nA\0",
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length: 99\r\ntransfer-encoding: chunked\r\n\r\n0\r\nt: u\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 99\r\ntransfer-encoding: chunked\r\n\r\n0\r\nt: u\0\r\n",
        ),
        // Input that the scanner cannot parse is refused, too.
        ("POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n", "POST / HTTP/1.1\r\ncontent-length: x\r\0\r\n"),
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\0",
        ),
    ] {
        for size in 1..=bytes.len() {
            let (seen, frames) = checked(bytes.as_bytes(), std::iter::repeat(size));
            assert_eq!(
                (String::from_utf8_lossy(&seen).as_ref(), frames),
                (expected, None),
                "{size}: {bytes:?}"
            );
        }
    }
}

#[test]
fn what_is_well_formed_is_not_touched() {
    let long = format!("x-long: {}\r\n", "v".repeat(300));
    let extension = format!("5;{}\r\nhello\r\n0\r\n\r\n", "e".repeat(100));
    for bytes in [
        format!("\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n{long}\r\nGET /b HTTP/1.1\r\nhost: a\r\n\r\n"),
        format!("POST / HTTP/1.1\r\n{long}content-length:  11 \r\n\r\n\n\nanything\nGET / HTTP/1.1\r\n\r\n"),
        format!("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{extension}GET / HTTP/1.1\r\n\r\n"),
        "POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\nGET / HTTP/1.1\r\n\r\n".to_owned(),
        // A preface that is not at the start of a connection is not HTTP/2.
        "GET / HTTP/1.1\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
    ] {
        for size in 1..=bytes.len() {
            let (seen, frames) = checked(bytes.as_bytes(), std::iter::repeat(size));
            assert_eq!((String::from_utf8_lossy(&seen).as_ref(), frames), (bytes.as_str(), None), "{size}");
        }
    }
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\n\n\n";
    for size in 1..=preface.len() {
        assert_eq!(checked(preface, std::iter::repeat(size)), (preface.to_vec(), Some(24)), "{size}");
    }
}

proptest! {
    #[test]
    fn how_bytes_are_cut_makes_no_difference(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "GET / HTTP/1.1\r\n", "\r\n", "\n", "content-length: 7\r\n", "transfer-encoding: chunked\r\n", "3\r\n", "abc",
            "0\r\n", "PRI * HTTP/2.0\r\n", "SM\r\n", "a: b\r\n", "\r", "content-length: ",
        ]), 0..20),
        sizes in prop::collection::vec(1_usize..9, 0..60),
    ) {
        let bytes = pieces.concat();
        let whole = checked(bytes.as_bytes(), std::iter::empty());
        prop_assert_eq!(checked(bytes.as_bytes(), sizes.into_iter()), whole);
    }

    #[test]
    fn frames_cost_the_same_however_they_are_cut(
        frames in prop::collection::vec((0_usize..40, 0_u8..12, any::<u8>()), 0..200),
        sizes in prop::collection::vec(1_usize..30, 0..60),
    ) {
        let bytes: Vec<u8> = frames.iter().flat_map(|(length, kind, flags)| frame(*length, *kind, *flags)).collect();
        let (mut whole, mut cut) = (budget(), budget());
        assert!(whole.spend(&bytes, || START));
        let mut rest = bytes.as_slice();
        for size in sizes {
            let (piece, behind) = rest.split_at(size.min(rest.len()));
            assert!(cut.spend(piece, || START));
            rest = behind;
        }
        assert!(cut.spend(rest, || START));
        prop_assert_eq!(format!("{whole:?}"), format!("{cut:?}"));
    }
}

const START: Timestamp = Timestamp::from_nanos(1_000_000_000);

fn budget() -> FrameBudget {
    FrameBudget::new(START)
}

fn frame(length: usize, kind: u8, flags: u8) -> Vec<u8> {
    let size = u32::try_from(length).unwrap().to_be_bytes();
    [&size[1..], &[kind, flags, 0, 0, 0, 5], &vec![0; length]].concat()
}

/// How many of these frames are accepted, of a hundred thousand.
fn accepted(budget: &mut FrameBudget, frame: &[u8], now: Timestamp) -> usize {
    (0..100_000).take_while(|_| budget.spend(frame, || now)).count()
}

#[test]
fn frames_without_use_are_used_up() {
    for (kind, length, flags) in
        [(2, 5, 0), (8, 4, 0), (0xbe, 9, 0), (6, 8, 0), (4, 0, 0), (0, 0, 0), (0, 9, 8), (3, 4, 0)]
    {
        let accepted = accepted(&mut budget(), &frame(length, kind, flags), START);
        assert!((500..=2_000).contains(&accepted), "{kind}: {accepted}");
    }
}

#[test]
fn frames_with_content_cost_nothing() {
    for (kind, length, flags) in [(1, 20, 4), (0, 1, 0), (0, 0, 1)] {
        assert_eq!(accepted(&mut budget(), &frame(length, kind, flags), START), 100_000);
    }
}

#[test]
fn requests_sent_bytes_and_time_pay_for_more() {
    let update = frame(4, 8, 0);
    let used_up = || {
        let mut one = budget();
        (0..2_000).for_each(|_| assert!(one.spend(&update, || START)));
        one
    };
    let mut one = used_up();
    // A client that reads short events sends two frames for each.
    for _ in 0..50_000 {
        one.record_sent(40);
        assert!(one.spend(&update, || START) && one.spend(&update, || START));
    }
    let mut one = used_up();
    assert!(one.spend(&frame(20, 1, 4), || START));
    assert_eq!(accepted(&mut one, &update, START), 100);
    // One ping per second, for a day.
    let (mut one, ping) = (budget(), frame(8, 6, 0));
    for second in 0..86_400 {
        one.record_sent(17);
        assert!(one.spend(&ping, || START + Duration::from_secs(second)));
    }
}

#[test]
fn what_pings_are_answered_with_does_not_pay_for_more_of_them() {
    for (kind, length, reply) in [(6, 8, 17), (4, 0, 9)] {
        let mut one = budget();
        let frame = frame(length, kind, 0);
        let sent = (0..100_000).take_while(|_| {
            one.record_sent(reply);
            one.spend(&frame, || START)
        });
        assert!(sent.count() < 2_500, "{kind}");
    }
}

#[test]
fn goaway_names_the_last_stream_and_the_reason() {
    let mut one = budget();
    assert!(one.spend(&frame(3, 1, 4), || START));
    assert_eq!(one.go_away(), [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 11]);
}

#[test]
fn host_and_transfer_encoding_must_be_unambiguous() {
    let asked = |version: Version, headers: &[(&str, &str)]| {
        let mut request = Request::post("/").version(version);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        framing_problem(&request.body(()).unwrap())
    };
    let host = ("host", "a.example:80");
    for right in [&[host][..], &[("host", "[::1]:7700")], &[host, ("transfer-encoding", "Chunked")]] {
        assert_eq!(asked(Version::HTTP_11, right), None, "{right:?}");
    }
    assert_eq!(asked(Version::HTTP_10, &[]), None);
    assert_eq!(asked(Version::HTTP_2, &[]), None);
    for wrong in [
        &[][..],
        &[host, host],
        &[("host", "")],
        &[("host", "a b")],
        &[("host", "user@a")],
        &[("host", "a/b")],
        &[host, ("transfer-encoding", "gzip, chunked")],
        &[host, ("transfer-encoding", "chunked, chunked")],
        &[host, ("transfer-encoding", "identity, chunked")],
        &[host, ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
    ] {
        assert!(asked(Version::HTTP_11, wrong).is_some(), "{wrong:?}");
    }
    assert!(asked(Version::HTTP_10, &[host, host]).is_some());
}
