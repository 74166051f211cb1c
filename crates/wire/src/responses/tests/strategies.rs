//! Generators of requests, answers and streams, and ways to write and read them.

use crate::StreamError;
use crate::chat::{
    AnswerPart, ChatAnswer, ChatEvent, ChatRequest, FinishReason, Image, JsonText, RequestPart, Role,
    ToolCall, ToolChoice, ToolDefinition, Turn, Usage,
};
use crate::responses::{ResponsesChatReader, ResponsesChatWriter};
use crate::sse::SseLimits;
use bytes::BytesMut;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;

pub(super) const FINISHES: [FinishReason; 8] = [
    FinishReason::EndTurn,
    FinishReason::MaxTokens,
    FinishReason::StopSequence,
    FinishReason::ToolUse,
    FinishReason::PauseTurn,
    FinishReason::Refusal,
    FinishReason::ContextWindowExceeded,
    FinishReason::Other,
];

pub(super) fn json(text: &str) -> JsonText {
    JsonText::new(text.to_owned()).unwrap()
}

fn object() -> impl Strategy<Value = JsonText> {
    select(&["{}", r#"{"a": 1}"#, r#"{"b":"漫\n\"[","lone":"\ud800"}"#, "{\n\t\"n\" : 1e400\r\n}"][..])
        .prop_map(json)
}

/// A non-empty text.
fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        "(?s).{1,6}",
        Just("日本語の文章 é\u{1F600}".to_owned()),
        Just("data: x\r\n\r\nevent: \"\\".to_owned())
    ]
}

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_-]{1,10}"
}

fn usage() -> impl Strategy<Value = Usage> {
    any::<[u32; 4]>().prop_map(|[input, cache_read, cache_write, output]| Usage {
        input: input.into(),
        cache_read: cache_read.into(),
        cache_write: cache_write.into(),
        output: output.into(),
        ..Usage::default()
    })
}

fn call() -> impl Strategy<Value = ToolCall> {
    (name(), name(), object()).prop_map(|(id, name, input)| ToolCall { id, name, input })
}

fn user_part() -> impl Strategy<Value = RequestPart> {
    let image = prop_oneof![
        "https://[a-z./?=&\"]{0,12}".prop_map(Image::Url),
        ("image/(png|webp)", "[A-Za-z0-9+/]{0,12}={0,2}")
            .prop_map(|(media_type, content)| Image::Base64 { media_type, content }),
    ]
    .prop_map(RequestPart::Image);
    let text = words().prop_map(RequestPart::Text);
    let content = prop_oneof![text, image];
    let result = (name(), vec(content.clone(), 0..3), any::<bool>())
        .prop_map(|(call, parts, is_error)| RequestPart::ToolResult { call, parts, is_error });
    prop_oneof![2 => content, 1 => result]
}

fn assistant_part() -> impl Strategy<Value = RequestPart> {
    prop_oneof![words().prop_map(RequestPart::Text), call().prop_map(RequestPart::ToolCall)]
}

pub(super) fn request() -> impl Strategy<Value = ChatRequest> {
    let pair = (vec(user_part(), 1..4), vec(assistant_part(), 1..4));
    let turns = vec(pair, 1..4).prop_map(|pairs| {
        let turn = |role, parts| Turn { role, parts };
        pairs.into_iter().flat_map(|(a, b)| [turn(Role::User, a), turn(Role::Assistant, b)]).collect()
    });
    let tool = (name(), option::of(words()), object())
        .prop_map(|(name, description, schema)| ToolDefinition { name, description, schema, strict: false });
    let choice = prop_oneof![
        select(vec![ToolChoice::Auto, ToolChoice::None, ToolChoice::Any]),
        name().prop_map(ToolChoice::Named)
    ];
    let numbers = (option::of(1_u32..=1 << 31), option::of(0.0..=2.0_f64), option::of(0.0..=1.0_f64));
    let said = (words(), vec(words(), 0..4), turns);
    (said, vec(tool, 0..3), choice, numbers, any::<bool>()).prop_map(
        |((model, system, turns), tools, tool_choice, (max_output, temperature, top_p), stream)| {
            let (stop, stream_usage) = (Vec::new(), stream);
            let tool_choice = if tools.is_empty() { ToolChoice::Auto } else { tool_choice };
            ChatRequest {
                settings: crate::chat::ChatSettings::default(),
                model,
                system,
                turns,
                tools,
                tool_choice,
                max_output,
                temperature,
                top_p,
                stop,
                stream,
                stream_usage,
            }
        },
    )
}

pub(super) fn answer() -> impl Strategy<Value = ChatAnswer> {
    let part = prop_oneof![words().prop_map(AnswerPart::Text), call().prop_map(AnswerPart::ToolCall)];
    (words(), words(), vec(part, 0..5), select(&FINISHES[..]), usage())
        .prop_map(|(id, model, parts, finish, usage)| ChatAnswer { id, model, parts, finish, usage })
}

/// A well-formed stream, with empty deltas and usage reports in between.
pub(super) fn stream() -> impl Strategy<Value = Vec<ChatEvent>> {
    let piece = || prop_oneof![5 => words(), 1 => Just(String::new())];
    let texts = vec(piece().prop_map(ChatEvent::Text), 0..3);
    let thoughts = vec(piece().prop_map(ChatEvent::Thinking), 0..3);
    let call = (name(), name(), vec(piece().prop_map(ChatEvent::ToolInput), 0..3))
        .prop_map(|(id, name, input)| [vec![ChatEvent::ToolCallStarted { id, name }], input].concat());
    let known = usage().prop_map(|usage| vec![ChatEvent::Usage(usage)]);
    let part = prop_oneof![3 => texts, 2 => thoughts, 3 => call, 1 => known];
    let start = (words(), words())
        .prop_map(|(id, model)| vec![ChatEvent::Started { id, model, usage: Usage::default() }]);
    let end = select(&FINISHES[..]).prop_map(|finish| vec![ChatEvent::Finished(finish)]);
    (start, vec(part, 0..6), end).prop_map(|(start, parts, end)| [start, parts.concat(), end].concat())
}

/// Splits the bytes at the given positions.
pub(super) fn cut<'a>(bytes: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = places.iter().map(|place| place % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

pub(super) fn write(events: &[ChatEvent]) -> BytesMut {
    let (mut out, mut writer) = (BytesMut::new(), ResponsesChatWriter::new(1_700_000_000));
    events.iter().for_each(|event| writer.write(&mut out, event));
    out
}

pub(super) type Reading = (Vec<ChatEvent>, Result<(), StreamError>, bool);

pub(super) fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Reading {
    let mut reader = ResponsesChatReader::new(SseLimits::default());
    let mut events = Vec::new();
    let outcome = pieces.into_iter().try_for_each(|piece| reader.feed(piece, |event| events.push(event)));
    (events, outcome, reader.is_over())
}
