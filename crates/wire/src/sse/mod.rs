//! Server-sent events at byte level.
//!
//! [`SseReader`] is fed whatever arrives and calls back once per event, as the WHATWG rules for event streams
//! say: any of the three line ends, a byte order mark at the start, comments, several lines of data joined by a
//! line feed, an event only where there is data. It looks at each byte once, however the stream was split, and
//! copies an event's data only where the event itself was split or has several lines of it.
//!
//! It does not decode text, does not know `id` and `retry`, and does not reconnect.

mod reader;
#[cfg(test)]
mod tests;
mod whole;
mod writer;

pub use reader::{SseEnding, SseError, SseEvent, SseLimits, SseReader};
pub use whole::whole_length;
pub use writer::write_event;
