//! The chat face with every target.

use super::{ALIAS, DEFAULTS, answered, model_of};
use crate::chat::{ChatFinish, ChatReply};
use crate::dialect::{DialectRequest, DialectStream, DialectStreamEnd, Face, UnstreamedAnswer};
use crate::guardrail::{AnswerInspector, DenyList, Guardrail as _, Guardrails};
use bytes::Bytes;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use proptest::sample::Index;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::history::Role;
use seawall_core::money::Money;
use seawall_core::vocabulary::Rung;
use seawall_wire::chat::{ChatRequest, FinishReason, RequestPart, StreamEvent, Turn, Usage};
use seawall_wire::dialect::DialectId;
use seawall_wire::sse::{SseEnding, SseLimits, SseReader};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) fn request_for(stream: bool, max_output: Option<u32>) -> DialectRequest {
    let turn = |role, text: &str| Turn { role, parts: vec![RequestPart::Text(text.to_owned())] };
    let turns = vec![
        turn(Role::User, "やあ"),
        turn(Role::Assistant, "こんにちは。"),
        turn(Role::User, "次に何を読めばいい？ Something with \"trains\", please."),
    ];
    let system = vec!["Be kind.".to_owned()];
    let chat = ChatRequest { model: ALIAS.to_owned(), system, turns, max_output, ..ChatRequest::default() };
    DialectRequest::of_chat(chat, stream)
}

pub(super) fn reply(usage: Usage, finish: ChatFinish) -> ChatReply {
    ChatReply {
        answer: String::new(),
        rung: Rung::StrongModel,
        reasons: Vec::new(),
        request_id: "req_1".to_owned(),
        session: None,
        usage,
        cost: Money::from_nanos(7),
        target: Some("main".to_owned()),
        finish,
        retry_after: None,
    }
}

/// What a client receives from a stream.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ParsedStream {
    pub(super) text: String,
    pub(super) done: Option<Value>,
    pub(super) interrupted: Option<Value>,
}

/// Parses as strictly as a client can: complete events, known names, one end, nothing after it.
pub(super) fn listen(bytes: &[u8]) -> ParsedStream {
    let (mut parsed, mut reader) = (ParsedStream::default(), SseReader::new(SseLimits::default()));
    let read = reader.feed(bytes, |event| {
        assert!(parsed.done.is_none() && parsed.interrupted.is_none(), "something comes behind the end");
        let data: Value = serde_json::from_slice(event.data).unwrap();
        match event.name {
            b"text" => {
                assert_eq!(data.as_object().unwrap().len(), 1);
                let text = data["text"].as_str().unwrap();
                assert!(!text.is_empty());
                parsed.text += text;
            }
            b"done" => parsed.done = Some(data),
            b"interrupted" => {
                assert_eq!(data["delivered"], parsed.text.chars().count());
                parsed.interrupted = Some(data);
            }
            name => panic!("{name:?}"),
        }
    });
    assert!(read.is_ok() && reader.finish() == SseEnding::Clean);
    parsed
}

/// A stream that was played to its end.
pub(super) struct Played {
    pub(super) parsed: ParsedStream,
    /// The text that the pipeline received.
    pub(super) taken: String,
    pub(super) events: Vec<StreamEvent>,
    pub(super) outcome: Result<DialectStreamEnd, Failure>,
    pub(super) stream: DialectStream,
}

/// Plays a stream as the pipeline does.
pub(super) fn play<'a>(
    target: DialectId,
    inspector: Box<dyn AnswerInspector>,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Played {
    let mut stream =
        DialectStream::new(&request_for(true, None), target, &DEFAULTS).with_inspector(inspector);
    let (mut sent, mut events, mut taken) = (Vec::new(), Vec::new(), String::new());
    let fed = pieces.into_iter().try_for_each(|piece| {
        let mut into = |bytes: Bytes| {
            assert!(!bytes.is_empty());
            sent.extend_from_slice(&bytes);
        };
        let fed = stream.feed(&Bytes::copy_from_slice(piece), &mut into, &mut |event| events.push(event));
        taken += &stream.take_text();
        assert_eq!(listen(&sent).text, taken);
        fed
    });
    let outcome = fed
        .map(|()| stream.end(&mut |bytes| sent.extend_from_slice(&bytes), &mut |event| events.push(event)));
    taken += &stream.take_text();
    let wait = Some(Duration::from_millis(1_500));
    match outcome {
        Ok(DialectStreamEnd::Complete) => {
            // A stream that was modified may have lost it.
            let finish = stream.finish().map_or(ChatFinish::Finished, ChatFinish::of);
            let reply = reply(stream.usage(), finish);
            sent.extend_from_slice(&stream.complete(&reply));
        }
        Ok(DialectStreamEnd::Interrupted) if stream.blocked_by().is_some() => {
            sent.extend_from_slice(&stream.interrupt(FailureKind::Filtered, "no"));
        }
        Ok(DialectStreamEnd::Interrupted) => {
            sent.extend_from_slice(&stream.interrupt_until(FailureKind::StreamInterrupted, "cut", wait));
        }
        Err(failure) => sent.extend_from_slice(&stream.interrupt(failure.kind, "no")),
    }
    assert!(stream.interrupt(FailureKind::TimedOut, "late").is_empty(), "the end is told twice");
    assert!(
        stream.complete(&reply(stream.usage(), ChatFinish::Finished)).is_empty(),
        "the end is told twice"
    );
    let parsed = listen(&sent);
    assert_eq!(parsed.done.is_some(), outcome == Ok(DialectStreamEnd::Complete));
    assert_eq!(parsed.interrupted.is_some(), parsed.done.is_none());
    Played { parsed, taken, events, outcome, stream }
}

pub(super) fn uninspected() -> Box<dyn AnswerInspector> {
    Guardrails::default().inspect_answer()
}

fn whole(target: DialectId, max_output: Option<u32>) -> UnstreamedAnswer {
    let request = request_for(false, max_output);
    let body = Bytes::from(answered(&request, target).concat());
    UnstreamedAnswer::read(&request, target, body, None, &DEFAULTS).unwrap()
}

#[test]
fn a_question_is_written_completely_for_every_target() {
    for stream in [false, true] {
        let request = request_for(stream, Some(77));
        assert_eq!((request.face(), request.model(), request.stream()), (Face::Chat, ALIAS, stream));
        assert_eq!((request.max_output(), request.wants_usage()), (Some(77), true));
        assert!(request.body().is_empty() && request.betas().is_empty());
        for target in DialectId::ALL {
            let body = request.body_for(target, model_of(target)).unwrap();
            let text = String::from_utf8(body.to_vec()).unwrap();
            for words in ["Be kind.", "やあ", "こんにちは。", "次に何を読めばいい？", "77"]
            {
                assert!(text.contains(words), "{target:?} {text}");
            }
            let body: Value = serde_json::from_slice(&body).unwrap();
            if target == DialectId::OPENAI_CHAT {
                let usage = if stream { json!({"include_usage": true}) } else { Value::Null };
                assert_eq!((&body["stream_options"], &body["model"]), (&usage, &json!("gpt-4o-mini")));
            }
        }
    }
    assert_eq!(request_for(true, None).max_output(), None);
    let empty = DialectRequest::of_chat(ChatRequest::default(), true);
    assert!(DialectId::ALL.into_iter().all(|target| empty.body_for(target, "m").is_err()));
}

#[test]
fn a_whole_answer_is_its_text_its_end_and_its_usage() {
    for (max_output, finish) in [(None, FinishReason::EndTurn), (Some(9), FinishReason::MaxTokens)] {
        let first = whole(DialectId::ANTHROPIC_MESSAGES, max_output);
        assert!(first.text.as_ref().is_some_and(|text| !text.is_empty()));
        assert_eq!(first.finish, finish);
        assert!(first.usage.input > 0 && first.usage.output > 0);
        for target in DialectId::ALL {
            let answer = whole(target, max_output);
            assert!(answer.body.is_empty() && answer.headers.is_empty());
            assert_eq!((answer.text, answer.usage), (first.text.clone(), first.usage), "{target:?}");
        }
    }
}

#[test]
fn a_stream_becomes_text_events_and_one_end_whatever_the_target_and_the_split() {
    for target in DialectId::ALL {
        let expected = whole(target, None);
        let joined = answered(&request_for(true, None), target).concat();
        for size in [1, 2, 7, 50, joined.len()] {
            let played = play(target, uninspected(), joined.chunks(size));
            assert_eq!(Some(&played.parsed.text), expected.text.as_ref(), "{target:?} {size}");
            assert_eq!(played.taken, played.parsed.text);
            let done = played.parsed.done.unwrap();
            assert_eq!((&done["finish"], &done["rung"]), (&json!("finished"), &json!("strong_model")));
            assert_eq!(
                done["usage"],
                json!({"input": expected.usage.input, "output": expected.usage.output})
            );
            assert_eq!(played.stream.final_usage(), Some(expected.usage));
            assert_eq!(played.events.last(), Some(&StreamEvent::Finished));
            assert_eq!(played.stream.blocked_by(), None);
        }
    }
}

#[test]
fn nothing_is_completed_before_its_end() {
    let target = DialectId::ANTHROPIC_MESSAGES;
    let mut stream = DialectStream::new(&request_for(true, None), target, &DEFAULTS);
    let done = reply(Usage::default(), ChatFinish::Finished);
    assert!(stream.complete(&done).is_empty());
    for frame in answered(&request_for(true, None), target) {
        assert!(stream.complete(&done).is_empty());
        stream.feed(&frame, &mut |_| (), &mut |_| ()).unwrap();
    }
    assert!(!stream.complete(&done).is_empty() && stream.complete(&done).is_empty());
}

#[test]
fn a_pass_through_stream_cannot_be_guarded_and_fails() {
    let request = super::request_for(Face::OPENAI_CHAT, &super::STREAM);
    for target in DialectId::ALL {
        let mut stream = DialectStream::new(&request, target, &DEFAULTS).with_inspector(uninspected());
        let frame = &answered(&request, target)[0];
        let failure = stream.feed(frame, &mut |_| panic!("told"), &mut |_| panic!("told")).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Filtered);
        assert_eq!(
            stream.end(&mut |_| panic!("told"), &mut |_| panic!("told")),
            DialectStreamEnd::Interrupted
        );
        assert!(stream.take_text().is_empty() && stream.blocked_by().is_none());
        assert!(!stream.interrupt(failure.kind, "no").is_empty());
    }
}

/// A deny list with one part of the answer, given by its character range.
fn part_of(text: &str, from: usize, to: usize) -> (String, DenyList) {
    let part: String = text.chars().skip(from).take(to - from).collect();
    (part.clone(), DenyList::new(&[part]).unwrap())
}

proptest! {
    #[test]
    fn what_is_denied_is_never_sent_however_the_stream_is_split(
        target in 0..DialectId::ALL.len(), from: Index, length in 1_usize..12, places: Vec<Index>,
    ) {
        let target = DialectId::ALL[target];
        let text = whole(target, None).text.unwrap();
        let count = text.chars().count();
        let from = from.index(count);
        let to = (from + length).min(count);
        if text.chars().skip(from).take(to - from).all(char::is_whitespace) {
            return Ok(());
        }
        let (part, list) = part_of(&text, from, to);
        let joined = answered(&request_for(true, None), target).concat();
        let mut places: Vec<usize> = places.iter().map(|place| place.index(joined.len())).collect();
        places.extend([0, joined.len()]);
        places.sort_unstable();
        let pieces = places.windows(2).map(|pair| &joined[pair[0]..pair[1]]);
        let played = play(target, list.inspect_answer(), pieces);
        prop_assert!(!played.parsed.text.contains(&part) && text.starts_with(&played.parsed.text));
        prop_assert_eq!(played.stream.blocked_by(), Some("deny_list.1"));
        let interrupted = played.parsed.interrupted.unwrap();
        prop_assert_eq!(&interrupted["reason"], "blocked");
        prop_assert_eq!((&interrupted["message"], interrupted.as_object().unwrap().len()), (&json!("no"), 3));
        prop_assert!(!played.events.contains(&StreamEvent::Finished));
        prop_assert_eq!(played.stream.final_usage(), None);
    }
}

#[test]
fn text_that_is_blocked_at_the_end_is_not_sent() {
    for target in DialectId::ALL {
        let text = whole(target, None).text.unwrap();
        let count = text.chars().count();
        // The last words, which nothing follows; and a longer pattern, whose partial match must be released at the end.
        let (part, list) = part_of(&text, count - 3, count);
        let frames = answered(&request_for(true, None), target);
        let played = play(target, list.inspect_answer(), frames.iter().map(|frame| &frame[..]));
        assert!(text.starts_with(&played.parsed.text) && !played.parsed.text.ends_with(&part));
        assert!(played.stream.blocked_by().is_some() && !played.events.contains(&StreamEvent::Finished));
        let longer = DenyList::new(&[format!("{part}!!")]).unwrap();
        let played = play(target, longer.inspect_answer(), frames.iter().map(|frame| &frame[..]));
        assert_eq!(
            (played.parsed.text, played.outcome),
            (text, Ok(DialectStreamEnd::Complete)),
            "{target:?}"
        );
    }
}
