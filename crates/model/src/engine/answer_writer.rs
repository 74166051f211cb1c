//! Writes an answer in the dialect of the request.

use super::call::ModelCall;
use super::operation::OperationFormat;
use super::script::ScriptHead;
use super::vendor_format::VendorFormatWriter;
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::money::UsageExtras;
use seawall_wire::chat::{ChatAnswer, ChatEvent, Usage};
use seawall_wire::dialect::{AnswerDefaults, ChatStreamWriter, DialectId, ErrorResponse, VendorError};
use seawall_wire::{ApiErrorKind, RetryAdvice, bedrock, gemini};
use std::time::Duration;

const JSON: &str = "application/json";
/// Answers of OpenAI's dialect contain a creation time. It is constant here, so that equal seeds give equal bytes.
pub(super) const CREATED: u64 = 1_700_000_000;

/// Writes one stream.
pub(super) enum AnswerWriter {
    Dialect(Box<dyn ChatStreamWriter>),
    VendorFormat(VendorFormatWriter),
}

impl AnswerWriter {
    pub(super) fn new(call: &ModelCall, include_usage: bool) -> Self {
        match call.vendor_format() {
            Some(format) => Self::VendorFormat(VendorFormatWriter::new(format)),
            None => Self::Dialect(call.dialect.write_stream(CREATED, include_usage)),
        }
    }

    /// Appends the bytes for an event; `at` is the time since the request arrived.
    pub(super) fn write(&mut self, out: &mut BytesMut, event: &ChatEvent, at: Duration) {
        match self {
            Self::Dialect(writer) => writer.write(out, event, at),
            Self::VendorFormat(writer) => writer.write(out, event, at),
        }
    }

    /// The head of the response.
    pub(super) fn head(call: &ModelCall, request_id: &str) -> ScriptHead {
        let mut head = ScriptHead::new(200, call.dialect.content_type(true), call.dialect, request_id);
        let own = call.dialect.stream_headers().iter();
        head.extra_headers.extend(own.map(|(name, value)| (*name, (*value).to_owned())));
        head
    }
}

/// Writes a whole answer that took this long.
pub(super) fn whole(
    call: &ModelCall,
    answer: &ChatAnswer,
    request_body: &[u8],
    request_id: &str,
    elapsed: Duration,
) -> (ScriptHead, Bytes) {
    let mut head = ScriptHead::new(200, JSON, call.dialect, request_id);
    head.extra_headers.extend(call.dialect.answer_headers(answer.usage, elapsed));
    let body = match (OperationFormat::of_call(call), call.vendor_format()) {
        (Some(format), _) => format.write(request_body, answer),
        (None, Some(format)) => format.write_answer(answer),
        (None, None) => {
            let defaults = AnswerDefaults { id: request_id, created: CREATED, elapsed };
            call.dialect.write_chat_answer(answer, &defaults)
        }
    };
    (head, body)
}

/// Writes the response of a token-counting request.
pub(super) fn count(call: &ModelCall, input: u64, request_id: &str) -> (ScriptHead, Bytes) {
    let count = if call.dialect == DialectId::GEMINI {
        gemini::write_count(input)
    } else {
        bedrock::write_count(input)
    };
    (ScriptHead::new(200, JSON, call.dialect, request_id), count)
}

/// Writes an error of this kind.
pub(super) fn error_of_kind(
    call: &ModelCall,
    error_kind: ApiErrorKind,
    message: &str,
    request_id: &str,
) -> (ScriptHead, Bytes) {
    split(call, call.dialect.write_error(error_kind, message, request_id, RetryAdvice::default()), request_id)
}

/// Writes an error with this status; by default with the vendor's usual name for it.
pub(super) fn error(
    call: &ModelCall,
    status: u16,
    name: Option<&str>,
    request_id: &str,
) -> (ScriptHead, Bytes) {
    let error = VendorError { status, name, message: message_of(status), request_id };
    split(call, call.dialect.write_vendor_error(&error), request_id)
}

/// The head and the body of an error response.
fn split(call: &ModelCall, response: ErrorResponse, request_id: &str) -> (ScriptHead, Bytes) {
    let ErrorResponse { status, headers, body } = response;
    let mut head = ScriptHead::new(status, JSON, call.dialect, request_id);
    let common = ["content-type", call.dialect.request_id_header()];
    head.extra_headers = headers.into_iter().filter(|(name, _)| !common.contains(name)).collect();
    (head, body)
}

const fn message_of(status: u16) -> &'static str {
    match status {
        401 | 403 => "the simulated model rejected the key",
        404 => "the simulated model was not found",
        408 | 504 => "the simulated model timed out",
        413 => "the request is too large for the simulated model",
        429 => "rate limit of the simulated model exceeded",
        503 | 529 => "the simulated model is overloaded",
        400..=423 | 425..=499 => "the simulated model rejected the request",
        _ => "internal error of the simulated model",
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
