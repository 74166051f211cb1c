//! A stream, read for its usage and its end while it passes through.

use super::shapes::finish_of;
use super::stream_read::{MessageStop, Metadata};
use crate::bedrock::frame::{Frame, FrameEnding, FrameKind, FrameLimits, FrameReader};
use crate::bedrock::stream::{BedrockStreamError, failure_of, parse};
use crate::chat::{FinishReason, StreamEvent, Usage};

/// Reads the stream of ConverseStream. Only the frames that carry usage, an end or a failure are looked into; content
/// is recognised by its frame's name alone.
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
            FrameKind::Event("contentBlockDelta") => on_event(StreamEvent::Content),
            FrameKind::Event("messageStop") => {
                let stop: MessageStop<'_> = parse("messageStop", frame.payload)?;
                self.finish = Some(finish_of(&stop.stop_reason.0));
                on_event(self.progress());
            }
            FrameKind::Event("metadata") => {
                let metadata: Metadata = parse("metadata", frame.payload)?;
                self.usage = Some(metadata.usage.into());
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
