use super::{event, exception, frame, written};
use crate::bedrock::{
    BedrockStreamError, ConverseChatReader, ConverseChatWriter, ConverseStream, FrameError, FrameLimits,
    StreamEnding,
};
use crate::chat::{ChatEvent, FinishReason, StreamEvent, Usage};
use seawall_core::failure::FailureKind;
use std::time::Duration;

const USAGE: Usage = Usage { input: 25, cache_read: 4, cache_write: 3, output: 15, ..Usage::NONE };

pub(super) fn started() -> ChatEvent {
    ChatEvent::Started { id: "r1".to_owned(), model: "haiku".to_owned(), usage: Usage::default() }
}

fn text(text: &str) -> ChatEvent {
    ChatEvent::Text(text.to_owned())
}

fn call(id: &str) -> ChatEvent {
    ChatEvent::ToolCallStarted { id: id.to_owned(), name: "find".to_owned() }
}

fn input(piece: &str) -> ChatEvent {
    ChatEvent::ToolInput(piece.to_owned())
}

fn told() -> Vec<ChatEvent> {
    let pieces = [started(), text("Hel"), text("lo"), call("t1"), input("{\"a\":"), input("3}"), call("t2")];
    let end = [text("!"), ChatEvent::Usage(USAGE), ChatEvent::Finished(FinishReason::ToolUse)];
    pieces.into_iter().chain(end).collect()
}

pub(super) fn frames_of(events: &[ChatEvent]) -> Vec<u8> {
    let mut writer = ConverseChatWriter::new();
    writer.set_latency(Duration::from_millis(412));
    written(|out| events.iter().for_each(|event| writer.write(out, event)))
}

pub(super) fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<ChatEvent>, StreamEnding) {
    let mut reader = ConverseChatReader::new(FrameLimits::default(), "r1", "haiku");
    let mut events = Vec::new();
    for piece in pieces {
        reader.feed(piece, |event| events.push(event)).unwrap();
    }
    let ending = reader.finish(|event| events.push(event));
    (events, ending)
}

pub(super) fn watch<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<StreamEvent>, ConverseStream) {
    let mut stream = ConverseStream::new(FrameLimits::default());
    let mut events = Vec::new();
    for piece in pieces {
        stream.feed(piece, |event| events.push(event)).unwrap();
    }
    (events, stream)
}

#[test]
fn a_stream_is_written_as_the_service_writes_it_and_read_back() {
    let frames: Vec<u8> = [
        event("messageStart", r#"{"role":"assistant"}"#),
        event("contentBlockDelta", r#"{"delta":{"text":"Hel"},"contentBlockIndex":0}"#),
        event("contentBlockDelta", r#"{"delta":{"text":"lo"},"contentBlockIndex":0}"#),
        event("contentBlockStop", r#"{"contentBlockIndex":0}"#),
        event("contentBlockStart", r#"{"start":{"toolUse":{"toolUseId":"t1","name":"find"}},"contentBlockIndex":1}"#),
        event("contentBlockDelta", r#"{"delta":{"toolUse":{"input":"{\"a\":"}},"contentBlockIndex":1}"#),
        event("contentBlockDelta", r#"{"delta":{"toolUse":{"input":"3}"}},"contentBlockIndex":1}"#),
        event("contentBlockStop", r#"{"contentBlockIndex":1}"#),
        event("contentBlockStart", r#"{"start":{"toolUse":{"toolUseId":"t2","name":"find"}},"contentBlockIndex":2}"#),
        event("contentBlockStop", r#"{"contentBlockIndex":2}"#),
        event("contentBlockDelta", r#"{"delta":{"text":"!"},"contentBlockIndex":3}"#),
        event("contentBlockStop", r#"{"contentBlockIndex":3}"#),
        event("messageStop", r#"{"stopReason":"tool_use"}"#),
        event("metadata", r#"{"usage":{"inputTokens":25,"outputTokens":15,"totalTokens":47,"cacheReadInputTokens":4,"cacheWriteInputTokens":3},"metrics":{"latencyMs":412}}"#),
    ]
    .concat();
    assert_eq!(frames_of(&told()), frames);
    assert_eq!(read([&frames[..]]), (told(), StreamEnding::Complete));
}

#[test]
fn a_stream_that_passes_through_is_read_for_its_usage_and_its_end() {
    let frames = frames_of(&[
        started(),
        text("hi"),
        ChatEvent::Usage(USAGE),
        ChatEvent::Finished(FinishReason::MaxTokens),
    ]);
    let finish = Some(FinishReason::MaxTokens);
    let (events, stream) = watch([&frames[..]]);
    assert_eq!(
        events,
        [
            StreamEvent::Started(Usage::default()),
            StreamEvent::Content,
            StreamEvent::Other,
            StreamEvent::Progress { usage: Usage::default(), finish },
            StreamEvent::Progress { usage: USAGE, finish },
            StreamEvent::Finished,
        ]
    );
    assert_eq!((stream.usage(), stream.finish_reason()), (Some(USAGE), finish));
    assert!(stream.is_complete() && stream.is_between_frames());
    for place in 0..frames.len() {
        let (start, rest) = frames.split_at(place);
        assert_eq!(watch([start, rest]).0, events, "{place}");
    }
}

#[test]
fn a_stream_is_complete_from_the_models_stop_on_but_not_inside_a_frame() {
    let frames = frames_of(&told());
    let metadata = event(
        "metadata",
        r#"{"usage":{"inputTokens":25,"outputTokens":15,"totalTokens":47,"cacheReadInputTokens":4,"cacheWriteInputTokens":3},"metrics":{"latencyMs":412}}"#,
    );
    let stop = frames.len() - metadata.len();
    for place in 0..=frames.len() {
        let is_complete = place == stop || place == frames.len();
        let (events, ending) = read([&frames[..place]]);
        assert_eq!(ending == StreamEnding::Complete, is_complete, "{place}");
        assert_eq!(matches!(events.last(), Some(ChatEvent::Finished(_))), is_complete, "{place}");
        let (_, stream) = watch([&frames[..place]]);
        assert_eq!(stream.is_complete(), is_complete, "{place}");
        assert_eq!(stream.usage().is_some(), place == frames.len());
    }
}

#[test]
fn an_end_with_half_a_frame_behind_it_is_an_interruption() {
    let stream = [&frames_of(&told())[..], &[0, 0]].concat();
    assert_eq!(read([&stream[..]]), (told(), StreamEnding::Interrupted));
    assert!(!watch([&stream[..]]).1.is_complete());
}

#[test]
fn failures_end_the_stream() {
    let error = frame(
        &[(":message-type", "error"), (":error-code", "InternalFailure"), (":error-message", "no")],
        b"",
    );
    for (bytes, kind) in [
        (exception("throttlingException", r#"{"message":"no"}"#), FailureKind::Throttled),
        (
            exception("modelStreamErrorException", r#"{"originalMessage":"no","originalStatusCode":500}"#),
            FailureKind::ModelFault,
        ),
        (exception("internalServerException", r#"{"message":"no"}"#), FailureKind::ServerFault),
        (exception("serviceUnavailableException", r#"{"Message":"no"}"#), FailureKind::Overloaded),
        (exception("validationException", r#"{"message":"no"}"#), FailureKind::BadRequest),
        (exception("brandNewException", r#"{"message":"no"}"#), FailureKind::Unrecognised),
        (error, FailureKind::ServerFault),
    ] {
        let stream =
            [event("messageStart", r#"{"role":"assistant"}"#), bytes, event("messageStop", "{}")].concat();
        let (events, ending) = read([&stream[..]]);
        assert_eq!((events.len(), ending), (2, StreamEnding::Interrupted));
        let ChatEvent::Failed { failure, message } = &events[1] else { panic!("{events:?}") };
        assert_eq!((failure.kind, failure.not_executed, message.as_str()), (kind, false, "no"));
        let before_stop = stream.len() - event("messageStop", "{}").len();
        let (events, watched) = watch([&stream[..before_stop]]);
        assert!(matches!(&events[1], StreamEvent::Failed { failure, .. } if failure.kind == kind));
        assert!(!watched.is_complete());
    }
}

#[test]
fn content_without_a_neutral_form_is_dropped() {
    let stream = [
        event("initial-response", ""),
        event("messageStart", r#"{"role":"assistant","p":"abc"}"#),
        event("contentBlockDelta", r#"{"delta":{"reasoningContent":{"text":"hm"}},"contentBlockIndex":0}"#),
        event("contentBlockStart", r#"{"start":{"toolUse":{"toolUseId":"s","name":"nova","type":"server_tool_use"}},"contentBlockIndex":1}"#),
        event("contentBlockDelta", r#"{"delta":{"toolUse":{"input":"{}"}},"contentBlockIndex":1}"#),
        event("contentBlockStop", r#"{"contentBlockIndex":1}"#),
        event("contentBlockStart", r#"{"start":{},"contentBlockIndex":2}"#),
        event("contentBlockDelta", r#"{"delta":{"text":"hi"},"contentBlockIndex":2,"p":"x"}"#),
        event("brandNew", "7"),
    ]
    .concat();
    assert_eq!(
        read([&stream[..]]),
        (vec![started(), ChatEvent::Thinking("hm".to_owned()), text("hi")], StreamEnding::Interrupted)
    );
    // A tool call ends with its block.
    let stream = [
        event(
            "contentBlockStart",
            r#"{"start":{"toolUse":{"toolUseId":"t1","name":"find"}},"contentBlockIndex":0}"#,
        ),
        event("contentBlockStop", r#"{"contentBlockIndex":0}"#),
        event("contentBlockDelta", r#"{"delta":{"toolUse":{"input":"{}"}},"contentBlockIndex":1}"#),
    ]
    .concat();
    assert_eq!(read([&stream[..]]).0, [started(), call("t1")]);
    // Tool input outside a tool call is dropped.
    assert_eq!(frames_of(&[text("a"), input("{}")]), frames_of(&[text("a")]));
    assert!(frames_of(&[input("{}")]).is_empty());
}

#[test]
fn a_start_event_is_emitted_even_if_the_service_sends_none() {
    let stream = [
        event("metadata", r#"{"usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}}"#),
        event("messageStop", r#"{"stopReason":"end_turn"}"#),
    ]
    .concat();
    let usage = Usage { input: 1, output: 2, ..Usage::default() };
    let expected = vec![started(), ChatEvent::Usage(usage), ChatEvent::Finished(FinishReason::EndTurn)];
    assert_eq!(read([&stream[..]]), (expected, StreamEnding::Complete));
}

#[test]
fn usage_of_the_start_stands_unless_there_is_a_later_one() {
    let start = ChatEvent::Started { id: String::new(), model: String::new(), usage: USAGE };
    let finished = ChatEvent::Finished(FinishReason::EndTurn);
    let (events, _) = read([&frames_of(&[start.clone(), finished.clone()])[..]]);
    assert_eq!(events[1], ChatEvent::Usage(USAGE));
    let later = Usage { output: 99, ..USAGE };
    let (events, _) = read([&frames_of(&[start, ChatEvent::Usage(later), finished])[..]]);
    assert_eq!(events[1], ChatEvent::Usage(later));
}

#[test]
fn a_frame_that_cannot_be_read_is_an_error_and_final() {
    for (name, payload) in [
        ("contentBlockStart", r#"{"start":{"toolUse":{"name":"find"}}}"#),
        ("contentBlockDelta", "{}"),
        ("contentBlockDelta", r#"{"delta":{"text":7}}"#),
        ("messageStop", "{}"),
        ("metadata", r#"{"usage":{"inputTokens":-,"outputTokens":2}}"#),
        ("metadata", ""),
    ] {
        let mut reader = ConverseChatReader::new(FrameLimits::default(), "", "");
        let error = reader.feed(&event(name, payload), |event| panic!("{event:?}")).unwrap_err();
        assert!(matches!(&error, BedrockStreamError::Unreadable { event, .. } if *event == name), "{error}");
        assert_eq!(
            reader.feed(&event("messageStart", "{}"), |event| panic!("{event:?}")),
            Err(error.clone())
        );
        assert_eq!(reader.finish(|event| panic!("{event:?}")), StreamEnding::Interrupted);
        if !name.starts_with("content") {
            let mut stream = ConverseStream::new(FrameLimits::default());
            assert_eq!(stream.feed(&event(name, payload), |event| panic!("{event:?}")), Err(error.clone()));
            assert_eq!(stream.feed(&event("messageStart", "{}"), |event| panic!("{event:?}")), Err(error));
        }
    }
    let limits = FrameLimits { max_frame_bytes: 20 };
    let too_large =
        ConverseChatReader::new(limits, "", "").feed(&event("x", ""), |event| panic!("{event:?}"));
    assert!(matches!(too_large, Err(BedrockStreamError::Frame(FrameError::TooLarge { limit: 20, .. }))));
}
