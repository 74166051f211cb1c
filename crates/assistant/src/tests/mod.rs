//! Tests of the assistant. The simulated model answers as every target.

mod faults;
mod prompt;
mod streams;
mod texts;

use crate::stream::ReleasedText;
use bytes::Bytes;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::history::Role;
use seawall_model::engine::{
    Engine, Fault, FaultRule, ModelCall, ModelOptions, ModelRequest, Script, ScriptAction,
};
use seawall_pipeline::dialect::{AnswerDefaults, DialectId, DialectRequest, DialectStream, DialectStreamEnd};
use seawall_pipeline::guardrail::{AnswerInspector, Guardrail as _, Guardrails};
use seawall_wire::chat::{ChatEvent, ChatRequest, FinishReason, RequestPart, StreamEvent, Turn};
use seawall_wire::reply::{ReplyEvent, ReplyInterruption};
use std::time::Duration;

/// The callers' model name, which no target uses.
const ALIAS: &str = "support";
const DEFAULTS: AnswerDefaults<'_> =
    AnswerDefaults { id: "req_1", created: 1_800_000_000, elapsed: Duration::from_millis(70) };

fn request_for(stream: bool, max_output: Option<u32>) -> DialectRequest {
    let turn = |role, text: &str| Turn { role, parts: vec![RequestPart::Text(text.to_owned())] };
    let turns = vec![
        turn(Role::User, "やあ"),
        turn(Role::Assistant, "こんにちは。"),
        turn(Role::User, "次に何を読めばいい？ Something with \"trains\", please."),
    ];
    let system = vec!["Be kind.".to_owned()];
    let chat =
        ChatRequest { model: ALIAS.to_owned(), system, turns, max_output, stream, ..ChatRequest::default() };
    DialectRequest::neutral(chat, Bytes::from_static(b"{}"))
}

fn model_of(target: DialectId) -> &'static str {
    match target.name() {
        "anthropic" => "claude-3-haiku-20240307",
        "openai" | "openai_responses" => "gpt-4o-mini",
        "bedrock_invoke" | "bedrock_converse" => "anthropic.claude-3-haiku-20240307-v1:0",
        "gemini" => "gemini-2.5-flash",
        other => panic!("{other:?}"),
    }
}

/// The simulated model's response to a request.
fn script(request: &DialectRequest, target: DialectId, fault: Option<Fault>) -> Script {
    let faults = fault.into_iter().map(FaultRule::always).collect();
    let engine = Engine::new(ModelOptions { seed: 7, faults, ..ModelOptions::default() }).unwrap();
    let path = target.path(model_of(target), request.stream());
    let call = ModelCall::of_path(&path).unwrap().unwrap();
    let body = request.body_for(target, model_of(target)).unwrap();
    engine.script(&ModelRequest::first(&call, &body))
}

/// The pieces that a script sends.
fn frames(script: &Script) -> Vec<Bytes> {
    let body = |action: &ScriptAction| match action {
        ScriptAction::Body(bytes) => Some(bytes.clone()),
        ScriptAction::Head(_) => None,
    };
    script.steps.iter().filter_map(|step| body(&step.action)).collect()
}

fn answered(request: &DialectRequest, target: DialectId) -> Vec<Bytes> {
    frames(&script(request, target, None))
}

fn uninspected() -> Box<dyn AnswerInspector> {
    Guardrails::default().inspect_answer()
}

/// A stream that was played to its end.
struct Played {
    /// The text that the caller received.
    text: String,
    blocked_by: Option<String>,
    /// The finish reason in the events.
    finish: Option<FinishReason>,
    interruption: Option<ReplyInterruption>,
    events: Vec<StreamEvent>,
    outcome: Result<DialectStreamEnd, Failure>,
    stream: DialectStream,
}

impl Played {
    /// Whether the caller receives the answer as complete.
    fn is_done(&self) -> bool {
        self.outcome == Ok(DialectStreamEnd::Complete) && self.blocked_by.is_none()
    }
}

/// Plays a stream as a reply does: text through the guardrail, then one end.
fn play<'a>(
    target: DialectId,
    inspector: Box<dyn AnswerInspector>,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Played {
    let mut stream = DialectStream::new(&request_for(true, None), target, &DEFAULTS);
    assert!(stream.encoder().is_none(), "the asker reads the events itself");
    let (mut text, mut released, mut finish) = (ReleasedText::new(inspector), String::new(), None);
    let mut events = Vec::new();
    let mut into = |event: ReplyEvent| match event {
        ReplyEvent::Chat(ChatEvent::Text(piece)) if text.blocked_by().is_none() => {
            released += &text.push(&piece);
        }
        ReplyEvent::Chat(ChatEvent::Finished(reason)) => finish = Some(reason),
        ReplyEvent::Chat(_) => {}
        ReplyEvent::Opaque(_) | ReplyEvent::Interrupted(_) => panic!("{event:?}"),
    };
    let fed = pieces.into_iter().try_for_each(|piece| {
        stream.feed(&Bytes::copy_from_slice(piece), &mut into, &mut |event| events.push(event))
    });
    let outcome = fed.map(|()| stream.end(&mut into, &mut |event| events.push(event)));
    if outcome == Ok(DialectStreamEnd::Complete) && text.blocked_by().is_none() {
        released += &text.end();
    }
    let kind = match &outcome {
        Ok(DialectStreamEnd::Complete) => None,
        Ok(DialectStreamEnd::Interrupted) => Some(FailureKind::StreamInterrupted),
        Err(failure) => Some(failure.kind),
    };
    let interruption = kind.and_then(|kind| stream.interrupt(kind, "cut")).map(|event| match event {
        ReplyEvent::Interrupted(interruption) => interruption,
        event => panic!("{event:?}"),
    });
    assert_eq!(interruption.map(|interruption| interruption.kind), kind);
    assert_eq!(stream.interrupt(FailureKind::TimedOut, "late"), None, "the end is reported twice");
    let sent = text.take().unwrap_or_default();
    assert_eq!((sent.as_str(), text.delivered()), (released.as_str(), released.chars().count() as u64));
    let blocked_by = text.blocked_by().map(str::to_owned);
    Played { text: released, blocked_by, finish, interruption, events, outcome, stream }
}
