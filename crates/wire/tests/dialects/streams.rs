//! Streams survive a round trip, whatever the chunk boundaries, except for what a dialect cannot express.

use crate::requests::finish_in_openai;
use crate::strategies::{cut, stream};
use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use seawall_core::failure::{Failure, FailureKind};
use seawall_wire::chat::{ChatEvent, FinishReason, Usage};
use seawall_wire::dialect::DialectId;
use seawall_wire::openai::OpenAiStream;
use seawall_wire::sse::SseLimits;
use seawall_wire::{ApiErrorKind, StreamError, anthropic, openai};

pub(crate) fn write_anthropic(events: &[ChatEvent]) -> BytesMut {
    let (mut out, mut writer) = (BytesMut::new(), anthropic::AnthropicChatWriter::new());
    events.iter().for_each(|event| writer.write(&mut out, event));
    out
}

pub(crate) fn write_openai(events: &[ChatEvent], include_usage: bool) -> BytesMut {
    let (mut out, mut writer) =
        (BytesMut::new(), openai::OpenAiChatWriter::new(1_700_000_000, include_usage));
    events.iter().for_each(|event| writer.write(&mut out, event));
    out
}

pub(crate) type Reading = (Vec<ChatEvent>, Result<(), StreamError>, bool);

pub(crate) fn read_anthropic<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Reading {
    let mut reader = anthropic::AnthropicChatReader::new(SseLimits::default());
    let mut events = Vec::new();
    let outcome = pieces.into_iter().try_for_each(|piece| reader.feed(piece, |event| events.push(event)));
    (events, outcome, reader.is_over())
}

pub(crate) fn read_openai<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Reading {
    let mut reader = openai::OpenAiChatReader::new(SseLimits::default());
    let mut events = Vec::new();
    let outcome = pieces.into_iter().try_for_each(|piece| reader.feed(piece, |event| events.push(event)));
    (events, outcome, reader.is_over())
}

/// How a failure inside a stream is classified after it was written and read back.
fn failure_told(failure: &Failure) -> Failure {
    let kind = match failure.kind {
        kind @ (FailureKind::Throttled | FailureKind::TooLong) => kind,
        FailureKind::TimedOut | FailureKind::StartTimeout => FailureKind::TimedOut,
        FailureKind::BadRequest | FailureKind::Filtered => FailureKind::BadRequest,
        FailureKind::ServerFault
        | FailureKind::ModelFault
        | FailureKind::Unrecognised
        | FailureKind::Unauthorized
        | FailureKind::NotFound => FailureKind::ServerFault,
        _ => FailureKind::Overloaded,
    };
    Failure { not_executed: false, ..Failure::of(kind) }
}

/// What both dialects make of a stream: usage only at the end, and no empty deltas.
fn told(
    events: &[ChatEvent],
    dialect: DialectId,
    finish: fn(FinishReason) -> FinishReason,
    tells_usage: bool,
) -> Vec<ChatEvent> {
    let mut known = Usage::default();
    let mut told = Vec::new();
    for event in events {
        match event {
            ChatEvent::Text(text) | ChatEvent::Thinking(text) | ChatEvent::ToolInput(text)
                if text.is_empty() => {}
            ChatEvent::Usage(usage) => known = *usage,
            ChatEvent::Finished(reason) => {
                told.extend(tells_usage.then_some(ChatEvent::Usage(known)));
                told.push(ChatEvent::Finished(finish(*reason)));
            }
            ChatEvent::Failed { failure, message } => {
                let error_kind = ApiErrorKind::of_failure(failure.kind);
                let message = dialect.client_message(error_kind, message).into_owned();
                told.push(ChatEvent::Failed { failure: failure_told(failure), message });
            }
            ChatEvent::Started { usage, .. } => {
                known = *usage;
                told.push(event.clone());
            }
            _ => told.push(event.clone()),
        }
    }
    told
}

fn in_anthropic(events: &[ChatEvent]) -> Vec<ChatEvent> {
    let finish = |finish| if finish == FinishReason::Other { FinishReason::EndTurn } else { finish };
    told(events, DialectId::ANTHROPIC_MESSAGES, finish, true)
}

fn in_openai(events: &[ChatEvent], include_usage: bool) -> Vec<ChatEvent> {
    let mut filled = Vec::new();
    let mut is_open = false;
    for event in told(events, DialectId::OPENAI_CHAT, finish_in_openai, include_usage) {
        let ends_call =
            !matches!(event, ChatEvent::ToolInput(_) | ChatEvent::Usage(_) | ChatEvent::Failed { .. });
        let before = filled.len() - usize::from(matches!(filled.last(), Some(ChatEvent::Usage(_))));
        if is_open && ends_call {
            filled.insert(before, ChatEvent::ToolInput("{}".into()));
        }
        is_open = matches!(event, ChatEvent::ToolCallStarted { .. })
            || is_open && matches!(event, ChatEvent::Usage(_));
        filled.push(event);
    }
    if let Some(ChatEvent::Started { usage, .. }) = filled.first_mut() {
        *usage = Usage::default();
    }
    filled
}

proptest! {
    #[test]
    fn a_stream_survives_however_it_is_split(
        events in stream(),
        include_usage: bool,
        places in vec(any::<usize>(), 0..6),
    ) {
        let bytes = write_anthropic(&events);
        let expected = (in_anthropic(&events), Ok(()), true);
        prop_assert_eq!(&read_anthropic([&bytes[..]]), &expected);
        prop_assert_eq!(&read_anthropic(bytes.chunks(1)), &expected);
        prop_assert_eq!(&read_anthropic(cut(&bytes, &places)), &expected);
        let bytes = write_openai(&events, include_usage);
        let expected = (in_openai(&events, include_usage), Ok(()), true);
        prop_assert_eq!(&read_openai([&bytes[..]]), &expected);
        prop_assert_eq!(&read_openai(bytes.chunks(1)), &expected);
        prop_assert_eq!(&read_openai(cut(&bytes, &places)), &expected);
    }

    #[test]
    fn a_stream_survives_the_way_through_the_other_dialect(
        events in stream(),
        places in vec(any::<usize>(), 0..6),
    ) {
        let (there, _, _) = read_anthropic(cut(&write_anthropic(&events), &places));
        let (back, _, _) = read_openai(cut(&write_openai(&there, true), &places));
        prop_assert_eq!(&back, &in_openai(&in_anthropic(&events), true));
        let (again, _, _) = read_anthropic(cut(&write_anthropic(&back), &places));
        // OpenAI's start has no usage; everything else is unchanged.
        prop_assert_eq!(&again, &in_anthropic(&back));
    }

    #[test]
    fn the_lean_readers_see_the_same_end(events in stream(), include_usage: bool) {
        let bytes = write_anthropic(&events);
        let mut lean = anthropic::AnthropicStream::new(SseLimits::default());
        lean.feed(&bytes, |_| ()).unwrap();
        let bytes = write_openai(&events, include_usage);
        let mut other = OpenAiStream::new(SseLimits::default());
        other.feed(&bytes, |_| ()).unwrap();
        let known = in_anthropic(&events);
        if let [.., ChatEvent::Usage(usage), ChatEvent::Finished(finish)] = &known[..] {
            prop_assert_eq!((lean.usage(), lean.finish_reason()), (*usage, Some(*finish)));
            prop_assert_eq!(other.usage(), if include_usage { *usage } else { Usage::default() });
            prop_assert_eq!(other.finish_reason(), Some(finish_in_openai(*finish)));
            prop_assert!(lean.is_complete() && other.is_complete());
        } else {
            prop_assert!(!lean.is_complete() && !other.is_complete());
        }
        prop_assert!(lean.is_between_events() && other.is_between_events());
    }

    #[test]
    fn a_stream_that_is_cut_is_not_over(events in stream(), at: usize) {
        let bytes = write_anthropic(&events);
        let (read, outcome, is_over) = read_anthropic([&bytes[..at % bytes.len()]]);
        prop_assert!(outcome.is_ok() && !is_over && read.len() < in_anthropic(&events).len());
        let bytes = write_openai(&events, true);
        let (read, outcome, is_over) = read_openai([&bytes[..at % bytes.len()]]);
        prop_assert!(outcome.is_ok() && !is_over && read.len() < in_openai(&events, true).len());
    }
}
