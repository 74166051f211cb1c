//! Error responses and response headers of the faces.

use super::Face;
use crate::chat::{ChatRefusal, REQUEST_ID_HEADER};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::FailureKind;
use seawall_core::strategy::Language;
use seawall_provider::TargetDialect;
use seawall_wire::bedrock::{self, INVOKE_CONTENT_TYPE, STREAM_CONTENT_TYPE, StreamKind};
use seawall_wire::{Dialect, Refusal, RetryAdvice, anthropic, client_message, openai};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// An error response, ready to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalReply {
    /// The HTTP status.
    pub status: u16,
    /// All headers except the length. Names are spelled as each vendor does.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
}

/// Renders an error in the face's dialect. `id` is the request ID, and `advice` determines the retry headers.
#[must_use]
pub fn refusal(face: Face, refusal: Refusal, words: &str, id: &str, advice: RetryAdvice) -> RefusalReply {
    let Some(vendor) = face.vendor() else {
        // The message is already in the caller's language, so this value is not used.
        let language = Language::English;
        let chat = ChatRefusal { refusal, language, detail: None, limit: None, request_id: id, advice };
        return chat.reply_in(words);
    };
    let words = &*client_message(vendor, refusal, words);
    let mut body = BytesMut::new();
    let mut headers = vec![("content-type", JSON.to_owned()), (request_id_header(face), id.to_owned())];
    let status = match vendor {
        Dialect::Anthropic => {
            anthropic::write_error(&mut body, &anthropic::ErrorReply::new(refusal, words, Some(id)));
            anthropic::status_of(refusal)
        }
        Dialect::OpenAi => {
            openai::write_error(&mut body, &openai::ErrorReply::new(refusal, words));
            openai::status_of(refusal)
        }
        Dialect::Bedrock => {
            let (status, name) = match advice.should_retry {
                Some(false) => bedrock::final_refusal(refusal),
                _ => (bedrock::refusal_status(refusal), bedrock::refusal_name(refusal)),
            };
            headers.push(("x-amzn-errortype", name.to_owned()));
            bedrock::write_error(&mut body, words);
            status
        }
    };
    headers.extend(advice.headers(vendor));
    RefusalReply { status, headers, body: body.freeze() }
}

/// The event that ends an incomplete stream.
pub(super) fn interruption(dialect: TargetDialect, kind: FailureKind, words: &str) -> Bytes {
    let mut out = BytesMut::new();
    let refusal = Refusal::of_failure(kind);
    let words = &*client_message(dialect.vendor(), refusal, words);
    match dialect {
        TargetDialect::AnthropicMessages => {
            anthropic::write_error_event(&mut out, &anthropic::ErrorReply::new(refusal, words, None));
        }
        TargetDialect::OpenAiChat => {
            openai::write_error_event(&mut out, &openai::ErrorReply::new(refusal, words));
        }
        TargetDialect::BedrockInvoke => {
            bedrock::write_failure_frame(&mut out, StreamKind::Invoke, kind, words);
        }
        TargetDialect::BedrockConverse => {
            bedrock::write_failure_frame(&mut out, StreamKind::Converse, kind, words);
        }
    }
    out.freeze()
}

/// The content type of an answer at this face.
#[must_use]
pub const fn content_type(face: Face, stream: bool) -> &'static str {
    match (stream, face.vendor()) {
        (false, _) => JSON,
        (true, Some(Dialect::Bedrock)) => STREAM_CONTENT_TYPE,
        (true, Some(Dialect::Anthropic | Dialect::OpenAi) | None) => EVENTS,
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
