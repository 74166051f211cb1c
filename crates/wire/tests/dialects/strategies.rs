//! Generators of requests, answers and streams, and what the dialects make of them according to their documented rules.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use seawall_core::failure::{Failure, FailureKind};
use seawall_wire::chat::{
    AnswerPart, ChatAnswer, ChatEvent, ChatRequest, ChatSettings, FinishReason, Image, JsonText, RequestPart,
    Role, ToolCall, ToolChoice, ToolDefinition, Turn, Usage,
};

pub(crate) const FINISHES: [FinishReason; 8] = [
    FinishReason::EndTurn,
    FinishReason::MaxTokens,
    FinishReason::StopSequence,
    FinishReason::ToolUse,
    FinishReason::PauseTurn,
    FinishReason::Refusal,
    FinishReason::ContextWindowExceeded,
    FinishReason::Other,
];

/// JSON objects that are carried without being parsed.
const OBJECTS: [&str; 7] = [
    "{}",
    r#"{"a": 1}"#,
    r#"{"a":[1,{"b":null}],"c":"\u00e9漫\n\"[[{"}"#,
    r#"{"n":1e400,"m":-0.0,"o":123456789012345678901234567890}"#,
    r#"{"lone":"\ud800"}"#,
    r#"{"twice":1,"twice":2}"#,
    "{\n\t\"spread\" : \"out\"\r\n}",
];

pub(crate) fn json(text: &str) -> JsonText {
    JsonText::new(text.to_owned()).unwrap()
}

fn object() -> impl Strategy<Value = JsonText> {
    select(&OBJECTS[..]).prop_map(json)
}

/// A non-empty text.
fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        "(?s).{1,6}",
        Just("漫画 é\u{1F600}".to_owned()),
        Just("data: x\r\n\r\nevent: \"\\".to_owned())
    ]
}

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_-]{1,10}"
}

fn usage() -> impl Strategy<Value = Usage> {
    let count = || u64::from(u32::MIN)..u64::from(u32::MAX);
    (count(), count(), count(), count()).prop_map(|(input, cache_read, cache_write, output)| Usage {
        input,
        cache_read,
        cache_write,
        output,
        ..Usage::default()
    })
}

fn image() -> BoxedStrategy<Image> {
    let base64 = |(media_type, content)| Image::Base64 { media_type, content };
    prop_oneof![
        "https://[a-z./?=&\"\\\\]{0,12}".prop_map(Image::Url),
        ("image/(png|jpeg|webp)", "[A-Za-z0-9+/]{0,12}={0,2}").prop_map(base64),
    ]
    .boxed()
}

fn call() -> impl Strategy<Value = ToolCall> {
    (name(), name(), object()).prop_map(|(id, name, input)| ToolCall { id, name, input })
}

fn user_part() -> impl Strategy<Value = RequestPart> {
    let result = |(call, texts, is_error): (String, Vec<String>, bool)| RequestPart::ToolResult {
        call,
        parts: texts.into_iter().map(RequestPart::Text).collect(),
        is_error,
    };
    prop_oneof![
        3 => words().prop_map(RequestPart::Text),
        1 => image().prop_map(RequestPart::Image),
        2 => (name(), vec(words(), 0..3), any::<bool>()).prop_map(result),
    ]
}

fn assistant_part() -> impl Strategy<Value = RequestPart> {
    prop_oneof![words().prop_map(RequestPart::Text), call().prop_map(RequestPart::ToolCall)]
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let pair = (vec(user_part(), 1..4), vec(assistant_part(), 1..4));
    (vec(pair, 1..4), any::<bool>(), any::<bool>()).prop_map(|(pairs, drop_first, drop_last)| {
        let mut turns = Vec::new();
        for (user, assistant) in pairs {
            turns.push(Turn { role: Role::User, parts: user });
            turns.push(Turn { role: Role::Assistant, parts: assistant });
        }
        if drop_first {
            turns.remove(0);
        }
        if drop_last && turns.len() > 1 {
            turns.pop();
        }
        turns
    })
}

fn choice() -> impl Strategy<Value = ToolChoice> {
    prop_oneof![
        Just(ToolChoice::Auto),
        Just(ToolChoice::None),
        Just(ToolChoice::Any),
        name().prop_map(ToolChoice::Named),
    ]
}

fn tool() -> impl Strategy<Value = ToolDefinition> {
    (name(), option::of(words()), object(), any::<bool>())
        .prop_map(|(name, description, schema, strict)| ToolDefinition { name, description, schema, strict })
}

pub(crate) fn request() -> impl Strategy<Value = ChatRequest> {
    let said = (words(), vec(words(), 0..3), turns());
    let tools = (vec(tool(), 0..3), choice());
    let limits = (option::of(1_u32..=1 << 31), option::of(0.0..=1.0_f64), option::of(0.0..=1.0_f64));
    (said, tools, limits, vec(words(), 0..3), any::<(bool, bool)>()).prop_map(
        |(said, tools, limits, stop, (stream, stream_usage))| ChatRequest {
            model: said.0,
            system: said.1,
            turns: said.2,
            tools: tools.0,
            tool_choice: tools.1,
            max_output: limits.0,
            temperature: limits.1,
            top_p: limits.2,
            stop,
            stream,
            stream_usage,
            settings: ChatSettings::default(),
        },
    )
}

pub(crate) fn answer() -> impl Strategy<Value = ChatAnswer> {
    let part = prop_oneof![words().prop_map(AnswerPart::Text), call().prop_map(AnswerPart::ToolCall)];
    (words(), words(), vec(part, 0..5), select(&FINISHES[..]), usage())
        .prop_map(|(id, model, parts, finish, usage)| ChatAnswer { id, model, parts, finish, usage })
}

/// A delta, which may be empty.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![5 => words(), 1 => Just(String::new())]
}

/// The deltas of one part, with usage reports in between.
fn part() -> impl Strategy<Value = Vec<ChatEvent>> {
    let texts = vec(piece().prop_map(ChatEvent::Text), 0..3);
    let thoughts = vec(piece().prop_map(ChatEvent::Thinking), 0..3);
    let call = (name(), name(), vec(piece().prop_map(ChatEvent::ToolInput), 0..3))
        .prop_map(|(id, name, input)| [vec![ChatEvent::ToolCallStarted { id, name }], input].concat());
    let told = usage().prop_map(|usage| vec![ChatEvent::Usage(usage)]);
    prop_oneof![3 => texts, 1 => thoughts, 3 => call, 1 => told]
}

/// A well-formed stream.
pub(crate) fn stream() -> impl Strategy<Value = Vec<ChatEvent>> {
    let start = (words(), words(), usage())
        .prop_map(|(id, model, usage)| vec![ChatEvent::Started { id, model, usage }]);
    let failed = (select(&FailureKind::ALL[..]), words())
        .prop_map(|(kind, message)| ChatEvent::Failed { failure: Failure::of(kind), message });
    let end = prop_oneof![3 => select(&FINISHES[..]).prop_map(ChatEvent::Finished), 1 => failed];
    (start, vec(part(), 0..6), end)
        .prop_map(|(start, parts, end)| [start, parts.concat(), vec![end]].concat())
}

/// Splits the bytes at the given positions.
pub(crate) fn cut<'a>(bytes: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = places.iter().map(|place| place % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}
