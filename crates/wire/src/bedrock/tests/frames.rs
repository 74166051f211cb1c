use super::{cut, event, exception, frame, written};
use crate::bedrock::{
    FrameEnding, FrameError, FrameKind, FrameLimits, FrameReader, write_event_frame, write_exception_frame,
};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

const ROOMY: FrameLimits = FrameLimits { max_frame_bytes: 1 << 16 };

type Owned = (String, String, Vec<u8>);

fn read<'a>(
    limits: FrameLimits,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Owned>, Result<(), FrameError>, FrameEnding) {
    let mut reader = FrameReader::new(limits);
    let mut frames = Vec::new();
    let mut outcome = Ok(());
    for piece in pieces {
        outcome = reader.feed(piece, |frame| {
            frames.push((format!("{:?}", frame.kind), frame.content_type.to_owned(), frame.payload.to_vec()));
        });
        if outcome.is_err() {
            break;
        }
    }
    (frames, outcome, reader.finish())
}

fn complaint(bytes: &[u8]) -> FrameError {
    read(ROOMY, [bytes]).1.unwrap_err()
}

#[test]
fn frames_are_written_as_the_description_of_the_format_says() {
    let payload = Bytes::from_static(b"{\"role\":\"assistant\"}");
    assert_eq!(
        written(|out| write_event_frame(out, "messageStart", payload.clone())),
        event("messageStart", "{\"role\":\"assistant\"}")
    );
    assert_eq!(
        written(|out| write_exception_frame(out, "throttlingException", payload)),
        exception("throttlingException", "{\"role\":\"assistant\"}")
    );
}

#[test]
fn every_kind_of_frame_is_read() {
    let error = frame(&[(":message-type", "error"), (":error-code", "Busy"), (":error-message", "no")], b"");
    let stream = [event("chunk", "{}"), exception("throttlingException", ""), error].concat();
    let mut kinds = Vec::new();
    let mut reader = FrameReader::new(ROOMY);
    reader
        .feed(&stream, |frame| match frame.kind {
            FrameKind::Event(name) => kinds.push(("event", name.to_owned(), frame.content_type.to_owned())),
            FrameKind::Exception(name) => kinds.push(("exception", name.to_owned(), String::new())),
            FrameKind::Error { code, message } => kinds.push(("error", code.to_owned(), message.to_owned())),
        })
        .unwrap();
    let text = str::to_owned;
    let expected = [
        ("event", text("chunk"), text("application/json")),
        ("exception", text("throttlingException"), String::new()),
        ("error", text("Busy"), text("no")),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn an_end_inside_a_frame_is_no_end() {
    let stream = [event("chunk", "{\"bytes\":\"\"}"), event("chunk", "{}")].concat();
    let first = event("chunk", "{\"bytes\":\"\"}").len();
    for place in 0..=stream.len() {
        let (frames, outcome, ending) = read(ROOMY, [&stream[..place]]);
        assert_eq!(outcome, Ok(()));
        let is_clean = [0, first, stream.len()].contains(&place);
        assert_eq!(ending == FrameEnding::Clean, is_clean, "{place}");
        assert_eq!(frames.len(), usize::from(place >= first) + usize::from(place == stream.len()));
    }
}

#[test]
fn any_byte_that_was_changed_is_noticed() {
    let whole = event("chunk", "{\"bytes\":\"aGk=\"}");
    for place in 0..whole.len() {
        for bit in 0..8 {
            let mut changed = whole.clone();
            changed[place] ^= 1 << bit;
            let (frames, outcome, ending) = read(ROOMY, [&changed[..]]);
            assert!(matches!(outcome, Err(FrameError::Broken { .. })), "{place} {bit} {outcome:?}");
            assert!(frames.is_empty() && ending == FrameEnding::Unfinished);
        }
    }
    let mut wrong_length = whole;
    wrong_length[3] ^= 1;
    // Detected from the first twelve bytes alone.
    assert!(read(ROOMY, [&wrong_length[..11]]).1.is_ok());
    let problem = "prelude checksum mismatch".to_owned();
    assert_eq!(complaint(&wrong_length[..12]), FrameError::Broken { problem });
}

#[test]
fn a_frame_that_is_too_large_is_refused_before_it_is_held() {
    let frame = event("chunk", "{}");
    let limit = frame.len();
    assert_eq!(read(FrameLimits { max_frame_bytes: limit }, [&frame[..]]).1, Ok(()));
    let too_large = FrameError::TooLarge { size: limit, limit: limit - 1 };
    for length in [12, limit] {
        assert_eq!(
            read(FrameLimits { max_frame_bytes: limit - 1 }, [&frame[..length]]).1,
            Err(too_large.clone())
        );
    }
    assert_eq!(FrameLimits::default().max_frame_bytes, 4_194_304);
    let claim = [&[0xFF; 4][..], &[0; 4]].concat();
    let claim = [&claim[..], &crc32fast::hash(&claim).to_be_bytes()].concat();
    assert_eq!(
        complaint(&claim),
        FrameError::TooLarge { size: u32::MAX as usize, limit: ROOMY.max_frame_bytes }
    );
}

#[test]
fn a_frame_shorter_than_its_own_lengths_is_broken() {
    for (size, is_broken) in [(0_u32, true), (12, true), (15, true), (16, false)] {
        let lengths = [size.to_be_bytes(), [0; 4]].concat();
        let prelude = [&lengths[..], &crc32fast::hash(&lengths).to_be_bytes()].concat();
        assert_eq!(read(ROOMY, [&prelude[..]]).1.is_err(), is_broken, "{size}");
    }
    assert_eq!(
        complaint(&frame(&[], b"")),
        FrameError::Untyped { problem: "header :message-type is missing".to_owned() }
    );
}

#[test]
fn a_frame_that_does_not_say_what_it_is_is_refused() {
    for (headers, problem) in [
        (&[(":event-type", "chunk")][..], "header :message-type is missing"),
        (&[(":message-type", "event")], "header :event-type is missing"),
        (&[(":message-type", "exception"), (":event-type", "x")], "header :exception-type is missing"),
        (&[(":message-type", "error")], "header :error-code is missing"),
        (&[(":message-type", "news")], "unknown message type \"news\""),
    ] {
        let problem = problem.to_owned();
        assert_eq!(complaint(&frame(headers, b"{}")), FrameError::Untyped { problem });
    }
}

#[test]
fn an_error_is_final() {
    let mut reader = FrameReader::new(ROOMY);
    let error = reader.feed(&[0; 12], |_| panic!("read on")).unwrap_err();
    assert_eq!(reader.feed(&event("chunk", "{}"), |_| panic!("read on")), Err(error));
    assert_eq!(reader.finish(), FrameEnding::Unfinished);
}

proptest! {
    #[test]
    fn any_split_yields_the_same_events(
        payloads in vec(vec(any::<u8>(), 0..40), 0..6),
        places in vec(any::<usize>(), 0..12),
    ) {
        let stream: Vec<u8> = payloads.iter().flat_map(|payload| {
            frame(&[(":message-type", "event"), (":event-type", "e")], payload)
        }).collect();
        let (frames, outcome, ending) = read(ROOMY, cut(&stream, &places));
        prop_assert_eq!((outcome, ending), (Ok(()), FrameEnding::Clean));
        prop_assert_eq!(frames.into_iter().map(|(_, _, payload)| payload).collect::<Vec<_>>(), payloads);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..80), places in vec(any::<usize>(), 0..4)) {
        let (frames, ..) = read(ROOMY, cut(&bytes, &places));
        prop_assert!(frames.is_empty());
    }

    #[test]
    fn arbitrary_bytes_with_right_checksums_never_panic(
        headers in vec(any::<u8>(), 0..40),
        payload in vec(any::<u8>(), 0..10),
        claimed in 0_u32..60,
    ) {
        let size = u32::try_from(headers.len() + payload.len() + 16).unwrap().to_be_bytes();
        let mut bytes = [size, claimed.to_be_bytes()].concat();
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        bytes.extend_from_slice(&headers);
        bytes.extend_from_slice(&payload);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        let (_, outcome, _) = read(ROOMY, [&bytes[..]]);
        prop_assert!(outcome.is_err());
    }
}
