//! Error responses and response headers of the faces.

use super::{ErrorResponse, Face};
use seawall_wire::chat_face::{ChatErrorResponse, REQUEST_ID_HEADER};
use seawall_wire::{ApiErrorKind, RetryAdvice};

/// Renders an error in the face's dialect. `id` is the request ID, and `advice` determines the retry headers.
#[must_use]
pub fn render_error(
    face: Face,
    error_kind: ApiErrorKind,
    message: &str,
    id: &str,
    advice: RetryAdvice,
) -> ErrorResponse {
    match face {
        Face::Vendor(dialect) => dialect.write_error(error_kind, message, id, advice),
        Face::Chat => {
            ChatErrorResponse { error_kind, message, detail: None, limit: None, request_id: id, advice }
                .reply()
        }
    }
}

/// The content type of an answer at this face.
#[must_use]
pub fn content_type(face: Face, stream: bool) -> &'static str {
    match face {
        Face::Vendor(dialect) => dialect.content_type(stream),
        Face::Chat if stream => "text/event-stream",
        Face::Chat => "application/json",
    }
}

/// Additional headers of a streamed answer at this face.
#[must_use]
pub fn stream_headers(face: Face) -> &'static [(&'static str, &'static str)] {
    face.dialect().map_or(&[], |dialect| dialect.stream_headers())
}

/// The header in which this face's clients expect the request ID.
#[must_use]
pub fn request_id_header(face: Face) -> &'static str {
    face.dialect().map_or(REQUEST_ID_HEADER, |dialect| dialect.request_id_header())
}
