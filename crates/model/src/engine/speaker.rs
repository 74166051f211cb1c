//! Writes an answer in the dialect of the request.

use super::call::ModelCall;
use super::own_shape::{OwnShape, OwnWriter};
use super::script::Head;
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::money::UsageExtras;
use seawall_wire::bedrock::{self, BedrockCall, BedrockOperation, SseToInvoke};
use seawall_wire::chat::{ChatAnswer, ChatEvent, Usage};
use seawall_wire::sse::SseLimits;
use seawall_wire::{Refusal, anthropic, openai};
use std::time::Duration;

const JSON: &str = "application/json";
const SSE: &str = "text/event-stream";
/// Answers of OpenAI's dialect contain a creation time. It is constant here, so that equal seeds give equal bytes.
const CREATED: u64 = 1_700_000_000;

/// Writes one stream.
pub(super) enum Speaker {
    Messages(anthropic::ChatWriter),
    Completions(openai::ChatWriter),
    Converse(bedrock::ChatWriter),
    Invoke(anthropic::ChatWriter, Box<SseToInvoke>),
    Own(OwnWriter),
}

impl Speaker {
    pub(super) fn new(call: &ModelCall, include_usage: bool) -> Self {
        match call {
            ModelCall::Messages => Self::Messages(anthropic::ChatWriter::new()),
            ModelCall::Completions => Self::Completions(openai::ChatWriter::new(CREATED, include_usage)),
            ModelCall::Bedrock(BedrockCall { operation: BedrockOperation::InvokeStream, model }) => {
                match OwnShape::of_model(model) {
                    Some(shape) => Self::Own(OwnWriter::new(shape)),
                    None => Self::Invoke(
                        anthropic::ChatWriter::new(),
                        Box::new(SseToInvoke::new(SseLimits::default())),
                    ),
                }
            }
            ModelCall::Bedrock(_) => Self::Converse(bedrock::ChatWriter::new()),
        }
    }

    /// Appends the bytes for an event; `at` is the time since the request arrived.
    pub(super) fn write(&mut self, out: &mut BytesMut, event: &ChatEvent, at: Duration) {
        match self {
            Self::Messages(writer) => writer.write(out, event),
            Self::Completions(writer) => writer.write(out, event),
            Self::Own(writer) => writer.write(out, event, at),
            Self::Converse(writer) => {
                writer.set_latency(at);
                writer.write(out, event);
            }
            Self::Invoke(writer, frames) => {
                let mut events = BytesMut::new();
                writer.write(&mut events, event);
                // The events were just written, so they can be parsed.
                let _ = frames.feed(&events, at, out);
            }
        }
    }

    /// The head of the response.
    pub(super) fn head(call: &ModelCall, request_id: &str) -> Head {
        let content_type = match call {
            ModelCall::Messages | ModelCall::Completions => SSE,
            ModelCall::Bedrock(_) => bedrock::STREAM_CONTENT_TYPE,
        };
        let mut head = Head::new(200, content_type, call.dialect(), request_id);
        if let ModelCall::Bedrock(BedrockCall { operation: BedrockOperation::InvokeStream, .. }) = call {
            head.more.push(("x-amzn-bedrock-content-type", bedrock::INVOKE_CONTENT_TYPE.to_owned()));
        }
        head
    }
}

/// Writes a whole answer that took this long.
pub(super) fn whole(
    call: &ModelCall,
    answer: &ChatAnswer,
    request_id: &str,
    took: Duration,
) -> (Head, Bytes) {
    let mut out = BytesMut::new();
    let mut head = Head::new(200, JSON, call.dialect(), request_id);
    match call {
        ModelCall::Messages => anthropic::write_chat_answer(&mut out, answer),
        ModelCall::Completions => openai::write_chat_answer(&mut out, answer, CREATED),
        ModelCall::Bedrock(BedrockCall { operation: BedrockOperation::Invoke, model }) => {
            match OwnShape::of_model(model) {
                Some(shape) => out = BytesMut::from(&shape.whole(answer)[..]),
                None => anthropic::write_chat_answer(&mut out, answer),
            }
            head.more.extend(bedrock::usage_headers(answer.usage, took));
        }
        ModelCall::Bedrock(_) => out = BytesMut::from(&bedrock::write_chat_answer(answer, took)[..]),
    }
    (head, out.freeze())
}

/// Writes the response of a token-counting request.
pub(super) fn count(call: &ModelCall, input: u64, request_id: &str) -> (Head, Bytes) {
    (Head::new(200, JSON, call.dialect(), request_id), bedrock::write_count(input))
}

/// Writes a refusal.
pub(super) fn refusal(call: &ModelCall, refusal: Refusal, message: &str, request_id: &str) -> (Head, Bytes) {
    let status = match call {
        ModelCall::Messages => anthropic::status_of(refusal),
        ModelCall::Completions => openai::status_of(refusal),
        ModelCall::Bedrock(_) => bedrock::refusal_status(refusal),
    };
    let name = match call {
        ModelCall::Messages => anthropic::error_type_of(refusal),
        ModelCall::Completions => openai::error_type_of(refusal),
        ModelCall::Bedrock(_) => bedrock::refusal_name(refusal),
    };
    let code = match call {
        ModelCall::Completions => openai::error_code_of(refusal),
        ModelCall::Messages | ModelCall::Bedrock(_) => None,
    };
    named(call, status, name, code, message, request_id)
}

/// Writes an error with this status; by default with the vendor's usual name for it.
pub(super) fn error(call: &ModelCall, status: u16, name: Option<&str>, request_id: &str) -> (Head, Bytes) {
    let (usual, message) = match call {
        ModelCall::Messages => anthropic_error(status),
        ModelCall::Completions => openai_error(status),
        ModelCall::Bedrock(_) => bedrock_error(status),
    };
    let code = (matches!(call, ModelCall::Completions) && status == 429).then_some("rate_limit_exceeded");
    named(call, status, name.unwrap_or(usual), code, message, request_id)
}

fn named(
    call: &ModelCall,
    status: u16,
    name: &str,
    code: Option<&str>,
    message: &str,
    request_id: &str,
) -> (Head, Bytes) {
    let mut out = BytesMut::new();
    let mut head = Head::new(status, JSON, call.dialect(), request_id);
    match call {
        ModelCall::Messages => {
            let request_id = Some(request_id);
            anthropic::write_error(
                &mut out,
                &anthropic::ErrorReply { error_type: name, error_code: None, message, request_id },
            );
        }
        ModelCall::Completions => {
            let reply = openai::ErrorReply { error_type: name, error_code: code, message, param: None };
            openai::write_error(&mut out, &reply);
        }
        ModelCall::Bedrock(_) => {
            head.more.push(("x-amzn-errortype", name.to_owned()));
            bedrock::write_error(&mut out, message);
        }
    }
    (head, out.freeze())
}

const THROTTLES: &str = "the simulated model throttles";
const LATE: &str = "the simulated model took too long";
const REFUSES: &str = "the simulated model refuses the request";
const FAULT: &str = "the simulated model is at fault";

const fn anthropic_error(status: u16) -> (&'static str, &'static str) {
    match status {
        401 => ("authentication_error", "the simulated model refuses the key"),
        403 => ("permission_error", "the simulated model refuses the key"),
        404 => ("not_found_error", "the simulated model is not found"),
        408 | 504 => ("timeout_error", LATE),
        413 => ("request_too_large", "the simulated model finds this too large"),
        429 => ("rate_limit_error", THROTTLES),
        529 => ("overloaded_error", "the simulated model is overloaded"),
        400..=499 => ("invalid_request_error", REFUSES),
        _ => ("api_error", FAULT),
    }
}

const fn openai_error(status: u16) -> (&'static str, &'static str) {
    match status {
        403 => ("permission_error", "the simulated model refuses the key"),
        408 | 504 => ("server_error", LATE),
        429 => ("rate_limit_error", THROTTLES),
        400..=499 => ("invalid_request_error", REFUSES),
        _ => ("server_error", FAULT),
    }
}

const fn bedrock_error(status: u16) -> (&'static str, &'static str) {
    match status {
        401 => ("UnrecognizedClientException", "the simulated model refuses the key"),
        403 => ("AccessDeniedException", "the simulated model refuses the key"),
        404 => ("ResourceNotFoundException", "the simulated model is not found"),
        408 => ("ModelTimeoutException", LATE),
        424 => ("ModelErrorException", FAULT),
        429 => ("ThrottlingException", THROTTLES),
        503 => ("ServiceUnavailableException", "the simulated model is overloaded"),
        400..=499 => ("ValidationException", REFUSES),
        _ => ("InternalServerException", FAULT),
    }
}

/// The event of a stream that fails in the middle.
pub(super) fn failure() -> ChatEvent {
    let failure = Failure::of(FailureKind::Overloaded);
    ChatEvent::Failed { failure, message: "the simulated model is overloaded".to_owned() }
}

/// Zero usage.
pub(super) const FREE: Usage =
    Usage { input: 0, cache_read: 0, cache_write: 0, output: 0, extras: UsageExtras::NONE };
