//! Appends JSON to a buffer.

use bytes::BytesMut;
use serde::Serialize;
use std::io::{self, Write};

/// Initial buffer capacity. Most messages fit, so that one allocation is enough.
pub(crate) const INITIAL_CAPACITY: usize = 1 << 10;

/// Appends the value on one line, unless it embeds raw JSON with line breaks.
pub(crate) fn put_json(out: &mut BytesMut, value: &impl Serialize) {
    out.reserve(INITIAL_CAPACITY);
    let outcome = serde_json::to_writer(BufferWriter(out), value);
    // Serialization cannot fail: the types have no value that JSON lacks, and writing to memory always succeeds.
    debug_assert!(outcome.is_ok(), "{outcome:?}");
}

/// A `Write` on the buffer. serde_json writes many small pieces, and this is the cheapest path for each.
struct BufferWriter<'b>(&'b mut BytesMut);

impl Write for BufferWriter<'_> {
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
