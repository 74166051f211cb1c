//! Tests of request parsing.

use crate::chat::{ChatAsk, ChatError, ChatText, ChatTurn};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use seawall_core::history::Role;
use seawall_core::strategy::Language;
use seawall_wire::{Refusal, RequestLimits};
use serde_json::{Value, json};

fn read_text(body: &str) -> Result<ChatAsk, ChatError> {
    ChatAsk::read(body.as_bytes(), false, &RequestLimits::default())
}

fn read(body: &Value) -> Result<ChatAsk, ChatError> {
    read_text(&body.to_string())
}

/// A valid request with one field replaced.
fn with(field: &str, value: Value) -> Result<ChatAsk, ChatError> {
    let mut body = json!({"message": "hello"});
    body[field] = value;
    read(&body)
}

#[test]
fn a_question_with_everything_is_read_whole() {
    let body = json!({
        "message": " 次は？ ", "session": "s 1~", "locale": "ja_jp", "stream": true, "request_id": "r-1",
        "max_tokens": 300, "history": [{"role": "user", "text": "a"}, {"text": "b", "role": "assistant"}],
    });
    let turn = |role, text: &str| ChatTurn { role, text: text.to_owned() };
    let expected = ChatAsk {
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
    let expected = ChatAsk {
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
fn what_is_wrong_is_refused_by_its_name() {
    let name = "must have 1 to 128 printable ASCII characters";
    let locale = "must be a language such as ja-JP or en";
    for (field, value, problem) in [
        ("message", json!(""), "must not be empty"),
        ("message", json!(" \n　"), "must not be empty"),
        ("message", json!(5), "must be a string"),
        ("message", json!(null), "is missing"),
        ("session", json!(""), name),
        ("session", json!("a".repeat(129)), name),
        ("session", json!("a\nb"), name),
        ("session", json!("\u{7f}"), name),
        ("session", json!("é"), name),
        ("request_id", json!(""), name),
        ("request_id", json!("a".repeat(129)), name),
        ("request_id", json!(7), "must be a string"),
        ("locale", json!(""), locale),
        ("locale", json!("j"), locale),
        ("locale", json!("jpan"), locale),
        ("locale", json!("j1"), locale),
        ("locale", json!("ja-"), locale),
        ("locale", json!("ja-J!"), locale),
        ("locale", json!("ja-123456789"), locale),
        ("locale", json!(format!("ja{}", "-abcdefgh".repeat(4))), locale),
        ("stream", json!("yes"), "must be true or false"),
        ("max_tokens", json!(0), "must be a whole number from 1 to 2147483648"),
        ("max_tokens", json!(1.5), "must be a whole number from 1 to 2147483648"),
        ("history", json!({}), "must be a list"),
        ("model", json!("gpt-4o"), "is not known here"),
        ("tier", json!("prime"), "is not known here"),
        ("url", json!(null), "is not known here"),
    ] {
        let error = with(field, value.clone()).unwrap_err();
        assert_eq!(error.to_string(), format!("{field}: {problem}"), "{value}");
        assert_eq!((error.refusal(), error.text()), (Refusal::Malformed, ChatText::NotUnderstood));
    }
    for (turn, problem) in [
        (json!(1), ": must be an object"),
        (json!({"text": "x"}), ".role: is missing"),
        (json!({"role": "system", "text": "x"}), ".role: must be user or assistant"),
        (json!({"role": "user"}), ".text: is missing"),
        (json!({"role": "user", "text": ["x"]}), ".text: must be a string"),
        (json!({"role": "user", "text": "x", "name": "y"}), ".name: is not known here"),
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
    assert_eq!((error.refusal(), error.text()), (Refusal::TooLarge, ChatText::TooLong));
    assert_eq!(error.to_string(), "message: has 16001 characters, and at most 16000 are taken");
    let turns = |count: usize| json!(vec![json!({"role": "user", "text": "x"}); count]);
    assert_eq!(with("history", turns(100)).unwrap().history.len(), 100);
    assert_eq!(with("history", turns(101)).unwrap_err().to_string(), "history: has more than 100 members");
    for field in ["session", "request_id"] {
        assert!(with(field, json!("~".repeat(128))).is_ok() && with(field, json!(" ")).is_ok());
    }
    assert_eq!(with("max_tokens", json!(1)).unwrap().max_output, Some(1));
    assert!(with("locale", json!("ja-abcdefgh-abcdefgh-abcdefgh-abcde")).is_ok());
    assert!(with("locale", json!("ja-abcdefgh-abcdefgh-abcdefgh-abcdef")).is_err());
}

#[test]
fn limits_of_every_request_hold_here_too() {
    let limits = RequestLimits { body: 60, depth: 3, fields: 3, members: 2 };
    let read = |body: &str| ChatAsk::read(body.as_bytes(), false, &limits).map_err(|error| error.to_string());
    assert!(read(r#"{"message":"x","stream":false,"session":"s"}"#).is_ok());
    let long = format!(r#"{{"message":"{}"}}"#, "x".repeat(50));
    assert!(read(&long).unwrap_err().contains("at most 60"));
    assert!(read(r#"{"message":"x","history":[[[]]]}"#).unwrap_err().contains("deeper than 3"));
    assert!(read(r#"{"message":"x","a":1,"b":2,"c":3}"#).unwrap_err().contains("more than 3 fields"));
    assert_eq!(read(r#"{"message":"x","history":[1,2,3]}"#).unwrap_err(), "history: has more than 2 members");
    let large = ChatAsk::read(long.as_bytes(), false, &limits).unwrap_err();
    assert_eq!(large.refusal(), Refusal::TooLarge);
    for body in [
        r#"{"message":"a","message":"b"}"#,
        r#"{"message":"a","history":[{"role":"user","role":"user","text":"x"}]}"#,
        r#"["message"]"#,
        r#"{"message":"\ud800"}"#,
        "\u{FEFF}{}",
        "{",
        "",
    ] {
        assert_eq!(read_text(body).unwrap_err().refusal(), Refusal::Malformed, "{body}");
    }
    assert!(ChatAsk::read(b"{\"message\":\"\xff\"}", false, &limits).is_err());
}

#[test]
fn no_more_of_an_unknown_name_is_told_than_fits_a_line() {
    let error = with(&"n".repeat(500), json!(1)).unwrap_err();
    assert_eq!(error.to_string(), format!("{}: is not known here", "n".repeat(64)));
}

#[test]
fn the_body_goes_before_the_headers_about_streams() {
    for (field, accepts, stream) in [
        ("", false, false),
        ("", true, true),
        (r#","stream":true"#, false, true),
        (r#","stream":false"#, true, false),
        (r#","stream":null"#, true, true),
    ] {
        let body = format!(r#"{{"message":"x"{field}}}"#);
        let ask = ChatAsk::read(body.as_bytes(), accepts, &RequestLimits::default()).unwrap();
        assert_eq!(ask.stream, stream, "{body} {accepts}");
    }
}

#[test]
fn turns_without_words_are_left_out() {
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
                prop_assert!(matches!(error.refusal(), Refusal::Malformed | Refusal::TooLarge));
            }
        }
    }

    #[test]
    fn any_bytes_are_a_question_or_none(bytes: Vec<u8>) {
        let _ = ChatAsk::read(&bytes, true, &RequestLimits::default());
    }
}
