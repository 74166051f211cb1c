//! Converse as a [`Dialect`].

use super::{
    ConverseChatReader, ConverseChatWriter, ConverseHead, ConverseStream, converse_with_limit,
    read_chat_answer, read_chat_request, read_converse_request, read_converse_usage, write_chat_answer,
    write_chat_request_for,
};
use crate::bedrock::error_response::{
    ERROR_NAME_HEADER, NOT_READY, StreamKind, error_name, error_status, final_error, write_error_response,
    write_interruption, write_vendor_error,
};
use crate::bedrock::{
    BedrockCall, BedrockOperation, FrameLimits, REQUEST_ID_HEADER, RETRY_AFTER_HEADER, STREAM_CONTENT_TYPE,
    StreamEnding, client_message, read_error, read_error_message, route_call, write_path,
};
use crate::chat::{ChatAnswer, ChatEvent, ChatRequest, FeatureColumn, FinishReason, UsageReport};
use crate::dialect::{
    AnswerDefaults, ChatStreamReader, ChatStreamWriter, Dialect, DialectId, ErrorResponse, JSON, RequestHead,
    RequestOptions, StreamEndMarker, StreamMonitor, UnreadableStream, UrlParameters, VendorError,
    monitor_methods,
};
use crate::{AnswerError, ApiErrorKind, RequestError, RequestLimits, RetryAdvice};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use std::borrow::Cow;
use std::time::Duration;

/// Converse.
#[derive(Debug)]
pub struct ConverseDialect;

const fn operation(stream: bool) -> BedrockOperation {
    if stream { BedrockOperation::ConverseStream } else { BedrockOperation::Converse }
}

impl Dialect for ConverseDialect {
    fn name(&self) -> &'static str {
        "bedrock_converse"
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
        route_call(path, StreamKind::Converse)
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
        Ok(Box::new(ConverseRequest { head: read_converse_request(body, limits)?, url: url.clone() }))
    }

    fn feature_column(&self) -> FeatureColumn {
        FeatureColumn::Converse
    }

    fn write_request(&self, chat: &ChatRequest, options: &RequestOptions<'_>) -> Result<Bytes, RequestError> {
        write_chat_request_for(chat, options.model)
    }

    fn read_answer(&self, body: &[u8]) -> Result<(UsageReport, FinishReason), AnswerError> {
        read_converse_usage(body)
    }

    fn read_chat_answer(&self, body: &[u8], id: &str, model: &str) -> Result<ChatAnswer, AnswerError> {
        read_chat_answer(body, id, model)
    }

    fn write_chat_answer(&self, answer: &ChatAnswer, defaults: &AnswerDefaults<'_>) -> Bytes {
        write_chat_answer(answer, defaults.elapsed)
    }

    fn monitor_stream(&self, _: bool) -> Box<dyn StreamMonitor> {
        Box::new(ConverseStream::new(FrameLimits::default()))
    }

    fn read_stream(&self, id: &str, model: &str) -> Box<dyn ChatStreamReader> {
        Box::new(ConverseChatReader::new(FrameLimits::default(), id, model))
    }

    fn write_stream(&self, _: u64, _: bool) -> Box<dyn ChatStreamWriter> {
        Box::new(ConverseChatWriter::new())
    }

    fn write_interruption(&self, kind: FailureKind, message: &str) -> Bytes {
        write_interruption(StreamKind::Converse, kind, message)
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

#[derive(Debug)]
struct ConverseRequest {
    head: ConverseHead,
    url: UrlParameters,
}

impl RequestHead for ConverseRequest {
    fn model(&self) -> &str {
        &self.url.model
    }

    fn stream(&self) -> bool {
        self.url.stream
    }

    fn max_output(&self) -> Option<u32> {
        self.head.max_output
    }

    fn enables_thinking(&self) -> bool {
        self.head.enables_thinking
    }

    fn prefers_own_dialect(&self) -> bool {
        true
    }

    fn pass_through(
        &self,
        body: &Bytes,
        target: DialectId,
        options: &RequestOptions<'_>,
    ) -> Option<Result<Bytes, RequestError>> {
        (target == DialectId::BEDROCK_CONVERSE).then(|| converse_with_limit(body, &self.head, options.limit))
    }

    fn check_translatable(&self, body: &[u8], _: &RequestLimits) -> Result<(), RequestError> {
        super::field_rules::REQUEST.check_body(body)
    }

    fn read_chat(&self, body: &[u8], limits: &RequestLimits) -> Result<ChatRequest, RequestError> {
        let operation =
            if self.url.stream { BedrockOperation::ConverseStream } else { BedrockOperation::Converse };
        let call = BedrockCall { operation, model: self.url.model.clone() };
        read_chat_request(&call, body, limits)
    }
}

impl StreamMonitor for ConverseStream {
    monitor_methods!();

    fn whole_length(&self, _: &[u8], chunk: &[u8]) -> usize {
        chunk.len().saturating_sub(self.unfinished())
    }

    fn finish_reason(&self) -> Option<FinishReason> {
        self.finish_reason()
    }

    fn write_end(&self, out: &mut BytesMut, end: &StreamEndMarker<'_>) {
        self.write_end(out, end.usage, end.elapsed);
    }
}

impl ChatStreamReader for ConverseChatReader {
    fn feed(&mut self, bytes: &[u8], on_event: &mut dyn FnMut(ChatEvent)) -> Result<(), UnreadableStream> {
        self.feed(bytes, on_event).map_err(|_| UnreadableStream)
    }

    fn end(&mut self, on_event: &mut dyn FnMut(ChatEvent)) {
        // The monitor detects how the stream ended.
        let (StreamEnding::Complete | StreamEnding::Interrupted) = self.finish(on_event);
    }
}

impl ChatStreamWriter for ConverseChatWriter {
    fn write(&mut self, out: &mut BytesMut, event: &ChatEvent, elapsed: Duration) {
        self.set_latency(elapsed);
        self.write(out, event);
    }
}
