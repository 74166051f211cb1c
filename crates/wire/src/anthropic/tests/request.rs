use crate::anthropic::{MessagesHead, TurnText, read_request, read_text, with_model};
use crate::{ApiErrorKind, RequestError, RequestLimits};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use serde_json::{Value, json};

fn read(body: &str) -> Result<MessagesHead, RequestError> {
    read_request(body.as_bytes(), &RequestLimits::default())
}

fn complaint(body: &str) -> String {
    read(body).unwrap_err().to_string()
}

/// A valid request with one field replaced or removed.
fn body_with(field: &str, value: Option<Value>) -> String {
    let mut body =
        json!({"model": "haiku", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]});
    match value {
        Some(value) => body[field] = value,
        None => drop(body.as_object_mut().unwrap().remove(field)),
    }
    body.to_string()
}

#[test]
fn a_request_is_read() {
    let body = r#" { "system":[{"type":"text","text":"be brief"}], "model" : "claude\u002dx" ,"stream":true,
        "messages":[{"content":[],"role":"user"},{"role":"assis\u0074ant","content":"","extra":{"role":1}}],
        "max_tokens":2147483648,"metadata":{"model":"no","a":1e999}}"#;
    let head = read(body).unwrap();
    assert_eq!((head.model.as_str(), head.max_output, head.stream), ("claude-x", 1 << 31, true));
    assert_eq!(head.turns, 2);
    assert_eq!(&body[head.model_span], r#""claude\u002dx""#);
    assert!(!read(&body_with("stream", Some(Value::Null))).unwrap().stream);
}

#[test]
fn what_only_the_vendor_decides_on_passes() {
    assert_eq!(read(&body_with("max_tokens", Some(json!(0)))).unwrap().max_output, 0);
    for role in ["system", "developer", "whatever comes next"] {
        let turns = json!([{"role": "user", "content": "hi"}, {"role": role, "content": "be brief"}]);
        assert_eq!(read(&body_with("messages", Some(turns))).unwrap().turns, 2, "{role}");
    }
}

#[test]
fn fields_that_are_wrong_are_named() {
    let turn = |turn: Value| Some(json!([{"role": "user", "content": "hi"}, turn]));
    let number = "max_tokens: Input should be an integer between 0 and 2147483648";
    for (field, value, expected) in [
        ("model", None, "model: Field required"),
        ("model", Some(json!(7)), "model: Input should be a valid string"),
        ("model", Some(json!(null)), "model: Input should be a valid string"),
        ("model", Some(json!("")), "model: String should have at least 1 character"),
        ("model", Some(json!("m".repeat(257))), "model: String should have at most 256 bytes"),
        ("max_tokens", None, "max_tokens: Field required"),
        ("max_tokens", Some(json!("10")), number),
        ("max_tokens", Some(json!(-1)), number),
        ("max_tokens", Some(json!(1.5)), number),
        ("max_tokens", Some(json!(null)), number),
        ("max_tokens", Some(json!(2_147_483_649_u64)), number),
        ("max_tokens", Some(json!(u64::MAX)), number),
        ("stream", Some(json!("true")), "stream: Input should be a valid boolean"),
        ("stream", Some(json!(1)), "stream: Input should be a valid boolean"),
        ("messages", None, "messages: Field required"),
        ("messages", Some(json!([])), "messages: at least one message is required"),
        ("messages", Some(json!("hi")), "messages: Input should be a valid list"),
        ("messages", Some(json!({"role": "user"})), "messages: Input should be a valid list"),
        ("messages", turn(json!("hi")), "messages.1: Input should be an object"),
        ("messages", turn(json!(null)), "messages.1: Input should be an object"),
        ("messages", turn(json!([])), "messages.1: Input should be an object"),
        ("messages", turn(json!({"content": "hi"})), "messages.1.role: Field required"),
        (
            "messages",
            turn(json!({"role": ["user"], "content": "hi"})),
            "messages.1.role: Input should be a non-empty string",
        ),
        (
            "messages",
            turn(json!({"role": "", "content": "hi"})),
            "messages.1.role: Input should be a non-empty string",
        ),
        ("messages", turn(json!({"role": "user"})), "messages.1.content: Field required"),
        (
            "messages",
            turn(json!({"role": "user", "content": {"type": "text"}})),
            "messages.1.content: Input should be a valid string or a list of content blocks",
        ),
    ] {
        let body = body_with(field, value);
        assert_eq!(complaint(&body), expected, "{body}");
    }
}

#[test]
fn a_field_given_twice_is_refused_however_it_is_spelled() {
    let good = body_with("model", Some(json!("haiku")));
    let twice = |field: &str| good.replacen('{', &format!("{{{field},"), 1);
    assert_eq!(complaint(&twice(r#""model":"opus""#)), "model: Duplicate field");
    assert_eq!(complaint(&twice(r#""mod\u0065l":"opus""#)), "model: Duplicate field");
    assert_eq!(complaint(&twice(r#""x":1,"x":1"#)), "x: Duplicate field");
    let turn =
        |turn: &str| complaint(&good.replace(r#"{"content":"hi","role":"user"}"#, &format!("{{{turn}}}")));
    assert_eq!(turn(r#""role":"user","content":"a","content":"b""#), "messages.0.content: Duplicate field");
    assert_eq!(turn(r#""role":"user","rol\u0065":"user","content":"b""#), "messages.0.role: Duplicate field");
}

#[test]
fn what_is_not_json_is_refused_with_the_place() {
    for body in [
        "",
        "{",
        "nonsense",
        r#"{"a":NaN}"#,
        r#"{"a":-}"#,
        r#"{"a":01}"#,
        r#"{"a":"\x"}"#,
        "{\"a\":\"\n\"}",
        r#"{"a":1,}"#,
        r#"{"a" 1}"#,
        r#"{'a':1}"#,
        r#"{"\ud800":1}"#,
        "{} {}",
        "{}\0",
    ] {
        let error = read(body).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("The request body is not valid JSON: ") && text.contains(" at line 1 column "),
            "{body}: {text}"
        );
        assert_eq!(error.api_error_kind(), ApiErrorKind::Malformed);
    }
    assert_eq!(
        complaint("\u{FEFF}{}"),
        "The request body is not valid JSON: it begins with a byte order mark"
    );
    for body in ["[]", "null", "7", "\"model\""] {
        assert_eq!(complaint(body), "The request body must be a JSON object");
    }
    let error = read_request(b"{\"model\":\"\xFF\"}", &RequestLimits::default()).unwrap_err();
    assert_eq!(error, RequestError::NotUtf8 { at: 10 });
    assert_eq!(error.to_string(), "The request body is not valid UTF-8: invalid byte at offset 10");
}

#[test]
fn bodies_built_to_hurt_are_refused() {
    let limits = RequestLimits { max_body_size: 1 << 20, ..RequestLimits::default() };
    let bomb = "[".repeat(1 << 20);
    let refused = |body: &str| read_request(body.as_bytes(), &limits).unwrap_err();
    assert_eq!(refused(&bomb).to_string(), "The request body is nested too deeply: the limit is 64 levels");
    assert_eq!(
        refused(&format!("{bomb}[")).to_string(),
        "Request exceeds the maximum size: the body has 1048577 bytes, the limit is 1048576 bytes"
    );
    assert_eq!(refused(&format!("{bomb}[")).api_error_kind(), ApiErrorKind::TooLarge);
    let nested = |levels: usize| {
        let value: Value =
            serde_json::from_str(&format!("{}{}", "[".repeat(levels), "]".repeat(levels))).unwrap();
        read(&body_with("tools", Some(value)))
    };
    assert!(nested(63).is_ok());
    assert_eq!(nested(64), Err(RequestError::TooDeep { limit: 64 }));
    let many: String = (0..65).map(|number| format!("\"f{number}\":0,")).collect();
    assert_eq!(
        refused(&format!("{{{many}\"f\":0}}")).to_string(),
        "The request body has too many fields: the limit is 64"
    );
    let digits =
        body_with("max_tokens", None).replacen('{', &format!("{{\"max_tokens\":{},", "9".repeat(99_999)), 1);
    assert!(refused(&digits).to_string().starts_with("max_tokens: Input should be an integer"));
}

#[test]
fn another_model_is_spliced_in_and_the_same_one_changes_nothing() {
    let turn = r#"{"role":"user","content":"hi"}"#;
    let text = format!(r#"{{"max_tokens":1, "model" : "a\u0062", "n":1.10, "messages":[{turn}]}}"#);
    let body = Bytes::from(text.clone());
    let head = read(&text).unwrap();
    let same = with_model(&body, &head, "ab");
    assert_eq!(same.as_ptr(), body.as_ptr());
    let changed = with_model(&body, &head, "quote \" and 漫画");
    assert_eq!(changed, text.replace(r#""a\u0062""#, r#""quote \" and 漫画""#));
    let foreign = Bytes::from_static(b"{}");
    assert_eq!(with_model(&foreign, &head, "x"), foreign);
}

#[test]
fn text_is_found_in_every_place_that_holds_some() {
    let body = json!({
        "system": [{"type": "text", "text": "be brief"}],
        "messages": [
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": [{"type": "tool_use", "input": {"text": "no"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "content": [{"type": "text", "text": "found"}]},
                {"type": "image", "source": {"data": "no"}},
                {"type": "text", "text": "次は？"},
            ]},
            {"role": "assistant", "content": "so"},
        ],
    });
    let text = read_text(body.to_string().as_bytes()).unwrap();
    assert_eq!(text.last_user_text(), "found\n次は？");
    assert_eq!(text.all().collect::<Vec<_>>(), ["be brief", "first", "", "found\n次は？", "so"]);
    assert_eq!(text.turns[3], TurnText { is_user: false, text: "so".into() });
    assert!(read_text(b"{}").is_err() && read_text(b"{").is_err());
    assert_eq!(read_text(br#"{"messages":[]}"#).unwrap().last_user_text(), "");
}

/// Building blocks of bodies, mostly invalid in the order drawn.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u00",
    "1",
    "-",
    "e9",
    "null",
    "true",
    "\"model\":",
    "\"haiku\",",
    "\"max_tokens\":5,",
    "\"messages\":[",
    "{\"role\":\"user\",\"content\":\"a\"}",
    "\"stream\":false",
    "漫",
    " ",
    "\n",
];

fn rubble() -> impl Strategy<Value = String> {
    vec(select(PIECES), 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in vec(any::<u8>(), 0..64), rubble in rubble()) {
        let _ = read_request(&bytes, &RequestLimits::default());
        // A body that is accepted is valid JSON for a full parser, too.
        if read(&rubble).is_ok() {
            prop_assert!(serde_json::from_str::<Value>(&rubble).is_ok());
        }
    }

    #[test]
    fn whatever_surrounds_the_model_it_is_found_and_replaced(
        before in "[a-z\"\\\\漫\n]{0,12}",
        model in "[a-z.:/\"\\\\漫-]{1,20}",
        other in "[a-z.:/\"\\\\漫-]{1,20}",
        stream: bool,
        pretty: bool,
    ) {
        let body = json!({
            "about": before, "max_tokens": 7, "model": model, "stream": stream,
            "messages": [{"role": "user", "content": before}],
        });
        let text = if pretty { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) };
        let bytes = Bytes::from(text.unwrap());
        let head = read_request(&bytes, &RequestLimits::default()).unwrap();
        prop_assert_eq!((&head.model, head.stream, head.max_output), (&model, stream, 7));
        let mut expected = body;
        expected["model"] = json!(other);
        let changed = with_model(&bytes, &head, &other);
        prop_assert_eq!(serde_json::from_slice::<Value>(&changed).unwrap(), expected);
        prop_assert_eq!(&changed[..head.model_span.start], &bytes[..head.model_span.start]);
    }
}
