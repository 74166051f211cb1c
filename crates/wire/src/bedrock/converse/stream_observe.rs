//! Observes a stream that passes through, for its usage and its end.

use super::shapes::finish_of;
use super::stream_read::{MessageStopFields, MetadataFields};
use super::stream_write::write_end;
use crate::bedrock::frame::{Frame, FrameEnding, FrameKind, FrameLimits, FrameReader};
use crate::bedrock::stream::{BedrockStreamError, failure_of, parse};
use crate::chat::{FinishReason, StreamEvent, Usage, UsageReport};
use crate::content;
use bytes::BytesMut;
use seawall_core::tokens::OutputMeter;
use std::time::Duration;

/// Observes a ConverseStream. Only frames that carry usage, the end or a failure are parsed; content frames are
/// recognised by their event type, and the length of their text is counted without parsing.
///
/// The service reports usage last, so [`StreamEvent::Finished`] is emitted with the usage and not with the finish
/// reason.
#[derive(Debug)]
pub struct ConverseStream {
    frames: FrameReader,
    account: Account,
}

#[derive(Debug, Default)]
struct Account {
    usage: Option<Usage>,
    finish: Option<FinishReason>,
    failed: Option<BedrockStreamError>,
    output_reported: bool,
    meter: OutputMeter,
    /// Number of content blocks that have ended, and whether one is open.
    ended: usize,
    is_open: bool,
}

impl ConverseStream {
    /// Creates a reader at the start of a stream.
    #[must_use]
    pub fn new(limits: FrameLimits) -> Self {
        Self { frames: FrameReader::new(limits), account: Account::default() }
    }

    /// Parses the next chunk and calls `on_event` for each event that it completes. After an error, every further call
    /// returns the same error.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut on_event: impl FnMut(StreamEvent),
    ) -> Result<(), BedrockStreamError> {
        let account = &mut self.account;
        let outcome = self.frames.feed(bytes, |frame| {
            if account.failed.is_none() {
                account.failed = account.read(&frame, &mut on_event).err();
            }
        });
        match &account.failed {
            Some(error) => Err(error.clone()),
            None => Ok(outcome?),
        }
    }

    /// The usage, once the vendor has reported it.
    #[must_use]
    pub const fn usage(&self) -> Option<Usage> {
        self.account.usage
    }

    /// The usage so far, and whether it includes the output count.
    #[must_use]
    pub fn report(&self) -> UsageReport {
        UsageReport {
            usage: self.account.usage.unwrap_or_default(),
            output_reported: self.account.output_reported,
        }
    }

    /// What has arrived of the answer.
    #[must_use]
    pub const fn meter(&mut self) -> &mut OutputMeter {
        &mut self.account.meter
    }

    /// Appends the frames that end the stream here, in the form that the vendor uses at the output limit.
    pub fn write_end(&self, out: &mut BytesMut, usage: Usage, latency: Duration) {
        write_end(out, self.account.is_open.then_some(self.account.ended), usage, latency);
    }

    /// The finish reason, once known.
    #[must_use]
    pub const fn finish_reason(&self) -> Option<FinishReason> {
        self.account.finish
    }

    /// Whether the finish reason has arrived and the stream is at a frame boundary. A stream that ends in any other
    /// state was truncated, even if its connection was closed cleanly. A complete stream may lack its usage.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.account.finish.is_some() && self.is_between_frames()
    }

    /// Whether the bytes so far end at a frame boundary. Only there may other frames be inserted.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.frames.finish() == FrameEnding::Clean
    }

    /// Size in bytes of the incomplete frame received so far.
    #[must_use]
    pub const fn unfinished(&self) -> usize {
        self.frames.unfinished()
    }
}

impl Account {
    fn read(
        &mut self,
        frame: &Frame<'_>,
        on_event: &mut impl FnMut(StreamEvent),
    ) -> Result<(), BedrockStreamError> {
        if let Some((failure, message)) = failure_of(frame) {
            on_event(StreamEvent::Failed { failure, message });
            return Ok(());
        }
        match frame.kind {
            FrameKind::Event("messageStart") => on_event(StreamEvent::Started(Usage::default())),
            FrameKind::Event("contentBlockDelta") => {
                self.is_open = true;
                self.meter.record_event();
                on_event(content::add_delta(&mut self.meter, frame.payload));
            }
            FrameKind::Event("contentBlockStart") => {
                self.is_open = true;
                content::record_block(&mut self.meter, frame.payload);
                on_event(StreamEvent::Other);
            }
            FrameKind::Event("contentBlockStop") => {
                (self.is_open, self.ended) = (false, self.ended.saturating_add(1));
                on_event(StreamEvent::Other);
            }
            FrameKind::Event("messageStop") => {
                let stop: MessageStopFields<'_> = parse("messageStop", frame.payload)?;
                self.finish = Some(finish_of(&stop.stop_reason.0));
                on_event(self.progress());
            }
            FrameKind::Event("metadata") => {
                let metadata: MetadataFields = parse("metadata", frame.payload)?;
                let report = metadata.report();
                (self.usage, self.output_reported) = (Some(report.usage), report.output_reported);
                if report.output_reported {
                    self.meter.record_vendor_count(report.usage.output);
                }
                on_event(self.progress());
                if self.finish.is_some() {
                    on_event(StreamEvent::Finished);
                }
            }
            _ => on_event(StreamEvent::Other),
        }
        Ok(())
    }

    fn progress(&self) -> StreamEvent {
        StreamEvent::Progress { usage: self.usage.unwrap_or_default(), finish: self.finish }
    }
}
