//! Property tests over generated streams.

use super::stream::{CHUNKS, read, watch};
use super::{cut, sse};
use crate::bedrock::StreamEnding;
use crate::chat::{ChatEvent, FinishReason, Usage};
use crate::gemini::{GeminiChatReader, GeminiChatWriter, GeminiStream};
use crate::sse::SseLimits;
use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;
use seawall_core::failure::{Failure, FailureKind};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), Just("漫画 é\u{1F600}".to_owned()), Just("data: x\r\n\r\n".to_owned())]
}

fn any_piece() -> impl Strategy<Value = Vec<ChatEvent>> {
    let input = vec!["", r#"{"a": 1}"#, "{\n\t\"b\" : \"漫\\n\"\r\n}", r#"{"cut":"#, "[1]", r#"{"n":1e400}"#];
    let call = ("[a-z0-9]{1,8}", "[a-z]{1,8}", select(input), any::<usize>());
    let call = call.prop_map(|(id, name, input, at)| {
        let at = (0..=at % (input.len() + 1)).rfind(|at| input.is_char_boundary(*at)).unwrap_or(0);
        let (first, second) = input.split_at(at);
        let pieces = [first, second].map(|piece| ChatEvent::ToolInput(piece.to_owned()));
        std::iter::once(ChatEvent::ToolCallStarted { id, name }).chain(pieces).collect()
    });
    prop_oneof![
        3 => text().prop_map(|text| vec![ChatEvent::Text(text)]),
        1 => text().prop_map(|text| vec![ChatEvent::Thinking(text)]),
        2 => call,
        1 => any_usage().prop_map(|usage| vec![ChatEvent::Usage(usage)]),
    ]
}

fn any_usage() -> impl Strategy<Value = Usage> {
    any::<[u32; 4]>().prop_map(|[input, cache_read, cache_write, output]| Usage {
        input: input.into(),
        cache_read: cache_read.into(),
        cache_write: cache_write.into(),
        output: output.into(),
        ..Usage::default()
    })
}

fn any_end() -> impl Strategy<Value = ChatEvent> {
    let reasons = vec![
        FinishReason::EndTurn,
        FinishReason::MaxTokens,
        FinishReason::StopSequence,
        FinishReason::ToolUse,
        FinishReason::PauseTurn,
        FinishReason::Refusal,
        FinishReason::ContextWindowExceeded,
        FinishReason::Other,
    ];
    let failed = (select(FailureKind::ALL.to_vec()), "[a-z ]{1,20}")
        .prop_map(|(kind, message)| ChatEvent::Failed { failure: Failure::of(kind), message });
    prop_oneof![3 => select(reasons).prop_map(ChatEvent::Finished), 1 => failed]
}

fn any_stream() -> impl Strategy<Value = Vec<ChatEvent>> {
    (vec(any_piece(), 0..6), any_end()).prop_map(|(pieces, end)| {
        let start = ChatEvent::Started { id: "r-1".into(), model: "m".into(), usage: Usage::default() };
        std::iter::once(start).chain(pieces.into_iter().flatten()).chain([end]).collect()
    })
}

fn write(events: &[ChatEvent]) -> BytesMut {
    let (mut out, mut writer) = (BytesMut::new(), GeminiChatWriter::new());
    events.iter().for_each(|event| writer.write(&mut out, event));
    out
}

/// What this dialect can express of a stream: whole function calls, and the last usage right before the end. The start
/// and a failure are compared separately.
fn expressible(events: &[ChatEvent]) -> Vec<ChatEvent> {
    let (mut expected, mut usage, mut call, mut calls, mut is_cut) =
        (Vec::new(), Usage::default(), None, 0, false);
    for event in events {
        let is_inside =
            matches!(event, ChatEvent::ToolInput(_) | ChatEvent::Usage(_) | ChatEvent::Failed { .. })
                || matches!(event, ChatEvent::Text(text) | ChatEvent::Thinking(text) if text.is_empty());
        if !is_inside && let Some((started, input)) = call.take() {
            let input: String = if String::is_empty(&input) { "{}".into() } else { input };
            if input.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(&input).is_ok() {
                calls += 1;
                expected.extend([started, ChatEvent::ToolInput(input.replace(['\r', '\n'], " "))]);
            } else {
                is_cut = true;
            }
        }
        match event {
            _ if is_inside => {}
            ChatEvent::ToolCallStarted { .. } => call = Some((event.clone(), String::new())),
            ChatEvent::Finished(finish) => {
                let finish = match finish {
                    FinishReason::EndTurn | FinishReason::ToolUse if is_cut => return expected,
                    FinishReason::EndTurn
                    | FinishReason::ToolUse
                    | FinishReason::StopSequence
                    | FinishReason::PauseTurn
                        if calls > 0 =>
                    {
                        FinishReason::ToolUse
                    }
                    FinishReason::ToolUse | FinishReason::StopSequence | FinishReason::PauseTurn => {
                        FinishReason::EndTurn
                    }
                    FinishReason::ContextWindowExceeded => FinishReason::MaxTokens,
                    other => *other,
                };
                let Usage { input, cache_write, .. } = usage;
                let told = Usage { input: input + cache_write, cache_write: 0, ..usage };
                expected.extend((told != Usage::default()).then_some(ChatEvent::Usage(told)));
                expected.push(ChatEvent::Finished(finish));
            }
            ChatEvent::Text(_) | ChatEvent::Thinking(_) => expected.push(event.clone()),
            _ => {}
        }
        match event {
            ChatEvent::ToolInput(piece) => {
                if let Some((_, input)) = &mut call {
                    input.push_str(piece);
                }
            }
            ChatEvent::Usage(told) => usage = *told,
            _ => {}
        }
    }
    expected
}

proptest! {
    #[test]
    fn a_written_stream_is_read_back_at_any_split(events in any_stream(), places in vec(any::<usize>(), 0..8)) {
        let bytes = write(&events);
        let (mut told, ending) = read(cut(&bytes, &places));
        prop_assert_eq!(&read(bytes.chunks(1)).0, &told);
        let has_failed = matches!(told.last(), Some(ChatEvent::Failed { .. }));
        prop_assert_eq!(ending == StreamEnding::Complete, !has_failed);
        prop_assert_eq!(watch(cut(&bytes, &places)).1.is_complete(), matches!(events.last(), Some(ChatEvent::Finished(_))));
        prop_assert_eq!(watch(cut(&bytes, &places)).0, watch([&bytes[..]]).0);
        if has_failed {
            told.pop();
        }
        if matches!(told.first(), Some(ChatEvent::Started { .. })) {
            told.remove(0);
        }
        let told: Vec<_> = if has_failed {
            told.into_iter().filter(|event| !matches!(event, ChatEvent::Usage(_))).collect()
        } else {
            told
        };
        prop_assert_eq!(told, expressible(&events));
    }

    #[test]
    fn a_stream_of_the_vendor_is_the_same_at_any_split(places in vec(any::<usize>(), 0..8), length in 0..=CHUNKS.len()) {
        let bytes = sse(&CHUNKS[..length]);
        prop_assert_eq!(read(cut(bytes.as_bytes(), &places)), read([bytes.as_bytes()]));
        prop_assert_eq!(watch(cut(bytes.as_bytes(), &places)).0, watch([bytes.as_bytes()]).0);
    }

    #[test]
    fn garbage_never_panics(bytes: Vec<u8>, text in any::<String>()) {
        for bytes in [&bytes[..], text.as_bytes(), sse(&[&text]).as_bytes(), sse(&[&format!(r#"{{"candidates":[{{{text}}}]}}"#)]).as_bytes()] {
            let mut reader = GeminiChatReader::new(SseLimits::default(), "", "");
            let _ = reader.feed(bytes, |_| ());
            prop_assert_eq!(reader.finish(|_| ()), StreamEnding::Interrupted);
            let mut stream = GeminiStream::new(SseLimits::default());
            let _ = stream.feed(bytes, |_| ());
            prop_assert!(!stream.is_complete());
        }
    }
}
