use crate::StreamError;
use crate::chat::{FinishReason, StreamEvent, Usage};
use crate::openai::OpenAiStream;
use crate::sse::{SseError, SseLimits};
use proptest::prelude::{prop, prop_assert_eq, proptest};
use seawall_core::failure::FailureKind;

const COMPLETE: &str = include_str!("../../../tests/golden/openai/stream.txt");
const FAILED: &str = include_str!("../../../tests/golden/openai/stream_failed.txt");

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<StreamEvent>, OpenAiStream) {
    let mut stream = OpenAiStream::new(SseLimits::default());
    let mut events = Vec::new();
    for piece in pieces {
        stream.feed(piece, |event| events.push(event)).unwrap();
    }
    (events, stream)
}

fn chunk(chunk: &str) -> Vec<StreamEvent> {
    read([format!("data: {chunk}\n\n").as_bytes()]).0
}

#[test]
fn a_complete_stream_is_read_for_its_usage_and_its_end() {
    let (events, stream) = read([COMPLETE.as_bytes()]);
    let usage = Usage { input: 25, cache_read: 4, cache_write: 3, output: 15, ..Usage::default() };
    let finish = Some(FinishReason::ToolUse);
    let mut expected = vec![StreamEvent::Started(Usage::default())];
    expected.extend(vec![StreamEvent::Content; 7]);
    expected.push(StreamEvent::Progress { usage: Usage::default(), finish });
    expected.push(StreamEvent::Progress { usage, finish });
    expected.push(StreamEvent::Finished);
    assert_eq!(events, expected);
    assert_eq!((stream.usage(), stream.finish_reason()), (usage, finish));
    assert!(stream.is_complete() && stream.is_between_events());
    assert_eq!(read(COMPLETE.as_bytes().chunks(1)).0, expected);
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
    assert_eq!(message, "the model is busy");
    assert!(!stream.is_complete());
}

#[test]
fn only_what_a_caller_can_see_is_content() {
    let started = || StreamEvent::Started(Usage::default());
    for (delta, is_content) in [
        (r#"{"content":"a"}"#, true),
        (r#"{"content":""}"#, false),
        (r#"{"content":null,"refusal":null,"tool_calls":null,"role":"assistant"}"#, false),
        (r#"{"refusal":"no"}"#, true),
        (r#"{"tool_calls":[{"index":0}]}"#, true),
        (r#"{"tool_calls":[]}"#, false),
        (r#"{"function_call":{"name":"f"}}"#, true),
        ("null", false),
    ] {
        let mut expected = vec![started()];
        expected.extend(is_content.then_some(StreamEvent::Content));
        assert_eq!(chunk(&format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#)), expected, "{delta}");
    }
    for thought in [r#"{"reasoning":"hm"}"#, r#"{"reasoning_content":"hm","content":null}"#] {
        let chunk = chunk(&format!(r#"{{"choices":[{{"delta":{thought}}}]}}"#));
        assert_eq!(chunk, [started(), StreamEvent::Thinking], "{thought}");
    }
    assert_eq!(chunk(r#"{"choices":[],"prompt_filter_results":[]}"#), [StreamEvent::Other]);
    assert_eq!(chunk("{}"), [StreamEvent::Other]);
}

#[test]
fn later_usage_replaces_and_a_reason_stays() {
    let stream = concat!(
        "data: {\"choices\":[{\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":9}}\n\n",
        ": keep-alive\n\n",
    );
    let (events, stream) = read([stream.as_bytes()]);
    let usage = Usage { input: 5, output: 9, ..Usage::default() };
    let finish = Some(FinishReason::MaxTokens);
    assert_eq!(events.last(), Some(&StreamEvent::Progress { usage, finish }));
    assert_eq!((events.len(), stream.usage(), stream.finish_reason()), (3, usage, finish));
}

#[test]
fn an_error_is_final() {
    for broken in ["data: {\n\n", "data: {\"choices\":7}\n\n", "data: 7\n\n", "data: done\n\n"] {
        let mut stream = OpenAiStream::new(SseLimits::default());
        let error = stream.feed(broken.as_bytes(), |_| panic!("read on")).unwrap_err();
        assert!(matches!(error, StreamError::Unreadable { event: "chunk", .. }), "{broken}");
        assert_eq!(stream.feed(b"data: [DONE]\n\n", |_| panic!("read on")), Err(error));
        assert!(!stream.is_complete());
    }
    let mut stream = OpenAiStream::new(SseLimits { max_line_bytes: 30, max_event_bytes: 30 });
    let too_long = StreamError::Sse(SseError::LineTooLong { limit: 30 });
    assert_eq!(stream.feed(&[b'x'; 31], |_| ()), Err(too_long));
}

proptest! {
    #[test]
    fn a_chunk_has_the_same_meaning_whether_it_is_parsed_or_recognised(
        chunks in prop::collection::vec((0..9_usize, "[a-z漫\\\\\"{},:\\t]{0,6}", "[a-z]{0,3}"), 1..12),
    ) {
        let chunk = |kind: usize, text: &str, padding: &str| {
            let text = serde_json::to_string(text).unwrap();
            let head = r#""id":"c","object":"chat.completion.chunk","created":1,"model":"m""#;
            let choice = |delta: String, end: &str| {
                format!(r#"{{{head},"choices":[{{"index":0,"delta":{{{delta}}},"finish_reason":{end}}}],"usage":null}}"#)
            };
            match kind {
                0..=3 => choice(format!(r#""content":{text}"#), "null"),
                4 => choice(format!(r#""content":{text},"refusal":"no""#), "null"),
                5 => choice(format!(r#""content":{text}"#), r#""stop""#),
                6 => format!(r#"{{{head},"choices":[{{"delta":{{"content":{text}}}}}],"obfuscation":"{padding}"}}"#),
                7 => format!(r#"{{{head},"choices":[],"usage":{{"prompt_tokens":3,"completion_tokens":2}}}}"#),
                _ => choice(format!(r#""content":{text}"#), "null").replace('}', ""),
            }
        };
        let mut streams = [0, 1].map(|_| (OpenAiStream::new(SseLimits::default()), Vec::new()));
        for (kind, text, padding) in chunks {
            let bytes = format!("data: {}\n\n", chunk(kind, &text, &padding));
            let [known, parsed] = &mut streams;
            parsed.0.forget_template();
            let outcomes = [known, parsed].map(|(stream, events)| {
                (stream.feed(bytes.as_bytes(), |event| events.push(format!("{event:?}"))), format!("{:?}", stream.meter()))
            });
            prop_assert_eq!(&outcomes[0], &outcomes[1]);
        }
        let [known, parsed] = &streams;
        prop_assert_eq!((&known.1, known.0.report(), known.0.finish_reason()), (&parsed.1, parsed.0.report(), parsed.0.finish_reason()));
    }
}
