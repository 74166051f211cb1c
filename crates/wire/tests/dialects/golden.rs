//! Golden files: one example of everything that is written, byte for byte. `GOLDEN=write` rewrites the files; review
//! the diff.

use crate::strategies::json;
use crate::streams::{read_anthropic, read_openai, write_anthropic, write_openai};
use bytes::BytesMut;
use seawall_core::failure::{Failure, FailureKind};
use seawall_wire::chat::{
    AnswerPart, ChatAnswer, ChatEvent, ChatRequest, ChatSettings, Effort, FinishReason, Image, OutputFormat,
    OutputSchema, ReasoningSettings, RequestPart, Role, Thinking, ToolCall, ToolChoice, ToolDefinition, Turn,
    Usage,
};
use seawall_wire::{ApiErrorKind, RequestLimits, anthropic, openai};
use std::path::Path;

fn compare(name: &str, written: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    // A file ends with a line feed, a body does not.
    let end = if name.ends_with(".json") { "\n" } else { "" };
    let written = String::from_utf8(written.to_vec()).unwrap() + end;
    if std::env::var("GOLDEN").is_ok_and(|wish| wish == "write") {
        std::fs::write(&path, &written).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), written, "{name}");
}

const USAGE: Usage = Usage { input: 25, cache_read: 4, cache_write: 3, output: 15, ..Usage::NONE };

fn request() -> ChatRequest {
    let text = |text: &str| RequestPart::Text(text.to_owned());
    let call = |id: &str, input| ToolCall { id: id.into(), name: "get_weather".into(), input: json(input) };
    let result = |call: &str, said| RequestPart::ToolResult {
        call: call.into(),
        parts: vec![text(said)],
        is_error: false,
    };
    let picture = Image::Base64 { media_type: "image/png".into(), content: "iVBORw0KGgo=".into() };
    let turn = |role, parts| Turn { role, parts };
    ChatRequest {
        model: "haiku".into(),
        system: vec!["Be brief.".into(), "Speak 日本語.".into()],
        turns: vec![
            turn(Role::User, vec![text("What is here?"), RequestPart::Image(picture)]),
            turn(
                Role::Assistant,
                vec![
                    text("Let me look."),
                    RequestPart::ToolCall(call("call_1", r#"{"city": "Kyōto"}"#)),
                    RequestPart::ToolCall(call("call_2", "{}")),
                ],
            ),
            turn(
                Role::User,
                vec![
                    result("call_1", "Rain"),
                    result("call_2", "Sun"),
                    text("So?"),
                    RequestPart::Image(Image::Url("https://example.com/a.png".into())),
                ],
            ),
        ],
        tools: vec![ToolDefinition {
            name: "get_weather".into(),
            description: Some("The weather in a city".into()),
            schema: json(r#"{"type":"object","properties":{"city":{"type":"string"}}}"#),
            strict: true,
        }],
        tool_choice: ToolChoice::Named("get_weather".into()),
        max_output: Some(200),
        temperature: Some(0.5),
        top_p: Some(0.9),
        stop: vec!["END".into()],
        stream: true,
        stream_usage: true,
        settings: ChatSettings {
            output_format: OutputFormat::Schema(OutputSchema {
                name: None,
                description: None,
                schema: json(
                    r#"{"type":"object","properties":{"rain":{"type":"boolean"}},"required":["rain"],"additionalProperties":false}"#,
                ),
                is_enforced: true,
            }),
            reasoning: ReasoningSettings {
                thinking: Some(Thinking::Adaptive),
                effort: Some(Effort::Low),
                shows_summary: false,
            },
            single_tool_call: true,
            ..ChatSettings::default()
        },
    }
}

fn answer() -> ChatAnswer {
    let input = json(r#"{"city": "Kyōto"}"#);
    ChatAnswer {
        id: "msg_1".into(),
        model: "haiku".into(),
        parts: vec![
            AnswerPart::Text("Let me look.".into()),
            AnswerPart::ToolCall(ToolCall { id: "call_1".into(), name: "get_weather".into(), input }),
        ],
        finish: FinishReason::ToolUse,
        usage: USAGE,
    }
}

fn stream() -> Vec<ChatEvent> {
    let call = |id: &str| ChatEvent::ToolCallStarted { id: id.into(), name: "get_weather".into() };
    vec![
        ChatEvent::Started { id: "msg_1".into(), model: "haiku".into(), usage: Usage { output: 1, ..USAGE } },
        ChatEvent::Text("Let me".into()),
        ChatEvent::Text(" \"見る\"\n".into()),
        call("call_1"),
        ChatEvent::ToolInput(r#"{"city""#.into()),
        ChatEvent::ToolInput(r#":"Kyōto"}"#.into()),
        call("call_2"),
        ChatEvent::ToolInput("{}".into()),
        ChatEvent::Usage(USAGE),
        ChatEvent::Finished(FinishReason::ToolUse),
    ]
}

#[test]
fn a_request_is_written_as_each_vendor_reads_it() {
    let limits = RequestLimits::default();
    let mut out = BytesMut::new();
    anthropic::write_chat_request(&mut out, &request()).unwrap();
    compare("anthropic/chat_request.json", &out);
    assert_eq!(anthropic::read_chat_request(&out, &limits), Ok(request()));
    out.clear();
    openai::write_chat_request(&mut out, &request()).unwrap();
    compare("openai/request.json", &out);
    let mut named = request();
    if let OutputFormat::Schema(schema) = &mut named.settings.output_format {
        // The vendor requires a name.
        schema.name = Some("response".into());
    }
    assert_eq!(openai::read_chat_request(&out, &limits), Ok(named));
}

#[test]
fn an_answer_is_written_as_each_vendor_writes_it() {
    let mut out = BytesMut::new();
    anthropic::write_chat_answer(&mut out, &answer());
    compare("anthropic/chat_answer.json", &out);
    assert_eq!(anthropic::read_chat_answer(&out), Ok(answer()));
    out.clear();
    openai::write_chat_answer(&mut out, &answer(), 1_700_000_000);
    compare("openai/answer.json", &out);
    assert_eq!(openai::read_chat_answer(&out), Ok(answer()));
}

#[test]
fn a_stream_is_written_as_each_vendor_writes_it() {
    let bytes = write_anthropic(&stream());
    compare("anthropic/chat_stream.txt", &bytes);
    assert_eq!(read_anthropic([&bytes[..]]), (stream(), Ok(()), true));
    let mut without_start = stream();
    if let Some(ChatEvent::Started { usage, .. }) = without_start.first_mut() {
        *usage = Usage::default();
    }
    let bytes = write_openai(&stream(), true);
    compare("openai/stream.txt", &bytes);
    assert_eq!(read_openai([&bytes[..]]), (without_start.clone(), Ok(()), true));
    let bytes = write_openai(&stream(), false);
    compare("openai/stream_without_usage.txt", &bytes);
    without_start.remove(8);
    assert_eq!(read_openai([&bytes[..]]), (without_start, Ok(()), true));
}

#[test]
fn a_failed_stream_is_written_as_each_vendor_writes_it() {
    let failure = Failure { not_executed: false, ..Failure::of(FailureKind::Overloaded) };
    let failed = ChatEvent::Failed { failure, message: "the model is busy".into() };
    let events = [stream()[0].clone(), failed];
    compare("anthropic/chat_stream_failed.txt", &write_anthropic(&events));
    compare("openai/stream_failed.txt", &write_openai(&events, false));
}

#[test]
fn every_error_kind_has_its_status_and_body() {
    let line = |error_kind: &ApiErrorKind| {
        let mut body = BytesMut::new();
        openai::write_error(&mut body, &openai::OpenAiErrorBody::new(*error_kind, "no"));
        format!("{} {}\n", openai::status_of(*error_kind), str::from_utf8(&body).unwrap())
    };
    let lines: String = ApiErrorKind::ALL.iter().map(line).collect();
    compare("openai/errors.txt", lines.as_bytes());
}

#[test]
fn lists_of_models_and_counts_are_written_as_each_vendor_writes_them() {
    let mut out = BytesMut::new();
    let created_at = "2026-01-31T00:00:00Z";
    let model = |id, display_name| anthropic::AnthropicModelEntry { id, display_name, created_at };
    anthropic::write_models(&mut out, &[model("haiku", "Haiku"), model("sonnet", "Sonnet")]);
    compare("anthropic/models.json", &out);
    out.clear();
    anthropic::write_models(&mut out, &[]);
    assert_eq!(out, r#"{"data":[],"has_more":false,"first_id":null,"last_id":null}"#);
    out.clear();
    let model = |id| openai::OpenAiModelEntry { id, created: 1_700_000_000, owned_by: "seawall" };
    openai::write_models(&mut out, &[model("haiku"), model("sonnet")]);
    compare("openai/models.json", &out);
    out.clear();
    anthropic::write_count_answer(&mut out, 14);
    assert_eq!(out, r#"{"input_tokens":14}"#);
}
