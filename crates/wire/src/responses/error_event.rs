//! The event that ends a stream that cannot be completed.

use super::events::EventSequence;
use super::output::{AnyItem, ErrorOut, ResponseIdentity, ResponseOut, ResponseStatus};
use crate::openai::OpenAiErrorBody;
use bytes::BytesMut;

/// Appends the event that ends a stream that cannot be completed: `response.failed`, with the error in the response
/// and once more beside it. It must be written at an event boundary.
///
/// Clients differ in what they notice:
///
/// - OpenAI's Python and JavaScript libraries raise an error if the data of an event has an `error` object, whatever the
///   event's type. They pass `response.failed` and the flat `error` event on to code that mostly looks for text.
/// - Codex reads `response.failed` and the error code in its response. It ignores `error` events, and would report and
///   retry the stream as one that was closed early, even if the code says that a retry is useless.
///
/// One event with both is noticed by all of them, and still has the documented shape. An error without a code gets
/// `invalid_prompt` if it is the caller's, because Codex does not retry that, and otherwise `server_error`.
///
/// If the beginning of the stream is known, [`ResponsesStream::write_error_event`](super::ResponsesStream) writes the
/// event with its id and the next sequence number.
pub fn write_error_event(out: &mut BytesMut, reply: &OpenAiErrorBody<'_>) {
    put_error(out, EventSequence::default(), &ResponseIdentity::default(), Vec::new(), reply);
}

pub(super) fn put_error(
    out: &mut BytesMut,
    mut sequence: EventSequence,
    identity: &ResponseIdentity,
    output: Vec<AnyItem<'_>>,
    reply: &OpenAiErrorBody<'_>,
) {
    let OpenAiErrorBody { error_type, error_code, message, param } = *reply;
    let fallback = if error_type == "invalid_request_error" { "invalid_prompt" } else { "server_error" };
    let error = ErrorOut { code: error_code.unwrap_or(fallback), message, param, kind: error_type };
    let response = ResponseOut::new(identity, ResponseStatus::Failed, output).with_error(&error);
    sequence.put_failed(out, &response, &error);
}
