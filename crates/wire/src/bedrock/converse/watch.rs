//! A stream, read for its usage and its end while it passes through.

use super::shapes::finish_of;
use super::stream_read::{MessageStop, Metadata};
use super::stream_write::write_end;
use crate::bedrock::frame::{Frame, FrameEnding, FrameKind, FrameLimits, FrameReader};
use crate::bedrock::stream::{BedrockStreamError, failure_of, parse};
use crate::chat::{FinishReason, StreamEvent, Usage, UsageReport};
use crate::content;
use bytes::BytesMut;
use seawall_core::tokens::OutputMeter;
use std::time::Duration;

/// Reads the stream of ConverseStream. Only the frames that carry usage, an end or a failure are parsed; content is
/// recognised by its frame's name, and its text is counted as it stands.
///
/// The service tells usage last, so [`StreamEvent::Finished`] comes with it and not when the model stops.
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
    has_output: bool,
    meter: OutputMeter,
    /// Blocks of content that have ended, and whether one is open.
    ended: usize,
    is_open: bool,
}

impl ConverseStream {
    /// A stream of which nothing has arrived.
    #[must_use]
    pub fn new(limits: FrameLimits) -> Self {
        Self { frames: FrameReader::new(limits), account: Account::default() }
    }

    /// Reads on, and calls `on_event` for each event that the bytes complete. After an error every further call
    /// fails in the same way.
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

    /// The answer's usage, once the vendor has told it.
    #[must_use]
    pub const fn usage(&self) -> Option<Usage> {
        self.account.usage
    }

    /// The same, with whether that is all of it.
    #[must_use]
    pub fn report(&self) -> UsageReport {
        UsageReport { usage: self.account.usage.unwrap_or_default(), has_output: self.account.has_output }
    }

    /// What has arrived of the answer.
    #[must_use]
    pub const fn meter(&self) -> &OutputMeter {
        &self.account.meter
    }

    /// Appends what ends the stream here, as the vendor does at a limit of output.
    pub fn write_end(&self, out: &mut BytesMut, usage: Usage, latency: Duration) {
        write_end(out, self.account.is_open.then_some(self.account.ended), usage, latency);
    }

    /// Why the model stopped, once it has.
    #[must_use]
    pub const fn finish_reason(&self) -> Option<FinishReason> {
        self.account.finish
    }

    /// Whether the vendor has said that the model stopped, and no frame is cut. A stream that ends otherwise was cut,
    /// even when its connection was closed in good order. One that is complete may lack its usage.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.account.finish.is_some() && self.is_between_frames()
    }

    /// Whether the bytes so far end between two frames. Only there can something be written behind them.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.frames.finish() == FrameEnding::Clean
    }

    /// How many bytes of an unfinished frame have come.
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
                self.meter.note_event();
                content::add_delta(&mut self.meter, frame.payload);
                on_event(StreamEvent::Content);
            }
            FrameKind::Event("contentBlockStart") => {
                self.is_open = true;
                content::note_block(&mut self.meter, frame.payload);
                on_event(StreamEvent::Other);
            }
            FrameKind::Event("contentBlockStop") => {
                (self.is_open, self.ended) = (false, self.ended.saturating_add(1));
                on_event(StreamEvent::Other);
            }
            FrameKind::Event("messageStop") => {
                let stop: MessageStop<'_> = parse("messageStop", frame.payload)?;
                self.finish = Some(finish_of(&stop.stop_reason.0));
                on_event(self.progress());
            }
            FrameKind::Event("metadata") => {
                let metadata: Metadata = parse("metadata", frame.payload)?;
                let report = metadata.usage.unwrap_or_default().report();
                (self.usage, self.has_output) = (Some(report.usage), report.has_output);
                if report.has_output {
                    self.meter.note_counted(report.usage.output);
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
