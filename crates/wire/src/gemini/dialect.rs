//! The Gemini API as a [`Dialect`].

use super::error_response::{message_of, write_error_of_status};
use super::{
    GeminiChatReader, GeminiChatWriter, GeminiHead, GeminiStream, read_answer, read_chat_answer,
    read_chat_request, read_error, read_error_message, read_path, read_request, requests_sse, status_name_of,
    status_of, url_path, with_limit, write_chat_answer, write_chat_request_for, write_error_event,
    write_error_with_retry,
};
use crate::chat::{ChatAnswer, ChatEvent, ChatRequest, FeatureColumn, FinishReason, UsageReport};
use crate::dialect::{
    AnswerDefaults, ChatStreamReader, ChatStreamWriter, Dialect, DialectId, ErrorResponse, RequestHead,
    RequestOptions, StreamEndMarker, StreamMonitor, UnreadableStream, UrlParameters, VendorError, json_error,
    monitor_methods,
};
use crate::sse::{SseLimits, whole_length};
use crate::{AnswerError, ApiErrorKind, RequestError, RequestLimits, RetryAdvice};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use std::borrow::Cow;
use std::time::Duration;

/// The Gemini API.
#[derive(Debug)]
pub struct GeminiDialect;

impl Dialect for GeminiDialect {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn request_id_header(&self) -> &'static str {
        "x-request-id"
    }

    fn route(&self, path: &str) -> Option<Result<UrlParameters, ApiErrorKind>> {
        let call = read_path(path)?.map_err(|error| error.api_error_kind());
        Some(call.map(|call| UrlParameters::new(call.model, call.stream)))
    }

    fn check_query(&self, url: &UrlParameters, query: &str) -> Result<(), &'static str> {
        if url.stream && !requests_sse(query) {
            return Err("streamGenerateContent is supported only with alt=sse in the query: streams are \
                        server-sent events");
        }
        Ok(())
    }

    fn operation(&self, stream: bool) -> &'static str {
        if stream { "streamGenerateContent" } else { "generateContent" }
    }

    fn answer_id_prefix(&self) -> &'static str {
        // The vendor's IDs have none.
        ""
    }

    fn path(&self, model: &str, stream: bool) -> String {
        url_path(model, stream)
    }

    fn read_head(
        &self,
        url: &UrlParameters,
        body: &[u8],
        limits: &RequestLimits,
    ) -> Result<Box<dyn RequestHead>, RequestError> {
        Ok(Box::new(GeminiRequest { head: read_request(body, limits)?, url: url.clone() }))
    }

    fn feature_column(&self) -> FeatureColumn {
        FeatureColumn::Gemini
    }

    fn write_request(&self, chat: &ChatRequest, options: &RequestOptions<'_>) -> Result<Bytes, RequestError> {
        let mut out = BytesMut::new();
        write_chat_request_for(&mut out, chat, options.model)?;
        Ok(out.freeze())
    }

    fn read_answer(&self, body: &[u8]) -> Result<(UsageReport, FinishReason), AnswerError> {
        read_answer(body)
    }

    fn read_chat_answer(&self, body: &[u8], id: &str, model: &str) -> Result<ChatAnswer, AnswerError> {
        read_chat_answer(body, id, model)
    }

    fn write_chat_answer(&self, answer: &ChatAnswer, _: &AnswerDefaults<'_>) -> Bytes {
        let mut out = BytesMut::new();
        write_chat_answer(&mut out, answer);
        out.freeze()
    }

    fn monitor_stream(&self, _: bool) -> Box<dyn StreamMonitor> {
        Box::new(GeminiStream::new(SseLimits::default()))
    }

    fn read_stream(&self, id: &str, model: &str) -> Box<dyn ChatStreamReader> {
        Box::new(GeminiChatReader::new(SseLimits::default(), id, model))
    }

    fn write_stream(&self, _: u64, _: bool) -> Box<dyn ChatStreamWriter> {
        Box::new(GeminiChatWriter::new())
    }

    fn write_interruption(&self, kind: FailureKind, message: &str) -> Bytes {
        let mut out = BytesMut::new();
        write_error_event(&mut out, ApiErrorKind::of_failure(kind), message);
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
        status_name_of(error_kind)
    }

    fn error_name_field(&self) -> &'static str {
        "status"
    }

    fn error_schema(&self) -> &'static str {
        "GeminiError"
    }

    fn write_error(
        &self,
        error_kind: ApiErrorKind,
        message: &str,
        id: &str,
        advice: RetryAdvice,
    ) -> ErrorResponse {
        let mut body = BytesMut::new();
        // Programs wait for the delay in the body without looking at any header, so advice against retries omits it.
        let wait = advice.wait.filter(|_| advice.should_retry != Some(false));
        write_error_with_retry(&mut body, error_kind, message, wait);
        json_error(self, status_of(error_kind), body, id, advice)
    }

    fn write_vendor_error(&self, error: &VendorError<'_>) -> ErrorResponse {
        let VendorError { status, name, message, request_id } = *error;
        let mut body = BytesMut::new();
        write_error_of_status(&mut body, status, name, message);
        json_error(self, status, body, request_id, RetryAdvice::default())
    }

    fn client_message<'m>(&self, error_kind: ApiErrorKind, message: &'m str) -> Cow<'m, str> {
        message_of(error_kind, message)
    }
}

#[derive(Debug)]
struct GeminiRequest {
    head: GeminiHead,
    url: UrlParameters,
}

impl RequestHead for GeminiRequest {
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

    fn choices(&self) -> u32 {
        self.head.choices
    }

    fn pass_through(
        &self,
        body: &Bytes,
        target: DialectId,
        options: &RequestOptions<'_>,
    ) -> Option<Result<Bytes, RequestError>> {
        (target == DialectId::GEMINI).then(|| Ok(with_limit(body, &self.head, options.limit)))
    }

    fn check_translatable(&self, body: &[u8], _: &RequestLimits) -> Result<(), RequestError> {
        super::field_rules::REQUEST.check_body(body)
    }

    fn read_chat(&self, body: &[u8], limits: &RequestLimits) -> Result<ChatRequest, RequestError> {
        read_chat_request(body, &self.url.model, self.url.stream, limits)
    }
}

impl StreamMonitor for GeminiStream {
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

impl ChatStreamReader for GeminiChatReader {
    fn feed(&mut self, bytes: &[u8], on_event: &mut dyn FnMut(ChatEvent)) -> Result<(), UnreadableStream> {
        self.feed(bytes, on_event).map_err(|_| UnreadableStream)
    }

    fn end(&mut self, on_event: &mut dyn FnMut(ChatEvent)) {
        // Whether the stream is complete was decided by its monitor.
        self.finish(on_event);
    }
}

impl ChatStreamWriter for GeminiChatWriter {
    fn write(&mut self, out: &mut BytesMut, event: &ChatEvent, _: Duration) {
        self.write(out, event);
    }
}
