use crate::StreamError;
use crate::anthropic::AnthropicStream;
use crate::chat::{FinishReason, StreamEvent, Usage};
use crate::sse::{SseError, SseLimits};
use proptest::prelude::{prop_assert_eq, proptest};
use seawall_core::failure::FailureKind;

const COMPLETE: &str = include_str!("../../../tests/golden/stream.txt");
const FAILED: &str = include_str!("../../../tests/golden/stream_failed.txt");

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<StreamEvent>, AnthropicStream) {
    let mut stream = AnthropicStream::new(SseLimits::default());
    let mut events = Vec::new();
    for piece in pieces {
        stream.feed(piece, |event| events.push(event)).unwrap();
    }
    (events, stream)
}

fn complaint(bytes: &str) -> StreamError {
    AnthropicStream::new(SseLimits::default()).feed(bytes.as_bytes(), |_| ()).unwrap_err()
}

#[test]
fn a_complete_stream_is_read_for_its_usage_and_its_end() {
    let (events, stream) = read([COMPLETE.as_bytes()]);
    let start = Usage { input: 25, cache_read: 4, cache_write: 3, output: 1, ..Usage::default() };
    let end = Usage { output: 15, ..start };
    let finish = Some(FinishReason::EndTurn);
    assert_eq!(
        events,
        [
            StreamEvent::Started(start),
            StreamEvent::Other,
            StreamEvent::Other,
            StreamEvent::Content,
            StreamEvent::Content,
            StreamEvent::Other,
            StreamEvent::Progress { usage: end, finish },
            StreamEvent::Finished,
        ]
    );
    assert_eq!((stream.usage(), stream.finish_reason()), (end, finish));
    assert!(stream.is_complete() && stream.is_between_events());
}

#[test]
fn a_stream_that_stops_anywhere_before_its_end_is_not_complete() {
    for cut in 0..COMPLETE.len() {
        let (_, stream) = read([&COMPLETE.as_bytes()[..cut]]);
        assert!(!stream.is_complete(), "cut at {cut}");
        let is_between = cut == 0 || COMPLETE.as_bytes()[..cut].ends_with(b"\n\n");
        assert_eq!(stream.is_between_events(), is_between, "cut at {cut}");
    }
}

#[test]
fn a_failure_inside_the_stream_is_read() {
    let (events, stream) = read([FAILED.as_bytes()]);
    let Some(StreamEvent::Failed { failure, message }) = events.last() else { panic!("{events:?}") };
    assert_eq!((failure.kind, failure.not_executed), (FailureKind::Overloaded, false));
    assert_eq!(message, "Overloaded");
    assert!(!stream.is_complete());
}

#[test]
fn later_usage_replaces_and_never_adds() {
    let delta = |usage: &str| format!("event: message_delta\ndata: {{\"delta\":{{}}{usage}}}\n\n");
    let deltas = [
        delta(r#","usage":{"input_tokens":9,"output_tokens":5}"#),
        delta(r#","usage":{"output_tokens":8,"cache_read_input_tokens":null}"#),
        delta(r#","usage":null"#),
        delta(""),
    ];
    let (events, stream) = read(deltas.iter().map(String::as_bytes));
    let usage = Usage { input: 9, output: 8, ..Usage::default() };
    assert_eq!(events.len(), 4);
    assert_eq!(events[3], StreamEvent::Progress { usage, finish: None });
    assert_eq!(stream.usage(), usage);
}

#[test]
fn an_account_that_cannot_be_read_is_an_error_and_content_that_cannot_is_none() {
    for (bytes, event) in [
        ("event: message_start\ndata: {}\n\n", "message_start"),
        ("event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":-}}}\n\n", "message_start"),
        ("event: message_delta\ndata: \n\n", "message_delta"),
    ] {
        let StreamError::Unreadable { event: named, .. } = complaint(bytes) else { panic!("{bytes}") };
        assert_eq!(named, event);
    }
    let (events, _) = read([&b"event: content_block_delta\ndata: \xFF{\n\ndata: unnamed\n\n"[..]]);
    assert_eq!(events, [StreamEvent::Content, StreamEvent::Other]);
}

#[test]
fn an_error_is_final() {
    let mut stream = AnthropicStream::new(SseLimits { max_line_bytes: 30, max_event_bytes: 30 });
    let too_long = StreamError::Sse(SseError::LineTooLong { limit: 30 });
    assert_eq!(stream.feed(&[b'x'; 31], |_| ()), Err(too_long.clone()));
    assert_eq!(stream.feed(b"\n\n", |_| panic!("read on")), Err(too_long));
    let mut stream = AnthropicStream::new(SseLimits::default());
    let broken = "event: message_start\ndata: {\n\nevent: message_stop\ndata: {}\n\n";
    let error = stream.feed(broken.as_bytes(), |_| panic!("read on")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid message_start event: EOF while parsing an object at line 1 column 1"
    );
    assert_eq!(stream.feed(b"event: message_stop\ndata: {}\n\n", |_| panic!("read on")), Err(error));
    assert!(!stream.is_complete());
}

proptest! {
    #[test]
    fn any_split_yields_the_same_events(places in proptest::collection::vec(0..COMPLETE.len(), 0..8)) {
        let mut places = places;
        places.extend([0, COMPLETE.len()]);
        places.sort_unstable();
        let pieces = places.windows(2).map(|pair| &COMPLETE.as_bytes()[pair[0]..pair[1]]);
        prop_assert_eq!(read(pieces).0, read([COMPLETE.as_bytes()]).0);
    }
}

#[test]
fn content_is_looked_at_only_where_that_is_wanted() {
    let objects = ["{}", " {\"a\":1} "].map(|data| (data, true));
    let others = ["<}", "{\"a\":", ""].map(|data| (data, false));
    for kind in ["start", "delta", "stop"] {
        for (data, is_object) in objects.into_iter().chain(others) {
            let event = format!("event: content_block_{kind}\ndata: {data}\n\n");
            let mut lean = AnthropicStream::new(SseLimits::default());
            assert_eq!(lean.feed(event.as_bytes(), |_| ()), Ok(()));
            for size in [1, 200] {
                let mut careful = AnthropicStream::new(SseLimits::default()).checking_content();
                let mut pieces = event.as_bytes().chunks(size);
                let outcome = pieces.try_for_each(|piece| careful.feed(piece, |_| ()));
                assert_eq!(outcome.is_ok(), is_object, "{kind} {data}");
            }
        }
    }
}
