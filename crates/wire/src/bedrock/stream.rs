//! What the two streams have in common.

use super::error::{failure_in_stream, read_error_message};
use super::frame::{Frame, FrameError, FrameKind};
use seawall_core::failure::Failure;
use serde::Deserialize;
use serde_json::Value;

/// A stream that cannot be understood any further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BedrockStreamError {
    /// It is no stream of frames within the limits.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// An event that matters is not what it must be.
    #[error("{event} cannot be read: {problem}")]
    Unreadable {
        /// The event's name.
        event: &'static str,
        /// What is wrong, and where.
        problem: String,
    },
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnding {
    /// The model had stopped, and no frame was cut.
    Complete,
    /// Something is missing.
    Interrupted,
}

/// What a frame that is no event says.
pub(super) fn failure_of(frame: &Frame<'_>) -> Option<(Failure, String)> {
    match frame.kind {
        FrameKind::Event(_) => None,
        FrameKind::Exception(name) => Some((failure_in_stream(name), words_of(frame.payload))),
        FrameKind::Error { code, message } => Some((failure_in_stream(code), message.to_owned())),
    }
}

/// The service's words, or those of the model behind it.
fn words_of(payload: &[u8]) -> String {
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
