//! Common to InvokeModel and Converse streams.

use super::error::{failure_in_stream, read_error_message};
use super::frame::{Frame, FrameError, FrameKind};
use seawall_core::failure::Failure;
use serde::Deserialize;
use serde_json::Value;

/// A stream that cannot be parsed any further; the reader fails with the same error from then on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BedrockStreamError {
    /// The bytes are not valid frames, or exceed the limits.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The payload of an event that carries content, usage or the ending does not have the expected shape.
    #[error("invalid {event} event: {problem}")]
    Unreadable {
        /// The event type.
        event: &'static str,
        /// The parse error, with its position.
        problem: String,
    },
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnding {
    /// The finish reason had arrived and no frame was truncated.
    Complete,
    /// The stream was truncated.
    Interrupted,
}

/// The failure that an exception or error frame reports; `None` for an event frame.
pub(super) fn failure_of(frame: &Frame<'_>) -> Option<(Failure, String)> {
    match frame.kind {
        FrameKind::Event(_) => None,
        FrameKind::Exception(name) => Some((failure_in_stream(name), message_of(frame.payload))),
        FrameKind::Error { code, message } => Some((failure_in_stream(code), message.to_owned())),
    }
}

/// The error message of the service, or of the model behind it.
fn message_of(payload: &[u8]) -> String {
    let message = read_error_message(payload);
    if !message.is_empty() {
        return message;
    }
    let fields: Value = serde_json::from_slice(payload).unwrap_or_default();
    fields["originalMessage"].as_str().unwrap_or_default().to_owned()
}

pub(super) fn parse<'a, T: Deserialize<'a>>(
    event: &'static str,
    payload: &'a [u8],
) -> Result<T, BedrockStreamError> {
    serde_json::from_slice(payload)
        .map_err(|error| BedrockStreamError::Unreadable { event, problem: error.to_string() })
}
