//! Observes a stream that passes through, for its usage and its end.

use super::answer::{OutputSeen, ResponseEnd, is_call};
use super::error_event::put_error;
use super::events::EventSequence;
use super::incoming::{DeltaKind, EventKind, IncomingEvent};
use super::output::{ResponseIdentity, ResponseOut, ResponseStatus};
use super::output_read::ItemKind;
use super::so_far::OutputSoFar;
use crate::answer_error::StreamError;
use crate::chat::{FinishReason, StreamEvent, Usage, UsageReport};
use crate::content;
use crate::openai::OpenAiErrorBody;
use crate::sse::{SseEnding, SseEvent, SseLimits, SseReader};
use crate::stream::{feed_events, parse, unreadable};
use bytes::BytesMut;
use seawall_core::tokens::OutputMeter;
use serde_json::value::RawValue;

/// Observes a stream of response events. Only the fields that accounting and the end of the stream need are parsed.
///
/// The first event of the response starts the answer; its usage is unknown until the end. Text, reasoning text and the
/// arguments of tool calls are metered. A response is complete with `response.completed` or `response.incomplete`;
/// `response.failed`, `error` and any event with an error object are failures.
///
/// ```
/// use seawall_wire::chat::StreamEvent;
/// use seawall_wire::responses::ResponsesStream;
/// use seawall_wire::sse::SseLimits;
///
/// let mut stream = ResponsesStream::new(SseLimits::default());
/// let mut events = Vec::new();
/// stream.feed(b"data: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n", |event| events.push(event))?;
/// assert_eq!(events[1..], [StreamEvent::Content]);
/// assert!(!stream.is_complete());
/// # Ok::<(), seawall_wire::StreamError>(())
/// ```
#[derive(Debug)]
pub struct ResponsesStream {
    sse: SseReader,
    failed: Option<StreamError>,
    account: Account,
}

#[derive(Debug, Default)]
struct Account {
    has_begun: bool,
    report: UsageReport,
    finish: Option<FinishReason>,
    seen: OutputSeen,
    is_complete: bool,
    meter: OutputMeter,
    identity: ResponseIdentity,
    sequence: EventSequence,
    output: OutputSoFar,
}

impl ResponsesStream {
    /// Creates a reader at the start of a stream.
    #[must_use]
    pub fn new(limits: SseLimits) -> Self {
        Self { sse: SseReader::new(limits), failed: None, account: Account::default() }
    }

    /// Parses the next chunk and calls `on_event` for each event that it completes. After an error, every further call
    /// returns the same error.
    pub fn feed(&mut self, bytes: &[u8], mut on_event: impl FnMut(StreamEvent)) -> Result<(), StreamError> {
        let account = &mut self.account;
        feed_events(&mut self.sse, &mut self.failed, bytes, |event| account.read(event, &mut on_event))
    }

    /// The usage that the vendor has reported so far.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.account.report.usage
    }

    /// The usage so far, and whether it includes the final output count.
    #[must_use]
    pub const fn report(&self) -> UsageReport {
        self.account.report
    }

    /// What has arrived of the answer.
    #[must_use]
    pub const fn meter(&mut self) -> &mut OutputMeter {
        &mut self.account.meter
    }

    /// Appends the events that end the stream here, in the form that the vendor uses at the output limit: the open items
    /// end incomplete, and `response.incomplete` has the output so far and this usage. Id, model and creation time are
    /// those of the first event. The content of an answer of more than 1 MiB is left out.
    pub fn write_end(&self, out: &mut BytesMut, usage: Usage) {
        let Account { identity, sequence, output, .. } = &self.account;
        let mut sequence = *sequence;
        output.write_done(out, &mut sequence);
        let status = ResponseStatus::of(FinishReason::MaxTokens);
        let response = ResponseOut::new(identity, status, output.output()).with_usage(usage);
        sequence.put_response(out, "response.incomplete", &response);
    }

    /// Appends the event that ends a stream that cannot be completed, like
    /// [`write_error_event`](super::write_error_event), with the id of this response and the next sequence number.
    pub fn write_error_event(&self, out: &mut BytesMut, reply: &OpenAiErrorBody<'_>) {
        let Account { identity, sequence, output, .. } = &self.account;
        put_error(out, *sequence, identity, output.output(), reply);
    }

    /// The finish reason, once known.
    #[must_use]
    pub const fn finish_reason(&self) -> Option<FinishReason> {
        self.account.finish
    }

    /// Whether the vendor has marked the answer as complete. A stream that ends without that was truncated, even if its
    /// connection was closed cleanly.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.account.is_complete
    }

    /// Approximate size in bytes of the incomplete event received so far.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.sse.unfinished()
    }

    /// Whether the bytes so far end at an event boundary. Only there may other events be inserted.
    #[must_use]
    pub fn is_between_events(&self) -> bool {
        self.sse.finish() == SseEnding::Clean
    }
}

impl Account {
    fn read(&mut self, raw: SseEvent<'_>, on_event: &mut impl FnMut(StreamEvent)) -> Result<(), StreamError> {
        let Some((kind, event)) = IncomingEvent::read(raw)? else {
            on_event(StreamEvent::Other);
            return Ok(());
        };
        let number = event.sequence_number.count().unwrap_or(self.sequence.next);
        self.sequence.next = number.saturating_add(1);
        if kind == EventKind::Failed {
            if let Some(response) = event.response {
                // The failure counts, whatever else the object contains.
                drop(self.read_end(response));
                self.finish = None;
            }
            let (failure, message) = event.failure(raw.data);
            on_event(StreamEvent::Failed { failure, message });
            return Ok(());
        }
        let is_start = !self.has_begun && kind != EventKind::Other;
        if is_start {
            self.has_begun = true;
            self.identity = event.response.map(ResponseIdentity::read).unwrap_or_default();
            on_event(StreamEvent::Started(Usage::default()));
        }
        let meaning = match kind {
            EventKind::Opened if is_start => return Ok(()),
            EventKind::ItemAdded => self.add_item(&event),
            EventKind::ItemDone => self.complete_item(&event),
            EventKind::PartAdded | EventKind::SummaryPartAdded => {
                self.output.add_part(&event);
                StreamEvent::Other
            }
            EventKind::Delta(kind) => self.add_delta(kind, &event),
            EventKind::Ended => {
                let Some(response) = event.response else {
                    return Err(unreadable("response", "the last event has no response"));
                };
                self.read_end(response)?;
                self.is_complete = true;
                on_event(StreamEvent::Progress { usage: self.report.usage, finish: self.finish });
                StreamEvent::Finished
            }
            EventKind::Opened | EventKind::Failed | EventKind::Other => StreamEvent::Other,
        };
        on_event(meaning);
        Ok(())
    }

    fn add_item(&mut self, event: &IncomingEvent<'_>) -> StreamEvent {
        let Some(item) = event.item else { return StreamEvent::Other };
        let kind = kind_of(item);
        self.meter.record_block();
        self.seen.has_call |= is_call(&kind);
        self.output.add(event.output_index(), item);
        match kind.as_str() {
            "message" => StreamEvent::Other,
            kind if is_call(kind) => {
                content::add_calls(&mut self.meter, item.get().as_bytes());
                StreamEvent::Content
            }
            // Reasoning is summarised or encrypted, and tools that the vendor runs produce output that is not shown.
            _ => {
                self.meter.record_hidden();
                StreamEvent::Other
            }
        }
    }

    /// Some servers send an item only when it is complete.
    fn complete_item(&mut self, event: &IncomingEvent<'_>) -> StreamEvent {
        let Some(item) = event.item else { return StreamEvent::Other };
        let kind = kind_of(item);
        self.seen.has_call |= is_call(&kind);
        if self.output.complete(event.output_index(), item) || !(kind == "message" || is_call(&kind)) {
            return StreamEvent::Other;
        }
        self.meter.record_event();
        content::add_delta(&mut self.meter, item.get().as_bytes());
        content::add_calls(&mut self.meter, item.get().as_bytes());
        StreamEvent::Content
    }

    fn add_delta(&mut self, kind: DeltaKind, event: &IncomingEvent<'_>) -> StreamEvent {
        let Some(delta) = event.delta() else { return StreamEvent::Other };
        self.seen.has_refused |= kind == DeltaKind::Refusal;
        let text = delta.get().as_bytes();
        self.meter.record_event();
        self.meter
            .add_json(text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text));
        self.output.add_delta(event, delta);
        if kind == DeltaKind::Thinking { StreamEvent::Thinking } else { StreamEvent::Content }
    }

    /// Reads usage and finish reason from the last response object.
    fn read_end(&mut self, response: &RawValue) -> Result<(), StreamError> {
        let end: ResponseEnd<'_> = parse("response", response.get().as_bytes())?;
        self.report = end.report();
        if self.report.output_reported {
            self.meter.record_vendor_count(self.report.usage.output);
        }
        self.finish = Some(end.finish(self.seen));
        Ok(())
    }
}

fn kind_of(item: &RawValue) -> String {
    serde_json::from_str(item.get()).map(|kind: ItemKind<'_>| kind.name().to_owned()).unwrap_or_default()
}
