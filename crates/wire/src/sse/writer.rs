//! Writes an event so that any reader gets the same data back.

use bytes::BufMut;

/// Appends one named event.
///
/// Data with line breaks becomes several lines of data, so a carriage return arrives as a line feed. A name
/// ends at its first line break, because nothing behind it could be part of a name.
///
/// ```
/// let mut out = Vec::new();
/// seawall_wire::sse::write_event(&mut out, "note", b"one\ntwo");
/// assert_eq!(out, b"event: note\ndata: one\ndata: two\n\n");
/// ```
pub fn write_event(out: &mut impl BufMut, name: &str, data: &[u8]) {
    out.put_slice(b"event: ");
    out.put_slice(name.split(['\r', '\n']).next().unwrap_or_default().as_bytes());
    let mut rest = data;
    loop {
        out.put_slice(b"\ndata: ");
        let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else {
            out.put_slice(rest);
            break;
        };
        out.put_slice(&rest[..end]);
        let line_end = if rest[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = &rest[end + line_end..];
    }
    out.put_slice(b"\n\n");
}
