use super::{SseEnding, SseError, SseEvent, SseLimits, SseReader, write_event};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert_eq, proptest};
use proptest::sample::select;

type Owned = (Vec<u8>, Vec<u8>);

const ROOMY: SseLimits = SseLimits { max_line_bytes: 1 << 16, max_event_bytes: 1 << 16 };

fn wants_all(_: &[u8]) -> bool {
    true
}

fn wants_b(name: &[u8]) -> bool {
    name == b"b" || name.is_empty()
}

struct Reading {
    events: Vec<Owned>,
    outcome: Result<(), SseError>,
    ending: SseEnding,
}

fn read<'a>(
    limits: SseLimits,
    wants: fn(&[u8]) -> bool,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Reading {
    let mut reader = SseReader::new(limits).with_data_filter(wants);
    let mut events = Vec::new();
    let mut outcome = Ok(());
    for piece in pieces {
        outcome = reader.feed(piece, |SseEvent { name, data }| events.push((name.to_vec(), data.to_vec())));
        if outcome.is_err() {
            break;
        }
    }
    Reading { events, outcome, ending: reader.finish() }
}

fn read_whole(bytes: &[u8]) -> Reading {
    read(ROOMY, wants_all, [bytes])
}

/// Reference implementation of the specification, over all bytes at once and without limits.
fn slow(bytes: &[u8]) -> Vec<Owned> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut lines = vec![Vec::new()];
    let mut position = 0;
    while position < bytes.len() {
        match bytes[position] {
            b'\r' | b'\n' => {
                position += usize::from(bytes[position..].starts_with(b"\r\n"));
                lines.push(Vec::new());
            }
            byte => lines.last_mut().unwrap().push(byte),
        }
        position += 1;
    }
    lines.pop(); // Has no end yet.
    let (mut events, mut name, mut data) = (Vec::new(), Vec::new(), Vec::<Vec<u8>>::new());
    for line in lines {
        if line.is_empty() {
            if !data.is_empty() {
                events.push((name.clone(), data.join(&b'\n')));
            }
            name.clear();
            data.clear();
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value).to_vec();
        match &line[..colon] {
            b"event" => name = value,
            b"data" => data.push(value),
            _ => {}
        }
    }
    events
}

fn event(name: &str, data: &str) -> Owned {
    (name.into(), data.into())
}

#[test]
fn streams_that_are_easy_to_get_wrong() {
    for (bytes, expected) in [
        (&b""[..], vec![]),
        (b"data: a\n\n", vec![event("", "a")]),
        (b"data:a\n\n", vec![event("", "a")]),
        (b"data:  a\n\n", vec![event("", " a")]),
        (b"data\n\n", vec![event("", "")]),
        (b"data:\n\n", vec![event("", "")]),
        (b"data:\ndata:\n\n", vec![event("", "\n")]),
        (b"data: a\ndata: b\ndata\n\n", vec![event("", "a\nb\n")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", vec![event("x", "a"), event("", "b")]),
        (b"data: a\nevent: late\n\n", vec![event("late", "a")]),
        (b"event: x\nevent: y\ndata: a\n\n", vec![event("y", "a")]),
        (b"event: no data\n\ndata: a\n\n", vec![event("", "a")]),
        (b": comment\n\n:\n\ndata: a\n: between\ndata: b\n\n", vec![event("", "a\nb")]),
        (b"id: 7\nretry: 10\ndatax: no\n data: no\ndata: a\n\n", vec![event("", "a")]),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", vec![event("", "a"), event("", "b"), event("", "c")]),
        (b"data: a\r\n\rdata: b\n\r", vec![event("", "a"), event("", "b")]),
        (b"\xEF\xBB\xBFdata: a\n\n", vec![event("", "a")]),
        (b"\xEF\xBBdata: a\n\n", vec![]),
        (b"data: a\n\n\xEF\xBB\xBFdata: b\n\n", vec![event("", "a")]),
        (b"data: {\"a\":\"b:c\"}\n\n", vec![event("", "{\"a\":\"b:c\"}")]),
        (b"data: lost\n", vec![]),
        (b"data: lost", vec![]),
    ] {
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(read_whole(bytes).events, expected, "{text:?}");
        assert_eq!(slow(bytes), expected, "{text:?}");
        for split in 0..=bytes.len() {
            for second in split..=bytes.len() {
                let pieces = [&bytes[..split], &bytes[split..second], &bytes[second..]];
                assert_eq!(read(ROOMY, wants_all, pieces).events, expected, "{text:?} at {split}, {second}");
            }
        }
    }
}

#[test]
fn bytes_that_are_no_text_pass_through() {
    let events = read_whole(b"event: \xFF\ndata: \x00\xC3\n\n").events;
    assert_eq!(events, [(b"\xFF".to_vec(), b"\x00\xC3".to_vec())]);
}

#[test]
fn an_unfinished_event_is_noticed_and_a_comment_is_none() {
    for (bytes, expected) in [
        (&b""[..], SseEnding::Clean),
        (b"data: a\n\n", SseEnding::Clean),
        (b"data: a\r\n\r", SseEnding::Clean),
        (b": ping", SseEnding::Clean),
        (b": ping\n", SseEnding::Clean),
        (b"\xEF\xBB\xBF", SseEnding::Clean),
        (b"\xEF", SseEnding::Unfinished),
        (b"d", SseEnding::Unfinished),
        (b"event: x\n", SseEnding::Unfinished),
        (b"data: a\n", SseEnding::Unfinished),
        (b"data: a\n\ndata", SseEnding::Unfinished),
    ] {
        assert_eq!(read_whole(bytes).ending, expected, "{bytes:?}");
        assert_eq!(read(ROOMY, wants_all, bytes.chunks(1)).ending, expected, "{bytes:?}");
    }
}

#[test]
fn limits_hold_to_the_byte_and_stay_broken() {
    let limits = SseLimits { max_line_bytes: 8, max_event_bytes: 6 };
    let too_long = Err(SseError::LineTooLong { limit: 8 });
    let too_large = Err(SseError::EventTooLarge { limit: 6 });
    for (bytes, expected) in [
        (&b"data: 12\n\n"[..], Ok(())),
        (b"data: 123\n\n", too_long),
        (b"data: 123", too_long),
        (b": 345678\n", Ok(())),
        (b": 3456789", too_long),
        (b"data: 12\ndata:345\n\n", Ok(())),
        (b"data: 12\ndata:345\n\ndata: 12\ndata:345\n\n", Ok(())),
        (b"data:123\ndata:456\n", too_large),
        (b"data:123\ndata:45\nevent:a", Ok(())),
        (b"data:123\ndata:45\nevent:a\n", too_large),
        (b"event:ab\ndata:1\ndata:23", Ok(())),
        (b"event:ab\ndata:1\ndata:23\n", Ok(())),
        (b"event:ab\ndata:12\ndata:34\n", too_large),
    ] {
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(read(limits, wants_all, [bytes]).outcome, expected, "{text:?}");
        assert_eq!(read(limits, wants_all, bytes.chunks(1)).outcome, expected, "{text:?}");
    }
    let mut reader = SseReader::new(limits);
    assert_eq!(reader.feed(b"data: 123", |_| ()), too_long);
    assert_eq!(reader.feed(b"\n\ndata: 1\n\n", |_| panic!("read on")), too_long);
}

#[test]
fn data_that_is_not_wanted_is_left_out_and_takes_no_room() {
    let bytes =
        b"event: a\ndata: 12345678\ndata: 12345678\n\ndata: early\nevent: a\n\nevent: b\ndata: kept\n\n";
    let limits = SseLimits { max_line_bytes: 20, max_event_bytes: 8 };
    let expected = [event("a", ""), event("a", ""), event("b", "kept")];
    assert_eq!(read(limits, wants_b, [&bytes[..]]).events, expected);
    assert_eq!(read(limits, wants_b, bytes.chunks(1)).events, expected);
}

/// Building blocks of streams, valid and nearly valid.
#[rustfmt::skip]
const PIECES: &[&[u8]] = &[
    b"\n", b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n", b"data:", b"data: ", b"data", b"event: a", b"event: b",
    b"data: a\n", b": note", b"id: 1", b"\xEF\xBB\xBF", b"\xEF\xBB", b":", b"x", b"{\"y\":1}", b"\xFF", b" ",
];

/// Bytes that resemble a stream closely enough to reach every branch.
fn stream_bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(select(PIECES), 0..24).prop_map(|pieces| pieces.concat())
}

/// Splits the bytes at the given positions.
fn cut<'a>(bytes: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = places.iter().map(|place| place % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn the_reader_agrees_with_the_slow_one_however_the_stream_is_split(
        bytes in stream_bytes(),
        places in vec(any::<usize>(), 0..6),
    ) {
        let expected = slow(&bytes);
        prop_assert_eq!(&read_whole(&bytes).events, &expected);
        prop_assert_eq!(&read(ROOMY, wants_all, cut(&bytes, &places)).events, &expected);
        prop_assert_eq!(&read(ROOMY, wants_all, bytes.chunks(1)).events, &expected);
    }

    #[test]
    fn limits_and_filters_do_not_depend_on_the_split(
        bytes in stream_bytes(),
        places in vec(any::<usize>(), 0..6),
        line in 0_usize..16,
        event in 0_usize..16,
    ) {
        let limits = SseLimits { max_line_bytes: line, max_event_bytes: event };
        let whole = read(limits, wants_b, [&bytes[..]]);
        for reading in [read(limits, wants_b, cut(&bytes, &places)), read(limits, wants_b, bytes.chunks(1))] {
            prop_assert_eq!(&reading.events, &whole.events);
            prop_assert_eq!(reading.outcome, whole.outcome);
            if whole.outcome.is_ok() {
                prop_assert_eq!(reading.ending, whole.ending);
            }
        }
    }

    #[test]
    fn what_is_written_is_read_back(name in "[a-z_]{1,12}", data in "(?s).{0,40}") {
        let mut out = Vec::new();
        write_event(&mut out, &name, data.as_bytes());
        let data = data.replace("\r\n", "\n").replace('\r', "\n");
        prop_assert_eq!(read_whole(&out).events, vec![event(&name, &data)]);
    }
}

#[test]
fn a_name_cannot_smuggle_in_a_line() {
    let mut out = bytes::BytesMut::new();
    write_event(&mut out, "a\ndata: b", b"c");
    assert_eq!(read_whole(&out).events, [event("a", "c")]);
}

#[test]
fn data_of_an_event_that_arrives_whole_is_not_copied() {
    let bytes = b"event: a\ndata: one\n\nevent: b\r\ndata: two\r\n\r\n";
    let within = bytes.as_ptr_range();
    let mut seen = 0;
    let outcome = SseReader::new(ROOMY).feed(bytes, |event| {
        assert!(within.contains(&event.data.as_ptr()));
        seen += 1;
    });
    assert_eq!((outcome, seen), (Ok(()), 2));
}
