//! Tests of request parsing.

use crate::chat_face::{ChatError, ChatFaceRequest, ChatTurn};
use crate::{ApiErrorKind, RequestLimits};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use seawall_core::history::Role;
use seawall_core::strategy::Language;
use serde_json::{Value, json};

fn read_text(body: &str) -> Result<ChatFaceRequest, ChatError> {
    ChatFaceRequest::read(body.as_bytes(), false, &RequestLimits::default())
}

fn read(body: &Value) -> Result<ChatFaceRequest, ChatError> {
    read_text(&body.to_string())
}

/// A valid request with one field replaced.
fn with(field: &str, value: Value) -> Result<ChatFaceRequest, ChatError> {
    let mut body = json!({"message": "hello"});
    body[field] = value;
    read(&body)
}

#[test]
fn a_question_with_all_fields_is_parsed_completely() {
    let body = json!({
        "message": " 次は？ ", "session": "s 1~", "locale": "ja_jp", "stream": true, "request_id": "r-1",
        "max_tokens": 300, "history": [{"role": "user", "text": "a"}, {"text": "b", "role": "assistant"}],
    });
    let turn = |role, text: &str| ChatTurn { role, text: text.to_owned() };
    let expected = ChatFaceRequest {
        message: " 次は？ ".to_owned(),
        history: vec![turn(Role::User, "a"), turn(Role::Assistant, "b")],
        session: Some("s 1~".to_owned()),
        locale: "ja-JP".to_owned(),
        stream: true,
        request_id: Some("r-1".to_owned()),
        max_output: Some(300),
    };
    assert_eq!(read(&body), Ok(expected));
}

#[test]
fn a_question_with_nothing_else_leaves_the_rest_open() {
    let ask = read(&json!({"message": "hello", "session": null, "history": null, "stream": null})).unwrap();
    let expected = ChatFaceRequest {
        message: "hello".to_owned(),
        history: Vec::new(),
        session: None,
        locale: "en".to_owned(),
        stream: false,
        request_id: None,
        max_output: None,
    };
    assert_eq!(ask, expected);
}

#[test]
fn an_invalid_field_is_rejected_by_name() {
    let name = "must have 1 to 128 printable ASCII characters";
    let locale = "must be a language such as ja-JP or en";
    for (field, value, problem) in [
        ("message", json!(""), "must not be empty"),
        ("message", json!(" \n　"), "must not be empty"),
        ("message", json!(5), "Input should be a valid string"),
        ("message", json!(null), "Field required"),
        ("session", json!(""), name),
        ("session", json!("a".repeat(129)), name),
        ("session", json!("a\nb"), name),
        ("session", json!("\u{7f}"), name),
        ("session", json!("é"), name),
        ("request_id", json!(""), name),
        ("request_id", json!("a".repeat(129)), name),
        ("request_id", json!(7), "Input should be a valid string"),
        ("locale", json!(""), locale),
        ("locale", json!("j"), locale),
        ("locale", json!("jpan"), locale),
        ("locale", json!("j1"), locale),
        ("locale", json!("ja-"), locale),
        ("locale", json!("ja-J!"), locale),
        ("locale", json!("ja-123456789"), locale),
        ("locale", json!(format!("ja{}", "-abcdefgh".repeat(4))), locale),
        ("stream", json!("yes"), "Input should be a valid boolean"),
        ("max_tokens", json!(0), "Input should be an integer between 1 and 2147483648"),
        ("max_tokens", json!(1.5), "Input should be an integer between 1 and 2147483648"),
        ("history", json!({}), "Input should be a valid list"),
        ("model", json!("gpt-4o"), "Extra inputs are not permitted"),
        ("tier", json!("prime"), "Extra inputs are not permitted"),
        ("url", json!(null), "Extra inputs are not permitted"),
    ] {
        let error = with(field, value.clone()).unwrap_err();
        assert_eq!(error.to_string(), format!("{field}: {problem}"), "{value}");
        assert_eq!(error.api_error_kind(), ApiErrorKind::Malformed);
    }
    for (turn, problem) in [
        (json!(1), ": Input should be an object"),
        (json!({"text": "x"}), ".role: Field required"),
        (json!({"role": "system", "text": "x"}), ".role: must be user or assistant"),
        (json!({"role": "user"}), ".text: Field required"),
        (json!({"role": "user", "text": ["x"]}), ".text: Input should be a valid string"),
        (json!({"role": "user", "text": "x", "name": "y"}), ".name: Extra inputs are not permitted"),
    ] {
        let good = json!({"role": "user", "text": "x"});
        let error = with("history", json!([good, turn])).unwrap_err();
        assert_eq!(error.to_string(), format!("history.1{problem}"));
    }
}

#[test]
fn the_longest_of_everything_is_taken_and_one_more_is_not() {
    assert_eq!(with("message", json!("漫".repeat(16_000))).unwrap().message.chars().count(), 16_000);
    let error = with("message", json!("漫".repeat(16_001))).unwrap_err();
    assert_eq!(error, ChatError::TooLong { characters: 16_001, limit: 16_000 });
    assert_eq!(error.api_error_kind(), ApiErrorKind::TooLarge);
    assert_eq!(error.to_string(), "message: 16001 characters exceed the limit of 16000");
    let turns = |count: usize| json!(vec![json!({"role": "user", "text": "x"}); count]);
    assert_eq!(with("history", turns(100)).unwrap().history.len(), 100);
    assert_eq!(
        with("history", turns(101)).unwrap_err().to_string(),
        "history: List should have at most 100 items"
    );
    for field in ["session", "request_id"] {
        assert!(with(field, json!("~".repeat(128))).is_ok() && with(field, json!(" ")).is_ok());
    }
    assert_eq!(with("max_tokens", json!(1)).unwrap().max_output, Some(1));
    assert!(with("locale", json!("ja-abcdefgh-abcdefgh-abcdefgh-abcde")).is_ok());
    assert!(with("locale", json!("ja-abcdefgh-abcdefgh-abcdefgh-abcdef")).is_err());
}

#[test]
fn limits_of_every_request_hold_here_too() {
    let limits = RequestLimits { max_body_size: 60, max_depth: 3, max_fields: 3, max_items: 2 };
    let read = |body: &str| {
        ChatFaceRequest::read(body.as_bytes(), false, &limits).map_err(|error| error.to_string())
    };
    assert!(read(r#"{"message":"x","stream":false,"session":"s"}"#).is_ok());
    let long = format!(r#"{{"message":"{}"}}"#, "x".repeat(50));
    assert!(read(&long).unwrap_err().contains("the limit is 60 bytes"));
    assert!(read(r#"{"message":"x","history":[[[]]]}"#).unwrap_err().contains("the limit is 3 levels"));
    assert!(
        read(r#"{"message":"x","a":1,"b":2,"c":3}"#).unwrap_err().contains("too many fields: the limit is 3")
    );
    assert_eq!(
        read(r#"{"message":"x","history":[1,2,3]}"#).unwrap_err(),
        "history: List should have at most 2 items"
    );
    let large = ChatFaceRequest::read(long.as_bytes(), false, &limits).unwrap_err();
    assert_eq!(large.api_error_kind(), ApiErrorKind::TooLarge);
    for body in [
        r#"{"message":"a","message":"b"}"#,
        r#"{"message":"a","history":[{"role":"user","role":"user","text":"x"}]}"#,
        r#"["message"]"#,
        r#"{"message":"\ud800"}"#,
        "\u{FEFF}{}",
        "{",
        "",
    ] {
        assert_eq!(read_text(body).unwrap_err().api_error_kind(), ApiErrorKind::Malformed, "{body}");
    }
    assert!(ChatFaceRequest::read(b"{\"message\":\"\xff\"}", false, &limits).is_err());
}

#[test]
fn an_unknown_name_is_truncated_in_messages() {
    let error = with(&"n".repeat(500), json!(1)).unwrap_err();
    assert_eq!(error.to_string(), format!("{}: Extra inputs are not permitted", "n".repeat(64)));
}

#[test]
fn the_body_takes_precedence_over_the_headers_about_streams() {
    for (field, accepts, stream) in [
        ("", false, false),
        ("", true, true),
        (r#","stream":true"#, false, true),
        (r#","stream":false"#, true, false),
        (r#","stream":null"#, true, true),
    ] {
        let body = format!(r#"{{"message":"x"{field}}}"#);
        let ask = ChatFaceRequest::read(body.as_bytes(), accepts, &RequestLimits::default()).unwrap();
        assert_eq!(ask.stream, stream, "{body} {accepts}");
    }
}

#[test]
fn empty_turns_are_dropped() {
    let turn = |text: &str| json!({"role": "assistant", "text": text});
    let ask = with("history", json!([turn(""), turn(" "), turn("x"), turn("\n")])).unwrap();
    assert_eq!(ask.history, [ChatTurn { role: Role::Assistant, text: "x".to_owned() }]);
}

#[test]
fn a_locale_has_one_spelling_and_is_guessed_from_the_script() {
    for (given, spelled, language) in [
        ("ja", "ja", Language::Japanese),
        ("JA-jp", "ja-JP", Language::Japanese),
        ("en_us", "en-US", Language::English),
        ("ZH-HANT-tw", "zh-Hant-TW", Language::English),
        ("es-419", "es-419", Language::English),
        ("fil", "fil", Language::English),
        ("en-US-x-POSIX", "en-US-x-posix", Language::English),
    ] {
        let ask = with("locale", json!(given)).unwrap();
        assert_eq!((ask.locale.as_str(), ask.language()), (spelled, language));
    }
    for (message, locale) in [
        ("おすすめは？", "ja"),
        ("One Piece の最新刊はいつ出ますか", "ja"),
        ("ﾏﾝｶﾞ", "ja"),
        ("漫画", "ja"),
        ("Do you have manga of 鳥山明 here?", "ja"),
        ("What is new?", "en"),
        ("Do you have a manga by 鳥山 or by somebody else who draws like that?", "en"),
        ("123 !?", "en"),
    ] {
        let ask = read(&json!({"message": message})).unwrap();
        assert_eq!(ask.locale, locale, "{message}");
        assert_eq!(ask.language() == Language::Japanese, locale == "ja");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        vec(any::<String>(), 0..3).prop_map(Value::from),
        Just(json!([{"role": "user", "text": "x"}])),
        Just(json!({"role": "user"})),
    ]
}

proptest! {
    #[test]
    fn what_is_read_is_within_its_limits_and_all_else_names_a_field(
        message in any_json(), fields in vec((0_usize..7, any_json()), 0..4), extra in proptest::option::of("[a-z]{1,9}"),
    ) {
        let names = ["history", "session", "locale", "stream", "request_id", "max_tokens", "message"];
        let mut body = json!({"message": message});
        for (name, value) in fields {
            body[names[name]] = value;
        }
        if let Some(extra) = &extra {
            body[extra] = json!(1);
        }
        match read(&body) {
            Ok(ask) => {
                prop_assert!(!ask.message.trim().is_empty() && !ask.locale.is_empty());
                prop_assert_eq!(body["message"].as_str(), Some(ask.message.as_str()));
                prop_assert!(extra.is_none_or(|extra| names.contains(&extra.as_str())));
            }
            Err(error) => {
                prop_assert!(error.to_string().contains(": "));
                prop_assert!(matches!(error.api_error_kind(), ApiErrorKind::Malformed | ApiErrorKind::TooLarge));
            }
        }
    }

    #[test]
    fn any_bytes_are_a_question_or_none(bytes: Vec<u8>) {
        let _ = ChatFaceRequest::read(&bytes, true, &RequestLimits::default());
    }
}
