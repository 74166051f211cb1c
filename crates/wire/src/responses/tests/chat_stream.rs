use super::strategies::{cut, read, stream, write};
use crate::StreamError;
use crate::chat::{ChatEvent, FinishReason, Usage};
use crate::responses::{ResponsesChatReader, ResponsesStream};
use crate::sse::{SseLimits, SseReader};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use seawall_core::failure::FailureKind;
use serde_json::{Value, json};

/// What the dialect makes of a stream: usage only at the end, no empty deltas, `{}` as the input of a call without any,
/// and fewer finish reasons.
fn expected(events: &[ChatEvent]) -> Vec<ChatEvent> {
    let (mut usage, mut has_call, mut is_open) = (Usage::default(), false, false);
    let mut expected = Vec::new();
    for event in events {
        match event {
            ChatEvent::Usage(known) => usage = *known,
            ChatEvent::Text(text) | ChatEvent::Thinking(text) | ChatEvent::ToolInput(text)
                if text.is_empty() => {}
            event => {
                if is_open && !matches!(event, ChatEvent::ToolInput(_)) {
                    expected.push(ChatEvent::ToolInput("{}".into()));
                }
                is_open = matches!(event, ChatEvent::ToolCallStarted { .. });
                has_call |= is_open;
                if let ChatEvent::Finished(finish) = event {
                    expected.push(ChatEvent::Usage(usage));
                    expected.push(ChatEvent::Finished(finish_read(*finish, has_call)));
                } else {
                    expected.push(event.clone());
                }
            }
        }
    }
    expected
}

pub(super) fn finish_read(finish: FinishReason, has_call: bool) -> FinishReason {
    match finish {
        FinishReason::MaxTokens | FinishReason::ContextWindowExceeded => FinishReason::MaxTokens,
        FinishReason::Refusal => FinishReason::Refusal,
        _ if has_call => FinishReason::ToolUse,
        _ => FinishReason::EndTurn,
    }
}

/// The events that were written: their names and their data.
fn parsed(bytes: &[u8]) -> Vec<(String, Value)> {
    let mut events = Vec::new();
    let outcome = SseReader::new(SseLimits::default()).feed(bytes, |event| {
        let name = String::from_utf8(event.name.to_vec()).unwrap();
        events.push((name, serde_json::from_slice(event.data).unwrap()));
    });
    outcome.unwrap();
    events
}

proptest! {
    #[test]
    fn a_stream_survives_however_it_is_split(events in stream(), places in vec(any::<usize>(), 0..6)) {
        let bytes = write(&events);
        let expected = (expected(&events), Ok(()), true);
        prop_assert_eq!(&read([&bytes[..]]), &expected);
        prop_assert_eq!(&read(bytes.chunks(1)), &expected);
        prop_assert_eq!(&read(cut(&bytes, &places)), &expected);
    }

    #[test]
    fn the_monitor_sees_the_same_end(events in stream()) {
        let bytes = write(&events);
        let mut monitor = ResponsesStream::new(SseLimits::default());
        monitor.feed(&bytes, |_| ()).unwrap();
        let expected = expected(&events);
        let [.., ChatEvent::Usage(usage), ChatEvent::Finished(finish)] = &expected[..] else { panic!() };
        prop_assert_eq!((monitor.usage(), monitor.finish_reason()), (*usage, Some(*finish)));
        prop_assert!(monitor.is_complete() && monitor.is_between_events() && monitor.report().output_reported);
    }

    #[test]
    fn a_stream_that_is_cut_is_not_over(events in stream(), at: usize) {
        let bytes = write(&events);
        let (read, outcome, is_over) = read([&bytes[..at % bytes.len()]]);
        prop_assert!(outcome.is_ok() && !is_over && read.len() < expected(&events).len());
    }

    /// The rules that OpenAI's Python library enforces.
    #[test]
    fn events_are_numbered_and_items_begin_and_end_once(events in stream()) {
        let (mut open, mut texts): (Option<u64>, Vec<String>) = (None, Vec::new());
        let mut done = Vec::new();
        let events = parsed(&write(&events));
        for (at, (name, event)) in events.iter().enumerate() {
            prop_assert_eq!((&event["type"], &event["sequence_number"]), (&json!(name), &json!(at)));
            let index = event["output_index"].as_u64();
            match name.as_str() {
                "response.output_item.added" => {
                    prop_assert_eq!((open, index), (None, Some(done.len() as u64)));
                    open = index;
                    texts.push(String::new());
                }
                "response.output_item.done" => {
                    prop_assert_eq!(open.take(), index);
                    done.push(event["item"].clone());
                }
                _ if name.ends_with(".delta") => {
                    prop_assert_eq!(index, open);
                    texts.last_mut().unwrap().push_str(event["delta"].as_str().unwrap());
                }
                "response.output_text.done" | "response.reasoning_summary_text.done" => {
                    prop_assert_eq!(event["text"].as_str(), texts.last().map(String::as_str));
                }
                "response.function_call_arguments.done" => {
                    prop_assert_eq!(event["arguments"].as_str(), texts.last().map(String::as_str));
                }
                _ => {}
            }
        }
        let (last, response) = (&events.last().unwrap().0, &events.last().unwrap().1["response"]);
        prop_assert_eq!((events[0].0.as_str(), events[1].0.as_str()), ("response.created", "response.in_progress"));
        prop_assert!(last == "response.completed" || last == "response.incomplete");
        prop_assert_eq!(&response["output"], &Value::Array(done));
        prop_assert_eq!(&response["id"], &events[0].1["response"]["id"]);
    }

    #[test]
    fn any_bytes_are_a_stream_or_an_error_however_they_are_split(
        events in stream(),
        changes in vec((any::<usize>(), any::<u8>()), 0..4),
        places in vec(any::<usize>(), 0..6),
        noise: Vec<u8>,
    ) {
        let mut bytes = write(&events).to_vec();
        for (place, byte) in changes {
            let at = place % bytes.len();
            bytes[at] = byte;
        }
        for bytes in [&bytes, &noise] {
            let whole = read([&bytes[..]]);
            prop_assert_eq!(&read(bytes.chunks(1)), &whole);
            prop_assert_eq!(&read(cut(bytes, &places)), &whole);
            let _ = ResponsesStream::new(SseLimits::default()).feed(bytes, |_| ());
        }
    }
}

fn events(data: &[Value]) -> (Vec<ChatEvent>, Result<(), StreamError>, bool) {
    let bytes: String = data.iter().map(|event| format!("data: {event}\n\n")).collect();
    read([bytes.as_bytes()])
}

/// The file was read by OpenAI's Python library 3.51.0, its JavaScript library 6.49.0 and Codex 0.169.0.
#[test]
fn a_stream_is_written_byte_for_byte_as_clients_have_read_it() {
    let text = |text: &str| ChatEvent::Text(text.to_owned());
    let input = |piece: &str| ChatEvent::ToolInput(piece.to_owned());
    let call = |id: &str, name: &str| ChatEvent::ToolCallStarted { id: id.into(), name: name.into() };
    let events = [
        ChatEvent::Started { id: "resp_abc123".into(), model: "gpt-x".into(), usage: Usage::default() },
        ChatEvent::Thinking("hm ".into()),
        ChatEvent::Thinking("よし".into()),
        text("こん"),
        text("にちは \"x\"\n"),
        call("call_1", "get_weather"),
        input("{\"city\":"),
        input("\"京都\"}"),
        call("call_2", "noop"),
        ChatEvent::Usage(Usage { input: 25, cache_read: 4, cache_write: 3, output: 15, ..Usage::NONE }),
        ChatEvent::Finished(FinishReason::ToolUse),
    ];
    assert_eq!(write(&events), include_str!("written_stream.txt"));
}

#[test]
fn items_without_deltas_are_read_when_they_are_complete() {
    // As little as Codex needs, with a refusal, several summary parts and calls of a tool that the vendor runs.
    let (read, outcome, is_over) = events(&[
        json!({"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning", "summary": [
            {"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]}}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "web_search_call"}}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": {"type": "web_search_call"}}),
        json!({"type": "response.output_item.done", "output_index": 2, "item": {"type": "message", "content": [
            {"type": "output_text", "text": "日本"}, {"type": "refusal", "refusal": "no"}]}}),
        json!({"type": "response.output_item.done", "output_index": 3, "item":
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}}),
        json!({"type": "response.completed", "response": {"id": "r", "status": "completed"}}),
    ]);
    assert!(outcome.is_ok() && is_over);
    assert_eq!(
        read,
        [
            ChatEvent::Started { id: String::new(), model: String::new(), usage: Usage::default() },
            ChatEvent::Thinking("a\n\nb".into()),
            ChatEvent::Text("日本".into()),
            ChatEvent::Text("no".into()),
            ChatEvent::ToolCallStarted { id: "c".into(), name: "f".into() },
            ChatEvent::ToolInput("{}".into()),
            ChatEvent::Finished(FinishReason::ToolUse),
        ]
    );
}

#[test]
fn deltas_are_read_by_their_type() {
    let delta = |kind: &str, more: Value| {
        let mut event =
            json!({"type": format!("response.{kind}.delta"), "output_index": 0, "obfuscation": "xx"});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let (read, outcome, _) = events(&[
        json!({"type": "response.created", "response": {"id": "r", "model": "m", "created_at": 1.5}}),
        delta("reasoning_summary_text", json!({"delta": "a"})),
        json!({"type": "response.reasoning_summary_part.added", "summary_index": 1}),
        delta("reasoning_text", json!({"delta": "b"})),
        delta("refusal", json!({"delta": "no"})),
        delta("code_interpreter_call_code", json!({"delta": "print"})),
        delta("brand_new", json!({"delta": {"a": 1}})),
        json!({"type": "response.something.new", "delta": 7}),
        json!({"type": "response.completed", "response": {"status": "completed", "usage": {"input_tokens": 1}}}),
    ]);
    assert_eq!(outcome, Ok(()));
    assert_eq!(
        read,
        [
            ChatEvent::Started { id: "r".into(), model: "m".into(), usage: Usage::default() },
            ChatEvent::Thinking("a".into()),
            ChatEvent::Thinking("\n\n".into()),
            ChatEvent::Thinking("b".into()),
            ChatEvent::Text("no".into()),
            ChatEvent::Usage(Usage { input: 1, ..Usage::default() }),
            ChatEvent::Finished(FinishReason::Refusal),
        ]
    );
}

#[test]
fn calls_out_of_order_and_calls_of_other_tools_are_errors() {
    let call = |index: u64| json!({"type": "response.output_item.added", "output_index": index, "item": {"type": "function_call", "call_id": "c", "name": "f"}});
    let piece = |index: u64| json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": "{"});
    let text = json!({"type": "response.output_text.delta", "output_index": 9, "delta": "a"});
    for data in [
        vec![piece(0)],
        vec![call(0), call(1), piece(0)],
        vec![call(0), text, piece(0)],
        vec![call(0), call(0)],
        vec![
            json!({"type": "response.output_item.added", "item": {"type": "custom_tool_call", "call_id": "c", "name": "f"}}),
        ],
        vec![
            json!({"type": "response.output_item.added", "item": {"type": "function_call", "call_id": "c"}}),
        ],
        vec![json!({"type": "response.output_text.delta", "delta": 7})],
        vec![json!({"type": "response.completed"})],
        vec![json!(7)],
    ] {
        let (_, outcome, is_over) = events(&data);
        assert!(matches!(outcome, Err(StreamError::Unreadable { event: "response", .. })), "{data:?}");
        assert!(!is_over);
    }
}

#[test]
fn nothing_is_read_after_the_end() {
    let bytes = b"data: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"x\"}\n\ndata: [DONE]\n\ndata: {\n\n";
    let (events, outcome, is_over) = read([&bytes[..]]);
    let [ChatEvent::Failed { failure, message }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(
        (failure.kind, message.as_str(), outcome, is_over),
        (FailureKind::ServerFault, "x", Ok(()), true)
    );
    assert!(!ResponsesChatReader::new(SseLimits::default()).has_refused());
}
