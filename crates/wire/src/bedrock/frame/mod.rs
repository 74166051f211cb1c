//! AWS event streams: binary frames with checksums.
//!
//! [`FrameReader`] accepts chunks as they arrive and invokes a callback once per frame, whatever the chunk boundaries.
//! It knows the declared size of a frame before it buffers any of it, and rejects one that is too large. It verifies
//! both checksums of each frame. The prelude checksum is verified as soon as the prelude has arrived, because with a
//! corrupt length the reader would wait for bytes that belong to other frames.
//!
//! It does not interpret frames, and the end of the bytes inside a frame is never taken for the end of the stream.

mod headers;
mod reader;
mod writer;

pub use reader::{FrameEnding, FrameError, FrameLimits, FrameReader};
pub use writer::{write_event_frame, write_exception_frame};

pub(super) const MESSAGE_TYPE: &str = ":message-type";
pub(super) const EVENT_TYPE: &str = ":event-type";
pub(super) const EXCEPTION_TYPE: &str = ":exception-type";
pub(super) const CONTENT_TYPE: &str = ":content-type";
pub(super) const ERROR_CODE: &str = ":error-code";
pub(super) const ERROR_MESSAGE: &str = ":error-message";

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The message type, and the name of the event or exception.
    pub kind: FrameKind<'a>,
    /// The content type of the payload; empty if the frame has none.
    pub content_type: &'a str,
    /// The payload as received.
    pub payload: &'a [u8],
}

/// The message type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind<'a> {
    /// An event, with its type.
    Event(&'a str),
    /// An exception listed in the service's API model, with its name.
    Exception(&'a str),
    /// An error that is not in the service's API model.
    Error {
        /// The error code.
        code: &'a str,
        /// The message for people.
        message: &'a str,
    },
}
