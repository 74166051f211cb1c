//! OpenAI chat completions as a [`Dialect`].

use super::{
    ChatCompletionHead, ChunkIdentity, OpenAiChatReader, OpenAiChatWriter, OpenAiErrorBody, OpenAiStream,
    UsageFilter, error_type_of, for_upstream_with_limit, read_answer, read_chat_answer, read_chat_request,
    read_error, read_error_message, read_request, status_of, write_chat_answer, write_chat_request_for,
    write_error, write_error_event,
};
use crate::chat::{ChatAnswer, ChatEvent, ChatRequest, FeatureColumn, FinishReason, UsageReport};
use crate::dialect::{
    AnswerDefaults, ChatStreamReader, ChatStreamWriter, Dialect, DialectId, ErrorResponse, ModelOperation,
    RequestHead, RequestOptions, StreamEndMarker, StreamMonitor, StreamRewriter, UnreadableStream,
    UrlParameters, VendorError, json_error, monitor_methods, with_phrase,
};
use crate::embeddings::read_embeddings_head;
use crate::sse::{MAX_PARTIAL_EVENT, SseLimits, whole_length};
use crate::{AnswerError, ApiErrorKind, RequestError, RequestLimits, RetryAdvice};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use std::borrow::Cow;
use std::time::Duration;

const PATH: &str = "/v1/chat/completions";
const EMBEDDINGS_PATH: &str = "/v1/embeddings";

/// Names for chunks if the vendor sent none.
const NO_NAMES: ChunkIdentity<'static> = ChunkIdentity { id: "chatcmpl", model: "", created: 0 };

/// OpenAI chat completions.
#[derive(Debug)]
pub struct ChatCompletionsDialect;

impl Dialect for ChatCompletionsDialect {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn request_id_header(&self) -> &'static str {
        "x-request-id"
    }

    fn route(&self, path: &str) -> Option<Result<UrlParameters, ApiErrorKind>> {
        let operation = match path {
            PATH => ModelOperation::Generate,
            EMBEDDINGS_PATH => ModelOperation::Embed,
            _ => return None,
        };
        Some(Ok(UrlParameters { operation, ..UrlParameters::default() }))
    }

    fn operation(&self, _: bool) -> &'static str {
        "chat_completions"
    }

    fn operation_path(&self, operation: ModelOperation) -> Option<&'static str> {
        (operation == ModelOperation::Embed).then_some(EMBEDDINGS_PATH)
    }

    fn answer_id_prefix(&self) -> &'static str {
        "chatcmpl-"
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
        Ok(match url.operation {
            ModelOperation::Embed => Box::new(read_embeddings_head(body, limits)?),
            ModelOperation::Generate | ModelOperation::Compact => Box::new(read_request(body, limits)?),
        })
    }

    fn feature_column(&self) -> FeatureColumn {
        FeatureColumn::OpenAi
    }

    fn write_request(&self, chat: &ChatRequest, options: &RequestOptions<'_>) -> Result<Bytes, RequestError> {
        let mut out = BytesMut::new();
        write_chat_request_for(&mut out, chat, options.model, options.limit_field)?;
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
        Box::new(OpenAiStream::new(SseLimits::default()))
    }

    fn read_stream(&self, _: &str, _: &str) -> Box<dyn ChatStreamReader> {
        Box::new(OpenAiChatReader::new(SseLimits::default()))
    }

    fn write_stream(&self, created: u64, wants_usage: bool) -> Box<dyn ChatStreamWriter> {
        Box::new(OpenAiChatWriter::new(created, wants_usage))
    }

    fn rewrite_stream(&self, target: DialectId, wants_usage: bool) -> Option<Box<dyn StreamRewriter>> {
        let filter = || Box::new(UsageFilter::new(MAX_PARTIAL_EVENT)) as Box<dyn StreamRewriter>;
        (target == DialectId::OPENAI_CHAT && !wants_usage).then(filter)
    }

    fn write_interruption(&self, kind: FailureKind, message: &str) -> Bytes {
        let error_kind = ApiErrorKind::of_failure(kind);
        let message = self.client_message(error_kind, message);
        let mut out = BytesMut::new();
        write_error_event(&mut out, &OpenAiErrorBody::new(error_kind, &message));
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
        "OpenAiError"
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
        write_error(&mut body, &OpenAiErrorBody::new(error_kind, &message));
        json_error(self, status_of(error_kind), body, id, advice)
    }

    fn write_vendor_error(&self, error: &VendorError<'_>) -> ErrorResponse {
        let VendorError { status, name, message, request_id } = *error;
        let usual = match status {
            403 => "permission_error",
            408 => "server_error",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "server_error",
        };
        let mut body = BytesMut::new();
        let error_code = (status == 429).then_some("rate_limit_exceeded");
        let error_type = name.unwrap_or(usual);
        write_error(&mut body, &OpenAiErrorBody { error_type, error_code, message, param: None });
        json_error(self, status, body, request_id, RetryAdvice::default())
    }

    fn client_message<'m>(&self, error_kind: ApiErrorKind, message: &'m str) -> Cow<'m, str> {
        match error_kind {
            ApiErrorKind::Unauthenticated => with_phrase("Incorrect API key provided", message),
            // The vendor's own message already names the length.
            ApiErrorKind::ContextLength
                if message.to_ascii_lowercase().contains("maximum context length") =>
            {
                message.into()
            }
            ApiErrorKind::ContextLength => with_phrase(
                "context_length_exceeded: this model's maximum context length is exceeded",
                message,
            ),
            _ => message.into(),
        }
    }
}

impl RequestHead for ChatCompletionHead {
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

    fn choices(&self) -> u32 {
        self.choices
    }

    fn wants_usage(&self) -> bool {
        self.include_usage
    }

    fn pass_through(
        &self,
        body: &Bytes,
        target: DialectId,
        options: &RequestOptions<'_>,
    ) -> Option<Result<Bytes, RequestError>> {
        let RequestOptions { model, limit, limit_field, .. } = *options;
        (target == DialectId::OPENAI_CHAT)
            .then(|| for_upstream_with_limit(body, self, model, limit, limit_field))
    }

    fn check_translatable(&self, body: &[u8], _: &RequestLimits) -> Result<(), RequestError> {
        super::field_rules::REQUEST.check_body(body)
    }

    fn read_chat(&self, body: &[u8], limits: &RequestLimits) -> Result<ChatRequest, RequestError> {
        read_chat_request(body, limits)
    }
}

impl StreamMonitor for OpenAiStream {
    monitor_methods!();

    fn whole_length(&self, pending: &[u8], chunk: &[u8]) -> usize {
        whole_length(pending, chunk)
    }

    fn finish_reason(&self) -> Option<FinishReason> {
        self.finish_reason()
    }

    fn write_end(&self, out: &mut BytesMut, end: &StreamEndMarker<'_>) {
        self.write_end(out, end.last, NO_NAMES, end.wants_usage.then_some(end.usage));
    }
}

impl ChatStreamReader for OpenAiChatReader {
    fn feed(&mut self, bytes: &[u8], on_event: &mut dyn FnMut(ChatEvent)) -> Result<(), UnreadableStream> {
        self.feed(bytes, on_event).map_err(|_| UnreadableStream)
    }

    fn has_refused(&self) -> bool {
        self.has_refused()
    }
}

impl ChatStreamWriter for OpenAiChatWriter {
    fn write(&mut self, out: &mut BytesMut, event: &ChatEvent, _: Duration) {
        self.write(out, event);
    }
}

impl StreamRewriter for UsageFilter {
    fn feed(
        &mut self,
        chunk: &Bytes,
        _: Duration,
        into: &mut dyn FnMut(Bytes),
    ) -> Result<(), UnreadableStream> {
        self.feed(chunk, into).map_err(|_| UnreadableStream)
    }

    fn write_end(&mut self, end: &[u8], _: Duration, out: &mut BytesMut) {
        // It was written without usage.
        out.extend_from_slice(end);
    }
}
