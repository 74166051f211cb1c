//! JSON, appended to a buffer.

use bytes::{BufMut as _, BytesMut};
use serde::Serialize;

/// Appends the value on one line, unless it carries JSON that has several.
pub(crate) fn put_json(out: &mut BytesMut, value: &impl Serialize) {
    let outcome = serde_json::to_writer(out.writer(), value);
    // Text and numbers have no value that JSON lacks, and memory takes what it is given.
    debug_assert!(outcome.is_ok(), "{outcome:?}");
}
