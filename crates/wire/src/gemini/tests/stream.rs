use super::sse;
use crate::bedrock::StreamEnding;
use crate::chat::{ChatEvent, FinishReason, StreamEvent, Usage};
use crate::gemini::{GeminiChatReader, GeminiStream};
use crate::sse::SseLimits;
use bytes::BytesMut;
use seawall_core::failure::FailureKind;
use serde_json::Value;

/// Two chunks of text, a thought and a function call, as the vendor sends them.
pub(super) const CHUNKS: [&str; 4] = [
    r#"{"candidates":[{"content":{"parts":[{"text":"考え中","thought":true}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":20,"cachedContentTokenCount":8,"totalTokenCount":27,"thoughtsTokenCount":7},"modelVersion":"gemini-3.8-flash","responseId":"r-1"}"#,
    r#"{"candidates":[{"content":{"parts":[{"text":"東京は"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":20,"cachedContentTokenCount":8,"candidatesTokenCount":2,"totalTokenCount":29,"thoughtsTokenCount":7},"modelVersion":"gemini-3.8-flash","responseId":"r-1"}"#,
    r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"weather","args":{"city":"東京"}},"thoughtSignature":"AA=="}],"role":"model"},"index":0}]}"#,
    r#"{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":20,"cachedContentTokenCount":8,"candidatesTokenCount":6,"toolUsePromptTokenCount":5,"totalTokenCount":38,"thoughtsTokenCount":7}}"#,
];

pub(super) fn watch<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<StreamEvent>, GeminiStream) {
    let (mut stream, mut events) = (GeminiStream::new(SseLimits::default()), Vec::new());
    for piece in pieces {
        let _ = stream.feed(piece, |event| events.push(event));
    }
    (events, stream)
}

pub(super) fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<ChatEvent>, StreamEnding) {
    let (mut reader, mut events) = (GeminiChatReader::new(SseLimits::default(), "id", "model"), Vec::new());
    for piece in pieces {
        let _ = reader.feed(piece, |event| events.push(event));
    }
    let ending = reader.finish(|event| events.push(event));
    (events, ending)
}

const USAGE: Usage = Usage { input: 17, cache_read: 8, cache_write: 0, output: 13, ..Usage::NONE };

#[test]
fn a_stream_is_observed_for_usage_and_end() {
    let bytes = sse(&CHUNKS);
    let (events, mut stream) = watch([bytes.as_bytes()]);
    let kinds: Vec<_> =
        events.iter().filter(|event| !matches!(event, StreamEvent::Progress { .. })).collect();
    let started = StreamEvent::Started(Usage::default());
    assert_eq!(kinds, [&started, &StreamEvent::Thinking, &StreamEvent::Content, &StreamEvent::Content]);
    let end = StreamEvent::Progress { usage: USAGE, finish: Some(FinishReason::ToolUse) };
    assert_eq!(events.last(), Some(&end));
    assert_eq!((stream.usage(), stream.report().output_reported), (USAGE, true));
    assert_eq!(stream.finish_reason(), Some(FinishReason::ToolUse));
    assert!(stream.is_complete() && stream.is_between_events() && stream.unfinished() == 0);
    assert_eq!((stream.meter().counted(), stream.meter().events()), (Some(13), 3));
    // Thought, text, and the whole function call are metered.
    let call = r#"{"name":"weather","args":{"city":"東京"}}"#.len() as u64;
    assert!(stream.meter().upper() >= 9 + 9 + call && stream.meter().has_hidden_output());
    for length in 0..bytes.len() - 1 {
        assert!(!watch([&bytes.as_bytes()[..length]]).1.is_complete(), "{length}");
    }
}

#[test]
fn a_stream_is_read_into_events() {
    let (events, ending) = read([sse(&CHUNKS).as_bytes()]);
    let usage = |input, output| ChatEvent::Usage(Usage { input, cache_read: 8, output, ..Usage::default() });
    let expected = [
        ChatEvent::Started { id: "r-1".into(), model: "gemini-3.8-flash".into(), usage: Usage::default() },
        ChatEvent::Thinking("考え中".into()),
        usage(12, 7),
        ChatEvent::Text("東京は".into()),
        usage(12, 9),
        ChatEvent::ToolCallStarted { id: "call_r-1_0".into(), name: "weather".into() },
        ChatEvent::ToolInput(r#"{"city":"東京"}"#.into()),
        ChatEvent::Usage(USAGE),
        ChatEvent::Finished(FinishReason::ToolUse),
    ];
    assert_eq!((&events[..], ending), (&expected[..], StreamEnding::Complete));
}

#[test]
fn a_stream_without_a_finish_reason_is_not_complete() {
    let bytes = sse(&CHUNKS[..3]);
    assert!(!watch([bytes.as_bytes()]).1.is_complete());
    let (events, ending) = read([bytes.as_bytes()]);
    assert_eq!(ending, StreamEnding::Interrupted);
    assert!(!events.iter().any(|event| matches!(event, ChatEvent::Finished(_))));
    assert!(!watch([]).1.is_complete());
    // One of two candidates has not ended.
    let two = sse(&[
        r#"{"candidates":[{"index":0,"finishReason":"STOP"},{"index":1,"content":{"parts":[{"text":"a"}]}}]}"#,
    ]);
    assert!(!watch([two.as_bytes()]).1.is_complete());
    // The first candidate decides the reason, whichever ends first.
    let end = |index, reason| format!(r#"{{"candidates":[{{"index":{index},"finishReason":"{reason}"}}]}}"#);
    for order in [[end(0, "MAX_TOKENS"), end(1, "STOP")], [end(1, "STOP"), end(0, "MAX_TOKENS")]] {
        let (_, stream) = watch([sse(&[&order[0], &order[1]]).as_bytes()]);
        assert_eq!((stream.finish_reason(), stream.is_complete()), (Some(FinishReason::MaxTokens), true));
    }
}

#[test]
fn a_finish_reason_in_every_chunk_does_not_end_the_answer() {
    let chunk = |text: &str| {
        format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}},"finishReason":"STOP"}}]}}"#)
    };
    let bytes = sse(&[&chunk("a"), &chunk("b")]);
    let (events, ending) = read([bytes.as_bytes()]);
    let texts = events.iter().filter(|event| matches!(event, ChatEvent::Text(_))).count();
    assert_eq!(
        (texts, events.last(), ending),
        (2, Some(&ChatEvent::Finished(FinishReason::EndTurn)), StreamEnding::Complete)
    );
    let (events, stream) = watch([bytes.as_bytes()]);
    assert!(stream.is_complete() && !events.contains(&StreamEvent::Finished));
}

#[test]
fn a_blocked_prompt_is_a_refusal_and_a_malformed_call_a_failure() {
    let blocked = sse(&[
        r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":8,"totalTokenCount":8}}"#,
    ]);
    let (_, stream) = watch([blocked.as_bytes()]);
    assert_eq!((stream.finish_reason(), stream.is_complete()), (Some(FinishReason::Refusal), true));
    assert_eq!((stream.usage().input, stream.usage().output, stream.report().output_reported), (8, 0, true));
    let (events, ending) = read([blocked.as_bytes()]);
    assert_eq!(
        (events.last(), ending),
        (Some(&ChatEvent::Finished(FinishReason::Refusal)), StreamEnding::Complete)
    );
    let malformed =
        sse(&[r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"bad"}]}"#]);
    let (events, ending) = read([malformed.as_bytes()]);
    let Some(ChatEvent::Failed { failure, message }) = events.last() else { panic!() };
    assert_eq!(
        (failure.kind, message.as_str(), ending),
        (FailureKind::ModelFault, "bad", StreamEnding::Interrupted)
    );
    assert_eq!(watch([malformed.as_bytes()]).1.finish_reason(), Some(FinishReason::Other));
}

#[test]
fn an_error_inside_a_stream_is_a_failure() {
    let error = r#"{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}"#;
    let bytes = sse(&[CHUNKS[0], error, CHUNKS[3]]);
    let (events, stream) = watch([bytes.as_bytes()]);
    let failed = events.iter().find_map(|event| match event {
        StreamEvent::Failed { failure, message } => {
            Some((failure.kind, failure.not_executed, message.as_str()))
        }
        _ => None,
    });
    assert_eq!(failed, Some((FailureKind::Overloaded, false, "overloaded")));
    assert!(!stream.is_complete());
    let (events, ending) = read([bytes.as_bytes()]);
    assert!(matches!(events.last(), Some(ChatEvent::Failed { .. })) && ending == StreamEnding::Interrupted);
}

#[test]
fn a_stream_can_be_ended_at_the_limit() {
    let mut bytes = sse(&CHUNKS[..2]).into_bytes();
    let (_, stream) = watch([&bytes[..]]);
    let mut out = BytesMut::new();
    stream.write_end(&mut out, USAGE);
    let chunk: Value = serde_json::from_slice(out.strip_prefix(b"data: ").unwrap()).unwrap();
    assert_eq!(chunk["candidates"][0]["finishReason"], "MAX_TOKENS");
    assert_eq!((&chunk["responseId"], &chunk["modelVersion"]), (&"r-1".into(), &"gemini-3.8-flash".into()));
    bytes.extend_from_slice(&out);
    let (_, stream) = watch([&bytes[..]]);
    assert!(stream.is_complete() && stream.finish_reason() == Some(FinishReason::MaxTokens));
    assert_eq!(stream.usage().total_input(), USAGE.total_input());
    // Without any chunk so far.
    let mut out = BytesMut::new();
    watch([]).1.write_end(&mut out, USAGE);
    assert!(watch([&out[..]]).1.is_complete());
}

#[test]
fn a_lone_surrogate_is_replaced() {
    let bytes = sse(&[r#"{"candidates":[{"content":{"parts":[{"text":"a\ud83d"}]}}]}"#]);
    assert_eq!(read([bytes.as_bytes()]).0[1], ChatEvent::Text("a\u{FFFD}".into()));
}
