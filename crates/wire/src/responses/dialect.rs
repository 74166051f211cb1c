//! OpenAI Responses as a [`Dialect`].

use super::compaction::CompactionHead;
use super::{
    OpenAiErrorBody, ResponsesChatReader, ResponsesChatWriter, ResponsesHead, ResponsesStream, error_type_of,
    for_upstream_with_limit, read_answer, read_chat_answer, read_chat_request, read_error,
    read_error_message, read_request, status_of, write_chat_answer, write_chat_request_for, write_error,
    write_error_event,
};
use crate::chat::{ChatAnswer, ChatEvent, ChatRequest, FeatureColumn, FinishReason, UsageReport};
use crate::dialect::{
    AnswerDefaults, ChatStreamReader, ChatStreamWriter, Dialect, DialectId, ErrorResponse, ModelOperation,
    RequestHead, RequestOptions, StreamEndMarker, StreamMonitor, UnreadableStream, UrlParameters,
    VendorError, json_error, monitor_methods,
};
use crate::sse::{SseLimits, whole_length};
use crate::{AnswerError, ApiErrorKind, RequestError, RequestLimits, RetryAdvice};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use std::borrow::Cow;
use std::time::Duration;

const PATH: &str = "/v1/responses";
const COMPACT_PATH: &str = "/v1/responses/compact";

/// OpenAI Responses.
#[derive(Debug)]
pub struct ResponsesDialect;

impl Dialect for ResponsesDialect {
    fn name(&self) -> &'static str {
        "openai_responses"
    }

    fn request_id_header(&self) -> &'static str {
        "x-request-id"
    }

    fn route(&self, path: &str) -> Option<Result<UrlParameters, ApiErrorKind>> {
        let operation = match path {
            PATH => ModelOperation::Generate,
            COMPACT_PATH => ModelOperation::Compact,
            _ => return None,
        };
        Some(Ok(UrlParameters { operation, ..UrlParameters::default() }))
    }

    fn operation(&self, _: bool) -> &'static str {
        "responses"
    }

    fn operation_path(&self, operation: ModelOperation) -> Option<&'static str> {
        (operation == ModelOperation::Compact).then_some(COMPACT_PATH)
    }

    fn answer_id_prefix(&self) -> &'static str {
        "resp_"
    }

    fn path(&self, _: &str, _: bool) -> String {
        PATH.to_owned()
    }

    fn read_head(
        &self,
        url: &UrlParameters,
        body: &[u8],
        limits: &RequestLimits,
    ) -> Result<Box<dyn RequestHead>, RequestError> {
        let head = read_request(body, limits)?;
        if head.background {
            return Err(RequestError::invalid(
                "background",
                "Not supported: the gateway would not see the answer",
            ));
        }
        Ok(match url.operation {
            ModelOperation::Compact => Box::new(CompactionHead::new(head)),
            ModelOperation::Generate | ModelOperation::Embed => Box::new(head),
        })
    }

    fn feature_column(&self) -> FeatureColumn {
        FeatureColumn::Responses
    }

    fn write_request(&self, chat: &ChatRequest, options: &RequestOptions<'_>) -> Result<Bytes, RequestError> {
        let mut out = BytesMut::new();
        write_chat_request_for(&mut out, chat, options.model)?;
        Ok(out.freeze())
    }

    fn read_answer(&self, body: &[u8]) -> Result<(UsageReport, FinishReason), AnswerError> {
        read_answer(body)
    }

    fn read_chat_answer(&self, body: &[u8], _: &str, _: &str) -> Result<ChatAnswer, AnswerError> {
        read_chat_answer(body)
    }

    fn write_chat_answer(&self, answer: &ChatAnswer, defaults: &AnswerDefaults<'_>) -> Bytes {
        let mut out = BytesMut::new();
        write_chat_answer(&mut out, answer, defaults.created);
        out.freeze()
    }

    fn monitor_stream(&self, _: bool) -> Box<dyn StreamMonitor> {
        Box::new(ResponsesStream::new(SseLimits::default()))
    }

    fn read_stream(&self, _: &str, _: &str) -> Box<dyn ChatStreamReader> {
        Box::new(ResponsesChatReader::new(SseLimits::default()))
    }

    fn write_stream(&self, created: u64, _: bool) -> Box<dyn ChatStreamWriter> {
        Box::new(ResponsesChatWriter::new(created))
    }

    fn write_interruption(&self, kind: FailureKind, message: &str) -> Bytes {
        interruption(kind, message, write_error_event)
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

    // Errors have the same body as in chat completions.

    fn error_schema(&self) -> &'static str {
        DialectId::OPENAI_CHAT.error_schema()
    }

    fn write_error(
        &self,
        error_kind: ApiErrorKind,
        message: &str,
        id: &str,
        advice: RetryAdvice,
    ) -> ErrorResponse {
        let message = self.client_message(error_kind, message);
        let mut reply = OpenAiErrorBody::new(error_kind, &message);
        if error_kind == ApiErrorKind::Overloaded {
            // Codex tries 30 times after a 503 with any other code.
            reply.error_code = Some("server_is_overloaded");
        }
        let mut body = BytesMut::new();
        write_error(&mut body, &reply);
        json_error(self, status_of(error_kind), body, id, advice)
    }

    fn write_vendor_error(&self, error: &VendorError<'_>) -> ErrorResponse {
        DialectId::OPENAI_CHAT.write_vendor_error(error)
    }

    fn client_message<'m>(&self, error_kind: ApiErrorKind, message: &'m str) -> Cow<'m, str> {
        DialectId::OPENAI_CHAT.client_message(error_kind, message)
    }
}

fn interruption(
    kind: FailureKind,
    message: &str,
    write: impl FnOnce(&mut BytesMut, &OpenAiErrorBody<'_>),
) -> Bytes {
    let error_kind = ApiErrorKind::of_failure(kind);
    let message = DialectId::OPENAI_CHAT.client_message(error_kind, message);
    let mut out = BytesMut::new();
    write(&mut out, &OpenAiErrorBody::new(error_kind, &message));
    out.freeze()
}

impl RequestHead for ResponsesHead {
    fn model(&self) -> &str {
        &self.model
    }

    fn stream(&self) -> bool {
        self.stream
    }

    fn max_output(&self) -> Option<u32> {
        self.max_output
    }

    fn enables_thinking(&self) -> bool {
        self.enables_thinking
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
        let spliced = || Ok(for_upstream_with_limit(body, self, options.model, options.limit));
        (target == DialectId::RESPONSES).then(spliced)
    }

    fn check_translatable(&self, body: &[u8], _: &RequestLimits) -> Result<(), RequestError> {
        super::field_rules::REQUEST.check_body(body)
    }

    fn read_chat(&self, body: &[u8], limits: &RequestLimits) -> Result<ChatRequest, RequestError> {
        read_chat_request(body, limits)
    }
}

impl StreamMonitor for ResponsesStream {
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

    fn write_interruption(&self, kind: FailureKind, message: &str) -> Option<Bytes> {
        Some(interruption(kind, message, |out, reply| self.write_error_event(out, reply)))
    }
}

impl ChatStreamReader for ResponsesChatReader {
    fn feed(&mut self, bytes: &[u8], on_event: &mut dyn FnMut(ChatEvent)) -> Result<(), UnreadableStream> {
        self.feed(bytes, on_event).map_err(|_| UnreadableStream)
    }

    fn has_refused(&self) -> bool {
        self.has_refused()
    }
}

impl ChatStreamWriter for ResponsesChatWriter {
    fn write(&mut self, out: &mut BytesMut, event: &ChatEvent, _: Duration) {
        self.write(out, event);
    }

    fn write_interruption(&mut self, kind: FailureKind, message: &str) -> Option<Bytes> {
        Some(interruption(kind, message, |out, reply| self.write_error_event(out, reply)))
    }
}
