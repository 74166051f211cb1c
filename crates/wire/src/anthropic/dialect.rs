//! Anthropic Messages as a [`Dialect`].

use super::{
    AnthropicChatReader, AnthropicChatWriter, AnthropicErrorBody, AnthropicStream, MessagesHead,
    error_type_of, read_answer, read_chat_answer, read_chat_request, read_error, read_error_message,
    read_request, status_of, with_model, write_chat_answer, write_chat_request_for, write_error,
    write_error_event,
};
use crate::bedrock::{self, FrameLimits, InvokeToSse};
use crate::chat::{ChatAnswer, ChatEvent, ChatRequest, FeatureColumn, FinishReason, UsageReport};
use crate::dialect::{
    AnswerDefaults, ChatStreamReader, ChatStreamWriter, Dialect, DialectId, ErrorResponse, RequestHead,
    RequestOptions, StreamEndMarker, StreamMonitor, StreamRewriter, UnreadableStream, UrlParameters,
    VendorError, json_error, monitor_methods, with_phrase,
};
use crate::sse::{SseLimits, whole_length};
use crate::{AnswerError, ApiErrorKind, RequestError, RequestLimits, RetryAdvice};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use std::borrow::Cow;
use std::time::Duration;

const PATH: &str = "/v1/messages";

/// Anthropic Messages.
#[derive(Debug)]
pub struct MessagesDialect;

impl Dialect for MessagesDialect {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn request_id_header(&self) -> &'static str {
        "request-id"
    }

    fn route(&self, path: &str) -> Option<Result<UrlParameters, ApiErrorKind>> {
        (path == PATH).then(|| Ok(UrlParameters::default()))
    }

    fn operation(&self, _: bool) -> &'static str {
        "messages"
    }

    fn path(&self, _: &str, _: bool) -> String {
        PATH.to_owned()
    }

    fn read_head(
        &self,
        _: &UrlParameters,
        body: &[u8],
        limits: &RequestLimits,
    ) -> Result<Box<dyn RequestHead>, RequestError> {
        Ok(Box::new(read_request(body, limits)?))
    }

    fn feature_column(&self) -> FeatureColumn {
        FeatureColumn::Anthropic
    }

    fn write_request(&self, chat: &ChatRequest, options: &RequestOptions<'_>) -> Result<Bytes, RequestError> {
        let mut out = BytesMut::new();
        write_chat_request_for(&mut out, chat, options.model)?;
        Ok(out.freeze())
    }

    fn requires_output_limit(&self) -> bool {
        true
    }

    fn read_answer(&self, body: &[u8]) -> Result<(UsageReport, FinishReason), AnswerError> {
        read_answer(body)
    }

    fn read_chat_answer(&self, body: &[u8], _: &str, _: &str) -> Result<ChatAnswer, AnswerError> {
        read_chat_answer(body)
    }

    fn write_chat_answer(&self, answer: &ChatAnswer, _: &AnswerDefaults<'_>) -> Bytes {
        let mut out = BytesMut::new();
        write_chat_answer(&mut out, answer);
        out.freeze()
    }

    fn monitor_stream(&self, _: bool) -> Box<dyn StreamMonitor> {
        Box::new(AnthropicStream::new(SseLimits::default()).checking_content())
    }

    fn read_stream(&self, _: &str, _: &str) -> Box<dyn ChatStreamReader> {
        Box::new(AnthropicChatReader::new(SseLimits::default()))
    }

    fn write_stream(&self, _: u64, _: bool) -> Box<dyn ChatStreamWriter> {
        Box::new(AnthropicChatWriter::new())
    }

    fn rewrite_stream(&self, target: DialectId, _: bool) -> Option<Box<dyn StreamRewriter>> {
        let rewriter = || Box::new(InvokeToSse::new(FrameLimits::default())) as Box<dyn StreamRewriter>;
        (target == DialectId::BEDROCK_INVOKE).then(rewriter)
    }

    fn write_interruption(&self, kind: FailureKind, message: &str) -> Bytes {
        let error_kind = ApiErrorKind::of_failure(kind);
        let message = self.client_message(error_kind, message);
        let mut out = BytesMut::new();
        write_error_event(&mut out, &AnthropicErrorBody::new(error_kind, &message, None));
        out.freeze()
    }

    fn read_error<'h>(&self, status: u16, header: &dyn Fn(&str) -> Option<&'h str>, body: &[u8]) -> Failure {
        read_error(status, header, body)
    }

    fn read_error_message(&self, body: &[u8]) -> String {
        read_error_message(body)
    }

    fn error_status(&self, error_kind: ApiErrorKind) -> u16 {
        status_of(error_kind)
    }

    fn error_name(&self, error_kind: ApiErrorKind) -> &'static str {
        error_type_of(error_kind)
    }

    fn error_schema(&self) -> &'static str {
        "AnthropicError"
    }

    fn write_error(
        &self,
        error_kind: ApiErrorKind,
        message: &str,
        id: &str,
        advice: RetryAdvice,
    ) -> ErrorResponse {
        let message = self.client_message(error_kind, message);
        let mut body = BytesMut::new();
        write_error(&mut body, &AnthropicErrorBody::new(error_kind, &message, Some(id)));
        json_error(self, status_of(error_kind), body, id, advice)
    }

    fn write_vendor_error(&self, error: &VendorError<'_>) -> ErrorResponse {
        let VendorError { status, name, message, request_id } = *error;
        let usual = match status {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            408 | 504 => "timeout_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        };
        let mut body = BytesMut::new();
        let error_type = name.unwrap_or(usual);
        let error =
            AnthropicErrorBody { error_type, error_code: None, message, request_id: Some(request_id) };
        write_error(&mut body, &error);
        json_error(self, status, body, request_id, RetryAdvice::default())
    }

    fn client_message<'m>(&self, error_kind: ApiErrorKind, message: &'m str) -> Cow<'m, str> {
        match error_kind {
            ApiErrorKind::ContextLength => with_phrase("prompt is too long", message),
            _ => message.into(),
        }
    }
}

impl RequestHead for MessagesHead {
    fn model(&self) -> &str {
        &self.model
    }

    fn stream(&self) -> bool {
        self.stream
    }

    fn max_output(&self) -> Option<u32> {
        Some(self.max_output)
    }

    fn enables_thinking(&self) -> bool {
        self.enables_thinking
    }

    fn pass_through(
        &self,
        body: &Bytes,
        target: DialectId,
        options: &RequestOptions<'_>,
    ) -> Option<Result<Bytes, RequestError>> {
        if target == DialectId::ANTHROPIC_MESSAGES {
            return Some(Ok(with_model(body, self, options.model)));
        }
        (target == DialectId::BEDROCK_INVOKE).then(|| bedrock::frame_messages(body, options))
    }

    fn check_translatable(&self, body: &[u8], _: &RequestLimits) -> Result<(), RequestError> {
        super::field_rules::REQUEST.check_body(body)
    }

    fn read_chat(&self, body: &[u8], limits: &RequestLimits) -> Result<ChatRequest, RequestError> {
        read_chat_request(body, limits)
    }
}

impl StreamMonitor for AnthropicStream {
    monitor_methods!();

    fn whole_length(&self, pending: &[u8], chunk: &[u8]) -> usize {
        whole_length(pending, chunk)
    }

    fn finish_reason(&self) -> Option<FinishReason> {
        self.finish_reason()
    }

    fn write_end(&self, out: &mut BytesMut, end: &StreamEndMarker<'_>) {
        self.write_end(out, end.usage);
    }
}

impl ChatStreamReader for AnthropicChatReader {
    fn feed(&mut self, bytes: &[u8], on_event: &mut dyn FnMut(ChatEvent)) -> Result<(), UnreadableStream> {
        self.feed(bytes, on_event).map_err(|_| UnreadableStream)
    }
}

impl ChatStreamWriter for AnthropicChatWriter {
    fn write(&mut self, out: &mut BytesMut, event: &ChatEvent, _: Duration) {
        self.write(out, event);
    }
}
