//! Tests of prompts.

use crate::{ChatPrompt, ChatPromptOptions, PreparedChat, PromptModel};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use seawall_core::history::{Role, TokenLimits, TokenLimitsOptions};
use seawall_core::tokens::{Calibration, OverheadOptions, RequestCounts, estimate};
use seawall_wire::ApiErrorKind;
use seawall_wire::chat::{ChatRequest, RequestPart, Turn};
use seawall_wire::chat_face::{ChatError, ChatFaceRequest, ChatTurn};
use sha2::{Digest as _, Sha256};

const MODEL: &str = "claude-sonnet";

fn options() -> ChatPromptOptions {
    let text = |locale: &str, text: &str| (locale.to_owned(), text.to_owned());
    ChatPromptOptions {
        system: vec![text("ja_jp", "親切に。"), text("en", "Be kind."), text("en-GB", "Be polite.")],
        temperature: Some(0.3),
        max_output: 800,
        history_turns: 20,
    }
}

fn prompt() -> ChatPrompt {
    options().check().unwrap()
}

fn turn(role: Role, text: &str) -> ChatTurn {
    ChatTurn { role, text: text.to_owned() }
}

fn ask(history: Vec<ChatTurn>, message: &str) -> ChatFaceRequest {
    ChatFaceRequest {
        message: message.to_owned(),
        history,
        session: None,
        locale: "en".to_owned(),
        stream: true,
        request_id: None,
        max_output: None,
    }
}

fn prepare(
    prompt: &ChatPrompt,
    ask: &ChatFaceRequest,
    limits: &TokenLimits,
) -> Result<PreparedChat, ChatError> {
    let (overhead, calibration) = (OverheadOptions::default(), Calibration::default());
    prompt.prepare(ask, &PromptModel { model: MODEL, limits, overhead, calibration: &calibration })
}

fn turn_of(role: Role, texts: &[&str]) -> Turn {
    Turn { role, parts: texts.iter().map(|text| RequestPart::Text((*text).to_owned())).collect() }
}

/// The token estimate of a text, including its overhead.
fn tokens(text: &str) -> u64 {
    let around = OverheadOptions { request: 0, reserve: 0, ..OverheadOptions::default() };
    estimate(MODEL, &RequestCounts::of_message(text), around, &Calibration::default()).p95
}

fn input_limit(max_input: u64) -> TokenLimits {
    TokenLimitsOptions { max_input, ..TokenLimitsOptions::default() }.check().unwrap()
}

#[test]
fn a_request_contains_the_whole_conversation() {
    let history = vec![turn(Role::User, "a"), turn(Role::Assistant, "b")];
    let prepared = prepare(&prompt(), &ask(history.clone(), "c"), &TokenLimits::default()).unwrap();
    let request = ChatRequest {
        model: MODEL.to_owned(),
        system: vec!["Be kind.".to_owned()],
        turns: vec![
            turn_of(Role::User, &["a"]),
            turn_of(Role::Assistant, &["b"]),
            turn_of(Role::User, &["c"]),
        ],
        max_output: Some(800),
        temperature: Some(0.3),
        stream: true,
        stream_usage: true,
        ..ChatRequest::default()
    };
    assert_eq!(prepared.request, request);
    let counted: u64 = ["Be kind.", "a", "b", "c"].map(tokens).iter().sum();
    assert_eq!((prepared.kept_turns, prepared.input), (2, counted + 3));
    let hash = Sha256::digest(b"u\0\0\0\0\0\0\0\x01aa\0\0\0\0\0\0\0\x01b");
    assert_eq!(prepared.history, hex::encode(hash));
    let whole =
        prepare(&prompt(), &ChatFaceRequest { stream: false, ..ask(history, "c") }, &TokenLimits::default());
    assert_eq!(whole.unwrap().request, ChatRequest { stream: false, stream_usage: false, ..request });
}

#[test]
fn each_locale_has_its_instructions_or_its_languages_or_the_first() {
    let prompt = prompt();
    for (locale, text) in [
        ("ja-JP", "親切に。"),
        ("ja", "親切に。"),
        ("en", "Be kind."),
        ("en-US", "Be kind."),
        ("en-GB", "Be polite."),
        ("fr", "親切に。"),
    ] {
        assert_eq!(prompt.system(locale), Some(text), "{locale}");
    }
    let blank = vec![("ja".to_owned(), " ".to_owned())];
    for (system, text) in [(Vec::new(), None), (blank, Some(" "))] {
        let silent = ChatPromptOptions { system, ..options() }.check().unwrap();
        assert_eq!(silent.system("ja"), text);
        let prepared = prepare(&silent, &ask(Vec::new(), "c"), &TokenLimits::default()).unwrap();
        assert!(prepared.request.system.is_empty() && prepared.history.is_empty());
        assert_eq!(prepared.input, tokens("c") + 3);
    }
}

#[test]
fn the_smallest_limit_of_output_holds() {
    let limits = TokenLimitsOptions { max_output: 500, ..TokenLimitsOptions::default() }.check().unwrap();
    for (limits, requested, expected) in [
        (TokenLimits::default(), None, 800),
        (TokenLimits::default(), Some(900), 800),
        (TokenLimits::default(), Some(7), 7),
        (limits, None, 500),
        (limits, Some(499), 499),
    ] {
        let ask = ChatFaceRequest { max_output: requested, ..ask(Vec::new(), "c") };
        assert_eq!(prepare(&prompt(), &ask, &limits).unwrap().request.max_output, Some(expected));
    }
}

#[test]
fn the_oldest_pair_goes_first_and_nothing_but_the_message_must_stay() {
    let history = vec![
        turn(Role::User, "one"),
        turn(Role::Assistant, "two"),
        turn(Role::User, "three"),
        turn(Role::Assistant, "four"),
    ];
    let ask = ask(history, "five");
    let fixed = tokens("Be kind.") + tokens("five") + 3;
    let last = tokens("three") + tokens("four");
    let all = last + tokens("one") + tokens("two");
    for (limit, kept) in
        [(fixed + all, 4), (fixed + all - 1, 2), (fixed + last, 2), (fixed + last - 1, 0), (fixed, 0)]
    {
        let prepared = prepare(&prompt(), &ask, &input_limit(limit)).unwrap();
        assert_eq!((prepared.kept_turns, prepared.request.turns.len()), (kept, kept + 1));
        assert_eq!(prepared.history.is_empty(), kept == 0);
    }
    let error = prepare(&prompt(), &ask, &input_limit(fixed - 1)).unwrap_err();
    assert_eq!(error, ChatError::InputTooLarge { needed: fixed, limit: fixed - 1 });
    assert_eq!(error.api_error_kind(), ApiErrorKind::TooLarge);
}

#[test]
fn at_most_the_configured_number_of_turns_is_sent() {
    let history: Vec<ChatTurn> = (0..6)
        .map(|nth| turn(if nth % 2 == 0 { Role::User } else { Role::Assistant }, &format!("t{nth}")))
        .collect();
    for (max, kept) in [(0, 0), (2, 2), (3, 2), (4, 4), (6, 6), (100, 6)] {
        let prompt = ChatPromptOptions { history_turns: max, ..options() }.check().unwrap();
        let prepared = prepare(&prompt, &ask(history.clone(), "now"), &TokenLimits::default()).unwrap();
        assert_eq!(prepared.kept_turns, kept, "{max}");
        let first = format!("t{}", 6 - kept);
        let expected = if kept == 0 { turn_of(Role::User, &["now"]) } else { turn_of(Role::User, &[&first]) };
        assert_eq!(prepared.request.turns[0], expected);
    }
}

#[test]
fn different_histories_have_different_digests() {
    let (user, model) = (Role::User, Role::Assistant);
    let histories = [
        vec![turn(user, "a"), turn(model, "b")],
        vec![turn(user, "ab"), turn(model, "b")],
        vec![turn(user, "a"), turn(user, "b")],
        vec![turn(user, "ab")],
        vec![turn(user, "b"), turn(model, "a")],
        vec![],
    ];
    let digests = histories
        .map(|history| prepare(&prompt(), &ask(history, "c"), &TokenLimits::default()).unwrap().history);
    for (at, digest) in digests.iter().enumerate() {
        assert!(!digests[..at].contains(digest) && (digest.len() == 64 || at == 5), "{at}");
    }
}

#[test]
fn invalid_settings_are_rejected_by_name() {
    let two = |first: &str, second: &str| {
        vec![(first.to_owned(), "x".to_owned()), (second.to_owned(), "y".to_owned())]
    };
    for (options, problem) in [
        (
            ChatPromptOptions { system: two("ja", "?"), ..options() },
            "system: \"?\" is not a locale; use a form such as ja-JP or en",
        ),
        (ChatPromptOptions { system: two("ja-JP", "JA_jp"), ..options() }, "system: duplicate locale ja-JP"),
        (
            ChatPromptOptions { temperature: Some(-0.1), ..options() },
            "temperature: must be between 0 and 2, not -0.1",
        ),
        (
            ChatPromptOptions { temperature: Some(2.1), ..options() },
            "temperature: must be between 0 and 2, not 2.1",
        ),
        (
            ChatPromptOptions { temperature: Some(f64::NAN), ..options() },
            "temperature: must be between 0 and 2, not NaN",
        ),
        (
            ChatPromptOptions { temperature: Some(f64::INFINITY), ..options() },
            "temperature: must be between 0 and 2, not inf",
        ),
        (ChatPromptOptions { max_output: 0, ..options() }, "max_output: must be at least 1"),
        (
            ChatPromptOptions { history_turns: 1, ..options() },
            "history_turns: must not be 1: the only turn would be an answer without its question",
        ),
    ] {
        assert_eq!(options.check().unwrap_err().to_string(), problem);
    }
    for temperature in [None, Some(0.0), Some(2.0)] {
        assert!(ChatPromptOptions { temperature, max_output: 1, ..options() }.check().is_ok());
    }
}

proptest! {
    #[test]
    fn a_request_is_always_of_the_shape_that_models_take(
        history in vec((any::<bool>(), "[a-zあ-ん]{1,40}"), 0..12), message in "[a-zあ-ん]{1,40}",
        limit in 1_u64..400, turns in 0_usize..8,
    ) {
        let history_turns = if turns == 1 { 0 } else { turns };
        let prompt = ChatPromptOptions { history_turns, ..options() }.check().unwrap();
        let role = |is_user: bool| if is_user { Role::User } else { Role::Assistant };
        let history: Vec<ChatTurn> = history.iter().map(|(is_user, text)| turn(role(*is_user), text)).collect();
        let ask = ask(history.clone(), &message);
        match prepare(&prompt, &ask, &input_limit(limit)) {
            Ok(PreparedChat { request, kept_turns, input, .. }) => {
                prop_assert!(input <= limit && kept_turns <= history_turns);
                for (at, turn) in request.turns.iter().enumerate() {
                    prop_assert_eq!(turn.role, role(at % 2 == 0));
                }
                let parts: Vec<&RequestPart> = request.turns.iter().flat_map(|turn| &turn.parts).collect();
                let newest = history[history.len() - kept_turns..].iter().map(|turn| turn.text.as_str());
                let expected: Vec<RequestPart> = newest.chain([message.as_str()]).map(|text| RequestPart::Text(text.to_owned())).collect();
                prop_assert!(parts.into_iter().eq(&expected));
                prop_assert!(request.turns.len() % 2 == 1);
            }
            Err(error) => {
                let needed = tokens("Be kind.") + tokens(&message) + 3;
                prop_assert_eq!(error, ChatError::InputTooLarge { needed, limit });
                prop_assert!(needed > limit);
            }
        }
    }
}
