//! Input as vendors and clients write it, in forms that Seawall itself does not write.

use crate::strategies::json;
use crate::streams::{read_anthropic, read_openai};
use seawall_core::failure::FailureKind;
use seawall_wire::chat::UsageReport;
use seawall_wire::chat::{
    AnswerPart, ChatEvent, ChatRequest, FinishReason, Image, RequestPart, Role, ToolChoice, Turn, Usage,
};
use seawall_wire::{AnswerError, RequestLimits, anthropic, openai};

fn in_anthropic(body: &str) -> ChatRequest {
    anthropic::read_chat_request(body.as_bytes(), &RequestLimits::default()).unwrap()
}

fn in_openai(body: &str) -> ChatRequest {
    openai::read_chat_request(body.as_bytes(), &RequestLimits::default()).unwrap()
}

fn text(text: &str) -> RequestPart {
    RequestPart::Text(text.to_owned())
}

fn turn(role: Role, parts: Vec<RequestPart>) -> Turn {
    Turn { role, parts }
}

#[test]
fn the_model_s_own_blocks_are_left_out_of_an_anthropic_request_and_turns_are_joined() {
    let request = in_anthropic(
        r#"{"model":"m","max_tokens":9,"top_k":3,"thinking":{"type":"enabled"},"system":"S","tool_choice":{"type":"any"},
        "tools":[{"type":"custom","name":"f","input_schema":{},"cache_control":{"type":"ephemeral"}}],"stream":null,
        "messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b","cache_control":null}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","is_error":true},
        {"type":"tool_result","tool_use_id":"u","content":"ok"}]},
        {"role":"assistant","content":[{"type":"text","text":"c"},{"type":"tool_use","id":"t","name":"f"}]}]}"#,
    );
    let result = |call: &str, parts, is_error| RequestPart::ToolResult { call: call.into(), parts, is_error };
    let RequestPart::ToolCall(call) = request.turns[1].parts[1].clone() else { panic!("{request:?}") };
    assert_eq!((call.id.as_str(), call.name.as_str(), call.input), ("t", "f", json("{}")));
    assert_eq!(
        request.turns[0],
        turn(
            Role::User,
            vec![text("a"), text("b"), result("t", vec![], true), result("u", vec![text("ok")], false)]
        )
    );
    assert_eq!((request.turns.len(), request.system), (2, vec!["S".to_owned()]));
    assert_eq!((request.tool_choice, request.max_output, request.stream), (ToolChoice::Any, Some(9), false));
}

#[test]
fn an_openai_request_is_read_in_all_its_forms() {
    let request = in_openai(
        r#"{"model":"m","max_tokens":17,"max_completion_tokens":9,"n":1,"logprobs":false,"seed":4,"stop":"END",
        "response_format":{"type":"text"},"stream":true,"stream_options":null,"tool_choice":"required",
        "tools":[{"type":"function","function":{"name":"f","strict":true}}],
        "messages":[{"role":"developer","content":[{"type":"text","text":"S"},{"type":"text","text":""}]},
        {"role":"user","name":"Ann","content":[{"type":"text","text":"a"},
        {"type":"image_url","image_url":{"url":"data:image/png;base64,AA==","detail":"high"}}]},
        {"role":"system","content":"late"},
        {"role":"assistant","content":"","refusal":"no","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":""}}]},
        {"role":"tool","tool_call_id":"t","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]},
        {"role":"user","content":"b"},{"role":"assistant","content":[{"type":"refusal","refusal":"never"}]}]}"#,
    );
    let picture = Image::Base64 { media_type: "image/png".into(), content: "AA==".into() };
    let result =
        RequestPart::ToolResult { call: "t".into(), parts: vec![text("x"), text("y")], is_error: false };
    assert_eq!(request.system, ["S", "late"]);
    assert_eq!(request.turns[0], turn(Role::User, vec![text("a"), RequestPart::Image(picture)]));
    assert_eq!(request.turns[1].parts[0], text("no"));
    assert!(matches!(&request.turns[1].parts[1], RequestPart::ToolCall(call) if call.input == json("{}")));
    assert_eq!(request.turns[2], turn(Role::User, vec![result, text("b")]));
    assert_eq!(request.turns[3], turn(Role::Assistant, vec![text("never")]));
    assert_eq!(request.tools[0].schema, json(r#"{"type":"object","properties":{}}"#));
    assert_eq!(
        (request.max_output, request.stop, request.stream_usage),
        (Some(9), vec!["END".to_owned()], false)
    );
    assert_eq!(request.tool_choice, ToolChoice::Any);
}

#[test]
fn an_openai_answer_may_refuse_in_its_own_field() {
    let body = |message: &str, finish: &str| {
        format!(
            r#"{{"id":"c","object":"chat.completion","model":"m","choices":[{{"index":0,"message":{message},"finish_reason":{finish}}}],
            "usage":{{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"prompt_tokens_details":{{"cached_tokens":4,"audio_tokens":0}},
            "completion_tokens_details":{{"reasoning_tokens":1}}}}}}"#
        )
    };
    let read = |message: &str, finish: &str| openai::read_chat_answer(body(message, finish).as_bytes());
    let refused = read(r#"{"role":"assistant","content":null,"refusal":"no"}"#, r#""stop""#).unwrap();
    assert_eq!((refused.parts, refused.finish), (vec![AnswerPart::Text("no".into())], FinishReason::Refusal));
    assert_eq!(
        refused.usage,
        Usage { input: 6, cache_read: 4, cache_write: 0, output: 2, ..Usage::default() }
    );
    for (finish, expected) in [
        (r#""stop""#, FinishReason::EndTurn),
        (r#""length""#, FinishReason::MaxTokens),
        (r#""tool_calls""#, FinishReason::ToolUse),
        (r#""function_call""#, FinishReason::ToolUse),
        (r#""content_filter""#, FinishReason::Refusal),
        (r#""tired""#, FinishReason::Other),
        ("null", FinishReason::Other),
    ] {
        assert_eq!(read("{}", finish).unwrap().finish, expected);
        assert_eq!(
            openai::read_answer(body("{}", finish).as_bytes()),
            Ok((UsageReport { usage: refused.usage, output_reported: true }, expected))
        );
    }
    let bad = r#"{"tool_calls":[{"id":"t","function":{"name":"f","arguments":"{"}}]}"#;
    let problem = "the arguments of a tool call are not an object".to_owned();
    assert_eq!(read(bad, "null"), Err(AnswerError::Unreadable { problem }));
    let none = br#"{"id":"","model":"","choices":[],"usage":{}}"#;
    assert_eq!(
        openai::read_chat_answer(none),
        Err(AnswerError::Unreadable { problem: "there are no choices".into() })
    );
}

#[test]
fn instructions_inside_an_anthropic_conversation_join_those_before_it() {
    let request = in_anthropic(
        r#"{"model":"m","max_tokens":9,"system":"one","messages":[{"role":"user","content":"hi"},
            {"role":"system","content":"two"},{"role":"assistant","content":"yes"},{"role":"user","content":"go"},
            {"role":"system","content":[{"type":"text","text":"three"}]}]}"#,
    );
    assert_eq!(request.system, ["one", "two", "three"]);
    assert_eq!(
        request.turns.iter().map(|turn| turn.role).collect::<Vec<_>>(),
        [Role::User, Role::Assistant, Role::User]
    );
}

#[test]
fn other_blocks_of_an_anthropic_answer_are_left_out() {
    let read = |content: &str| {
        let body = format!(
            r#"{{"type":"message","id":"i","model":"m","content":[{content}],"usage":{{"output_tokens":1}}}}"#
        );
        anthropic::read_chat_answer(body.as_bytes())
    };
    let parts = read(
        r#"{"type":"thinking","thinking":"x"},{"type":"text","text":""},{"type":"text","text":"a","citations":null}"#,
    );
    assert_eq!(parts.unwrap().parts, [AnswerPart::Text("a".into())]);
    for (content, problem) in [
        (r#"{"type":"text"}"#, "a text block has no text"),
        (r#"{"type":"tool_use","name":"f"}"#, "a tool call has no id"),
        (r#"{"type":"tool_use","id":"f"}"#, "a tool call has no name"),
        (
            r#"{"type":"tool_use","id":"f","name":"f","input":[]}"#,
            "the input of a tool call is not an object",
        ),
    ] {
        assert_eq!(read(content), Err(AnswerError::Unreadable { problem: problem.into() }));
    }
}

#[test]
fn an_anthropic_stream_with_thinking_and_pings_is_read() {
    let bytes = concat!(
        "event: message_start\ndata: {\"message\":{\"id\":\"i\",\"model\":\"m\",\"usage\":{\"input_tokens\":3}}}\n\n",
        "event: content_block_start\ndata: {\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}}\n\n",
        "event: content_block_delta\ndata: {\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n",
        "event: content_block_stop\ndata: {\"index\":0}\n\nevent: ping\ndata: {}\n\nevent: brand_new\ndata: {}\n\n",
        "event: content_block_start\ndata: {\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"a\"}}\n\n",
        "event: content_block_delta\ndata: {\"index\":1,\"delta\":{\"type\":\"citations_delta\"}}\n\n",
        "event: message_delta\ndata: {\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
        "event: message_delta\ndata: {\"delta\":{},\"usage\":{\"output_tokens\":2}}\n\n",
        "event: message_stop\ndata: {}\n\nevent: error\ndata: {}\n\n",
    );
    let usage = Usage { input: 3, ..Usage::default() };
    let expected = [
        ChatEvent::Started { id: "i".into(), model: "m".into(), usage },
        ChatEvent::Thinking("hm".into()),
        ChatEvent::Text("a".into()),
        ChatEvent::Usage(Usage { output: 2, ..usage }),
        ChatEvent::Finished(FinishReason::EndTurn),
    ];
    assert_eq!(read_anthropic([bytes.as_bytes()]), (expected.to_vec(), Ok(()), true));
}

#[test]
fn an_anthropic_stream_out_of_order_is_an_error() {
    let start = "event: message_start\ndata: {\"message\":{\"id\":\"i\",\"model\":\"m\",\"usage\":{}}}\n\n";
    let block = "event: content_block_start\ndata: {\"index\":0,\"content_block\":{\"type\":\"text\"}}\n\n";
    let piece = "event: content_block_delta\ndata: {\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n";
    let nameless = "event: content_block_start\ndata: {\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\"}}\n\n";
    for (events, problem) in [
        (vec![start, start], "invalid message_start event: message_start was sent twice"),
        (vec![block], "invalid content_block_start event: no message_start came before"),
        (vec![start, piece], "invalid content_block_delta event: no content block with this index is open"),
        (
            vec![start, block, piece],
            "invalid content_block_delta event: no content block with this index is open",
        ),
        (vec![start, nameless], "invalid content_block_start event: a tool call has no id or no name"),
        (
            vec!["event: message_delta\ndata: {\"delta\":{}}\n\n"],
            "invalid message_delta event: no message_start came before",
        ),
        (
            vec!["event: message_stop\ndata: {}\n\n"],
            "invalid message_stop event: no message_start came before",
        ),
    ] {
        let (_, outcome, is_over) = read_anthropic([events.concat().as_bytes()]);
        assert_eq!((outcome.unwrap_err().to_string().as_str(), is_over), (problem, false));
    }
}

/// The events of the chunks, without the start of the stream.
fn chunks(chunks: &[&str]) -> Result<Vec<ChatEvent>, String> {
    let bytes: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    let (mut events, outcome, _) = read_openai([bytes.as_bytes()]);
    assert!(matches!(events.remove(0), ChatEvent::Started { .. }));
    outcome.map(|()| events).map_err(|error| error.to_string())
}

#[test]
fn openai_streams_of_compatible_servers_are_read() {
    let started = |id: &str| ChatEvent::ToolCallStarted { id: id.into(), name: "f".into() };
    let input = |input: &str| ChatEvent::ToolInput(input.into());
    let calls = |calls: &str| format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{calls}]}}}}]}}"#);
    // Two calls in one chunk, one without an id.
    let both = calls(
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{"}},{"index":1,"function":{"name":"f"}}"#,
    );
    let second = calls(r#"{"index":1,"function":{"arguments":"{}"}}"#);
    let expected = vec![started("a"), input("{"), started("call_1"), input("{}")];
    assert_eq!(chunks(&[&both, &second]), Ok(expected));
    // No index at all: an id starts a call.
    let first = calls(r#"{"id":"a","function":{"name":"f","arguments":"{"}}"#);
    let more = calls(r#"{"function":{"arguments":"}"}}"#);
    let next = calls(r#"{"id":"b","function":{"name":"f"}}"#);
    assert_eq!(chunks(&[&first, &more, &next]), Ok(vec![started("a"), input("{"), input("}"), started("b")]));
    let late = Err("invalid chunk event: a tool call continues after other content has started".to_owned());
    let early = calls(r#"{"index":0,"function":{"arguments":"}"}}"#);
    assert_eq!(chunks(&[&both, &early]), late);
    let words = r#"{"choices":[{"delta":{"content":"so"}}]}"#;
    assert_eq!(chunks(&[&both, words, &second]), late);
    let nameless = calls(r#"{"index":0,"id":"a"}"#);
    assert_eq!(
        chunks(&[&nameless]),
        Err("invalid chunk event: a tool call starts without a name".to_owned())
    );
}

#[test]
fn the_rest_of_an_openai_stream_means_what_it_says() {
    let refused = [r#"{"choices":[{"delta":{"refusal":"no"},"finish_reason":"stop"}]}"#, " [DONE] ", "junk"];
    let expected = vec![ChatEvent::Text("no".into()), ChatEvent::Finished(FinishReason::Refusal)];
    assert_eq!(chunks(&refused), Ok(expected));
    let other_choice =
        r#"{"choices":[{"index":1,"delta":{"content":"b"}},{"index":0,"delta":{"content":"a"}}]}"#;
    assert_eq!(chunks(&[other_choice]), Ok(vec![ChatEvent::Text("a".into())]));
    // Azure begins with a chunk about the prompt; the answer starts after it.
    let about = r#"{"id":"","model":"","choices":[],"prompt_filter_results":[]}"#;
    let (events, ..) = read_openai([format!("data: {about}\n\n").as_bytes()]);
    assert_eq!(events, []);
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":1}}"#;
    let counted = Usage { input: 5, output: 1, ..Usage::default() };
    let expected = vec![ChatEvent::Usage(counted), ChatEvent::Finished(FinishReason::Other)];
    assert_eq!(chunks(&[usage, "[DONE]"]), Ok(expected));
    for (error, kind) in [
        (r#"{"message":"m","type":"server_error","code":null}"#, FailureKind::ServerFault),
        (r#"{"message":"m","type":"invalid_request_error"}"#, FailureKind::BadRequest),
        (r#"{"message":"m","code":429}"#, FailureKind::Throttled),
        (r#"{"message":"m","code":200}"#, FailureKind::Unrecognised),
        (r#"{"message":"m","code":"rate_limit_exceeded","type":"new"}"#, FailureKind::Throttled),
        (r#""text""#, FailureKind::Unrecognised),
    ] {
        let (events, outcome, is_over) = read_openai([format!("data: {{\"error\":{error}}}\n\n").as_bytes()]);
        let [ChatEvent::Failed { failure, .. }] = &events[..] else { panic!("{events:?}") };
        assert_eq!(
            (failure.kind, failure.not_executed, outcome, is_over),
            (kind, false, Ok(()), true),
            "{error}"
        );
    }
    let (events, outcome, is_over) = read_openai([&b"data: [DONE]\n\n"[..]]);
    assert!(events.is_empty() && outcome.is_err() && !is_over);
}
