//! Writes an answer in the dialect of the request.

use super::call::ModelCall;
use super::script::ScriptHead;
use super::vendor_format::{VendorFormat, VendorFormatWriter};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::money::UsageExtras;
use seawall_wire::bedrock::{self, BedrockCall, BedrockOperation, SseToInvoke};
use seawall_wire::chat::{ChatAnswer, ChatEvent, Usage};
use seawall_wire::sse::SseLimits;
use seawall_wire::{ApiErrorKind, anthropic, openai};
use std::time::Duration;

const JSON: &str = "application/json";
const SSE: &str = "text/event-stream";
/// Answers of OpenAI's dialect contain a creation time. It is constant here, so that equal seeds give equal bytes.
const CREATED: u64 = 1_700_000_000;

/// Writes one stream.
pub(super) enum AnswerWriter {
    Messages(anthropic::AnthropicChatWriter),
    Completions(openai::OpenAiChatWriter),
    Converse(bedrock::ConverseChatWriter),
    Invoke(anthropic::AnthropicChatWriter, Box<SseToInvoke>),
    VendorFormat(VendorFormatWriter),
}

impl AnswerWriter {
    pub(super) fn new(call: &ModelCall, include_usage: bool) -> Self {
        match call {
            ModelCall::Messages => Self::Messages(anthropic::AnthropicChatWriter::new()),
            ModelCall::Completions => {
                Self::Completions(openai::OpenAiChatWriter::new(CREATED, include_usage))
            }
            ModelCall::Bedrock(BedrockCall { operation: BedrockOperation::InvokeStream, model }) => {
                match VendorFormat::of_model(model) {
                    Some(format) => Self::VendorFormat(VendorFormatWriter::new(format)),
                    None => Self::Invoke(
                        anthropic::AnthropicChatWriter::new(),
                        Box::new(SseToInvoke::new(SseLimits::default())),
                    ),
                }
            }
            ModelCall::Bedrock(_) => Self::Converse(bedrock::ConverseChatWriter::new()),
        }
    }

    /// Appends the bytes for an event; `at` is the time since the request arrived.
    pub(super) fn write(&mut self, out: &mut BytesMut, event: &ChatEvent, at: Duration) {
        match self {
            Self::Messages(writer) => writer.write(out, event),
            Self::Completions(writer) => writer.write(out, event),
            Self::VendorFormat(writer) => writer.write(out, event, at),
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
    pub(super) fn head(call: &ModelCall, request_id: &str) -> ScriptHead {
        let content_type = match call {
            ModelCall::Messages | ModelCall::Completions => SSE,
            ModelCall::Bedrock(_) => bedrock::STREAM_CONTENT_TYPE,
        };
        let mut head = ScriptHead::new(200, content_type, call.vendor(), request_id);
        if let ModelCall::Bedrock(BedrockCall { operation: BedrockOperation::InvokeStream, .. }) = call {
            head.extra_headers.push(("x-amzn-bedrock-content-type", bedrock::INVOKE_CONTENT_TYPE.to_owned()));
        }
        head
    }
}

/// Writes a whole answer that took this long.
pub(super) fn whole(
    call: &ModelCall,
    answer: &ChatAnswer,
    request_id: &str,
    elapsed: Duration,
) -> (ScriptHead, Bytes) {
    let mut out = BytesMut::new();
    let mut head = ScriptHead::new(200, JSON, call.vendor(), request_id);
    match call {
        ModelCall::Messages => anthropic::write_chat_answer(&mut out, answer),
        ModelCall::Completions => openai::write_chat_answer(&mut out, answer, CREATED),
        ModelCall::Bedrock(BedrockCall { operation: BedrockOperation::Invoke, model }) => {
            match VendorFormat::of_model(model) {
                Some(format) => out = BytesMut::from(&format.write_answer(answer)[..]),
                None => anthropic::write_chat_answer(&mut out, answer),
            }
            head.extra_headers.extend(bedrock::usage_headers(answer.usage, elapsed));
        }
        ModelCall::Bedrock(_) => out = BytesMut::from(&bedrock::write_chat_answer(answer, elapsed)[..]),
    }
    (head, out.freeze())
}

/// Writes the response of a token-counting request.
pub(super) fn count(call: &ModelCall, input: u64, request_id: &str) -> (ScriptHead, Bytes) {
    (ScriptHead::new(200, JSON, call.vendor(), request_id), bedrock::write_count(input))
}

/// Writes an error of this kind.
pub(super) fn error_of_kind(
    call: &ModelCall,
    error_kind: ApiErrorKind,
    message: &str,
    request_id: &str,
) -> (ScriptHead, Bytes) {
    let status = match call {
        ModelCall::Messages => anthropic::status_of(error_kind),
        ModelCall::Completions => openai::status_of(error_kind),
        ModelCall::Bedrock(_) => bedrock::error_status(error_kind),
    };
    let name = match call {
        ModelCall::Messages => anthropic::error_type_of(error_kind),
        ModelCall::Completions => openai::error_type_of(error_kind),
        ModelCall::Bedrock(_) => bedrock::error_name(error_kind),
    };
    let code = match call {
        ModelCall::Completions => openai::error_code_of(error_kind),
        ModelCall::Messages | ModelCall::Bedrock(_) => None,
    };
    write_error_body(call, status, name, code, message, request_id)
}

/// Writes an error with this status; by default with the vendor's usual name for it.
pub(super) fn error(
    call: &ModelCall,
    status: u16,
    name: Option<&str>,
    request_id: &str,
) -> (ScriptHead, Bytes) {
    let (usual, message) = match call {
        ModelCall::Messages => anthropic_error(status),
        ModelCall::Completions => openai_error(status),
        ModelCall::Bedrock(_) => bedrock_error(status),
    };
    let code = (matches!(call, ModelCall::Completions) && status == 429).then_some("rate_limit_exceeded");
    write_error_body(call, status, name.unwrap_or(usual), code, message, request_id)
}

fn write_error_body(
    call: &ModelCall,
    status: u16,
    name: &str,
    code: Option<&str>,
    message: &str,
    request_id: &str,
) -> (ScriptHead, Bytes) {
    let mut out = BytesMut::new();
    let mut head = ScriptHead::new(status, JSON, call.vendor(), request_id);
    match call {
        ModelCall::Messages => {
            let request_id = Some(request_id);
            anthropic::write_error(
                &mut out,
                &anthropic::AnthropicErrorBody { error_type: name, error_code: None, message, request_id },
            );
        }
        ModelCall::Completions => {
            let reply = openai::OpenAiErrorBody { error_type: name, error_code: code, message, param: None };
            openai::write_error(&mut out, &reply);
        }
        ModelCall::Bedrock(_) => {
            head.extra_headers.push(("x-amzn-errortype", name.to_owned()));
            bedrock::write_error(&mut out, message);
        }
    }
    (head, out.freeze())
}

const RATE_LIMITED: &str = "rate limit of the simulated model exceeded";
const TIMED_OUT: &str = "the simulated model timed out";
const REJECTED: &str = "the simulated model rejected the request";
const INTERNAL_ERROR: &str = "internal error of the simulated model";

const fn anthropic_error(status: u16) -> (&'static str, &'static str) {
    match status {
        401 => ("authentication_error", "the simulated model rejected the key"),
        403 => ("permission_error", "the simulated model rejected the key"),
        404 => ("not_found_error", "the simulated model was not found"),
        408 | 504 => ("timeout_error", TIMED_OUT),
        413 => ("request_too_large", "the request is too large for the simulated model"),
        429 => ("rate_limit_error", RATE_LIMITED),
        529 => ("overloaded_error", "the simulated model is overloaded"),
        400..=499 => ("invalid_request_error", REJECTED),
        _ => ("api_error", INTERNAL_ERROR),
    }
}

const fn openai_error(status: u16) -> (&'static str, &'static str) {
    match status {
        403 => ("permission_error", "the simulated model rejected the key"),
        408 | 504 => ("server_error", TIMED_OUT),
        429 => ("rate_limit_error", RATE_LIMITED),
        400..=499 => ("invalid_request_error", REJECTED),
        _ => ("server_error", INTERNAL_ERROR),
    }
}

const fn bedrock_error(status: u16) -> (&'static str, &'static str) {
    match status {
        401 => ("UnrecognizedClientException", "the simulated model rejected the key"),
        403 => ("AccessDeniedException", "the simulated model rejected the key"),
        404 => ("ResourceNotFoundException", "the simulated model was not found"),
        408 => ("ModelTimeoutException", TIMED_OUT),
        424 => ("ModelErrorException", INTERNAL_ERROR),
        429 => ("ThrottlingException", RATE_LIMITED),
        503 => ("ServiceUnavailableException", "the simulated model is overloaded"),
        400..=499 => ("ValidationException", REJECTED),
        _ => ("InternalServerException", INTERNAL_ERROR),
    }
}

/// The event of a stream that fails in the middle.
pub(super) fn failure() -> ChatEvent {
    let failure = Failure::of(FailureKind::Overloaded);
    ChatEvent::Failed { failure, message: "the simulated model is overloaded".to_owned() }
}

/// Zero usage.
pub(super) const NO_USAGE: Usage =
    Usage { input: 0, cache_read: 0, cache_write: 0, output: 0, extras: UsageExtras::NONE };
