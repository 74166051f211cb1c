//! Writes frames.

use super::{CONTENT_TYPE, EVENT_TYPE, EXCEPTION_TYPE, MESSAGE_TYPE};
use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use bytes::{Bytes, BytesMut};

/// Appends the frame of an event whose payload is JSON.
///
/// ```
/// use bytes::{Bytes, BytesMut};
/// use seawall_wire::bedrock::{FrameKind, FrameLimits, FrameReader, write_event_frame};
///
/// let mut out = BytesMut::new();
/// write_event_frame(&mut out, "messageStart", Bytes::from_static(br#"{"role":"assistant"}"#));
/// let mut reader = FrameReader::new(FrameLimits::default());
/// reader.feed(&out, |frame| assert_eq!(frame.kind, FrameKind::Event("messageStart")))?;
/// # Ok::<(), seawall_wire::bedrock::FrameError>(())
/// ```
pub fn write_event_frame(out: &mut BytesMut, name: &'static str, payload: Bytes) {
    put(out, "event", EVENT_TYPE, name, payload);
}

/// Appends the frame of a failure whose payload is JSON. There is another kind of frame for failures, which one of
/// the vendor's own clients does not understand; it is never written.
pub fn write_exception_frame(out: &mut BytesMut, name: &'static str, payload: Bytes) {
    put(out, "exception", EXCEPTION_TYPE, name, payload);
}

fn put(
    out: &mut BytesMut,
    kind: &'static str,
    name_header: &'static str,
    name: &'static str,
    payload: Bytes,
) {
    let message = Message::new(payload)
        .add_header(text(name_header, name))
        .add_header(text(CONTENT_TYPE, "application/json"))
        .add_header(text(MESSAGE_TYPE, kind));
    let outcome = write_message_to(&message, out);
    // Names are short, and no payload that is built here comes near four gigabytes.
    debug_assert!(outcome.is_ok(), "{outcome:?}");
}

fn text(name: &'static str, value: &'static str) -> Header {
    Header::new(name, HeaderValue::String(value.into()))
}
