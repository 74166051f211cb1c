//! Observes a stream that passes through, for its usage and its end.

use super::transcode::{InvokeEvent, InvokeReader};
use crate::anthropic::EventAccount;
use crate::bedrock::frame::FrameLimits;
use crate::bedrock::stream::BedrockStreamError;
use crate::chat::{FinishReason, StreamEvent, Usage, UsageReport};
use bytes::BytesMut;
use seawall_core::tokens::OutputMeter;
use serde::Deserialize;

/// The metrics that the service adds to the last event.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct InvocationMetrics {
    /// Input tokens.
    #[serde(rename = "inputTokenCount")]
    pub input: u64,
    /// Output tokens.
    #[serde(rename = "outputTokenCount")]
    pub output: u64,
    /// The total latency, in milliseconds.
    #[serde(default)]
    pub invocation_latency: u64,
    /// The time to the first byte, in milliseconds.
    #[serde(default)]
    pub first_byte_latency: u64,
}

/// Observes an InvokeModelWithResponseStream.
///
/// The events are Anthropic's, so they are read by the same code as Anthropic's own streams. The counts that the
/// service adds at the end are used only if the model's own events had none, because they do not separate cached
/// tokens.
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
    /// Creates a reader at the start of a stream.
    #[must_use]
    pub fn new(limits: FrameLimits) -> Self {
        let watch = Watch { inner: EventAccount::default(), metrics: None, failed: None };
        Self { reader: InvokeReader::new(limits), watch }
    }

    /// Parses the next chunk and calls `on_event` for each event that it completes. After an error, every further call
    /// returns the same error.
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

    /// The usage that the vendor has reported so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.watch.usage()
    }

    /// The usage so far, and whether it includes the final output count.
    #[must_use]
    pub fn report(&self) -> UsageReport {
        let has_output = self.watch.inner.report().has_output || self.watch.metrics.is_some();
        UsageReport { usage: self.watch.usage(), has_output }
    }

    /// What has arrived of the answer.
    #[must_use]
    pub const fn meter(&mut self) -> &mut OutputMeter {
        self.watch.inner.meter()
    }

    /// Appends Anthropic's events that end the stream here, in the form that the vendor uses at the output limit. They
    /// are not wrapped in frames.
    pub fn write_end(&self, out: &mut BytesMut, usage: Usage) {
        self.watch.inner.write_end(out, usage);
    }

    /// The finish reason, once known.
    #[must_use]
    pub const fn finish_reason(&self) -> Option<FinishReason> {
        self.watch.inner.finish_reason()
    }

    /// The service's metrics, once they have arrived.
    #[must_use]
    pub const fn metrics(&self) -> Option<InvocationMetrics> {
        self.watch.metrics
    }

    /// Whether the vendor has marked the answer as complete and the stream is at a frame boundary. A stream that ends
    /// in any other state was truncated, even if its connection was closed cleanly.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.watch.inner.is_complete() && self.is_between_frames()
    }

    /// Whether the bytes so far end at a frame boundary. Only there may other frames be inserted.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.reader.is_between_frames()
    }

    /// Size in bytes of the incomplete frame received so far.
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

    /// Reads the metrics. Unreadable metrics are ignored: they only complement the usage that is already known.
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
            // The output count in the first event is not the count of the answer.
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
