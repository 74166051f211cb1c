//! InvokeModel as a [`Dialect`].

use super::{
    INVOKE_CONTENT_TYPE, InvokeBody, InvokeHead, InvokeStream, InvokeToSse, OpaqueHead, OpaqueStream,
    STREAM_CONTENT_TYPE, SseToInvoke, invoke_to_messages, messages_to_invoke, opaque_unsupported,
    read_forwarded_headers, read_invoke_body, read_opaque_usage, usage_headers,
};
use crate::anthropic::{self, AnthropicChatReader, AnthropicChatWriter};
use crate::bedrock::error_response::{
    ERROR_NAME_HEADER, NOT_READY, StreamKind, error_name, error_status, final_error, write_error_response,
    write_interruption, write_vendor_error,
};
use crate::bedrock::{
    BedrockOperation, FrameLimits, REQUEST_ID_HEADER, RETRY_AFTER_HEADER, client_message, read_error,
    read_error_message, route_call, write_path,
};
use crate::chat::{ChatAnswer, ChatEvent, ChatRequest, FeatureColumn, FinishReason, Usage, UsageReport};
use crate::dialect::{
    AnswerDefaults, ChatStreamReader, ChatStreamWriter, Dialect, DialectId, ErrorResponse, JSON, RequestHead,
    RequestOptions, ResponseReport, StreamEndMarker, StreamMonitor, StreamRewriter, UnreadableStream,
    UrlParameters, VendorError, monitor_methods,
};
use crate::sse::SseLimits;
use crate::{AnswerError, ApiErrorKind, RequestError, RequestLimits, RetryAdvice};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use std::borrow::Cow;
use std::time::Duration;

/// Placeholder while parsing a request whose body does not name the model; each target gets its own name.
const ANY_MODEL: &str = "any";

/// InvokeModel with Anthropic's body; bodies of other vendors pass through without being parsed.
#[derive(Debug)]
pub struct InvokeDialect;

const fn operation(stream: bool) -> BedrockOperation {
    if stream { BedrockOperation::InvokeStream } else { BedrockOperation::Invoke }
}

impl Dialect for InvokeDialect {
    fn name(&self) -> &'static str {
        "bedrock_invoke"
    }

    fn request_id_header(&self) -> &'static str {
        REQUEST_ID_HEADER
    }

    fn retry_after_header(&self) -> Option<&'static str> {
        Some(RETRY_AFTER_HEADER)
    }

    fn content_type(&self, stream: bool) -> &'static str {
        if stream { STREAM_CONTENT_TYPE } else { JSON }
    }

    fn route(&self, path: &str) -> Option<Result<UrlParameters, ApiErrorKind>> {
        route_call(path, StreamKind::Invoke)
    }

    fn operation(&self, stream: bool) -> &'static str {
        operation(stream).path_name()
    }

    fn path(&self, model: &str, stream: bool) -> String {
        write_path(operation(stream), model)
    }

    fn read_head(
        &self,
        url: &UrlParameters,
        body: &[u8],
        limits: &RequestLimits,
    ) -> Result<Box<dyn RequestHead>, RequestError> {
        let url = url.clone();
        Ok(match read_invoke_body(body, limits)? {
            InvokeBody::Anthropic(head) => Box::new(InvokeRequest { head, url }),
            InvokeBody::Opaque(head) => Box::new(OpaqueRequest { head, url }),
        })
    }

    fn feature_column(&self) -> FeatureColumn {
        DialectId::ANTHROPIC_MESSAGES.feature_column()
    }

    fn write_request(&self, chat: &ChatRequest, options: &RequestOptions<'_>) -> Result<Bytes, RequestError> {
        frame_messages(&DialectId::ANTHROPIC_MESSAGES.write_request(chat, options)?, options)
    }

    fn requires_output_limit(&self) -> bool {
        true
    }

    fn takes_invoke_headers(&self) -> bool {
        true
    }

    fn read_answer(&self, body: &[u8]) -> Result<(UsageReport, FinishReason), AnswerError> {
        anthropic::read_answer(body)
    }

    fn read_opaque_usage(&self, body: &[u8]) -> Option<UsageReport> {
        Some(read_opaque_usage(body))
    }

    fn read_chat_answer(&self, body: &[u8], _: &str, _: &str) -> Result<ChatAnswer, AnswerError> {
        anthropic::read_chat_answer(body)
    }

    fn write_chat_answer(&self, answer: &ChatAnswer, defaults: &AnswerDefaults<'_>) -> Bytes {
        DialectId::ANTHROPIC_MESSAGES.write_chat_answer(answer, defaults)
    }

    fn read_response_headers<'h>(&self, header: &dyn Fn(&str) -> Option<&'h str>) -> Option<ResponseReport> {
        read_forwarded_headers(header)
    }

    fn answer_headers(&self, usage: Usage, elapsed: Duration) -> Vec<(&'static str, String)> {
        usage_headers(usage, elapsed)
    }

    fn stream_headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("x-amzn-bedrock-content-type", INVOKE_CONTENT_TYPE)]
    }

    fn monitor_stream(&self, is_opaque: bool) -> Box<dyn StreamMonitor> {
        let limits = FrameLimits::default();
        if is_opaque { Box::new(OpaqueStream::new(limits)) } else { Box::new(InvokeStream::new(limits)) }
    }

    fn read_stream(&self, _: &str, _: &str) -> Box<dyn ChatStreamReader> {
        Box::new(InvokeChatReader {
            frames: InvokeToSse::new(FrameLimits::default()),
            events: AnthropicChatReader::new(SseLimits::default()),
        })
    }

    fn write_stream(&self, _: u64, _: bool) -> Box<dyn ChatStreamWriter> {
        Box::new(InvokeChatWriter {
            events: AnthropicChatWriter::new(),
            frames: SseToInvoke::new(SseLimits::default()),
        })
    }

    fn body_format(&self) -> &'static str {
        DialectId::ANTHROPIC_MESSAGES.body_format()
    }

    fn rewrite_stream(&self, target: DialectId, _: bool) -> Option<Box<dyn StreamRewriter>> {
        let rewriter = || Box::new(SseToInvoke::new(SseLimits::default())) as Box<dyn StreamRewriter>;
        (target == DialectId::ANTHROPIC_MESSAGES).then(rewriter)
    }

    fn write_interruption(&self, kind: FailureKind, message: &str) -> Bytes {
        write_interruption(StreamKind::Invoke, kind, message)
    }

    fn read_error<'h>(&self, status: u16, header: &dyn Fn(&str) -> Option<&'h str>, body: &[u8]) -> Failure {
        read_error(status, header, body)
    }

    fn read_error_message(&self, body: &[u8]) -> String {
        read_error_message(body)
    }

    fn error_status(&self, error_kind: ApiErrorKind) -> u16 {
        error_status(error_kind)
    }

    fn error_name(&self, error_kind: ApiErrorKind) -> &'static str {
        error_name(error_kind)
    }

    fn final_error(&self, error_kind: ApiErrorKind) -> (u16, &'static str) {
        final_error(error_kind)
    }

    fn not_ready_error(&self) -> Option<(u16, &'static str)> {
        Some(NOT_READY)
    }

    fn error_name_header(&self) -> Option<&'static str> {
        Some(ERROR_NAME_HEADER)
    }

    fn error_schema(&self) -> &'static str {
        "BedrockError"
    }

    fn write_error(
        &self,
        error_kind: ApiErrorKind,
        message: &str,
        id: &str,
        advice: RetryAdvice,
    ) -> ErrorResponse {
        write_error_response(error_kind, message, id, advice)
    }

    fn write_vendor_error(&self, error: &VendorError<'_>) -> ErrorResponse {
        write_vendor_error(error)
    }

    fn client_message<'m>(&self, error_kind: ApiErrorKind, message: &'m str) -> Cow<'m, str> {
        client_message(error_kind, message)
    }
}

/// Converts a request in Anthropic's own API to this dialect.
pub(crate) fn frame_messages(messages: &[u8], options: &RequestOptions<'_>) -> Result<Bytes, RequestError> {
    let betas: Vec<&str> = options.betas.iter().map(String::as_str).collect();
    messages_to_invoke(messages, options.limits, &betas).map(Bytes::from)
}

/// A request for one of Anthropic's models.
#[derive(Debug)]
struct InvokeRequest {
    head: InvokeHead,
    url: UrlParameters,
}

impl RequestHead for InvokeRequest {
    fn model(&self) -> &str {
        &self.url.model
    }

    fn stream(&self) -> bool {
        self.url.stream
    }

    fn max_output(&self) -> Option<u32> {
        Some(self.head.max_output)
    }

    fn enables_thinking(&self) -> bool {
        self.head.enables_thinking
    }

    fn betas(&self) -> Option<&[String]> {
        Some(&self.head.betas)
    }

    fn pass_through(
        &self,
        body: &Bytes,
        target: DialectId,
        options: &RequestOptions<'_>,
    ) -> Option<Result<Bytes, RequestError>> {
        if target == DialectId::BEDROCK_INVOKE {
            // The model is named in the URL.
            return Some(Ok(body.clone()));
        }
        let unframed = || invoke_to_messages(body, options.limits, options.model, self.url.stream);
        (target == DialectId::ANTHROPIC_MESSAGES).then(|| unframed().map(Bytes::from))
    }

    fn check_translatable(&self, body: &[u8], limits: &RequestLimits) -> Result<(), RequestError> {
        let body = invoke_to_messages(body, limits, ANY_MODEL, self.url.stream)?;
        anthropic::REQUEST_FIELDS.check_body(body.as_bytes())
    }

    fn read_chat(&self, body: &[u8], limits: &RequestLimits) -> Result<ChatRequest, RequestError> {
        let body = invoke_to_messages(body, limits, ANY_MODEL, self.url.stream)?;
        anthropic::read_chat_request(body.as_bytes(), limits)
    }
}

/// A request for a model whose format is unknown.
#[derive(Debug)]
struct OpaqueRequest {
    head: OpaqueHead,
    url: UrlParameters,
}

impl RequestHead for OpaqueRequest {
    fn model(&self) -> &str {
        &self.url.model
    }

    fn stream(&self) -> bool {
        self.url.stream
    }

    fn max_output(&self) -> Option<u32> {
        // Only the target can parse it.
        None
    }

    fn enables_thinking(&self) -> bool {
        // Unknown; some of these models think without being asked.
        true
    }

    fn choices(&self) -> u32 {
        self.head.answers
    }

    fn opaque_answers(&self) -> Option<u32> {
        Some(self.head.answers)
    }

    fn prefers_own_dialect(&self) -> bool {
        true
    }

    fn pass_through(
        &self,
        body: &Bytes,
        target: DialectId,
        _: &RequestOptions<'_>,
    ) -> Option<Result<Bytes, RequestError>> {
        (target == DialectId::BEDROCK_INVOKE).then(|| Ok(body.clone()))
    }

    fn read_chat(&self, _: &[u8], _: &RequestLimits) -> Result<ChatRequest, RequestError> {
        Err(opaque_unsupported())
    }
}

/// Anthropic's events, unwrapped from frames.
#[derive(Debug)]
struct InvokeChatReader {
    frames: InvokeToSse,
    events: AnthropicChatReader,
}

impl ChatStreamReader for InvokeChatReader {
    fn feed(&mut self, bytes: &[u8], on_event: &mut dyn FnMut(ChatEvent)) -> Result<(), UnreadableStream> {
        let mut events = BytesMut::new();
        let unframed = self.frames.feed(bytes, &mut events);
        // Events before the unreadable frame are still valid.
        self.events.feed(&events, on_event).map_err(|_| UnreadableStream)?;
        unframed.map_err(|_| UnreadableStream)
    }
}

/// Anthropic's events, wrapped into frames.
#[derive(Debug)]
struct InvokeChatWriter {
    events: AnthropicChatWriter,
    frames: SseToInvoke,
}

impl ChatStreamWriter for InvokeChatWriter {
    fn write(&mut self, out: &mut BytesMut, event: &ChatEvent, elapsed: Duration) {
        let mut events = BytesMut::new();
        self.events.write(&mut events, event);
        frame(&mut self.frames, &events, elapsed, out);
    }
}

/// Wraps events that the gateway has written itself.
fn frame(frames: &mut SseToInvoke, events: &[u8], elapsed: Duration, out: &mut BytesMut) {
    let framed = frames.feed(events, elapsed, out);
    debug_assert!(framed.is_ok(), "{framed:?}");
}

impl StreamMonitor for InvokeStream {
    monitor_methods!();

    fn whole_length(&self, _: &[u8], chunk: &[u8]) -> usize {
        chunk.len().saturating_sub(self.unfinished())
    }

    fn finish_reason(&self) -> Option<FinishReason> {
        self.finish_reason()
    }

    fn write_end(&self, out: &mut BytesMut, end: &StreamEndMarker<'_>) {
        let mut events = BytesMut::new();
        self.write_end(&mut events, end.usage);
        frame(&mut SseToInvoke::new(SseLimits::default()), &events, end.elapsed, out);
    }
}

impl StreamMonitor for OpaqueStream {
    monitor_methods!();

    fn whole_length(&self, _: &[u8], chunk: &[u8]) -> usize {
        chunk.len().saturating_sub(self.unfinished())
    }

    fn finish_reason(&self) -> Option<FinishReason> {
        None
    }

    fn write_end(&self, _: &mut BytesMut, _: &StreamEndMarker<'_>) {
        // Its output is not metered, so it is never ended at a limit.
    }
}

impl StreamRewriter for SseToInvoke {
    fn feed(
        &mut self,
        chunk: &Bytes,
        elapsed: Duration,
        into: &mut dyn FnMut(Bytes),
    ) -> Result<(), UnreadableStream> {
        let mut out = BytesMut::new();
        let framed = self.feed(chunk, elapsed, &mut out).map_err(|_| UnreadableStream);
        if !out.is_empty() {
            into(out.freeze());
        }
        framed
    }

    fn write_end(&mut self, end: &[u8], elapsed: Duration, out: &mut BytesMut) {
        frame(self, end, elapsed, out);
    }
}

impl StreamRewriter for InvokeToSse {
    fn feed(
        &mut self,
        chunk: &Bytes,
        _: Duration,
        into: &mut dyn FnMut(Bytes),
    ) -> Result<(), UnreadableStream> {
        let mut out = BytesMut::new();
        let unframed = self.feed(chunk, &mut out).map_err(|_| UnreadableStream);
        if !out.is_empty() {
            into(out.freeze());
        }
        unframed
    }

    fn write_end(&mut self, end: &[u8], _: Duration, out: &mut BytesMut) {
        // A new reader, because the stream may have stopped inside a frame.
        let unframed = Self::new(FrameLimits::default()).feed(end, out);
        debug_assert!(unframed.is_ok(), "{unframed:?}");
    }
}
