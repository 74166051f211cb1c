use crate::RequestLimits;
use crate::bedrock::{BedrockCall, BedrockOperation, read_chat_request, write_chat_request};
use crate::chat::{
    ChatRequest, Image, JsonText, RequestPart, Role, ToolCall, ToolChoice, ToolDefinition, Turn,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

const GOLDEN: &str = include_str!("../../../tests/golden/bedrock/converse_request.json");

fn read(body: &str) -> Result<ChatRequest, String> {
    let call = BedrockCall { operation: BedrockOperation::ConverseStream, model: "haiku".to_owned() };
    read_chat_request(&call, body.as_bytes(), &RequestLimits::default()).map_err(|error| error.to_string())
}

fn with_content(content: &str) -> String {
    format!(r#"{{"messages":[{{"role":"user","content":[{content}]}}]}}"#)
}

fn parts(content: &str) -> Vec<RequestPart> {
    read(&with_content(content)).unwrap().turns.remove(0).parts
}

fn text(text: &str) -> RequestPart {
    RequestPart::Text(text.to_owned())
}

fn json(text: &str) -> JsonText {
    JsonText::new(text.to_owned()).unwrap()
}

fn image() -> RequestPart {
    RequestPart::Image(Image::Base64 { media_type: "image/png".to_owned(), content: "aGk=".to_owned() })
}

fn full() -> ChatRequest {
    let call = ToolCall { id: "t1".to_owned(), name: "find".to_owned(), input: json(r#"{"volume": 3}"#) };
    let result = RequestPart::ToolResult {
        call: "t1".to_owned(),
        parts: vec![text("three"), image()],
        is_error: true,
    };
    let turn = |role, parts| Turn { role, parts };
    ChatRequest {
        settings: crate::chat::ChatSettings::default(),
        model: "haiku".to_owned(),
        system: vec!["Be kind.".to_owned(), "Be brief.".to_owned()],
        turns: vec![
            turn(Role::User, vec![text("漫画?"), image()]),
            turn(Role::Assistant, vec![text("Let me see."), RequestPart::ToolCall(call)]),
            turn(Role::User, vec![result]),
        ],
        tools: vec![
            ToolDefinition {
                name: "find".to_owned(),
                description: Some("Finds.".to_owned()),
                schema: json(r#"{"type": "object"}"#),
                strict: false,
            },
            ToolDefinition { name: "stop".to_owned(), description: None, schema: json("{}"), strict: false },
        ],
        tool_choice: ToolChoice::Named("find".to_owned()),
        max_output: Some(50),
        temperature: Some(0.5),
        top_p: Some(0.9),
        stop: vec!["END".to_owned()],
        stream: true,
        stream_usage: true,
    }
}

#[test]
fn a_request_is_written_as_the_service_takes_it_and_read_back() {
    let body = write_chat_request(&full()).unwrap();
    assert_eq!(str::from_utf8(&body).unwrap(), GOLDEN.trim_end());
    assert_eq!(read(GOLDEN).unwrap(), full());
}

#[test]
fn the_path_names_the_model_and_the_stream_flag() {
    let call = BedrockCall { operation: BedrockOperation::Converse, model: "opus".to_owned() };
    let request = read_chat_request(&call, GOLDEN.as_bytes(), &RequestLimits::default()).unwrap();
    assert_eq!(request, ChatRequest { model: "opus".to_owned(), stream: false, ..full() });
}

#[test]
fn what_is_not_set_stays_so() {
    let body = with_content(r#"{"text":"hi"}"#);
    let expected = ChatRequest {
        model: "haiku".to_owned(),
        turns: vec![Turn { role: Role::User, parts: vec![text("hi")] }],
        stream: true,
        stream_usage: true,
        ..ChatRequest::default()
    };
    assert_eq!(read(&body).unwrap(), expected);
    assert_eq!(str::from_utf8(&write_chat_request(&expected).unwrap()).unwrap(), body);
    let nulls = body.replace(
        r#"{"messages"#,
        r#"{"system":null,"inferenceConfig":null,"toolConfig":null,"guardrailConfig":null,"messages"#,
    );
    assert_eq!(read(&nulls).unwrap(), expected);
}

#[test]
fn annotations_are_dropped_and_the_text_is_kept() {
    let content = r#"{"cachePoint":{"type":"default"}},{"reasoningContent":{"reasoningText":{"text":"hm"}}},
        {"guardContent":{"text":{"text":"guarded","qualifiers":["query"]}}},
        {"citationsContent":{"content":[{"text":"a"},{"text":"b"}]}},
        {"toolResult":{"toolUseId":"t","content":[{"json":{"a": 1}},{"text":"b"}]}}"#;
    let result = RequestPart::ToolResult {
        call: "t".to_owned(),
        parts: vec![text(r#"{"a": 1}"#), text("b")],
        is_error: false,
    };
    assert_eq!(parts(content), [text("guarded"), text("ab"), result]);
    let body = r#"{"messages":[{"role":"assistant","content":[]}],"requestMetadata":{"a":"b"},"serviceTier":{"type":"flex"},
        "system":[{"text":"a"},{"cachePoint":{"type":"default"}}],"additionalModelRequestFields":{"top_k":3},
        "toolConfig":{"tools":[{"cachePoint":{"type":"default"}}],"toolChoice":{"auto":{}}}}"#;
    let request = read(body).unwrap();
    assert_eq!(
        (request.system, request.tools, request.tool_choice),
        (vec!["a".to_owned()], vec![], ToolChoice::Auto)
    );
}

#[test]
fn what_the_model_would_miss_is_refused_by_field() {
    let unseen = "Content block is not supported by the target model";
    let call = "toolUse should be a call of a client tool with an object as input";
    let picture = "Image should be png, jpeg, gif or webp with inline bytes";
    let first = "messages.0.content.0";
    for (content, field, problem) in [
        (r#"{"document":{"name":"x"}}"#, first, "Unknown content block"),
        (r#"{"text":"a"},{"video":{}}"#, "messages.0.content.1", unseen),
        (r#"{"guardContent":{"image":{}}}"#, first, unseen),
        (r#"{"brandNew":1}"#, first, unseen),
        ("{}", first, unseen),
        (r#"{"image":{"format":"png","source":{"s3Location":{"uri":"s3://a/b"}}}}"#, first, picture),
        (r#"{"image":{"format":"tiff","source":{"bytes":"aGk="}}}"#, first, picture),
        (r#"{"toolUse":{"toolUseId":"t","name":"n","input":{},"type":"server_tool_use"}}"#, first, call),
        (r#"{"toolUse":{"toolUseId":"t","name":"n","input":"x"}}"#, first, call),
        (r#"{"toolUse":{"name":"n","input":{}}}"#, first, "Unknown content block"),
        ("7", first, "Unknown content block"),
        (
            r#"{"toolResult":{"toolUseId":"t","content":[{"video":{}}]}}"#,
            "messages.0.content.0.toolResult.content.0",
            unseen,
        ),
    ] {
        assert_eq!(read(&with_content(content)), Err(format!("{field}: {problem}")), "{content}");
    }
    let turn = r#""messages":[{"role":"user","content":[]}]"#;
    let kept = "Not supported by the target model: guardrails and prompt templates of the service";
    for (body, problem) in [
        ("{}".to_owned(), "messages: Field required".to_owned()),
        (r#"{"messages":7}"#.to_owned(), "messages: Input should be a valid list".to_owned()),
        (r#"{"messages":[]}"#.to_owned(), "messages: at least one message is required".to_owned()),
        (r#"{"messages":[[]]}"#.to_owned(), "messages.0: Input should be an object with role and content".to_owned()),
        (r#"{"messages":[{"content":[]}]}"#.to_owned(), "messages.0.role: Field required".to_owned()),
        (r#"{"messages":[{"role":"system","content":[]}]}"#.to_owned(), "messages.0.role: Input should be 'user' or 'assistant'".to_owned()),
        (r#"{"messages":[{"role":"user"}]}"#.to_owned(), "messages.0.content: Field required".to_owned()),
        (r#"{"messages":[{"role":"user","content":"x"}]}"#.to_owned(), "messages.0.content: Input should be a valid list".to_owned()),
        (format!(r#"{{{turn},"guardrailConfig":{{}}}}"#), format!("guardrailConfig: {kept}")),
        (format!(r#"{{{turn},"promptVariables":{{}}}}"#), format!("promptVariables: {kept}")),
        (format!(r#"{{{turn},"system":"x"}}"#), "system: Input should be a valid list".to_owned()),
        (format!(r#"{{{turn},"system":[{{"image":{{"format":"png","source":{{"bytes":"aGk="}}}}}}]}}"#), "system.0: Input should be a text block".to_owned()),
        (format!(r#"{{{turn},"inferenceConfig":{{"maxTokens":0}}}}"#), "inferenceConfig.maxTokens: Input should be greater than or equal to 1".to_owned()),
        (format!(r#"{{{turn},"inferenceConfig":{{"maxTokens":-1}}}}"#), "inferenceConfig: maxTokens, temperature and topP should be numbers and stopSequences a list of strings".to_owned()),
        (format!(r#"{{{turn},"toolConfig":[]}}"#), "toolConfig: Input should be an object with tools and, optionally, toolChoice".to_owned()),
        (format!(r#"{{{turn},"toolConfig":{{"tools":[{{"systemTool":{{"name":"x"}}}}]}}}}"#), "toolConfig.tools.0: Input should be a toolSpec with name and inputSchema.json".to_owned()),
    ] {
        assert_eq!(read(&body), Err(problem), "{body}");
    }
}

#[test]
fn four_kinds_of_pictures_are_known() {
    for (format, media_type) in [
        ("png", "image/png"),
        ("jpeg", "image/jpeg"),
        ("jpeg", "image/jpg"),
        ("gif", "image/gif"),
        ("webp", "image/webp"),
    ] {
        let image = |media_type: &str| {
            RequestPart::Image(Image::Base64 {
                media_type: media_type.to_owned(),
                content: "aGk=".to_owned(),
            })
        };
        let turns = vec![Turn { role: Role::User, parts: vec![image(media_type)] }];
        let body = write_chat_request(&ChatRequest { turns, ..ChatRequest::default() }).unwrap();
        let content = format!(r#"{{"image":{{"format":"{format}","source":{{"bytes":"aGk="}}}}}}"#);
        assert_eq!(str::from_utf8(&body).unwrap(), with_content(&content));
        assert_eq!(parts(&content), [image(&format!("image/{format}"))]);
    }
}

#[test]
fn consecutive_turns_of_one_role_are_merged() {
    let turn = |role, word| Turn { role, parts: vec![text(word)] };
    let turns =
        vec![turn(Role::User, "a"), turn(Role::User, "b"), turn(Role::Assistant, "c"), turn(Role::User, "d")];
    let body = write_chat_request(&ChatRequest { turns, ..ChatRequest::default() }).unwrap();
    let expected = r#"{"messages":[{"role":"user","content":[{"text":"a"},{"text":"b"}]},{"role":"assistant","content":[{"text":"c"}]},{"role":"user","content":[{"text":"d"}]}]}"#;
    assert_eq!(str::from_utf8(&body).unwrap(), expected);
}

#[test]
fn content_that_the_service_cannot_express_is_refused_or_adapted() {
    let write = |request: &ChatRequest| match write_chat_request(request) {
        Ok(body) => String::from_utf8(body.to_vec()).unwrap(),
        Err(error) => error.to_string(),
    };
    let only = |part: RequestPart| ChatRequest {
        turns: vec![Turn { role: Role::User, parts: vec![part] }],
        ..full()
    };
    let url = only(RequestPart::Image(Image::Url("https://a/b.png".to_owned())));
    assert!(write(&url).ends_with(": Not supported by the target model: images by URL"), "{}", write(&url));
    let tiff = only(RequestPart::Image(Image::Base64 {
        media_type: "image/tiff".to_owned(),
        content: String::new(),
    }));
    assert_eq!(write(&tiff), "messages.0.content.0: Image should be png, jpeg, gif or webp");
    let nested = RequestPart::ToolResult { call: "t".to_owned(), parts: vec![], is_error: false };
    let nested = only(RequestPart::ToolResult { call: "t".to_owned(), parts: vec![nested], is_error: false });
    assert_eq!(
        write(&nested),
        "messages.0.content.0.toolResult.content.0: Tool results may contain only text and images"
    );

    let forbidden = ChatRequest { tool_choice: ToolChoice::None, ..only(text("hi")) };
    assert!(!write(&forbidden).contains("toolConfig"));
    let forbidden = ChatRequest { tool_choice: ToolChoice::None, ..full() };
    // The conversation has tool calls, which need the tools.
    assert_eq!(
        write(&forbidden),
        "tool_choice: Not supported by the target model: tools that must not be called"
    );
    let any_tool = ChatRequest { tool_choice: ToolChoice::Any, ..full() };
    assert!(write(&any_tool).contains(r#""toolChoice":{"any":{}}"#));
    assert_eq!(read(&write(&any_tool)), Ok(any_tool));

    let hot = ChatRequest { temperature: Some(1.5), ..full() };
    assert_eq!(write(&hot), "temperature: Not supported by the target model: a temperature above 1");
    for (temperature, written) in
        [(1.0, Some("1.0")), (0.0, Some("0.0")), (f64::NAN, None), (f64::INFINITY, None)]
    {
        let body = write(&ChatRequest { temperature: Some(temperature), top_p: Some(f64::NAN), ..full() });
        let expected = written.map(|number| format!(r#""temperature":{number},"stop"#));
        assert_eq!(body.contains("temperature"), written.is_some());
        assert!(expected.is_none_or(|expected| body.contains(&expected)), "{body}");
        assert!(!body.contains("topP"));
    }
    let mut empty = full();
    empty.system.push(String::new());
    empty.tools[1].description = Some(String::new());
    assert_eq!(write(&empty), GOLDEN.trim_end());
}

/// Merges consecutive turns of one role.
fn taken_in_turns(turns: &[Turn]) -> Vec<Turn> {
    let sides = turns.chunk_by(|a, b| a.role == b.role);
    let together = |side: &[Turn]| side.iter().flat_map(|turn| turn.parts.clone()).collect();
    sides.map(|side| Turn { role: side[0].role, parts: together(side) }).collect()
}

fn any_part() -> impl Strategy<Value = RequestPart> {
    let leaf = prop_oneof![any::<String>().prop_map(RequestPart::Text), Just(image())];
    let call = (any::<String>(), any::<String>())
        .prop_map(|(id, name)| RequestPart::ToolCall(ToolCall { id, name, input: JsonText::empty_object() }));
    let result = (any::<String>(), vec(leaf.clone(), 0..3), any::<bool>())
        .prop_map(|(call, parts, is_error)| RequestPart::ToolResult { call, parts, is_error });
    prop_oneof![leaf, call, result]
}

proptest! {
    #[test]
    fn any_request_survives(
        turns in vec((any::<bool>(), vec(any_part(), 0..4)), 1..4),
        system in vec("[a-z]{1,9}", 0..3),
        max_output in option::of(1_u32..),
        temperature in option::of((0_u8..=100).prop_map(|percent| f64::from(percent) / 100.0)),
        stop in vec(any::<String>(), 0..3),
    ) {
        let role = |is_user| if is_user { Role::User } else { Role::Assistant };
        let turns: Vec<_> = turns.into_iter().map(|(is_user, parts)| Turn { role: role(is_user), parts }).collect();
        let request = ChatRequest { turns, system, max_output, temperature, stop, ..full() };
        let body = write_chat_request(&request).unwrap();
        let expected = ChatRequest { turns: taken_in_turns(&request.turns), ..request };
        prop_assert_eq!(read(str::from_utf8(&body).unwrap()), Ok(expected));
    }

    #[test]
    fn arbitrary_bodies_never_panic(body in ".{0,80}", content in "[\\[\\]{}\":,a-z0-9]{0,40}") {
        let _ = (read(&body), read(&with_content(&content)));
    }
}
