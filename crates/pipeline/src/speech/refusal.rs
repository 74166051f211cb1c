//! What faces say when there is no answer, and what they say around one.

use super::Face;
use crate::chat::{ChatRefusal, REQUEST_ID_HEADER};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::FailureKind;
use seawall_core::strategy::Language;
use seawall_provider::TargetDialect;
use seawall_wire::bedrock::{self, INVOKE_CONTENT_TYPE, STREAM_CONTENT_TYPE, StreamKind};
use seawall_wire::{Dialect, Refusal, RetryAdvice, anthropic, openai};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// A refusal as a face writes it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalReply {
    /// The HTTP status.
    pub status: u16,
    /// All headers but the length. Names are as each vendor writes them.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
}

/// A refusal in the face's words. `id` is what the request is called, and `advice` what the caller is told about coming
/// back.
#[must_use]
pub fn refusal(face: Face, refusal: Refusal, words: &str, id: &str, advice: RetryAdvice) -> RefusalReply {
    let Some(vendor) = face.vendor() else {
        // The words are there already, in whatever language.
        let language = Language::English;
        let chat = ChatRefusal { refusal, language, detail: None, limit: None, request_id: id, advice };
        return chat.reply_in(words);
    };
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

/// The event that ends a stream which cannot be completed.
pub(super) fn interruption(dialect: TargetDialect, kind: FailureKind, words: &str) -> Bytes {
    let mut out = BytesMut::new();
    let refusal = Refusal::of_failure(kind);
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

/// What an answer of this face is.
#[must_use]
pub const fn content_type(face: Face, stream: bool) -> &'static str {
    match (stream, face.vendor()) {
        (false, _) => JSON,
        (true, Some(Dialect::Bedrock)) => STREAM_CONTENT_TYPE,
        (true, Some(Dialect::Anthropic | Dialect::OpenAi) | None) => EVENTS,
    }
}

/// What a stream of this face says in headers of its own.
#[must_use]
pub const fn stream_headers(face: Face) -> &'static [(&'static str, &'static str)] {
    match face {
        Face::BedrockInvoke => &[("x-amzn-bedrock-content-type", INVOKE_CONTENT_TYPE)],
        Face::AnthropicMessages | Face::OpenAiChat | Face::BedrockConverse | Face::Chat => &[],
    }
}

/// The header in which this face's callers look for the request's id.
#[must_use]
pub const fn request_id_header(face: Face) -> &'static str {
    match face.vendor() {
        Some(vendor) => vendor.request_id_header(),
        None => REQUEST_ID_HEADER,
    }
}
