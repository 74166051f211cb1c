//! Error responses and response headers of the faces.

use super::Face;
use crate::chat::{ChatErrorResponse, REQUEST_ID_HEADER};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::FailureKind;
use seawall_core::strategy::Language;
use seawall_provider::TargetDialect;
use seawall_wire::bedrock::{self, INVOKE_CONTENT_TYPE, STREAM_CONTENT_TYPE, StreamKind};
use seawall_wire::{ApiErrorKind, RetryAdvice, Vendor, anthropic, client_message, openai};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// An error response, ready to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorResponse {
    /// The HTTP status.
    pub status: u16,
    /// All headers except the length. Names are spelled as each vendor does.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
}

/// Renders an error in the face's dialect. `id` is the request ID, and `advice` determines the retry headers.
#[must_use]
pub fn render_error(
    face: Face,
    error_kind: ApiErrorKind,
    message: &str,
    id: &str,
    advice: RetryAdvice,
) -> ErrorResponse {
    let Some(vendor) = face.vendor() else {
        // The message is already in the caller's language, so this value is not used.
        let language = Language::English;
        let chat =
            ChatErrorResponse { error_kind, language, detail: None, limit: None, request_id: id, advice };
        return chat.reply_in(message);
    };
    let message = &*client_message(vendor, error_kind, message);
    let mut body = BytesMut::new();
    let mut headers = vec![("content-type", JSON.to_owned()), (request_id_header(face), id.to_owned())];
    let status = match vendor {
        Vendor::Anthropic => {
            anthropic::write_error(
                &mut body,
                &anthropic::AnthropicErrorBody::new(error_kind, message, Some(id)),
            );
            anthropic::status_of(error_kind)
        }
        Vendor::OpenAi => {
            openai::write_error(&mut body, &openai::OpenAiErrorBody::new(error_kind, message));
            openai::status_of(error_kind)
        }
        Vendor::Bedrock => {
            let (status, name) = match advice.should_retry {
                Some(false) => bedrock::final_error(error_kind),
                _ => (bedrock::error_status(error_kind), bedrock::error_name(error_kind)),
            };
            headers.push(("x-amzn-errortype", name.to_owned()));
            bedrock::write_error(&mut body, message);
            status
        }
    };
    headers.extend(advice.headers(vendor));
    ErrorResponse { status, headers, body: body.freeze() }
}

/// The event that ends an incomplete stream.
pub(super) fn interruption_event(dialect: TargetDialect, kind: FailureKind, message: &str) -> Bytes {
    let mut out = BytesMut::new();
    let error_kind = ApiErrorKind::of_failure(kind);
    let message = &*client_message(dialect.vendor(), error_kind, message);
    match dialect {
        TargetDialect::AnthropicMessages => {
            anthropic::write_error_event(
                &mut out,
                &anthropic::AnthropicErrorBody::new(error_kind, message, None),
            );
        }
        TargetDialect::OpenAiChat => {
            openai::write_error_event(&mut out, &openai::OpenAiErrorBody::new(error_kind, message));
        }
        TargetDialect::BedrockInvoke => {
            bedrock::write_failure_frame(&mut out, StreamKind::Invoke, kind, message);
        }
        TargetDialect::BedrockConverse => {
            bedrock::write_failure_frame(&mut out, StreamKind::Converse, kind, message);
        }
    }
    out.freeze()
}

/// The content type of an answer at this face.
#[must_use]
pub const fn content_type(face: Face, stream: bool) -> &'static str {
    match (stream, face.vendor()) {
        (false, _) => JSON,
        (true, Some(Vendor::Bedrock)) => STREAM_CONTENT_TYPE,
        (true, Some(Vendor::Anthropic | Vendor::OpenAi) | None) => EVENTS,
    }
}

/// Additional headers of a streamed answer at this face.
#[must_use]
pub const fn stream_headers(face: Face) -> &'static [(&'static str, &'static str)] {
    match face {
        Face::BedrockInvoke => &[("x-amzn-bedrock-content-type", INVOKE_CONTENT_TYPE)],
        Face::AnthropicMessages | Face::OpenAiChat | Face::BedrockConverse | Face::Chat => &[],
    }
}

/// The header in which this face's clients expect the request ID.
#[must_use]
pub const fn request_id_header(face: Face) -> &'static str {
    match face.vendor() {
        Some(vendor) => vendor.request_id_header(),
        None => REQUEST_ID_HEADER,
    }
}
