//! Writes event-stream frames.

use super::{CONTENT_TYPE, EVENT_TYPE, EXCEPTION_TYPE, MESSAGE_TYPE};
use bytes::{BufMut as _, BytesMut};

/// Appends an event frame with a JSON payload.
///
/// ```
/// use bytes::BytesMut;
/// use seawall_wire::bedrock::{FrameKind, FrameLimits, FrameReader, write_event_frame};
///
/// let mut out = BytesMut::new();
/// write_event_frame(&mut out, "messageStart", br#"{"role":"assistant"}"#);
/// let mut reader = FrameReader::new(FrameLimits::default());
/// reader.feed(&out, |frame| assert_eq!(frame.kind, FrameKind::Event("messageStart")))?;
/// # Ok::<(), seawall_wire::bedrock::FrameError>(())
/// ```
pub fn write_event_frame(out: &mut BytesMut, name: &'static str, payload: impl AsRef<[u8]>) {
    put(out, "event", EVENT_TYPE, name, payload.as_ref());
}

/// Appends an exception frame with a JSON payload. The other message type for failures (`error`) is never written,
/// because one of the vendor's own clients does not understand it.
pub fn write_exception_frame(out: &mut BytesMut, name: &'static str, payload: impl AsRef<[u8]>) {
    put(out, "exception", EXCEPTION_TYPE, name, payload.as_ref());
}

/// The value type of every header written here: string.
const TEXT: u8 = 7;
/// Size of the lengths and checksums.
const FRAME_OVERHEAD: usize = 16;

fn put(out: &mut BytesMut, kind: &str, name_header: &str, name: &str, payload: &[u8]) {
    let headers = [(name_header, name), (CONTENT_TYPE, "application/json"), (MESSAGE_TYPE, kind)];
    let headers_length: usize = headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    let length = headers_length + payload.len() + FRAME_OVERHEAD;
    // Names are short, and no payload built here comes near 4 GiB.
    let checked = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let start = out.len();
    out.reserve(length);
    out.put_u32(checked(length));
    out.put_u32(checked(headers_length));
    put_checksum(out, start);
    for (name, value) in headers {
        out.put_u8(u8::try_from(name.len()).unwrap_or(u8::MAX));
        out.put_slice(name.as_bytes());
        out.put_u8(TEXT);
        out.put_u16(u16::try_from(value.len()).unwrap_or(u16::MAX));
        out.put_slice(value.as_bytes());
    }
    out.put_slice(payload);
    put_checksum(out, start);
}

/// Appends the checksum of everything from `start` on.
fn put_checksum(out: &mut BytesMut, start: usize) {
    let checksum = crc32fast::hash(out.get(start..).unwrap_or_default());
    out.put_u32(checksum);
}
