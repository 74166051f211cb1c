//! AWS event streams: binary frames with checksums.
//!
//! [`FrameReader`] is fed whatever arrives and calls back once per frame, however the stream was split. It knows
//! how large a frame says it is before it holds any of it, and refuses one that is too large. It checks the two
//! checksums of each frame, the one over the lengths as soon as they are there, because a wrong length would have
//! it wait for bytes that belong to others.
//!
//! It does not decide what a frame means, and an end inside a frame is never taken for an end of the stream.

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
    /// What kind of frame it is, and its name.
    pub kind: FrameKind<'a>,
    /// What the payload is; empty when the frame does not say.
    pub content_type: &'a str,
    /// What it carries, as it came.
    pub payload: &'a [u8],
}

/// What kind of frame it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind<'a> {
    /// Something happened.
    Event(&'a str),
    /// The service failed in a way that its description lists.
    Exception(&'a str),
    /// The service failed in some other way.
    Error {
        /// The error's name.
        code: &'a str,
        /// Words for a person.
        message: &'a str,
    },
}
