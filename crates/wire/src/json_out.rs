//! JSON, appended to a buffer.

use bytes::BytesMut;
use serde::Serialize;
use std::io::{self, Write};

/// Most of what is written fits, so that memory is asked for once.
pub(crate) const USUAL: usize = 1 << 10;

/// Appends the value on one line, unless it carries JSON that has several.
pub(crate) fn put_json(out: &mut BytesMut, value: &impl Serialize) {
    out.reserve(USUAL);
    let outcome = serde_json::to_writer(Appended(out), value);
    // Text and numbers have no value that JSON lacks, and memory takes what it is given.
    debug_assert!(outcome.is_ok(), "{outcome:?}");
}

/// A buffer to write to. JSON is written in many small pieces, and this is the shortest way for each.
struct Appended<'b>(&'b mut BytesMut);

impl Write for Appended<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
