//! The chunked decoder: against a naive model, split at every position, and with invalid input.

use crate::http1::chunked::{BadChunk, ChunkedDecoder};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

/// The result of a body: its payload, whether it ended, and the bytes after its end.
type Outcome = Result<(Vec<u8>, bool, Vec<u8>), BadChunk>;

/// Decodes `pieces` as they would come from reads.
fn decode(pieces: &[&[u8]]) -> Outcome {
    let (mut chunks, mut payload, mut behind) = (ChunkedDecoder::new(), Vec::new(), Vec::new());
    for piece in pieces {
        let mut piece = piece.to_vec();
        let decoded = chunks.decode(&mut piece)?;
        payload.extend_from_slice(&piece[decoded.payload]);
        behind.extend_from_slice(&piece[decoded.consumed..]);
    }
    Ok((payload, chunks.is_done(), behind))
}

const BODY: &[u8] =
    b"5\r\nhello\r\n1;why=\"because; \"\r\n,\r\n00000A \t\r\n wonderful\r\n6;\r\n world\r\n0;x\r\na: b\r\nc:\r\n\r\n";

#[test]
fn every_cut_of_a_body_gives_the_same() {
    let whole = Ok((b"hello, wonderful world".to_vec(), true, Vec::new()));
    assert_eq!(decode(&[BODY]), whole);
    for first in 0..BODY.len() {
        for second in first..BODY.len() {
            let cut = [&BODY[..first], &BODY[first..second], &BODY[second..]];
            assert_eq!(decode(&cut), whole, "cut at {first} and {second}");
        }
    }
    let bytes: Vec<&[u8]> = BODY.chunks(1).collect();
    assert_eq!(decode(&bytes), whole);
}

#[test]
fn a_body_is_not_done_before_its_last_byte() {
    for length in 0..BODY.len() {
        assert!(!decode(&[&BODY[..length]]).unwrap().1, "done after {length} bytes");
    }
}

#[test]
fn what_follows_the_end_is_left_alone() {
    assert_eq!(decode(&[b"1\r\na\r\n0\r\n\r\nHTTP/1.1"]), Ok((b"a".to_vec(), true, b"HTTP/1.1".to_vec())));
}

#[test]
fn one_chunk_is_not_moved_and_several_are_joined() {
    let mut chunks = ChunkedDecoder::new();
    let mut input = b"3\r\nabc\r\n".to_vec();
    assert_eq!(chunks.decode(&mut input).unwrap().payload, 3..6);
    let mut input = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n".to_vec();
    let decoded = chunks.decode(&mut input).unwrap();
    assert_eq!((decoded.payload.clone(), decoded.consumed), (3..8, input.len()));
    assert_eq!(&input[decoded.payload], b"abcde");
}

#[test]
fn nonsense_is_refused_wherever_the_cut_falls() {
    for body in [
        &b"\r\n"[..],
        b"g\r\n",
        b";a\r\n",
        b" 5\r\nhello\r\n",
        b"-1\r\n",
        b"+5\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"5\nhello\r\n",
        b"5\rhello\r\n",
        b"5 5\r\nhello\r\n",
        b"5;a\nhello\r\n",
        b"5;a\rb\r\nhello\r\n",
        b"5\r\nhello!\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"5\r\nhello\r0\r\n\r\n",
        b"5\r\nhello0\r\n\r\n",
        b"0\r\n\n",
        b"0\r\n\rx",
        b"0\r\na: b\n\r\n",
        b"10000000000000000\r\n",
        b"00000000000000000\r\n",
        b"fffffffffffffffff\r\n",
    ] {
        assert_eq!(decode(&[body]), Err(BadChunk), "{:?}", String::from_utf8_lossy(body));
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(decode(&bytes), Err(BadChunk), "{:?} in bytes", String::from_utf8_lossy(body));
    }
}

#[test]
fn the_largest_size_is_read_and_does_not_overflow() {
    let mut body = b"ffffffffffffffff\r\n".to_vec();
    body.extend_from_slice(&[b'x'; 1000]);
    assert_eq!(decode(&[&body, &[b'y'; 1000]]).unwrap().0.len(), 2000);
}

#[test]
fn endless_extensions_blanks_and_trailers_are_refused() {
    let filler = "x".repeat(1000);
    let trailers = format!("0\r\n{}", format!("{filler}\r\n").repeat(17));
    let extensions = format!("1;{filler}\r\na\r\n").repeat(17);
    let blanks = format!("1{}\r\n", " ".repeat(17_000));
    for endless in [trailers, extensions, blanks, format!("1;{}", "x".repeat(17_000))] {
        assert_eq!(decode(&[endless.as_bytes()]), Err(BadChunk));
    }
}

/// Decodes a complete body by splitting it into lines; slow and not incremental.
fn model(body: &[u8]) -> Option<Vec<u8>> {
    let (mut rest, mut payload) = (body, Vec::new());
    let line = |rest: &mut &[u8]| {
        let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
        let line = String::from_utf8(rest[..end].to_vec()).ok()?;
        *rest = &rest[end + 2..];
        Some(line)
    };
    loop {
        let size = line(&mut rest)?;
        let size = usize::from_str_radix(size.split(';').next()?.trim_end(), 16).ok()?;
        if size == 0 {
            break;
        }
        payload.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size..)?.strip_prefix(b"\r\n")?;
    }
    while !line(&mut rest)?.is_empty() {}
    Some(payload)
}

fn chunk() -> impl Strategy<Value = Vec<u8>> {
    (vec(any::<u8>(), 1..40), "(;[a-z =\"]{0,6})?", any::<bool>()).prop_map(|(payload, extension, upper)| {
        let size = if upper { format!("{:X}", payload.len()) } else { format!("{:03x}", payload.len()) };
        [format!("{size}{extension}\r\n").as_bytes(), &payload, b"\r\n"].concat()
    })
}

/// Bytes that resemble chunks often enough to get past the first checks.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just(b"\r\n".to_vec()),
        Just(b"0\r\n\r\n".to_vec()),
        Just(b"1\r\na\r\n".to_vec()),
        Just(b"2;e\r\nab\r\n".to_vec()),
        vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'0'), Just(b'3'), Just(b';'), any::<u8>()], 0..6),
    ];
    vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn a_well_formed_body_is_read_as_the_slow_model_reads_it(
        chunks in vec(chunk(), 0..12),
        trailers in "([a-z]{1,5}: [a-z]{0,5}\r\n){0,3}",
        cut in any::<proptest::sample::Index>(),
    ) {
        let body = [chunks.concat(), format!("0\r\n{trailers}\r\n").into_bytes()].concat();
        let cut = cut.index(body.len() + 1);
        let expected = model(&body).map(|payload| (payload, true, Vec::new())).ok_or(BadChunk);
        prop_assert_eq!(decode(&[&body[..cut], &body[cut..]]), expected);
    }

    #[test]
    fn where_reads_are_cut_changes_nothing(body in nearly(), sizes in vec(1_usize..9, 1..20)) {
        let mut pieces: Vec<&[u8]> = Vec::new();
        let mut rest = &body[..];
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, behind) = rest.split_at((*size).min(rest.len()));
            pieces.push(piece);
            rest = behind;
        }
        prop_assert_eq!(decode(&pieces), decode(&[&body]));
    }
}
