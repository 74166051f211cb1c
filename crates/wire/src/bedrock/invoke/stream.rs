//! Observes a stream that passes through, for its usage and its end.

use super::transcode::{InvokeEvent, InvokeReader};
use crate::anthropic::AnthropicStreamState;
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
    account: InvokeAccount,
}

#[derive(Debug)]
struct InvokeAccount {
    events: AnthropicStreamState,
    metrics: Option<InvocationMetrics>,
    failed: Option<BedrockStreamError>,
}

impl InvokeStream {
    /// Creates a reader at the start of a stream.
    #[must_use]
    pub fn new(limits: FrameLimits) -> Self {
        let account = InvokeAccount { events: AnthropicStreamState::default(), metrics: None, failed: None };
        Self { reader: InvokeReader::new(limits), account }
    }

    /// Parses the next chunk and calls `on_event` for each event that it completes. After an error, every further call
    /// returns the same error.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut on_event: impl FnMut(StreamEvent),
    ) -> Result<(), BedrockStreamError> {
        let account = &mut self.account;
        let outcome = self.reader.feed(bytes, |event| {
            if account.failed.is_none() {
                account.failed = account.read(event, &mut on_event).err();
            }
        });
        match &account.failed {
            Some(error) => Err(error.clone()),
            None => outcome,
        }
    }

    /// The usage that the vendor has reported so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.account.usage()
    }

    /// The usage so far, and whether it includes the final output count.
    #[must_use]
    pub fn report(&self) -> UsageReport {
        let output_reported = self.account.events.report().output_reported || self.account.metrics.is_some();
        UsageReport { usage: self.account.usage(), output_reported }
    }

    /// What has arrived of the answer.
    #[must_use]
    pub const fn meter(&mut self) -> &mut OutputMeter {
        self.account.events.meter()
    }

    /// Appends Anthropic's events that end the stream here, in the form that the vendor uses at the output limit. They
    /// are not wrapped in frames.
    pub fn write_end(&self, out: &mut BytesMut, usage: Usage) {
        self.account.events.write_end(out, usage);
    }

    /// The finish reason, once known.
    #[must_use]
    pub const fn finish_reason(&self) -> Option<FinishReason> {
        self.account.events.finish_reason()
    }

    /// The service's metrics, once they have arrived.
    #[must_use]
    pub const fn metrics(&self) -> Option<InvocationMetrics> {
        self.account.metrics
    }

    /// Whether the vendor has marked the answer as complete and the stream is at a frame boundary. A stream that ends
    /// in any other state was truncated, even if its connection was closed cleanly.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.account.events.is_complete() && self.is_between_frames()
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

impl InvokeAccount {
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
        let event = self.events.read(name.as_bytes(), json);
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
            on_event(StreamEvent::Progress { usage: self.usage(), finish: self.events.finish_reason() });
        }
    }

    fn usage(&self) -> Usage {
        let reported = self.events.usage();
        let metrics = self.metrics.unwrap_or_default();
        let no_input = reported.input == 0 && reported.cache_read == 0 && reported.cache_write == 0;
        Usage {
            input: if no_input { metrics.input } else { reported.input },
            // The output count in the first event is not the count of the answer.
            output: if self.events.report().output_reported {
                reported.output
            } else {
                reported.output.max(metrics.output)
            },
            ..reported
        }
    }
}

#[derive(Default, Deserialize)]
struct LastEvent {
    #[serde(rename = "amazon-bedrock-invocationMetrics")]
    metrics: Option<InvocationMetrics>,
}
