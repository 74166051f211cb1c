//! A stream, read for its usage and its end while it passes through.

use super::transcode::{InvokeEvent, InvokeReader};
use crate::anthropic::EventAccount;
use crate::bedrock::frame::FrameLimits;
use crate::bedrock::stream::BedrockStreamError;
use crate::chat::{FinishReason, StreamEvent, Usage, UsageReport};
use bytes::BytesMut;
use seawall_core::tokens::OutputMeter;
use serde::Deserialize;

/// What the service adds to the last event.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct InvocationMetrics {
    /// Tokens of the input.
    #[serde(rename = "inputTokenCount")]
    pub input: u64,
    /// Tokens of the output.
    #[serde(rename = "outputTokenCount")]
    pub output: u64,
    /// The whole time, in milliseconds.
    pub invocation_latency: u64,
    /// The time to the first byte, in milliseconds.
    pub first_byte_latency: u64,
}

/// Reads a stream of InvokeModelWithResponseStream.
///
/// The events mean what they mean at Anthropic, so they are read by what reads
/// Anthropic's own streams. The counts that the service
/// adds at the end are used only where the model's own events told none, because they do not say what was cached.
#[derive(Debug)]
pub struct InvokeStream {
    reader: InvokeReader,
    watch: Watch,
}

#[derive(Debug)]
struct Watch {
    inner: EventAccount,
    metrics: Option<InvocationMetrics>,
    failed: Option<BedrockStreamError>,
}

impl InvokeStream {
    /// A stream of which nothing has arrived.
    #[must_use]
    pub fn new(limits: FrameLimits) -> Self {
        let watch = Watch { inner: EventAccount::default(), metrics: None, failed: None };
        Self { reader: InvokeReader::new(limits), watch }
    }

    /// Reads on, and calls `on_event` for each event that the bytes complete. After an error every further call
    /// fails in the same way.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut on_event: impl FnMut(StreamEvent),
    ) -> Result<(), BedrockStreamError> {
        let watch = &mut self.watch;
        let outcome = self.reader.feed(bytes, |event| {
            if watch.failed.is_none() {
                watch.failed = watch.read(event, &mut on_event).err();
            }
        });
        match &watch.failed {
            Some(error) => Err(error.clone()),
            None => outcome,
        }
    }

    /// The answer's usage as far as the vendor has told it.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.watch.usage()
    }

    /// The same, with whether that is all of it.
    #[must_use]
    pub fn report(&self) -> UsageReport {
        let has_output = self.watch.inner.report().has_output || self.watch.metrics.is_some();
        UsageReport { usage: self.watch.usage(), has_output }
    }

    /// What has arrived of the answer.
    #[must_use]
    pub const fn meter(&self) -> &OutputMeter {
        self.watch.inner.meter()
    }

    /// Appends Anthropic's events that end the stream here, as the vendor does at a limit of output. They are not in frames.
    pub fn write_end(&self, out: &mut BytesMut, usage: Usage) {
        self.watch.inner.write_end(out, usage);
    }

    /// Why the model stopped, once it has.
    #[must_use]
    pub const fn finish_reason(&self) -> Option<FinishReason> {
        self.watch.inner.finish_reason()
    }

    /// What the service added at the end, once it has.
    #[must_use]
    pub const fn metrics(&self) -> Option<InvocationMetrics> {
        self.watch.metrics
    }

    /// Whether the vendor has said that the answer is complete, and no frame is cut. A stream that ends otherwise was
    /// cut, even when its connection was closed in good order.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.watch.inner.is_complete() && self.is_between_frames()
    }

    /// Whether the bytes so far end between two frames. Only there can something be written behind them.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.reader.is_between_frames()
    }

    /// How many bytes of an unfinished frame have come.
    #[must_use]
    pub const fn unfinished(&self) -> usize {
        self.reader.unfinished()
    }
}

impl Watch {
    fn read(
        &mut self,
        event: InvokeEvent<'_>,
        on_event: &mut impl FnMut(StreamEvent),
    ) -> Result<(), BedrockStreamError> {
        let (name, json) = match event {
            InvokeEvent::Failed { failure, message } => {
                on_event(StreamEvent::Failed { failure, message });
                return Ok(());
            }
            InvokeEvent::Message { name, json } => (name, json),
        };
        if matches!(name, "message_stop" | "") {
            self.take_metrics(json, on_event);
        }
        let event = self.inner.read(name.as_bytes(), json);
        on_event(event.map_err(|error| BedrockStreamError::Unreadable {
            event: "chunk",
            problem: error.to_string(),
        })?);
        Ok(())
    }

    /// Metrics that cannot be read are none: they only add to what is known.
    fn take_metrics(&mut self, json: &[u8], on_event: &mut impl FnMut(StreamEvent)) {
        let last: LastEvent = serde_json::from_slice(json).unwrap_or_default();
        if last.metrics.is_none() {
            return;
        }
        let before = self.usage();
        self.metrics = last.metrics;
        if self.usage() != before {
            on_event(StreamEvent::Progress { usage: self.usage(), finish: self.inner.finish_reason() });
        }
    }

    fn usage(&self) -> Usage {
        let told = self.inner.usage();
        let metrics = self.metrics.unwrap_or_default();
        let no_input = told.input == 0 && told.cache_read == 0 && told.cache_write == 0;
        Usage {
            input: if no_input { metrics.input } else { told.input },
            // What the model said at its beginning is no count of its answer.
            output: if self.inner.report().has_output {
                told.output
            } else {
                told.output.max(metrics.output)
            },
            ..told
        }
    }
}

#[derive(Default, Deserialize)]
struct LastEvent {
    #[serde(rename = "amazon-bedrock-invocationMetrics")]
    metrics: Option<InvocationMetrics>,
}
