//! Writes server-sent events that every conforming reader decodes to the same data.

use bytes::BufMut;

/// Appends one event with a name.
///
/// Data with line breaks is written as several data lines, so a carriage return is read back as a line feed. A name is
/// truncated at its first line break, because no name can contain one.
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
