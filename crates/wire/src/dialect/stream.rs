//! Streams: monitored, parsed, written or converted.

use crate::chat::{ChatEvent, FinishReason, StreamEvent, Usage, UsageReport};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::FailureKind;
use seawall_core::tokens::OutputMeter;
use std::fmt;
use std::time::Duration;

/// The stream cannot be parsed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadableStream;

/// The regular end of a stream that the gateway ends itself, because it exceeded its output limit.
#[derive(Clone, Copy, Debug)]
pub struct StreamEndMarker<'a> {
    /// The last chunk that was fed.
    pub last: &'a [u8],
    /// The usage.
    pub usage: Usage,
    /// Whether the caller wants the usage.
    pub wants_usage: bool,
    /// The elapsed time.
    pub elapsed: Duration,
}

/// Reads a stream for usage, end and failure, whatever the chunk boundaries.
pub trait StreamMonitor: fmt::Debug + Send {
    /// Takes a chunk.
    fn feed(&mut self, bytes: &[u8], on_event: &mut dyn FnMut(StreamEvent)) -> Result<(), UnreadableStream>;

    /// How much of the chunk just fed belongs to complete events. `pending` is the start of the current one.
    fn whole_length(&self, pending: &[u8], chunk: &[u8]) -> usize;

    /// The usage so far, and whether it includes the output.
    fn report(&self) -> UsageReport;

    /// Bytes received of an incomplete event.
    fn unfinished(&self) -> usize;

    /// The metered output so far.
    fn meter(&mut self) -> &mut OutputMeter;

    /// The finish reason, once known.
    fn finish_reason(&self) -> Option<FinishReason>;

    /// Whether the answer is complete if the stream ends here.
    fn is_complete(&self) -> bool;

    /// Appends a regular end at the output limit, as the vendor would.
    fn write_end(&self, out: &mut BytesMut, end: &StreamEndMarker<'_>);

    /// The event that ends this incomplete stream, for dialects whose last event refers to the earlier ones; `None` for
    /// [`Dialect::write_interruption`](super::Dialect::write_interruption).
    fn write_interruption(&self, _kind: FailureKind, _message: &str) -> Option<Bytes> {
        None
    }
}

/// Parses a stream into common events.
pub trait ChatStreamReader: fmt::Debug + Send {
    /// Emits the events of a chunk.
    fn feed(&mut self, bytes: &[u8], on_event: &mut dyn FnMut(ChatEvent)) -> Result<(), UnreadableStream>;

    /// Emits the events that were held back until the end of the stream.
    fn end(&mut self, _on_event: &mut dyn FnMut(ChatEvent)) {}

    /// Whether the model explains a refusal, for dialects that distinguish it from an answer.
    fn has_refused(&self) -> bool {
        false
    }
}

/// Writes a stream from common events.
pub trait ChatStreamWriter: fmt::Debug + Send {
    /// Appends an event; `elapsed` is the time since the request arrived.
    fn write(&mut self, out: &mut BytesMut, event: &ChatEvent, elapsed: Duration);

    /// The event that ends this incomplete stream; `None` for
    /// [`Dialect::write_interruption`](super::Dialect::write_interruption).
    fn write_interruption(&mut self, _kind: FailureKind, _message: &str) -> Option<Bytes> {
        None
    }
}

/// Converts a stream to another framing without parsing it.
pub trait StreamRewriter: fmt::Debug + Send {
    /// Converts a chunk.
    fn feed(
        &mut self,
        chunk: &Bytes,
        elapsed: Duration,
        into: &mut dyn FnMut(Bytes),
    ) -> Result<(), UnreadableStream>;

    /// Converts the regular end that the monitor has written, which begins between two events.
    fn write_end(&mut self, end: &[u8], elapsed: Duration, out: &mut BytesMut);
}

/// Implements the part of [`StreamMonitor`] that every dialect's stream type has as methods of its own.
macro_rules! monitor_methods {
    () => {
        fn feed(
            &mut self,
            bytes: &[u8],
            on_event: &mut dyn FnMut($crate::chat::StreamEvent),
        ) -> Result<(), $crate::dialect::UnreadableStream> {
            self.feed(bytes, on_event).map_err(|_| $crate::dialect::UnreadableStream)
        }

        fn report(&self) -> $crate::chat::UsageReport {
            self.report()
        }

        fn unfinished(&self) -> usize {
            self.unfinished()
        }

        fn meter(&mut self) -> &mut seawall_core::tokens::OutputMeter {
            self.meter()
        }

        fn is_complete(&self) -> bool {
            self.is_complete()
        }
    };
}

pub(crate) use monitor_methods;
