use super::strategies::{json, request};
use crate::chat::{
    AnswerPart, ChatAnswer, ChatRequest, FinishReason, Image, RequestPart, Role, ToolCall, ToolChoice,
    ToolDefinition, Turn, Usage,
};
use crate::responses::{
    read_chat_request, read_request, write_chat_answer, write_chat_request, write_chat_request_for,
};
use crate::{RequestError, RequestLimits};
use bytes::BytesMut;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use serde_json::Value;

fn read(body: &str) -> Result<ChatRequest, RequestError> {
    read_chat_request(body.as_bytes(), &RequestLimits::default())
}

fn text(text: &str) -> RequestPart {
    RequestPart::Text(text.to_owned())
}

#[test]
fn a_conversation_of_items_becomes_turns() {
    let body = r#"{"model":"m","instructions":"Be brief.","max_output_tokens":50,"temperature":0.5,"top_p":0.9,"stream":true,
        "store":false,"include":["reasoning.encrypted_content"],"reasoning":{"effort":"high"},"parallel_tool_calls":false,
        "text":{"format":{"type":"text"},"verbosity":"low"},"top_logprobs":0,"previous_response_id":null,
        "input":[
            {"role":"developer","content":"日本語で"},
            {"role":"user","content":[{"type":"input_text","text":"これは?"},
                {"type":"input_image","image_url":"data:image/png;base64,AAAA","detail":"low"}]},
            {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},
            {"type":"message","id":"msg_1","role":"assistant","status":"completed",
                "content":[{"type":"output_text","text":"見ます","annotations":[]},{"type":"refusal","refusal":"no"}]},
            {"type":"function_call","id":"fc_1","call_id":"c1","name":"look","arguments":"{\"a\": 1}"},
            {"type":"function_call","call_id":"c2","name":"look","arguments":""},
            {"type":"function_call_output","call_id":"c1","output":"rain"},
            {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"sun"},
                {"type":"input_image","image_url":"https://x/y.png"}]},
            {"role":"user","content":""},
            {"type":"message","role":"user","content":"so?"}],
        "tools":[{"type":"function","name":"look","description":"d","strict":true,"parameters":{"type":"object"}},
            {"type":"function","name":"none","parameters":null,"strict":null}],
        "tool_choice":{"type":"function","name":"look"}}"#;
    let call = |id: &str, input| {
        RequestPart::ToolCall(ToolCall { id: id.into(), name: "look".into(), input: json(input) })
    };
    let result = |call: &str, parts| RequestPart::ToolResult { call: call.into(), parts, is_error: false };
    let picture = Image::Base64 { media_type: "image/png".into(), content: "AAAA".into() };
    let link = RequestPart::Image(Image::Url("https://x/y.png".into()));
    let tool = |name: &str, description: Option<&str>, schema| ToolDefinition {
        name: name.into(),
        description: description.map(str::to_owned),
        schema: json(schema),
        strict: description.is_some(),
    };
    assert_eq!(
        read(body).unwrap(),
        ChatRequest {
            settings: crate::chat::ChatSettings {
                reasoning: crate::chat::ReasoningSettings {
                    thinking: Some(crate::chat::Thinking::Adaptive),
                    effort: Some(crate::chat::Effort::High),
                    shows_summary: false,
                },
                single_tool_call: true,
                verbosity: Some(crate::chat::Verbosity::Low),
                ..crate::chat::ChatSettings::default()
            },
            model: "m".into(),
            system: vec!["Be brief.".into(), "日本語で".into()],
            turns: vec![
                Turn { role: Role::User, parts: vec![text("これは?"), RequestPart::Image(picture)] },
                Turn {
                    role: Role::Assistant,
                    parts: vec![text("見ます"), text("no"), call("c1", r#"{"a": 1}"#), call("c2", "{}")],
                },
                Turn {
                    role: Role::User,
                    parts: vec![
                        result("c1", vec![text("rain")]),
                        result("c2", vec![text("sun"), link]),
                        text("so?"),
                    ],
                },
            ],
            tools: vec![
                tool("look", Some("d"), r#"{"type":"object"}"#),
                tool("none", None, r#"{"type":"object","properties":{}}"#),
            ],
            tool_choice: ToolChoice::Named("look".into()),
            max_output: Some(50),
            temperature: Some(0.5),
            top_p: Some(0.9),
            stop: vec![],
            stream: true,
            stream_usage: true,
        }
    );
    let turns = read(r#"{"model":"m","input":"hi"}"#).unwrap().turns;
    assert_eq!(turns, [Turn { role: Role::User, parts: vec![text("hi")] }]);
}

#[test]
fn what_no_other_vendor_can_serve_is_refused_with_its_path() {
    let refused =
        |field: &str, problem: &str| format!("{field}: Not supported by the target model: {problem}");
    for (fields, field, problem) in [
        (r#""store":true"#, "store", "stored responses; send store: false"),
        (r#""previous_response_id":"r""#, "previous_response_id", "content stored at the vendor"),
        (r#""conversation":{"id":"c"}"#, "conversation", "content stored at the vendor"),
        (r#""prompt":{"id":"p"}"#, "prompt", "content stored at the vendor"),
        (r#""background":true"#, "background", "responses in the background"),
        (r#""tools":[{"type":"code_interpreter"}]"#, "tools.0.type", "tools other than functions"),
        (
            r#""tools":[{"type":"web_search"}],"tool_choice":"required""#,
            "tool_choice",
            "a required web search",
        ),
    ] {
        let body = format!(r#"{{"model":"m","input":"hi",{fields}}}"#);
        assert_eq!(read(&body).unwrap_err().to_string(), refused(field, problem), "{fields}");
    }
    let other_item = "items other than messages, function calls and their results";
    for (item, field, problem) in [
        (r#"{"id":"msg_1"}"#, "input.0", "references to items stored at the vendor"),
        (r#"{"type":"item_reference","id":"msg_1"}"#, "input.0", "references to items stored at the vendor"),
        (r#"{"type":"compaction","encrypted_content":"x"}"#, "input.0.type", other_item),
        (
            r#"{"role":"user","content":[{"type":"input_file","file_id":"f"}]}"#,
            "input.0.content.0.file_id",
            "files stored at the vendor",
        ),
        (
            r#"{"role":"user","content":[{"type":"input_image","file_id":"f"}]}"#,
            "input.0.content.0.file_id",
            "files stored at the vendor",
        ),
        (
            r#"{"role":"user","content":[{"type":"input_image","image_url":"data:x"}]}"#,
            "input.0.content.0.image_url",
            "data URLs without base64",
        ),
        (
            r#"{"role":"system","content":[{"type":"input_image","image_url":"https://x"}]}"#,
            "input.0.content",
            "images and files outside of user messages",
        ),
    ] {
        let body = format!(r#"{{"model":"m","input":[{item}]}}"#);
        assert_eq!(read(&body).unwrap_err().to_string(), refused(field, problem), "{item}");
    }
}

#[test]
fn an_invalid_item_is_refused_with_its_path() {
    for (item, problem) in [
        (
            r#"{"role":"robot","content":"a"}"#,
            "input.0.role: Input should be 'system', 'developer', 'user' or 'assistant'",
        ),
        (r#"{"role":"user"}"#, "input.0.content: Field required"),
        (
            r#"{"role":"user","content":7}"#,
            "input.0.content: Input should be a valid string or a list of content parts",
        ),
        (r#"{"role":"user","content":[{"type":"input_text"}]}"#, "input.0.content.0.text: Field required"),
        (r#"{"role":"user","content":"a","content":"b"}"#, "input.0.content: Duplicate field"),
        (r#"{"type":"function_call","name":"n","arguments":"{}"}"#, "input.0.call_id: Field required"),
        (
            r#"{"type":"function_call","call_id":"c","name":"n","arguments":"[]"}"#,
            "input.0.arguments: Input should be a JSON object encoded as a string",
        ),
        (r#"{"type":"function_call_output","call_id":"c"}"#, "input.0.output: Field required"),
        (r#"{"type":"reasoning","summary":[]}"#, "input: at least one message is required"),
        (r#"{"role":"developer","content":"a"}"#, "input: at least one message is required"),
    ] {
        let body = format!(r#"{{"model":"m","input":[{item}]}}"#);
        assert_eq!(read(&body).unwrap_err().to_string(), problem, "{item}");
    }
    let error = read(r#"{"model":"m","input":"\ud800"}"#).unwrap_err().to_string();
    assert!(error.starts_with("input: String contains a lone surrogate"), "{error}");
}

#[test]
fn the_dialect_has_no_stop_sequences_and_no_images_of_the_model() {
    let image = RequestPart::Image(Image::Url("https://x/".into()));
    let with_parts = |role, parts| ChatRequest {
        model: "m".into(),
        turns: vec![Turn { role, parts }],
        ..ChatRequest::default()
    };
    let mut stopping = with_parts(Role::User, vec![text("hi")]);
    stopping.stop = vec!["END".into()];
    let call = RequestPart::ToolCall(ToolCall { id: "c".into(), name: "f".into(), input: json("{}") });
    let result = RequestPart::ToolResult { call: "c".into(), parts: vec![], is_error: false };
    for (request, expected) in [
        (stopping, "stop_sequences: Not supported by the target model: stop sequences"),
        (
            with_parts(Role::Assistant, vec![image]),
            "messages.0: Not supported by the target model: images in assistant messages",
        ),
        (
            with_parts(Role::User, vec![call]),
            "messages.0: Not supported by the target model: tool calls outside of assistant messages",
        ),
        (
            with_parts(Role::Assistant, vec![result]),
            "messages.0: Not supported by the target model: tool results in assistant messages",
        ),
    ] {
        let error = write_chat_request(&mut BytesMut::new(), &request).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

/// The dialect has no error flag of tool results.
fn without_flags(mut request: ChatRequest) -> ChatRequest {
    for part in request.turns.iter_mut().flat_map(|turn| &mut turn.parts) {
        if let RequestPart::ToolResult { is_error, .. } = part {
            *is_error = false;
        }
    }
    request
}

proptest! {
    #[test]
    fn a_request_survives_the_round_trip(request in request()) {
        let mut out = BytesMut::new();
        write_chat_request(&mut out, &request).unwrap();
        let limits = RequestLimits::default();
        prop_assert_eq!(read_chat_request(&out, &limits), Ok(without_flags(request.clone())));
        let head = read_request(&out, &limits).unwrap();
        prop_assert_eq!((&head.model, head.max_output, head.stream), (&request.model, request.max_output, request.stream));
        prop_assert!(head.store == Some(false) && !head.uses_stored_content);
        out.clear();
        write_chat_request_for(&mut out, &request, "other").unwrap();
        prop_assert_eq!(read_request(&out, &limits).unwrap().model, "other");
    }
}

#[test]
fn tools_of_a_namespace_have_one_name_elsewhere_and_two_again_in_a_call() {
    let body = r#"{"model":"m","input":[
        {"role":"user","content":"hi"},
        {"type":"function_call","call_id":"c","name":"spawn","namespace":"agents","arguments":"{}"},
        {"type":"function_call_output","call_id":"c","output":"done"}],
        "tools":[
            {"type":"function","name":"list"},
            {"type":"namespace","name":"agents","tools":[{"type":"function","name":"spawn"},{"type":"function","name":"wait"}]},
            {"type":"web_search","external_web_access":true}]}"#;
    let request = read(body).unwrap();
    let names: Vec<_> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["list", "agents-ns-spawn", "agents-ns-wait"]);
    let RequestPart::ToolCall(call) = &request.turns[1].parts[0] else { panic!("{:?}", request.turns) };
    assert_eq!(call.name, "agents-ns-spawn");
    let answer = ChatAnswer {
        id: "resp_1".to_owned(),
        model: "m".to_owned(),
        parts: vec![AnswerPart::ToolCall(call.clone())],
        finish: FinishReason::ToolUse,
        usage: Usage::NONE,
    };
    let mut out = BytesMut::new();
    write_chat_answer(&mut out, &answer, 1);
    let written: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(
        (&written["output"][0]["namespace"], &written["output"][0]["name"]),
        (&"agents".into(), &"spawn".into())
    );
}
