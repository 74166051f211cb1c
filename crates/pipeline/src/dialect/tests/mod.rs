//! All pairs of a face and a target, with the simulated model as target and strict clients as callers.

mod any_bytes;
mod cache_points;
mod faults;
mod features;
mod gemini;
mod judge;
mod own_dialect;
mod pass_through;
mod refusals;
mod requests;
mod richer;
mod streams;
mod unstreamed;

use super::{AnswerDefaults, DialectRequest, DialectStream, DialectStreamEnd, Face, UnstreamedAnswer};
use bytes::Bytes;
use seawall_core::failure::{Failure, FailureKind};
use seawall_model::engine::{
    Engine, Fault, FaultRule, ModelCall, ModelOptions, ModelRequest, Script, ScriptAction,
};
use seawall_wire::bedrock::{FrameEnding, FrameLimits, FrameReader};
use seawall_wire::chat::StreamEvent;
use seawall_wire::dialect::{DialectId, UrlParameters};
use seawall_wire::reply::{ReplyEncoder, ReplyEvent};
use seawall_wire::sse::whole_length;
use seawall_wire::{RequestError, RequestLimits};
use serde_json::{Value, json};
use std::ops::Deref;
use std::time::Duration;

/// The callers' model name, which no target uses.
const ALIAS: &str = "support";
const DEFAULTS: AnswerDefaults<'_> =
    AnswerDefaults { id: "req_1", created: 1_800_000_000, elapsed: Duration::from_millis(70) };
const MESSAGE: &str = "it broke off";

/// A request, independent of the dialect.
#[derive(Clone, Copy)]
struct Question {
    stream: bool,
    max_output: Option<u32>,
    needs_tool: bool,
    wants_usage: bool,
}

const PLAIN: Question =
    Question { stream: false, max_output: Some(500), needs_tool: false, wants_usage: true };
const STREAM: Question = Question { stream: true, ..PLAIN };

fn every_pair() -> impl Iterator<Item = (Face, DialectId)> {
    Face::VENDORS.into_iter().flat_map(|face| DialectId::ALL.into_iter().map(move |target| (face, target)))
}

/// The dialect of a vendor's face.
fn dialect(face: Face) -> DialectId {
    face.dialect().unwrap()
}

fn schema() -> Value {
    json!({"type": "object", "required": ["query", "volume"],
        "properties": {"query": {"type": "string"}, "volume": {"type": "integer"}}})
}

/// The request body in a face's dialect.
fn body(face: Face, question: &Question) -> Value {
    let words = "次に何を読めばいい？ Something with \"trains\", please.";
    let mut body = match face.name() {
        "anthropic" | "bedrock_invoke" => json!({
            "system": "Be kind.", "messages": [{"role": "user", "content": words}],
            "max_tokens": question.max_output,
        }),
        "openai" => json!({
            "model": ALIAS, "stream": question.stream, "stream_options": {"include_usage": question.wants_usage},
            "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": words}],
        }),
        "openai_responses" => json!({
            "model": ALIAS, "stream": question.stream, "store": false, "instructions": "Be kind.",
            "input": [{"role": "user", "content": words}],
        }),
        "bedrock_converse" => json!({
            "system": [{"text": "Be kind."}], "messages": [{"role": "user", "content": [{"text": words}]}],
        }),
        "gemini" => json!({
            "systemInstruction": {"parts": [{"text": "Be kind."}]},
            "contents": [{"role": "user", "parts": [{"text": words}]}],
        }),
        "chat" => panic!("our own face has no dialect"),
        other => panic!("{other:?}"),
    };
    match face.name() {
        "anthropic" => {
            body["model"] = json!(ALIAS);
            body["stream"] = json!(question.stream);
        }
        "bedrock_invoke" => body["anthropic_version"] = json!("bedrock-2023-05-31"),
        "openai" => {
            if let Some(limit) = question.max_output {
                body["max_completion_tokens"] = json!(limit);
            }
        }
        "openai_responses" => {
            if let Some(limit) = question.max_output {
                body["max_output_tokens"] = json!(limit);
            }
        }
        "bedrock_converse" => {
            if let Some(limit) = question.max_output {
                body["inferenceConfig"] = json!({"maxTokens": limit});
            }
        }
        "gemini" => {
            if let Some(limit) = question.max_output {
                body["generationConfig"] = json!({"maxOutputTokens": limit});
            }
        }
        "chat" => {}
        other => panic!("{other:?}"),
    }
    if question.needs_tool {
        match face.name() {
            "anthropic" | "bedrock_invoke" => {
                body["tools"] = json!([{"name": "find", "input_schema": schema()}]);
                body["tool_choice"] = json!({"type": "any"});
            }
            "openai" => {
                let function = json!({"name": "find", "parameters": schema()});
                body["tools"] = json!([{"type": "function", "function": function}]);
                body["tool_choice"] = json!("required");
            }
            "openai_responses" => {
                body["tools"] = json!([{"type": "function", "name": "find", "parameters": schema()}]);
                body["tool_choice"] = json!("required");
            }
            "bedrock_converse" => {
                let tool = json!({"toolSpec": {"name": "find", "inputSchema": {"json": schema()}}});
                body["toolConfig"] = json!({"tools": [tool], "toolChoice": {"any": {}}});
            }
            "gemini" => {
                let function = json!({"name": "find", "parametersJsonSchema": schema()});
                body["tools"] = json!([{"functionDeclarations": [function]}]);
                body["toolConfig"] = json!({"functionCallingConfig": {"mode": "ANY"}});
            }
            "chat" => {}
            other => panic!("{other:?}"),
        }
    }
    body
}

fn has_anthropic_bodies(dialect: DialectId) -> bool {
    dialect.body_format() == DialectId::ANTHROPIC_MESSAGES.body_format()
}

/// Parses a body at a face.
fn read(face: Face, stream: bool, body: Bytes) -> Result<DialectRequest, RequestError> {
    let dialect = face.dialect().expect("our own face has no dialect");
    let url = UrlParameters::new(ALIAS.to_owned(), stream);
    DialectRequest::read(dialect, &url, body, &RequestLimits::default())
}

fn request_for(face: Face, question: &Question) -> DialectRequest {
    let body = Bytes::from(body(face, question).to_string());
    read(face, question.stream, body).unwrap()
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
    let script = engine.script(&ModelRequest::first(&call, &body));
    assert_eq!(script.status(), Some(200), "{target:?} {}", String::from_utf8_lossy(&body));
    script
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

/// A stream and its encoder: the bytes that a caller of its dialect receives.
struct EncodedStream {
    stream: DialectStream,
    encoder: ReplyEncoder,
}

impl EncodedStream {
    fn new(request: &DialectRequest, target: DialectId, defaults: &AnswerDefaults<'_>) -> Self {
        let stream = DialectStream::new(request, target, defaults);
        let encoder = stream.encoder().unwrap();
        Self { stream, encoder }
    }

    fn feed(
        &mut self,
        chunk: &Bytes,
        into: &mut impl FnMut(Bytes),
        events: &mut impl FnMut(StreamEvent),
    ) -> Result<(), Failure> {
        let mut ready = Vec::new();
        let fed = self.stream.feed(chunk, &mut |event| ready.push(event), events);
        self.encode(ready, into);
        fed
    }

    fn end(
        &mut self,
        into: &mut impl FnMut(Bytes),
        events: &mut impl FnMut(StreamEvent),
    ) -> DialectStreamEnd {
        let mut ready = Vec::new();
        let end = self.stream.end(&mut |event| ready.push(event), events);
        self.encode(ready, into);
        end
    }

    fn cut_at_limit(&mut self, last: &[u8], tokens: u64, into: &mut impl FnMut(Bytes)) {
        let mut ready = Vec::new();
        self.stream.cut_at_limit(last, tokens, &mut |event| ready.push(event));
        self.encode(ready, into);
    }

    fn interrupt(&mut self, kind: FailureKind, message: &'static str) -> Bytes {
        let event = self.stream.interrupt(kind, message);
        event.map(|event| self.encoder.encode(event, || None)).unwrap_or_default()
    }

    /// Opaque bytes piece by piece; everything else in one piece.
    fn encode(&mut self, ready: Vec<ReplyEvent>, into: &mut impl FnMut(Bytes)) {
        let mut events = ready.into_iter().peekable();
        while let Some(event) = events.next() {
            let bytes =
                self.encoder.encode(event, || events.next_if(|next| !matches!(next, ReplyEvent::Opaque(_))));
            if !bytes.is_empty() {
                into(bytes);
            }
        }
    }
}

impl Deref for EncodedStream {
    type Target = DialectStream;

    fn deref(&self) -> &DialectStream {
        &self.stream
    }
}

/// The body that a caller receives.
fn written(answer: &UnstreamedAnswer, face: Face) -> Bytes {
    answer.content.clone().encode(dialect(face))
}

/// A stream that was played to its end.
struct Played {
    /// The bytes that the caller received.
    sent: Vec<u8>,
    events: Vec<StreamEvent>,
    outcome: Result<DialectStreamEnd, Failure>,
    stream: EncodedStream,
}

impl Played {
    fn is_complete(&self) -> bool {
        self.outcome == Ok(DialectStreamEnd::Complete)
    }
}

/// Plays a stream as the pipeline does: to its end, or to the interruption.
fn play<'a>(
    request: &DialectRequest,
    target: DialectId,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Played {
    let mut stream = EncodedStream::new(request, target, &DEFAULTS);
    let (mut sent, mut events) = (Vec::new(), Vec::new());
    let mut into = |bytes: Bytes| {
        assert!(!bytes.is_empty());
        sent.extend_from_slice(&bytes);
    };
    let fed = pieces.into_iter().try_for_each(|piece| {
        stream.feed(&Bytes::copy_from_slice(piece), &mut into, &mut |event| events.push(event))
    });
    let outcome = fed.map(|()| stream.end(&mut into, &mut |event| events.push(event)));
    assert!(is_whole(request.face(), &sent), "a caller has half an event");
    let kind = match &outcome {
        Ok(DialectStreamEnd::Complete) => None,
        Ok(DialectStreamEnd::Interrupted) => Some(FailureKind::StreamInterrupted),
        Err(failure) => Some(failure.kind),
    };
    if let Some(kind) = kind {
        sent.extend_from_slice(&stream.interrupt(kind, MESSAGE));
    }
    assert!(stream.interrupt(FailureKind::TimedOut, MESSAGE).is_empty(), "the end is told twice");
    Played { sent, events, outcome, stream }
}

/// Whether bytes end between two events of a face.
fn is_whole(face: Face, sent: &[u8]) -> bool {
    match face.name() {
        "anthropic" | "openai" | "openai_responses" | "gemini" | "chat" => {
            whole_length(b"", sent) == sent.len()
        }
        "bedrock_invoke" | "bedrock_converse" => {
            let mut frames = FrameReader::new(FrameLimits::default());
            // Bytes after the target's own end or failure may be anything.
            frames.feed(sent, |_| ()).is_err() || frames.finish() == FrameEnding::Clean
        }
        other => panic!("{other:?}"),
    }
}
