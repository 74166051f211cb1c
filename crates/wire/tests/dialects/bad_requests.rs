//! Requests that no dialect accepts are refused with a message that names the field.

use seawall_wire::{ApiErrorKind, RequestError, RequestLimits, anthropic, openai};

fn in_anthropic(body: &str) -> String {
    told(anthropic::read_chat_request(body.as_bytes(), &RequestLimits::default()))
}

fn in_openai(body: &str) -> String {
    told(openai::read_chat_request(body.as_bytes(), &RequestLimits::default()))
}

fn told<T>(outcome: Result<T, RequestError>) -> String {
    outcome.err().map(|error| error.to_string()).unwrap_or_default()
}

/// A request valid in both dialects, with these fields in front.
fn with(fields: &str) -> String {
    let comma = if fields.is_empty() { "" } else { "," };
    format!(r#"{{{fields}{comma}"model":"m","max_tokens":1,"messages":[{{"role":"user","content":"hi"}}]}}"#)
}

/// A request valid in both dialects, with this message.
fn saying(message: &str) -> String {
    format!(r#"{{"model":"m","max_tokens":1,"messages":[{message}]}}"#)
}

#[test]
fn json_that_readers_disagree_about_is_refused_alike() {
    for (body, problem) in [
        (with(""), ""),
        (with(r#""model":"n""#), "model: Duplicate field"),
        (with(r#""x":1,"\u0078":2"#), "x: Duplicate field"),
        (saying(r#"{"role":"user","role":"user","content":"a"}"#), "messages.0.role: Duplicate field"),
        (
            with(r#""temperature":NaN"#),
            "The request body is not valid JSON: expected value at line 1 column 16",
        ),
        (with(r#""temperature":1e400"#), "temperature: Input should be a valid number"),
        (with(r#""temperature":"1""#), "temperature: Input should be a valid number"),
        (with(r#""top_p":[]"#), "top_p: Input should be a valid number"),
        (with(r#""stream":1"#), "stream: Input should be a valid boolean"),
        (with(r#""x":"\ud800""#), ""),
        (
            saying(r#"{"role":"user","content":"\ud800"}"#),
            "messages.0.content: String contains a lone surrogate such as \\ud800, which is not a valid character",
        ),
        (
            saying(r#"{"role":"user","content":[{"type":"text","text":"a\udc00b"}]}"#),
            "messages.0.content.0.text: String contains a lone surrogate such as \\ud800, which is not a valid character",
        ),
        (saying(r#"{"role":"user","content":"\ud83d\ude00"}"#), ""),
        (saying(r#"{"role":"user","content":7}"#), CONTENT),
        (saying(r#"{"role":"user","content":{}}"#), CONTENT),
        (saying(r#"{"role":"user"}"#), "messages.0.content: Field required"),
        (saying(r#"{"role":"user","content":[7]}"#), "messages.0.content.0: Input should be an object"),
        (saying(r#"{"role":"user","content":[{}]}"#), "messages.0.content.0.type: Field required"),
        (
            saying(r#"{"role":"user","content":[{"type":"text"}]}"#),
            "messages.0.content.0.text: Field required",
        ),
        (
            saying(r#"{"role":"user","content":[{"type":"text","text":1}]}"#),
            "messages.0.content.0.text: Input should be a valid string",
        ),
        (saying(r#"{"content":"a"}"#), "messages.0.role: Field required"),
        (saying("7"), "messages.0: Input should be an object"),
        (saying(""), "messages: at least one message is required"),
        (saying(r#"{"role":"user","content":""}"#), "messages: at least one message is required"),
        (r#"{"model":"m","max_tokens":1}"#.into(), "messages: Field required"),
        (r#"{"model":"m","max_tokens":1,"messages":7}"#.into(), "messages: Input should be a valid list"),
        (r#"{"max_tokens":1,"messages":[]}"#.into(), "model: Field required"),
        (with("") + "x", "The request body is not valid JSON: trailing characters at line 1 column 73"),
        ("[]".into(), "The request body must be a JSON object"),
        (String::new(), "The request body is not valid JSON: EOF while parsing a value at line 1 column 0"),
        ("\u{FEFF}{}".into(), "The request body is not valid JSON: it begins with a byte order mark"),
        (
            with(&format!(r#""x":{}{}"#, "[".repeat(64), "]".repeat(64))),
            "The request body is nested too deeply: the limit is 64 levels",
        ),
        (with(&format!(r#""x":{}{}"#, "[".repeat(63), "]".repeat(63))), ""),
    ] {
        let errors = [in_anthropic(&body), in_openai(&body)]
            .map(|text| text.replace("content blocks", "content parts"));
        assert_eq!(errors, [problem, problem], "{body}");
    }
    let deep = "[".repeat(100_000);
    assert_eq!(in_openai(&deep), "The request body is nested too deeply: the limit is 64 levels");
    let error = openai::read_chat_request(b"\xFF", &RequestLimits::default()).unwrap_err();
    assert_eq!(
        (error.clone(), error.api_error_kind()),
        (RequestError::NotUtf8 { at: 0 }, ApiErrorKind::Malformed)
    );
}

const CONTENT: &str = "messages.0.content: Input should be a valid string or a list of content parts";

#[test]
fn a_limit_of_output_is_a_whole_number_of_tokens() {
    for wrong in ["-1", "0", "9223372036854775808", "\"1e9\"", "1e9", "1.5", "2147483649", "[]", "true"] {
        let body =
            format!(r#"{{"model":"m","max_tokens":{wrong},"messages":[{{"role":"user","content":"hi"}}]}}"#);
        let problem = "max_tokens: Input should be an integer between 1 and 2147483648";
        assert_eq!(in_openai(&body), problem, "{wrong}");
        // Anthropic accepts 0.
        if wrong != "0" {
            let problem = "max_tokens: Input should be an integer between 0 and 2147483648";
            assert_eq!(in_anthropic(&body), problem, "{wrong}");
        }
        let lean = openai::read_request(body.as_bytes(), &RequestLimits::default());
        assert_eq!(told(lean), problem);
    }
}

#[test]
fn members_and_fields_are_counted() {
    let limits = RequestLimits { max_items: 2, max_fields: 5, ..RequestLimits::default() };
    let message = r#"{"role":"user","content":"a"}"#;
    let three = format!("{message},{message},{message}");
    let too_many = |field: &str| RequestError::TooMany { field: field.into(), limit: 2 };
    let fits = saying(&format!("{message},{message}"));
    assert!(anthropic::read_chat_request(fits.as_bytes(), &limits).is_ok());
    assert!(openai::read_chat_request(fits.as_bytes(), &limits).is_ok());
    assert!(openai::read_request(fits.as_bytes(), &limits).is_ok());
    assert!(anthropic::read_request(fits.as_bytes(), &limits).is_ok());
    let body = saying(&three);
    assert_eq!(anthropic::read_request(body.as_bytes(), &limits), Err(too_many("messages")));
    assert_eq!(too_many("messages").api_error_kind(), ApiErrorKind::TooLarge);
    assert_eq!(anthropic::read_chat_request(body.as_bytes(), &limits), Err(too_many("messages")));
    assert_eq!(openai::read_chat_request(body.as_bytes(), &limits), Err(too_many("messages")));
    assert_eq!(openai::read_request(body.as_bytes(), &limits), Err(too_many("messages")));
    assert_eq!(anthropic::read_count_request(body.as_bytes(), &limits), Err(too_many("messages")));
    let part = r#"{"type":"text","text":"a"}"#;
    let body = saying(&format!(r#"{{"role":"user","content":[{part},{part},{part}]}}"#));
    assert_eq!(anthropic::read_chat_request(body.as_bytes(), &limits), Err(too_many("messages.0.content")));
    assert_eq!(anthropic::read_request(body.as_bytes(), &limits), Err(too_many("messages.0.content")));
    assert_eq!(openai::read_chat_request(body.as_bytes(), &limits), Err(too_many("messages.0.content")));
    let body = with(r#""tools":[1,2,3]"#);
    assert_eq!(anthropic::read_chat_request(body.as_bytes(), &limits), Err(too_many("tools")));
    assert_eq!(anthropic::read_request(body.as_bytes(), &limits), Err(too_many("tools")));
    assert_eq!(openai::read_chat_request(body.as_bytes(), &limits), Err(too_many("tools")));
    let body = with(r#""a":1,"b":2"#);
    assert!(anthropic::read_chat_request(body.as_bytes(), &limits).is_ok());
    assert!(openai::read_request(body.as_bytes(), &limits).is_ok());
    let body = with(r#""a":1,"b":2,"c":3"#);
    let error = RequestError::TooManyFields { limit: 5 };
    assert_eq!(anthropic::read_chat_request(body.as_bytes(), &limits), Err(error.clone()));
    assert_eq!(openai::read_request(body.as_bytes(), &limits), Err(error));
    let body = saying(r#"{"role":"user","content":"a","c":1,"d":2,"e":3,"f":4}"#);
    let error = RequestError::TooMany { field: "messages.0".into(), limit: 5 };
    assert_eq!(anthropic::read_chat_request(body.as_bytes(), &limits), Err(error.clone()));
    assert_eq!(openai::read_request(body.as_bytes(), &limits), Err(error));
    let limits = RequestLimits { max_body_size: 10, ..limits };
    let error = openai::read_request(body.as_bytes(), &limits).unwrap_err();
    assert_eq!(error.api_error_kind(), ApiErrorKind::TooLarge);
}

#[test]
fn what_anthropic_alone_can_say_is_refused_or_wrong() {
    let own = "Not supported by the target model: vendor-specific content blocks";
    for (body, problem) in [
        (saying(r#"{"role":"user","content":[{"type":"search_result"}]}"#), format!("messages.0.content.0.type: {own}")),
        (saying(r#"{"role":"assistant","content":[{"type":"brand_new"}]}"#), format!("messages.0.content.0.type: {own}")),
        (
            saying(r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"search_result"}]}]}"#),
            format!("messages.0.content.0.content.0.type: {own}"),
        ),
        (
            saying(r#"{"role":"user","content":[{"type":"image","source":{"type":"file"}}]}"#),
            "messages.0.content.0.source.type: Not supported by the target model: content stored at the vendor".into(),
        ),
        (
            saying(r#"{"role":"user","content":[{"type":"image","source":{"type":"url","url":"data:image/png,x"}}]}"#),
            "messages.0.content.0.source.url: Not supported by the target model: data URLs without base64".into(),
        ),
        (saying(r#"{"role":"tool","content":"a"}"#), "messages.0.role: Input should be 'user', 'assistant' or 'system'".into()),
        (
            saying(r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"b","input":[]}]}"#),
            "messages.0.content.0.input: Input should be an object".into(),
        ),
        (
            with(r#""tools":[{"type":"web_search_20250305","name":"web_search"}]"#),
            "tools.0.type: Not supported by the target model: tools defined by the vendor".into(),
        ),
        (with(r#""tools":[{"name":"f"}]"#), "tools.0.input_schema: Field required".into()),
        (with(r#""tools":[{"name":"f","input_schema":1}]"#), "tools.0.input_schema: Input should be an object".into()),
        (with(r#""tool_choice":"auto""#), "tool_choice: Input should be an object".into()),
        (with(r#""tool_choice":{"type":"some"}"#), "tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'".into()),
        (with(r#""tool_choice":{"type":"tool"}"#), "tool_choice.name: Field required".into()),
        (
            with(r#""system":"\ud800""#),
            "system: String contains a lone surrogate such as \\ud800, which is not a valid character".into(),
        ),
        (with(r#""system":7"#), "system: Input should be a valid list".into()),
        (with(r#""system":[{"type":"image"}]"#), "system.0.type: Not supported by the target model: content other than text".into()),
        (with(r#""stop_sequences":["a",1]"#), "stop_sequences.1: Input should be a valid string".into()),
    ] {
        assert_eq!(in_anthropic(&body), problem, "{body}");
    }
}

#[test]
fn what_openai_alone_can_say_is_refused_or_wrong() {
    let older = "Not supported by the target model: legacy function calling";
    let call = |arguments: &str| {
        saying(&format!(
            r#"{{"role":"assistant","tool_calls":[{{"id":"a","type":"function","function":{{"name":"f","arguments":{arguments}}}}}]}}"#
        ))
    };
    let arguments =
        "messages.0.tool_calls.0.function.arguments: Input should be a JSON object encoded as a string";
    for (body, problem) in [
        (with(r#""n":"1""#), "n: Input should be a whole number".into()),
        (with(r#""audio":{}"#), "audio: Not supported by the target model: audio output".into()),
        (with(r#""functions":[]"#), format!("functions: {older}")),
        (with(r#""function_call":"auto""#), format!("function_call: {older}")),
        (saying(r#"{"role":"function","name":"f","content":"a"}"#), format!("messages.0.role: {older}")),
        (saying(r#"{"role":"assistant","function_call":{}}"#), format!("messages.0.function_call: {older}")),
        (
            with(r#""response_format":{"type":"grammar"}"#),
            "response_format.type: Not supported by the target model: response formats other than text and JSON".into(),
        ),
        (with(r#""response_format":{}"#), "response_format.type: Field required".into()),
        (with(r#""tools":[{"type":"custom"}]"#), "tools.0.custom: Field required".into()),
        (with(r#""tools":[{"type":"function","function":{}}]"#), "tools.0.function.name: Field required".into()),
        (with(r#""tool_choice":"some""#), "tool_choice: Input should be 'auto', 'none', 'required' or a function".into()),
        (
            with(r#""tool_choice":{"type":"allowed_tools"}"#),
            "tool_choice.allowed_tools: Field required".into(),
        ),
        (with(r#""tool_choice":{"type":"function","function":{}}"#), "tool_choice.function.name: Field required".into()),
        (with(r#""stream_options":{"include_usage":1}"#), "stream_options.include_usage: Input should be a valid boolean".into()),
        (with(r#""stop":[1]"#), "stop.0: Input should be a valid string".into()),
        (call("\"{\""), arguments.into()),
        (call("\"[]\""), arguments.into()),
        (call(&format!("\"{}\"", r#"{\"a\":"#.repeat(64) + "{}" + &"}".repeat(64))), arguments.into()),
        (call(&format!("\"{}\"", r#"{\"a\":"#.repeat(63) + "{}" + &"}".repeat(63))), String::new()),
        (call("{}"), "messages.0.tool_calls.0.function.arguments: Input should be a valid string".into()),
        (
            saying(r#"{"role":"user","content":[{"type":"input_audio"}]}"#),
            "messages.0.content.0.type: Not supported by the target model: content parts other than text, images and files".into(),
        ),
        (
            saying(r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png,x"}}]}"#),
            "messages.0.content.0.image_url.url: Not supported by the target model: data URLs without base64".into(),
        ),
        (saying(r#"{"role":"tool","content":"a"}"#), "messages.0.tool_call_id: Field required".into()),
        (saying(r#"{"role":"clown","content":"a"}"#), "messages.0.role: Input should be 'system', 'developer', 'user', 'assistant' or 'tool'".into()),
        (saying(r#"{"role":"system","content":"a"}"#), "messages: at least one message is required".into()),
    ] {
        assert_eq!(in_openai(&body), problem, "{body}");
    }
}
