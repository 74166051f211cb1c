//! Observes a stream that passes through, for its usage and its end.

use super::answer::{OpenAiUsageFields, as_refusal, finish_of, is_non_empty};
use super::chat_writer::write_end;
use super::error::failure_of;
use super::template::ChunkTemplate;
use crate::answer_error::StreamError;
use crate::chat::{FinishReason, StreamEvent, Usage, UsageReport};
use crate::content;
use crate::features::ServiceOption;
use crate::lenient::Lenient;
use crate::request::{CowStr, span_of};
use crate::sse::{SseEnding, SseLimits, SseReader};
use crate::stream::{feed_events, parse};
use bytes::BytesMut;
use seawall_core::money::PriceDimension;
use seawall_core::tokens::OutputMeter;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Whether the event's data is the end marker, `[DONE]`.
pub(super) fn is_done(data: &[u8]) -> bool {
    data.trim_ascii() == b"[DONE]"
}

/// Observes a stream of chunks. Only the fields that accounting needs are parsed.
///
/// The first chunk with a choice starts the answer; its usage is unknown until the end. One chunk may produce several
/// events, such as the start and content.
///
/// ```
/// use seawall_wire::chat::StreamEvent;
/// use seawall_wire::openai::OpenAiStream;
/// use seawall_wire::sse::SseLimits;
///
/// let mut stream = OpenAiStream::new(SseLimits::default());
/// let mut events = Vec::new();
/// stream.feed(b"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n", |event| events.push(event))?;
/// assert_eq!(events[1..], [StreamEvent::Content, StreamEvent::Finished]);
/// assert!(stream.is_complete());
/// # Ok::<(), seawall_wire::StreamError>(())
/// ```
#[derive(Debug)]
pub struct OpenAiStream {
    sse: SseReader,
    failed: Option<StreamError>,
    account: Account,
}

#[derive(Debug, Default)]
struct Account {
    has_begun: bool,
    usage: Usage,
    finish: Option<FinishReason>,
    /// Whether the model has begun a refusal.
    has_refused: bool,
    is_complete: bool,
    output_reported: bool,
    meter: OutputMeter,
    /// Choices that have begun, and those that have ended, one bit each.
    begun: u64,
    ended: u64,
    /// The last chunk that had text and nothing else.
    template: Option<ChunkTemplate>,
}

/// The fields that all chunks of an answer repeat.
#[derive(Clone, Copy, Debug)]
pub struct ChunkIdentity<'a> {
    /// The id of the answer.
    pub id: &'a str,
    /// The name of the model.
    pub model: &'a str,
    /// The creation time, in seconds since 1970.
    pub created: u64,
}

impl OpenAiStream {
    /// Creates a reader at the start of a stream.
    #[must_use]
    pub fn new(limits: SseLimits) -> Self {
        Self { sse: SseReader::new(limits), failed: None, account: Account::default() }
    }

    /// Parses the next chunk and calls `on_event` for each event that it completes. After an error, every further call
    /// returns the same error.
    pub fn feed(&mut self, bytes: &[u8], mut on_event: impl FnMut(StreamEvent)) -> Result<(), StreamError> {
        let account = &mut self.account;
        feed_events(&mut self.sse, &mut self.failed, bytes, |event| account.read(event.data, &mut on_event))
    }

    /// The usage that the vendor has reported so far.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.account.usage
    }

    /// The usage so far, and whether it includes the final output count.
    #[must_use]
    pub const fn report(&self) -> UsageReport {
        UsageReport { usage: self.account.usage, output_reported: self.account.output_reported }
    }

    /// What has arrived of the answer.
    #[must_use]
    pub const fn meter(&mut self) -> &mut OutputMeter {
        &mut self.account.meter
    }

    /// Appends the chunks that end the stream here, in the form that the vendor uses at the output limit, with usage if
    /// the caller requested it. Id, model and creation time are copied from the last complete chunk in `last`, the
    /// bytes that arrived last, or else taken from `names`.
    pub fn write_end(&self, out: &mut BytesMut, last: &[u8], names: ChunkIdentity<'_>, usage: Option<Usage>) {
        let head = ChunkHead::last_of(last);
        let head = head.as_ref();
        let names = ChunkIdentity {
            id: head.and_then(|head| head.id.as_deref()).unwrap_or(names.id),
            model: head.and_then(|head| head.model.as_deref()).unwrap_or(names.model),
            created: head.and_then(|head| head.created).unwrap_or(names.created),
        };
        let open = self.account.begun & !self.account.ended;
        write_end(out, names, (0..u64::BITS).filter(|choice| open >> choice & 1 == 1), usage);
    }

    /// The finish reason, once known. If the model sent a refusal, a normal end of turn becomes a refusal.
    #[must_use]
    pub const fn finish_reason(&self) -> Option<FinishReason> {
        match self.account.finish {
            Some(finish) if self.account.has_refused => Some(as_refusal(finish)),
            finish => finish,
        }
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

    /// Makes the next chunk be parsed, whatever its shape.
    #[cfg(test)]
    pub(super) fn forget_template(&mut self) {
        self.account.template = None;
    }

    /// Whether the bytes so far end at an event boundary. Only there may other events be inserted.
    #[must_use]
    pub fn is_between_events(&self) -> bool {
        self.sse.finish() == SseEnding::Clean
    }
}

impl Account {
    fn read(&mut self, data: &[u8], on_event: &mut impl FnMut(StreamEvent)) -> Result<(), StreamError> {
        if is_done(data) {
            self.is_complete = true;
            on_event(StreamEvent::Finished);
            return Ok(());
        }
        if let Some(text) = self.template.as_ref().and_then(|template| template.text_of(data)) {
            self.meter.add_json(text);
            self.meter.record_event();
            on_event(StreamEvent::Content);
            return Ok(());
        }
        let chunk: Chunk<'_> = parse("chunk", data)?;
        if let Some(error) = chunk.error {
            // 200 is the status that the stream began with; the failure is classified by the error alone.
            let (failure, message) = failure_of(200, &error);
            on_event(StreamEvent::Failed { failure, message });
            return Ok(());
        }
        let mut is_known = false;
        let mut emit = |event| {
            is_known = true;
            on_event(event);
        };
        if !self.has_begun && !chunk.choices.is_empty() {
            self.has_begun = true;
            emit(StreamEvent::Started(Usage::default()));
        }
        for choice in &chunk.choices {
            let bit = 1 << choice.index.unwrap_or(0).min(u64::from(u64::BITS) - 1);
            self.begun |= bit;
            if choice.finish_reason.is_some() {
                self.ended |= bit;
            }
            self.has_refused |= choice.has_refused();
            choice.count(&mut self.meter);
        }
        if let Some(text) = chunk.only_text() {
            self.template = ChunkTemplate::new(data, span_of(text, data));
        }
        if chunk.choices.iter().any(Choice::has_content) {
            emit(StreamEvent::Content);
        } else if chunk.choices.iter().any(Choice::has_thought) {
            emit(StreamEvent::Thinking);
        }
        let finish = chunk.choices.into_iter().find_map(|choice| choice.finish_reason);
        let finish = finish.map(|CowStr(name)| finish_of(&name));
        if finish.is_some() || chunk.usage.get().is_some() {
            self.finish = finish.or(self.finish);
            let service = chunk.service_tier.apply_to(self.usage.extras.service, PriceDimension::Tier);
            if let Some(usage) = chunk.usage.get() {
                self.usage = usage.read();
                self.output_reported = usage.output_reported();
                if self.output_reported {
                    self.meter.record_vendor_count(self.usage.output);
                }
            }
            self.usage.extras.service = service;
            emit(StreamEvent::Progress { usage: self.usage, finish: self.finish });
        }
        if !is_known {
            on_event(StreamEvent::Other);
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    #[serde(default)]
    usage: Lenient<OpenAiUsageFields>,
    #[serde(default)]
    service_tier: ServiceOption,
    error: Option<Value>,
}

impl<'a> Chunk<'a> {
    /// The text of a chunk that has nothing else that counts, without its quotes.
    fn only_text(&self) -> Option<&'a str> {
        let ([choice], Lenient::Absent) = (&self.choices[..], &self.usage) else { return None };
        let delta = choice.delta.as_ref().filter(|_| choice.finish_reason.is_none())?;
        let others =
            [delta.refusal, delta.tool_calls, delta.function_call, delta.reasoning_content, delta.reasoning];
        if others.into_iter().flatten().any(is_non_empty) {
            return None;
        }
        delta.content?.get().strip_prefix('"')?.strip_suffix('"')
    }
}

#[derive(Deserialize)]
struct Choice<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<CowStr<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
    /// Reasoning text, at vendors that show it.
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
}

impl<'a> Delta<'a> {
    /// The reasoning text of a delta. Vendors that show it use one of two field names, or the same text under both.
    fn reasoning_text(&self) -> Option<&'a RawValue> {
        self.reasoning_content.or(self.reasoning)
    }
}

impl Choice<'_> {
    fn has_refused(&self) -> bool {
        self.delta.as_ref().and_then(|delta| delta.refusal).is_some_and(is_non_empty)
    }

    fn has_content(&self) -> bool {
        let Some(delta) = &self.delta else { return false };
        let parts = [delta.content, delta.refusal, delta.tool_calls, delta.function_call];
        parts.into_iter().flatten().any(is_non_empty)
    }

    fn has_thought(&self) -> bool {
        self.delta.as_ref().and_then(Delta::reasoning_text).is_some_and(is_non_empty)
    }

    /// Adds the output of this delta to the meter.
    fn count(&self, meter: &mut OutputMeter) {
        let Some(delta) = &self.delta else { return };
        let mut is_event = false;
        for raw in [delta.content, delta.refusal, delta.reasoning_text()]
            .into_iter()
            .flatten()
            .filter(|raw| is_non_empty(raw))
        {
            is_event = true;
            let text = raw.get().as_bytes();
            // A string, or a list of parts.
            match text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")) {
                Some(text) => meter.add_json(text),
                None => drop(content::add_delta(meter, text)),
            }
        }
        for raw in
            [delta.tool_calls, delta.function_call].into_iter().flatten().filter(|raw| is_non_empty(raw))
        {
            is_event = true;
            content::add_calls(meter, raw.get().as_bytes());
        }
        if is_event {
            meter.record_event();
        }
    }
}

/// The repeated fields of a chunk.
#[derive(Deserialize)]
struct ChunkHead {
    id: Option<String>,
    model: Option<String>,
    created: Option<u64>,
}

impl ChunkHead {
    /// Reads the last complete chunk in these bytes.
    fn last_of(bytes: &[u8]) -> Option<Self> {
        const DATA: &[u8] = b"data:";
        memchr::memmem::rfind_iter(bytes, DATA).find_map(|start| {
            let line = bytes.get(start + DATA.len()..)?.split(|byte| *byte == b'\n').next()?;
            serde_json::from_slice(line).ok()
        })
    }
}
