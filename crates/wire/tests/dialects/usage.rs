//! Invalid usage figures: the answer is read all the same, and an unusable figure is ignored.

use bytes::BytesMut;
use proptest::prelude::{Strategy, any, prop_assert, prop_oneof, proptest};
use proptest::sample::select;
use seawall_wire::anthropic::{self, AnthropicStream};
use seawall_wire::bedrock::{
    self, ConverseStream, FrameLimits, InvokeStream, write_chunk, write_event_frame,
};
use seawall_wire::chat::{FinishReason, UsageReport};
use seawall_wire::gemini::{self, GeminiStream};
use seawall_wire::openai::{self, OpenAiStream};
use seawall_wire::sse::SseLimits;

/// Reads an answer with these input and output figures; one function per dialect, whole and streamed.
type Read = fn(&str, &str) -> Result<(UsageReport, Option<FinishReason>), String>;

const READERS: [(&str, Read); 9] = [
    ("Anthropic", messages),
    ("Anthropic, streamed", messages_stream),
    ("OpenAI", completions),
    ("OpenAI, streamed", completions_stream),
    ("Invoke, streamed", invoke_stream),
    ("Converse", converse),
    ("Converse, streamed", converse_stream),
    ("Gemini", gemini_whole),
    ("Gemini, streamed", gemini_stream),
];

fn messages(input: &str, output: &str) -> Result<(UsageReport, Option<FinishReason>), String> {
    let body = format!(
        r#"{{"id":"m","model":"m","type":"message","role":"assistant","content":[{{"type":"text","text":"hi"}}],
        "stop_reason":"end_turn","usage":{{"input_tokens":{input},"output_tokens":{output}}}}}"#
    );
    let answer = anthropic::read_chat_answer(body.as_bytes()).map_err(|error| error.to_string())?;
    let (report, finish) = anthropic::read_answer(body.as_bytes()).map_err(|error| error.to_string())?;
    (answer.parts.len() == 1).then_some((report, Some(finish))).ok_or("no text".to_owned())
}

/// The events of a stream, by name and data.
fn message_events(input: &str, output: &str) -> [(&'static str, String); 6] {
    let start = format!(
        r#"{{"type":"message_start","message":{{"id":"m","model":"m","usage":{{"input_tokens":{input},"output_tokens":{output}}}}}}}"#
    );
    let block = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let text = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}"#;
    let delta = format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{{"output_tokens":{output}}}}}"#
    );
    [
        ("message_start", start),
        ("content_block_start", block.to_owned()),
        ("content_block_delta", text.to_owned()),
        ("content_block_stop", r#"{"type":"content_block_stop","index":0}"#.to_owned()),
        ("message_delta", delta),
        ("message_stop", r#"{"type":"message_stop"}"#.to_owned()),
    ]
}

fn messages_stream(input: &str, output: &str) -> Result<(UsageReport, Option<FinishReason>), String> {
    let mut stream = AnthropicStream::new(SseLimits::default()).checking_content();
    let mut reader = anthropic::AnthropicChatReader::new(SseLimits::default());
    for (name, data) in message_events(input, output) {
        let event = format!("event: {name}\ndata: {data}\n\n");
        stream.feed(event.as_bytes(), |_| ()).map_err(|error| error.to_string())?;
        reader.feed(event.as_bytes(), |_| ()).map_err(|error| error.to_string())?;
    }
    let is_whole = stream.is_complete() && reader.is_over();
    is_whole.then_some((stream.report(), stream.finish_reason())).ok_or("not whole".to_owned())
}

fn invoke_stream(input: &str, output: &str) -> Result<(UsageReport, Option<FinishReason>), String> {
    let mut stream = InvokeStream::new(FrameLimits::default());
    let mut out = BytesMut::new();
    for (name, mut data) in message_events(input, output) {
        if name == "message_stop" {
            data = format!(
                r#"{{"type":"message_stop","amazon-bedrock-invocationMetrics":{{"inputTokenCount":{input},"outputTokenCount":{output}}}}}"#
            );
        }
        write_chunk(&mut out, data.as_bytes());
    }
    stream.feed(&out, |_| ()).map_err(|error| error.to_string())?;
    let is_whole = stream.is_complete();
    is_whole.then_some((stream.report(), stream.finish_reason())).ok_or("not whole".to_owned())
}

fn completions(input: &str, output: &str) -> Result<(UsageReport, Option<FinishReason>), String> {
    let body = format!(
        r#"{{"id":"c","model":"m","choices":[{{"index":0,"message":{{"content":"hi"}},"finish_reason":"stop"}}],
        "usage":{{"prompt_tokens":{input},"completion_tokens":{output}}}}}"#
    );
    let answer = openai::read_chat_answer(body.as_bytes()).map_err(|error| error.to_string())?;
    let (report, finish) = openai::read_answer(body.as_bytes()).map_err(|error| error.to_string())?;
    (answer.parts.len() == 1).then_some((report, Some(finish))).ok_or("no text".to_owned())
}

fn completions_stream(input: &str, output: &str) -> Result<(UsageReport, Option<FinishReason>), String> {
    let mut stream = OpenAiStream::new(SseLimits::default());
    let mut reader = openai::OpenAiChatReader::new(SseLimits::default());
    let usage =
        format!(r#"{{"choices":[],"usage":{{"prompt_tokens":{input},"completion_tokens":{output}}}}}"#);
    for data in [
        r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"hi"}}],"usage":null}"#,
        r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        &usage,
        "[DONE]",
    ] {
        let event = format!("data: {data}\n\n");
        stream.feed(event.as_bytes(), |_| ()).map_err(|error| error.to_string())?;
        reader.feed(event.as_bytes(), |_| ()).map_err(|error| error.to_string())?;
    }
    let is_whole = stream.is_complete() && reader.is_over();
    is_whole.then_some((stream.report(), stream.finish_reason())).ok_or("not whole".to_owned())
}

fn converse(input: &str, output: &str) -> Result<(UsageReport, Option<FinishReason>), String> {
    let body = format!(
        r#"{{"output":{{"message":{{"role":"assistant","content":[{{"text":"hi"}}]}}}},"stopReason":"end_turn",
        "usage":{{"inputTokens":{input},"outputTokens":{output}}}}}"#
    );
    let answer = bedrock::read_chat_answer(body.as_bytes(), "r", "m").map_err(|error| error.to_string())?;
    let (report, finish) =
        bedrock::read_converse_usage(body.as_bytes()).map_err(|error| error.to_string())?;
    (answer.parts.len() == 1).then_some((report, Some(finish))).ok_or("no text".to_owned())
}

fn converse_stream(input: &str, output: &str) -> Result<(UsageReport, Option<FinishReason>), String> {
    let mut stream = ConverseStream::new(FrameLimits::default());
    let mut reader = bedrock::ConverseChatReader::new(FrameLimits::default(), "r", "m");
    let metadata = format!(
        r#"{{"usage":{{"inputTokens":{input},"outputTokens":{output}}},"metrics":{{"latencyMs":1}}}}"#
    );
    for (name, payload) in [
        ("messageStart", r#"{"role":"assistant"}"#),
        ("contentBlockDelta", r#"{"delta":{"text":"hi"},"contentBlockIndex":0}"#),
        ("contentBlockStop", r#"{"contentBlockIndex":0}"#),
        ("messageStop", r#"{"stopReason":"end_turn"}"#),
        ("metadata", &metadata),
    ] {
        let mut frame = BytesMut::new();
        write_event_frame(&mut frame, name, payload);
        stream.feed(&frame, |_| ()).map_err(|error| error.to_string())?;
        reader.feed(&frame, |_| ()).map_err(|error| error.to_string())?;
    }
    let is_whole = stream.is_complete();
    is_whole.then_some((stream.report(), stream.finish_reason())).ok_or("not whole".to_owned())
}

fn gemini_body(input: &str, output: &str) -> String {
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[{{"text":"hi"}}]}},"finishReason":"STOP"}}],"usageMetadata":{{"promptTokenCount":{input},"candidatesTokenCount":{output}}}}}"#
    )
}

fn gemini_whole(input: &str, output: &str) -> Result<(UsageReport, Option<FinishReason>), String> {
    let body = gemini_body(input, output);
    let answer = gemini::read_chat_answer(body.as_bytes(), "r", "m").map_err(|error| error.to_string())?;
    let (report, finish) = gemini::read_answer(body.as_bytes()).map_err(|error| error.to_string())?;
    (answer.parts.len() == 1).then_some((report, Some(finish))).ok_or("no text".to_owned())
}

fn gemini_stream(input: &str, output: &str) -> Result<(UsageReport, Option<FinishReason>), String> {
    let mut stream = GeminiStream::new(SseLimits::default());
    let mut reader = gemini::GeminiChatReader::new(SseLimits::default(), "r", "m");
    let event = format!("data: {}\n\n", gemini_body(input, output));
    stream.feed(event.as_bytes(), |_| ()).map_err(|error| error.to_string())?;
    reader.feed(event.as_bytes(), |_| ()).map_err(|error| error.to_string())?;
    let is_whole = stream.is_complete() && reader.finish(|_| ()) == bedrock::StreamEnding::Complete;
    is_whole.then_some((stream.report(), stream.finish_reason())).ok_or("not whole".to_owned())
}

/// Values in place of a figure that are not valid figures.
fn garbage() -> impl Strategy<Value = String> {
    let fixed =
        ["-1", "1.5", "1e3", "-0.0", "1e400", "-1e400", "18446744073709551616", "true", "[]", "[7]", "{}"];
    prop_oneof![
        3 => select(fixed.to_vec()).prop_map(str::to_owned),
        1 => (i64::MIN..0).prop_map(|number| number.to_string()),
        1 => any::<u64>().prop_map(|number| format!("{number}00000000000000000001")),
        1 => any::<u32>().prop_map(|number| format!("{number}.25")),
        1 => any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
        1 => any::<u64>().prop_map(|number| format!(r#"{{"tokens":{number}}}"#)),
        1 => any::<u64>().prop_map(|number| format!(r#""{number}""#)),
    ]
}

#[test]
fn figures_that_can_be_used_are_believed() {
    for (name, read) in READERS {
        let (report, finish) = read("20", "8").unwrap();
        let counts = (report.usage.total_input(), report.usage.output, report.output_reported);
        assert_eq!((counts, finish), ((20, 8, true), Some(FinishReason::EndTurn)), "{name}");
        let (report, finish) = read("null", "null").unwrap();
        let counts = (report.usage.total_input(), report.usage.output, report.output_reported);
        assert_eq!((counts, finish), ((0, 0, false), Some(FinishReason::EndTurn)), "{name}");
    }
}

proptest! {
    #[test]
    fn a_figure_that_cannot_be_used_is_as_good_as_none_and_the_answer_is_read(figure in garbage(), count in 1..9_999_u64) {
        let count = count.to_string();
        for (name, read) in READERS {
            let (report, finish) = read(&figure, &figure).unwrap();
            prop_assert!(!report.output_reported && report.usage.total_input() == 0, "{name} {report:?}");
            prop_assert!(finish == Some(FinishReason::EndTurn), "{name}");
            let (report, _) = read(&figure, &count).unwrap();
            prop_assert!(report.output_reported && report.usage.total_input() == 0, "{name} {report:?}");
            prop_assert!(report.usage.output.to_string() == count, "{name} {report:?}");
            let (report, _) = read(&count, &figure).unwrap();
            prop_assert!(!report.output_reported, "{name} {report:?}");
            prop_assert!(report.usage.total_input().to_string() == count, "{name} {report:?}");
        }
    }
}
