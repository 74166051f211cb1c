//! Strict clients, one per face: they accept only what the vendors' own libraries accept, in the order those require.

mod gemini;
mod responses;

use crate::dialect::Face;
use gemini::listen_to_gemini;
use seawall_wire::bedrock::{FrameEnding, FrameKind, FrameLimits, FrameReader, InvokeEvent, InvokeReader};
use seawall_wire::chat::Usage;
use serde_json::Value;

/// What a client has received.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ParsedStream {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) text: String,
    /// Name, ID and input of each call.
    pub(super) calls: Vec<(String, String, String)>,
    pub(super) finish: String,
    pub(super) usage: Option<Usage>,
    pub(super) is_complete: bool,
    /// The message of the failure that ended it.
    pub(super) failure: Option<String>,
}

/// Parses a complete stream. The error is what a client would fail on.
pub(super) fn listen(face: Face, bytes: &[u8]) -> Result<ParsedStream, String> {
    match face.name() {
        "anthropic" => listen_to_messages(bytes),
        "openai" => listen_to_completions(bytes),
        "openai_responses" => responses::listen(bytes),
        "bedrock_invoke" => listen_to_invoke(bytes),
        "bedrock_converse" => listen_to_converse(bytes),
        "gemini" => listen_to_gemini(bytes),
        "chat" => Err("our own face has a judge of its own".to_owned()),
        other => panic!("{other:?}"),
    }
}

pub(super) fn ensure(is_right: bool, problem: &str, seen: &Value) -> Result<(), String> {
    if is_right { Ok(()) } else { Err(format!("{problem}: {seen}")) }
}

pub(super) fn json(text: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(text).map_err(|error| format!("{error}: {:?}", String::from_utf8_lossy(text)))
}

pub(super) fn text(value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("no text: {value}"))
}

pub(super) fn number(value: &Value) -> Result<u64, String> {
    value.as_u64().ok_or_else(|| format!("no count: {value}"))
}

/// The events of a stream, which must all be complete: name and data.
fn events(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
    let text = str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let Some(text) = text.strip_suffix("\n\n") else {
        return if text.is_empty() { Ok(Vec::new()) } else { Err(format!("cut inside an event: {text}")) };
    };
    let event = |event: &str| {
        let (mut name, mut data) = (String::new(), Vec::new());
        for line in event.lines() {
            match line.split_once(": ") {
                Some(("event", value)) => name = value.to_owned(),
                Some(("data", value)) => data.push(value.to_owned()),
                _ => return Err(format!("an unknown line: {line}")),
            }
        }
        Ok((name, data.join("\n").into_bytes()))
    };
    text.split("\n\n").map(event).collect()
}

fn listen_to_messages(bytes: &[u8]) -> Result<ParsedStream, String> {
    let mut message = Message::default();
    for (name, data) in events(bytes)? {
        message.read_event(&name, &json(&data)?)?;
    }
    Ok(message.parsed)
}

/// Anthropic's events, with any framing.
#[derive(Default)]
struct Message {
    parsed: ParsedStream,
    has_begun: bool,
    open: Option<(u64, bool)>,
    blocks: u64,
}

impl Message {
    fn read_event(&mut self, name: &str, event: &Value) -> Result<(), String> {
        let parsed = &mut self.parsed;
        ensure(event["type"] == name, "the event has another type than its name", event)?;
        ensure(!parsed.is_complete && parsed.failure.is_none(), "it goes on behind its end", event)?;
        ensure(self.has_begun || matches!(name, "message_start" | "ping" | "error"), "not begun", event)?;
        match name {
            "ping" => {}
            "message_start" => {
                ensure(!self.has_begun, "it begins twice", event)?;
                self.has_begun = true;
                let message = &event["message"];
                ensure(message["content"] == Value::Array(vec![]), "it begins with content", event)?;
                ensure(message["role"] == "assistant" && message["type"] == "message", "no message", event)?;
                (parsed.id, parsed.model) = (text(&message["id"])?, text(&message["model"])?);
                number(&message["usage"]["input_tokens"])?;
                number(&message["usage"]["output_tokens"])?;
            }
            "content_block_start" => {
                ensure(self.open.is_none(), "a block begins in another", event)?;
                ensure(parsed.finish.is_empty(), "a block begins behind the end", event)?;
                ensure(number(&event["index"])? == self.blocks, "a block has another number", event)?;
                let block = &event["content_block"];
                let is_call = match block["type"].as_str() {
                    Some("text") => false,
                    Some("tool_use") => {
                        ensure(block["input"].is_object(), "a call begins without input", event)?;
                        parsed.calls.push((text(&block["name"])?, text(&block["id"])?, String::new()));
                        true
                    }
                    _ => return Err(format!("an unknown block: {event}")),
                };
                self.open = Some((self.blocks, is_call));
                self.blocks += 1;
            }
            "content_block_delta" => {
                let is_call = self.open.filter(|(index, _)| event["index"] == *index).map(|(_, call)| call);
                let delta = &event["delta"];
                match (is_call, delta["type"].as_str(), parsed.calls.last_mut()) {
                    (Some(false), Some("text_delta"), _) => parsed.text.push_str(&text(&delta["text"])?),
                    (Some(true), Some("input_json_delta"), Some((_, _, input))) => {
                        input.push_str(&text(&delta["partial_json"])?);
                    }
                    _ => return Err(format!("a piece of nothing: {event}")),
                }
            }
            "content_block_stop" => {
                ensure(self.open.take().is_some_and(|(at, _)| event["index"] == at), "ends nothing", event)?;
            }
            "message_delta" => {
                ensure(self.open.is_none(), "a block is open at the end", event)?;
                parsed.finish = text(&event["delta"]["stop_reason"])?;
                let count = |name: &str| event["usage"][name].as_u64().unwrap_or(0);
                parsed.usage = Some(Usage {
                    input: count("input_tokens"),
                    cache_read: count("cache_read_input_tokens"),
                    cache_write: count("cache_creation_input_tokens"),
                    output: number(&event["usage"]["output_tokens"])?,
                    ..Usage::default()
                });
            }
            "message_stop" => {
                ensure(!parsed.finish.is_empty(), "it ends without a reason", event)?;
                parsed.is_complete = true;
            }
            "error" => {
                text(&event["error"]["type"])?;
                parsed.failure = Some(text(&event["error"]["message"])?);
            }
            _ => return Err(format!("an unknown event: {event}")),
        }
        Ok(())
    }
}

fn listen_to_invoke(bytes: &[u8]) -> Result<ParsedStream, String> {
    let mut reader = InvokeReader::new(FrameLimits::default());
    let (mut message, mut problem) = (Message::default(), Ok(()));
    let read = reader.feed(bytes, |event| {
        if problem.is_ok() {
            problem = match event {
                InvokeEvent::Message { name, json: event } => json(event).and_then(|event| {
                    message.read_event(name, &event)?;
                    let metrics = &event["amazon-bedrock-invocationMetrics"]["outputTokenCount"];
                    ensure(name != "message_stop" || metrics.is_u64(), "the end has no counts", &event)
                }),
                InvokeEvent::Failed { message: words, .. } => {
                    let is_over = message.parsed.is_complete || message.parsed.failure.is_some();
                    message.parsed.failure = Some(words);
                    ensure(!is_over, "it fails behind its end", &Value::Null)
                }
            };
        }
    });
    read.map_err(|error| error.to_string())?;
    problem?;
    ensure(reader.is_between_frames(), "cut inside a frame", &Value::Null)?;
    Ok(message.parsed)
}

fn listen_to_completions(bytes: &[u8]) -> Result<ParsedStream, String> {
    let mut parsed = ParsedStream::default();
    let mut has_begun = false;
    for (name, data) in events(bytes)? {
        let is_over = parsed.is_complete || parsed.failure.is_some();
        ensure(name.is_empty() && !is_over, "an event with a name, or behind the end", &name.into())?;
        if data == b"[DONE]" {
            ensure(!parsed.finish.is_empty(), "it ends without a reason", &Value::Null)?;
            parsed.is_complete = true;
            continue;
        }
        let chunk = json(&data)?;
        if chunk["error"].is_object() {
            text(&chunk["error"]["type"])?;
            parsed.failure = Some(text(&chunk["error"]["message"])?);
            continue;
        }
        ensure(chunk["object"] == "chat.completion.chunk" && chunk["created"].is_u64(), "no chunk", &chunk)?;
        let names = (text(&chunk["id"])?, text(&chunk["model"])?);
        if !std::mem::replace(&mut has_begun, true) {
            ensure(chunk["choices"][0]["delta"]["role"] == "assistant", "nobody begins", &chunk)?;
            (parsed.id, parsed.model) = names;
        } else {
            ensure(names == (parsed.id.clone(), parsed.model.clone()), "another answer", &chunk)?;
        }
        if let Some(usage) = chunk["usage"].as_object() {
            ensure(
                chunk["choices"] == Value::Array(vec![]) && parsed.usage.is_none(),
                "usage again",
                &chunk,
            )?;
            let cached = |name: &str| usage["prompt_tokens_details"][name].as_u64().unwrap_or(0);
            let (read, write) = (cached("cached_tokens"), cached("cache_write_tokens"));
            let (prompt, output) = (number(&usage["prompt_tokens"])?, number(&usage["completion_tokens"])?);
            parsed.usage = Some(Usage::from_whole_prompt(prompt, read, write, output));
            continue;
        }
        // A chunk without choices carries no content.
        if chunk["choices"] != Value::Array(vec![]) {
            read_choice(&mut parsed, &chunk)?;
        }
    }
    Ok(parsed)
}

fn read_choice(parsed: &mut ParsedStream, chunk: &Value) -> Result<(), String> {
    let choice = &chunk["choices"][0];
    ensure(choice["index"] == 0 && parsed.finish.is_empty(), "no choice, or behind its end", chunk)?;
    if let Some(more) = choice["delta"]["content"].as_str() {
        parsed.text.push_str(more);
    }
    for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
        let function = &call["function"];
        if number(&call["index"])? == parsed.calls.len() as u64 {
            ensure(call["type"] == "function", "a call begins without a type", chunk)?;
            parsed.calls.push((text(&function["name"])?, text(&call["id"])?, String::new()));
        }
        ensure(number(&call["index"])? + 1 == parsed.calls.len() as u64, "an earlier call goes on", chunk)?;
        if let Some((_, _, input)) = parsed.calls.last_mut() {
            input.push_str(&text(&function["arguments"])?);
        }
    }
    parsed.finish = choice["finish_reason"].as_str().unwrap_or_default().to_owned();
    Ok(())
}

fn listen_to_converse(bytes: &[u8]) -> Result<ParsedStream, String> {
    let mut reader = FrameReader::new(FrameLimits::default());
    let (mut answer, mut problem) = (Converse::default(), Ok(()));
    let read = reader.feed(bytes, |frame| {
        if problem.is_ok() {
            problem = json(frame.payload).and_then(|payload| answer.read_event(frame.kind, &payload));
        }
    });
    read.map_err(|error| error.to_string())?;
    problem?;
    ensure(reader.finish() == FrameEnding::Clean, "cut inside a frame", &Value::Null)?;
    Ok(answer.parsed)
}

#[derive(Default)]
struct Converse {
    parsed: ParsedStream,
    has_begun: bool,
    /// The open block, and whether it is a tool call.
    open: Option<bool>,
    blocks: u64,
}

impl Converse {
    fn read_event(&mut self, kind: FrameKind<'_>, event: &Value) -> Result<(), String> {
        let parsed = &mut self.parsed;
        let is_over = parsed.failure.is_some() || (parsed.is_complete && parsed.usage.is_some());
        ensure(!is_over, "it goes on behind its end", event)?;
        let name = match kind {
            FrameKind::Event(name) => name,
            FrameKind::Exception(_) => {
                // After the end of the message, the end of the stream is still pending.
                parsed.is_complete = false;
                parsed.failure = Some(text(&event["message"])?);
                return Ok(());
            }
            FrameKind::Error { .. } => return Err("a frame that not all clients know".to_owned()),
        };
        ensure(self.has_begun == (name != "messageStart"), "not begun, or twice", event)?;
        ensure(!parsed.is_complete || name == "metadata", "it goes on behind its end", event)?;
        match name {
            "messageStart" => {
                ensure(event["role"] == "assistant", "nobody begins", event)?;
                self.has_begun = true;
            }
            "contentBlockStart" => {
                ensure(self.open.is_none(), "a block begins in another", event)?;
                let call = &event["start"]["toolUse"];
                parsed.calls.push((text(&call["name"])?, text(&call["toolUseId"])?, String::new()));
                self.open = Some(true);
                ensure(event["contentBlockIndex"] == self.blocks, "another block", event)?;
            }
            "contentBlockDelta" => {
                ensure(event["contentBlockIndex"] == self.blocks, "another block", event)?;
                let (words, call) = (&event["delta"]["text"], &event["delta"]["toolUse"]["input"]);
                match (*self.open.get_or_insert(false), parsed.calls.last_mut()) {
                    (false, _) => parsed.text.push_str(&text(words)?),
                    (true, Some((_, _, input))) => input.push_str(&text(call)?),
                    (true, None) => return Err(format!("a piece of nothing: {event}")),
                }
            }
            "contentBlockStop" => {
                ensure(event["contentBlockIndex"] == self.blocks, "another block", event)?;
                ensure(self.open.take().is_some(), "ends nothing", event)?;
                self.blocks += 1;
            }
            "messageStop" => {
                ensure(self.open.is_none(), "a block is open at the end", event)?;
                parsed.finish = text(&event["stopReason"])?;
                parsed.is_complete = true;
            }
            "metadata" => {
                let usage = &event["usage"];
                number(&usage["totalTokens"])?;
                number(&event["metrics"]["latencyMs"])?;
                parsed.usage = Some(Usage {
                    input: number(&usage["inputTokens"])?,
                    cache_read: usage["cacheReadInputTokens"].as_u64().unwrap_or(0),
                    cache_write: usage["cacheWriteInputTokens"].as_u64().unwrap_or(0),
                    output: number(&usage["outputTokens"])?,
                    ..Usage::default()
                });
            }
            _ => return Err(format!("an unknown frame: {name}")),
        }
        Ok(())
    }
}

fn chunk(choices: &str) -> String {
    let head = r#""object":"chat.completion.chunk","created":1,"id":"c","model":"m""#;
    format!("data: {{{head},\"choices\":{choices}}}\n\n")
}

#[test]
fn the_clients_are_strict() {
    let message = concat!(
        r#"{"id":"m","type":"message","role":"assistant","model":"x","content":[],"#,
        r#""usage":{"input_tokens":1,"output_tokens":1}}"#
    );
    let event = |name: &str, more: &str| format!("event: {name}\ndata: {{\"type\":\"{name}\"{more}}}\n\n");
    let start = event("message_start", &format!(",\"message\":{message}"));
    let (stop, stray) = (event("message_stop", ""), event("content_block_stop", ",\"index\":0"));
    let read_event =
        |events: &[&str]| listen(Face::ANTHROPIC_MESSAGES, events.concat().as_bytes()).map(|_| ());
    assert_eq!(read_event(&[&start]), Ok(()));
    for events in
        [&[&*stop][..], &[&start, &start], &[&start, &stop], &[&start, &stray], &[&start, "event: x"]]
    {
        assert!(read_event(events).is_err(), "{events:?}");
    }
    let first = chunk(r#"[{"index":0,"delta":{"role":"assistant"}}]"#);
    let call = chunk(r#"[{"index":0,"delta":{"tool_calls":[{"index":1}]}}]"#);
    let done = "data: [DONE]\n\n";
    let read_event = |events: &[&str]| listen(Face::OPENAI_CHAT, events.concat().as_bytes()).map(|_| ());
    assert_eq!(read_event(&[&first]), Ok(()));
    for events in [&[done][..], &[&first, done], &[&first, &call], &[&call]] {
        assert!(read_event(events).is_err(), "{events:?}");
    }
    let frame = |name: &'static str, payload: &'static str| {
        let mut out = bytes::BytesMut::new();
        seawall_wire::bedrock::write_event_frame(&mut out, name, payload);
        out.to_vec()
    };
    let start = frame("messageStart", r#"{"role":"assistant"}"#);
    let stop = frame("contentBlockStop", r#"{"contentBlockIndex":0}"#);
    let read_event = |frames: &[&[u8]]| listen(Face::BEDROCK_CONVERSE, &frames.concat()).map(|_| ());
    assert_eq!(read_event(&[&start]), Ok(()));
    for frames in
        [&[&stop[..]][..], &[&start, &start], &[&start, &stop], &[&start[1..]], &[&start, &stop[..9]]]
    {
        assert!(read_event(frames).is_err());
    }
    assert!(listen(Face::BEDROCK_INVOKE, &frame("chunk", r#"{"bytes":"e30="}"#)).is_err());
}
