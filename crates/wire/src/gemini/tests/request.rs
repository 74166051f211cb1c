use crate::RequestLimits;
use crate::chat::{ChatRequest, Image, RequestPart, Role, ToolChoice};
use crate::gemini::{read_chat_request, read_request, write_chat_request};
use bytes::BytesMut;
use proptest::prelude::{any, proptest};
use serde_json::{Value, json};

fn read(body: &Value) -> Result<ChatRequest, String> {
    let body = body.to_string();
    read_chat_request(body.as_bytes(), "m", true, &RequestLimits::default())
        .map_err(|error| error.to_string())
}

fn written(request: &ChatRequest) -> Result<Value, String> {
    let mut out = BytesMut::new();
    write_chat_request(&mut out, request).map_err(|error| error.to_string())?;
    Ok(serde_json::from_slice(&out).unwrap())
}

/// A request that uses everything that has a neutral form.
fn full() -> Value {
    json!({
        "systemInstruction": {"parts": [{"text": "簡潔に"}, {"text": "Be kind."}]},
        "contents": [
            {"role": "user", "parts": [
                {"text": "天気は？"}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
            ]},
            {"role": "model", "parts": [
                {"text": "hm", "thought": true},
                {"text": "Let me see."},
                {"functionCall": {"id": "c1", "name": "weather", "args": {"city": "東京"}}, "thoughtSignature": "AA=="},
                {"functionCall": {"id": "c2", "name": "time", "args": {}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "c1", "name": "weather", "response": {"output": "晴れ"}}},
                {"functionResponse": {"id": "c2", "name": "time", "response": {"error": "no clock"}}},
            ]},
        ],
        "tools": [{"functionDeclarations": [
            {"name": "weather", "description": "d", "parametersJsonSchema": {"type": "object"}},
            {"name": "time", "parametersJsonSchema": {"type": "object"}},
        ]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}},
        "generationConfig": {"maxOutputTokens": 9, "temperature": 0.5, "topP": 0.25, "stopSequences": ["終"]},
    })
}

#[test]
fn a_request_is_read_and_written_back() {
    let request = read(&full()).unwrap();
    assert_eq!((request.model.as_str(), request.stream, request.stream_usage), ("m", true, true));
    assert_eq!(request.system, ["簡潔に", "Be kind."]);
    assert_eq!((request.max_output, request.temperature, request.top_p), (Some(9), Some(0.5), Some(0.25)));
    assert_eq!(request.tool_choice, ToolChoice::Named("weather".to_owned()));
    assert_eq!(request.turns.iter().map(|turn| turn.parts.len()).collect::<Vec<_>>(), [2, 3, 2]);
    let image = Image::Base64 { media_type: "image/png".to_owned(), content: "AAAA".to_owned() };
    assert_eq!(request.turns[0].parts[1], RequestPart::Image(image));
    let mut expected = full();
    // Thoughts are dropped; signatures are replaced by the marker for unknown ones.
    expected["contents"][1]["parts"].as_array_mut().unwrap().remove(0);
    for at in [1, 2] {
        expected["contents"][1]["parts"][at]["thoughtSignature"] = json!("skip_thought_signature_validator");
    }
    assert_eq!(written(&request).unwrap(), expected);
    let mut out = BytesMut::new();
    write_chat_request(&mut out, &request).unwrap();
    assert_eq!(read_chat_request(&out, "m", true, &RequestLimits::default()).unwrap(), request);
}

/// What the vendor's Python client sends in the second turn of a chat with a function. It mixes both spellings.
const CLIENT_REQUEST: &str = include_str!("../../../tests/golden/gemini/client_request.json");

#[test]
fn a_request_of_the_vendors_client_is_read() {
    let limits = RequestLimits::default();
    let head = read_request(CLIENT_REQUEST.as_bytes(), &limits).unwrap();
    assert_eq!((head.max_output, head.turns, head.enables_thinking), (Some(50), 7, false));
    let request = read_chat_request(CLIENT_REQUEST.as_bytes(), "m", true, &limits).unwrap();
    assert_eq!(request.turns.iter().map(|turn| turn.parts.len()).collect::<Vec<_>>(), [1, 3, 2]);
    assert_eq!(
        request.tools[0].schema.get(),
        r#"{"properties":{"city":{"type":["string","null"]}},"type":"object"}"#
    );
    let RequestPart::ToolResult { call, .. } = &request.turns[2].parts[0] else { panic!() };
    assert_eq!((call.as_str(), request.tool_choice), ("c1", ToolChoice::Named("weather".to_owned())));
}

#[test]
fn both_spellings_are_read_and_mean_the_same() {
    let snake = json!({
        "system_instruction": {"parts": [{"text": "s"}]},
        "contents": [
            {"parts": [{"inline_data": {"mime_type": "image/png", "data": "AA"}}]},
            {"role": "model", "parts": [{"function_call": {"name": "f"}, "thought_signature": "AA=="}]},
            {"role": "function", "parts": [{"function_response": {"name": "f", "response": {"a": 1}}}]},
        ],
        "tools": [{"function_declarations": [{"name": "f", "parameters_json_schema": {}}]}],
        "tool_config": {"function_calling_config": {"mode": "none"}},
        "generation_config": {"max_output_tokens": 5, "top_p": 0.5, "stop_sequences": ["x"]},
    });
    let request = read(&snake).unwrap();
    assert_eq!(
        (request.max_output, request.top_p, request.tool_choice.clone()),
        (Some(5), Some(0.5), ToolChoice::None)
    );
    let RequestPart::ToolResult { call, parts, is_error } = &request.turns[2].parts[0] else { panic!() };
    let text = RequestPart::Text(r#"{"a":1}"#.to_owned());
    assert_eq!((call.as_str(), &parts[..], *is_error), ("call_0", &[text][..], false));
    for (path, camel) in [
        ("/contents/0/parts/0", "inlineData"),
        ("/contents/0/parts/0/inline_data", "mimeType"),
        ("/tools/0", "functionDeclarations"),
        ("/tools/0/function_declarations/0", "parametersJsonSchema"),
        ("", "toolConfig"),
        ("/tool_config", "functionCallingConfig"),
        ("/generation_config", "topP"),
    ] {
        let mut twice = snake.clone();
        twice.pointer_mut(path).unwrap()[camel] = json!({});
        let error = read(&twice).unwrap_err();
        let is_refused =
            error.ends_with(&format!("{camel}: Duplicate field")) || error.contains("only one kind");
        assert!(is_refused, "{camel}: {error}");
    }
}

#[test]
fn responses_without_an_id_belong_to_the_oldest_open_call_of_their_function() {
    let call = |name: &str| json!({"functionCall": {"name": name, "args": {}}});
    let response = |name: &str| json!({"functionResponse": {"name": name, "response": {"output": name}}});
    let request = read(&json!({"contents": [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [call("a"), call("b"), call("a")]},
        {"role": "user", "parts": [response("a"), response("a"), response("b")]},
    ]}));
    let request = request.unwrap();
    let ids = request.turns[2].parts.iter().map(|part| match part {
        RequestPart::ToolResult { call, .. } => call.as_str(),
        other => panic!("{other:?}"),
    });
    assert_eq!(ids.collect::<Vec<_>>(), ["call_0", "call_2", "call_1"]);
}

#[test]
fn the_vendors_schema_and_other_choices_are_translated() {
    let tool = |config: Value| {
        let functions = json!([
            {"name": "a", "parameters": {"type": "OBJECT", "properties": {"x": {"type": "STRING"}}}}, {"name": "b"},
        ]);
        read(&json!({
            "contents": [{"parts": [{"text": "q"}]}], "tools": [{"functionDeclarations": functions}],
            "toolConfig": {"functionCallingConfig": config},
        }))
    };
    let request = tool(json!({"mode": "ANY", "allowedFunctionNames": ["b", "a"]})).unwrap();
    assert_eq!(request.tool_choice, ToolChoice::Any);
    assert_eq!(request.tools[0].schema.get(), r#"{"properties":{"x":{"type":"string"}},"type":"object"}"#);
    assert_eq!(request.tools[1].schema.get(), r#"{"type":"object","properties":{}}"#);
    assert_eq!(tool(json!({"mode": "VALIDATED"})).unwrap().tool_choice, ToolChoice::Auto);
    let some = tool(json!({"mode": "VALIDATED", "allowedFunctionNames": ["a"]})).unwrap();
    assert_eq!((some.tool_choice, some.settings.allowed_tools), (ToolChoice::Auto, vec!["a".to_owned()]));
    assert!(some.tools.iter().all(|tool| tool.strict));
    assert!(
        tool(json!({"mode": "SOME"})).unwrap_err().starts_with("toolConfig.functionCallingConfig.mode: ")
    );
}

#[test]
fn what_has_no_neutral_form_is_refused_by_name() {
    for (field, value, problem) in [
        ("cachedContent", json!("cachedContents/1"), "cachedContent: Not supported"),
        ("tools", json!([{"googleSearch": {}}]), "tools.0.googleSearch: Not supported"),
        (
            "tools",
            json!([{"functionDeclarations": [], "codeExecution": {}}]),
            "tools.0.codeExecution: Not supported",
        ),
        (
            "generationConfig",
            json!({"responseMimeType": "text/x.enum"}),
            "generationConfig.responseMimeType: Not",
        ),
        (
            "generationConfig",
            json!({"response_json_schema": {}, "responseSchema": {}}),
            "generationConfig.response_json_schema: Only one of",
        ),
        (
            "generationConfig",
            json!({"responseModalities": ["TEXT", "IMAGE"]}),
            "generationConfig.responseModalities",
        ),
        ("generationConfig", json!({"speechConfig": {}}), "generationConfig.speechConfig: Not supported"),
        (
            "systemInstruction",
            json!({"parts": [{"fileData": {}}]}),
            "systemInstruction.parts.0: Not supported",
        ),
        (
            "contents",
            json!([{"parts": [{"fileData": {"fileUri": "u"}}]}]),
            "contents.0.parts.0.fileData: Not supported",
        ),
        ("contents", json!([{"parts": [{"executableCode": {}}]}]), "contents.0.parts.0.executableCode: Not"),
        (
            "contents",
            json!([{"parts": [{"inlineData": {"mimeType": "audio/wav", "data": ""}}]}]),
            "contents.0.parts.0.inlineData.mimeType: Not supported",
        ),
        ("contents", json!([{"parts": [{}]}]), "contents.0.parts.0: Part should have content"),
        (
            "contents",
            json!([{"parts": [{"text": "a", "functionCall": {}}]}]),
            "contents.0.parts.0: Part should",
        ),
        ("contents", json!([{"role": "system", "parts": []}]), "contents.0.role: Input should be"),
        (
            "contents",
            json!([{"parts": [{"functionCall": {"name": "f"}}]}]),
            "contents.0.parts.0.functionCall: ",
        ),
        (
            "contents",
            json!([{"parts": [{"functionResponse": {"name": "f"}}]}]),
            "contents.0.parts.0.functionResponse.name: There is no unanswered function call",
        ),
        (
            "contents",
            json!([{"role": "model", "parts": [{"functionCall": {"name": "f", "args": []}}]}]),
            "contents.0.parts.0.functionCall.args: Input should be an object",
        ),
        ("contents", json!([{"parts": [{"text": ""}]}]), "contents: at least one content is required"),
        ("model", json!("models/other"), "model: Extra inputs"),
    ] {
        let mut body = json!({"contents": [{"role": "user", "parts": [{"text": "q"}]}]});
        body[field] = value;
        let error = read(&body).unwrap_err();
        assert!(error.starts_with(problem), "{body}: {error}");
    }
}

#[test]
fn what_the_vendor_cannot_take_is_refused_when_it_is_written() {
    let turn = |role, part| ChatRequest {
        turns: vec![crate::chat::Turn { role, parts: vec![part] }],
        ..ChatRequest::default()
    };
    let result = RequestPart::ToolResult { call: "c".to_owned(), parts: Vec::new(), is_error: false };
    for (request, problem) in [
        (turn(Role::User, result.clone()), "tool results without their tool call"),
        (turn(Role::Assistant, result), "tool results in assistant messages"),
    ] {
        let error = written(&request).unwrap_err();
        assert_eq!(error, format!("messages.0.content.0: Not supported by the target model: {problem}"));
    }
    let image = RequestPart::Image(Image::Url("https://x".to_owned()));
    let error = written(&turn(Role::User, image)).unwrap_err();
    assert!(error.ends_with(": Not supported by the target model: images by URL"), "{error}");
    let zero = ChatRequest { max_output: Some(0), ..turn(Role::User, RequestPart::Text("q".to_owned())) };
    assert!(written(&zero).unwrap_err().starts_with("max_tokens: "));
    let plain = turn(Role::User, RequestPart::Text("q".to_owned()));
    let odd = ChatRequest { temperature: Some(f64::NAN), tool_choice: ToolChoice::Any, ..plain };
    assert_eq!(written(&odd).unwrap(), json!({"contents": [{"role": "user", "parts": [{"text": "q"}]}]}));
}

proptest! {
    #[test]
    fn any_body_is_answered(bytes: Vec<u8>, text in any::<String>()) {
        let limits = RequestLimits::default();
        let _ = read_chat_request(&bytes, "m", false, &limits);
        let _ = read_chat_request(format!(r#"{{"contents":[{{"parts":[{{{text}}}]}}]}}"#).as_bytes(), "m", false, &limits);
    }
}
