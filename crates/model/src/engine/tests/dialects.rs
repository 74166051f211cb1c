//! The same answer in every dialect.

use super::{body, engine, head, sent};
use crate::engine::{ModelCall, ModelRequest, Script, ScriptAction, count_tokens};
use seawall_core::vocabulary::OutputLimitField;
use seawall_wire::bedrock::{self, BedrockOperation, FrameLimits, InvokeStream};
use seawall_wire::chat::{AnswerPart, ChatAnswer, ChatEvent, ChatRequest, FinishReason, Usage};
use seawall_wire::dialect::{DialectId, RequestOptions};
use seawall_wire::{RequestLimits, anthropic};
use serde_json::{Value, json};

const QUESTION: &str = "次に何を読めばいい？";

fn bedrock_call(operation: BedrockOperation) -> ModelCall {
    let path = bedrock::write_path(operation, "anthropic.claude-3-haiku-20240307-v1:0");
    ModelCall::of_path(&path).unwrap().unwrap()
}

fn request(stream: bool) -> ChatRequest {
    let body = body("haiku", 500, stream, QUESTION);
    anthropic::read_chat_request(&body, &RequestLimits::default()).unwrap()
}

/// The same request in the format of each operation.
fn script_for(call: &ModelCall, request: &ChatRequest) -> Script {
    let request = ChatRequest { stream_usage: true, ..request.clone() };
    let options = RequestOptions {
        model: &request.model,
        limit: None,
        limit_field: OutputLimitField::MaxTokens,
        betas: &[],
        limits: &RequestLimits::default(),
    };
    let body = call.dialect.write_request(&request, &options).unwrap();
    engine(vec![]).script(&ModelRequest::first(call, &body))
}

fn text_of(answer: &ChatAnswer) -> String {
    let text = |part: &AnswerPart| match part {
        AnswerPart::Text(text) => text.clone(),
        AnswerPart::ToolCall(call) => call.input.get().to_owned(),
    };
    answer.parts.iter().map(text).collect()
}

fn whole(call: &ModelCall, request: &ChatRequest) -> (String, Usage, FinishReason) {
    let script = script_for(call, request);
    let body = sent(&script);
    let answer = call.dialect.read_chat_answer(&body, "id", "model").unwrap();
    let headers = &head(&script).extra_headers;
    let header =
        |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
    if let Some(usage) = call.dialect.read_response_headers(&header).and_then(|report| report.usage) {
        assert_eq!(usage, answer.usage);
    }
    (text_of(&answer), answer.usage, answer.finish)
}

fn streamed(call: &ModelCall, request: &ChatRequest) -> (String, Usage, Option<FinishReason>) {
    let bytes = sent(&script_for(call, request));
    let (mut text, mut usage, mut finish) = (String::new(), Usage::default(), None);
    let mut on_event = |event| match event {
        ChatEvent::Started { usage: known, .. } | ChatEvent::Usage(known) => usage = known,
        ChatEvent::Text(more) | ChatEvent::Thinking(more) | ChatEvent::ToolInput(more) => {
            text.push_str(&more);
        }
        ChatEvent::Finished(reason) => finish = Some(reason),
        ChatEvent::ToolCallStarted { .. } => {}
        ChatEvent::Failed { message, .. } => panic!("{message}"),
    };
    let mut reader = call.dialect.read_stream("id", "model");
    reader.feed(&bytes, &mut on_event).unwrap();
    reader.end(&mut on_event);
    (text, usage, finish)
}

#[test]
fn the_same_question_gets_the_same_answer_in_every_dialect() {
    let (text, usage, finish) = whole(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), &request(false));
    assert!(text.starts_with("これはシミュレーター") && finish == FinishReason::EndTurn, "{text}");
    assert_eq!((usage.input, usage.output), (count_tokens(QUESTION), count_tokens(&text)));
    for call in [
        ModelCall::of(DialectId::OPENAI_CHAT),
        bedrock_call(BedrockOperation::Invoke),
        bedrock_call(BedrockOperation::Converse),
    ] {
        assert_eq!(whole(&call, &request(false)), (text.clone(), usage, finish), "{call:?}");
    }
    for call in [
        ModelCall::of(DialectId::ANTHROPIC_MESSAGES),
        ModelCall::of(DialectId::OPENAI_CHAT),
        bedrock_call(BedrockOperation::ConverseStream),
    ] {
        assert_eq!(streamed(&call, &request(true)), (text.clone(), usage, Some(finish)), "{call:?}");
    }
    let mut watch = InvokeStream::new(FrameLimits::default());
    let bytes = sent(&script_for(&bedrock_call(BedrockOperation::InvokeStream), &request(true)));
    watch.feed(&bytes, |_| ()).unwrap();
    assert!(watch.is_complete() && watch.usage() == usage);
}

fn with_tool(choice: &Value) -> ChatRequest {
    let body = json!({
        "model": "haiku", "max_tokens": 200, "tool_choice": choice,
        "messages": [{"role": "user", "content": "Find volume three of the bathhouse story for me, please"}],
        "tools": [{"name": "find", "input_schema": {"type": "object", "required": ["query", "volume", "kind"],
            "properties": {"query": {"type": "string"}, "volume": {"type": "integer"}, "kind": {"enum": ["manga"]}}}}],
    });
    anthropic::read_chat_request(body.to_string().as_bytes(), &RequestLimits::default()).unwrap()
}

#[test]
fn a_tool_that_must_be_called_is_called_with_what_its_schema_requires() {
    let expected = r#"{"query":"Find volume three of the bathhouse story","volume":1,"kind":"manga"}"#;
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    for choice in [json!({"type": "any"}), json!({"type": "tool", "name": "find"})] {
        let request = with_tool(&choice);
        for call in [
            ModelCall::of(DialectId::ANTHROPIC_MESSAGES),
            ModelCall::of(DialectId::OPENAI_CHAT),
            bedrock_call(BedrockOperation::Invoke),
            bedrock_call(BedrockOperation::Converse),
        ] {
            let (input, _, finish) = whole(&call, &request);
            assert_eq!((value(&input), finish), (value(expected), FinishReason::ToolUse), "{call:?}");
        }
        let request = ChatRequest { stream: true, ..request };
        for call in [
            ModelCall::of(DialectId::ANTHROPIC_MESSAGES),
            ModelCall::of(DialectId::OPENAI_CHAT),
            bedrock_call(BedrockOperation::ConverseStream),
        ] {
            let (input, _, finish) = streamed(&call, &request);
            assert_eq!((value(&input), finish), (value(expected), Some(FinishReason::ToolUse)), "{call:?}");
        }
    }
    let (text, _, finish) =
        whole(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), &with_tool(&json!({"type": "auto"})));
    assert!(text.starts_with("This is a simulator") && finish == FinishReason::EndTurn);
}

#[test]
fn errors_are_named_as_each_vendor_names_them() {
    let engine = engine(vec![]);
    let body = b"{\"messages\":[]";
    let refused = |call: &ModelCall| engine.script(&ModelRequest::first(call, body));
    let messages = refused(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES));
    assert_eq!(head(&messages).status, 400);
    assert_eq!(super::error_type(&messages), "invalid_request_error");
    let completions = refused(&ModelCall::of(DialectId::OPENAI_CHAT));
    assert_eq!(super::error_type(&completions), "invalid_request_error");
    let converse = refused(&bedrock_call(BedrockOperation::Converse));
    let name = ("x-amzn-errortype", "ValidationException".to_owned());
    assert!(head(&converse).extra_headers.contains(&name) && head(&converse).status == 400);
    let gemini = refused(&ModelCall::with_url(DialectId::GEMINI, "haiku", false));
    let error: Value = serde_json::from_slice(&sent(&gemini)).unwrap();
    assert_eq!(
        (&error["error"]["code"], &error["error"]["status"]),
        (&400.into(), &"INVALID_ARGUMENT".into())
    );
    let ids = [messages, completions, converse].map(|script| {
        let ids: Vec<_> =
            head(&script).headers().filter(|(name, _)| name.to_lowercase().contains("request")).collect();
        ids.first().map(|(name, _)| *name)
    });
    assert_eq!(ids, [Some("request-id"), Some("x-request-id"), Some("x-amzn-RequestId")]);
}

#[test]
fn gemini_counts_tokens_and_streams_its_first_text_in_the_first_chunk() {
    let call = ModelCall::of_path("/v1beta/models/haiku:countTokens").unwrap().unwrap();
    assert_eq!((call.name(), call.counts_tokens), ("countTokens", true));
    let contents = json!([{ "parts": [{ "text": QUESTION }] }]);
    for body in
        [json!({ "contents": contents }), json!({ "generateContentRequest": { "contents": contents } })]
    {
        let script = engine(vec![]).script(&ModelRequest::first(&call, body.to_string().as_bytes()));
        let answer: Value = serde_json::from_slice(&sent(&script)).unwrap();
        assert_eq!(answer, json!({ "totalTokens": count_tokens(QUESTION) }), "{body}");
    }
    let call = ModelCall::with_url(DialectId::GEMINI, "haiku", true);
    let body = json!({ "contents": contents }).to_string();
    let script = engine(vec![]).script(&ModelRequest::first(&call, body.as_bytes()));
    // The opening event of other dialects writes nothing here; it is charged with the first text.
    let first = &script.steps[1];
    assert!(matches!(&first.action, ScriptAction::Body(bytes) if bytes.starts_with(b"data: {")));
    assert!(first.charge.input > 0 && first.charge.output > 0);
}

#[test]
fn bedrock_counts_tokens() {
    let call = bedrock_call(BedrockOperation::CountTokens);
    let converse = bedrock::write_chat_request(&request(false)).unwrap();
    let converse: Value = serde_json::from_slice(&converse).unwrap();
    // The request "What next?", in base64.
    let invoke = json!({ "body": concat!(
        "eyJhbnRocm9waWNfdmVyc2lvbiI6ImJlZHJvY2stMjAyMy0wNS0zMSIsIm1heF90b2tlbnMiOjEs",
        "Im1lc3NhZ2VzIjpbeyJyb2xlIjoidXNlciIsImNvbnRlbnQiOiJXaGF0IG5leHQ/In1dfQ==",
    ) });
    for (input, question) in
        [(json!({ "converse": converse }), QUESTION), (json!({ "invokeModel": invoke }), "What next?")]
    {
        let body = json!({ "input": input }).to_string();
        let script = engine(vec![]).script(&ModelRequest::first(&call, body.as_bytes()));
        let answer: Value = serde_json::from_slice(&sent(&script)).unwrap();
        assert_eq!(answer["inputTokens"], count_tokens(question), "{body}");
    }
}

#[test]
fn what_is_to_be_counted_has_to_be_wrapped_as_the_vendor_does() {
    let call = bedrock_call(BedrockOperation::CountTokens);
    let bare = bedrock::write_chat_request(&request(false)).unwrap();
    let script = engine(vec![]).script(&ModelRequest::first(&call, &bare));
    assert_eq!(head(&script).status, 400);
}
