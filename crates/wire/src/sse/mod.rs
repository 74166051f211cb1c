//! Server-sent events at byte level.
//!
//! [`SseReader`] accepts chunks as they arrive and invokes a callback once per event. It follows the WHATWG rules for
//! event streams: all three line endings, an optional byte order mark at the start, comments, several data lines joined
//! by a line feed, and an event only if there is data. It scans each byte once, whatever the chunk boundaries, and
//! copies an event's data only if the event was split across chunks or has several data lines.
//!
//! It does not decode text, ignores the `id` and `retry` fields, and does not reconnect.

/// Maximum size of an incomplete event. The largest event or frame has 4 MiB; its name and line prefixes come on top.
pub const MAX_PARTIAL_EVENT: usize = 5 << 20;

mod boundary;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use boundary::whole_length;
pub use reader::{SseEnding, SseError, SseEvent, SseLimits, SseReader};
pub use writer::write_event;
