//! Observes a stream that passes through, for its usage and its end.

use super::chat_writer::write_end;
use super::error::failure_of;
use super::shapes::{GroundingFields, PromptFeedbackFields, finish_of, owned, searches_of};
use super::usage::GeminiUsageFields;
use crate::answer_error::StreamError;
use crate::chat::{FinishReason, StreamEvent, Usage, UsageReport};
use crate::lenient::Lenient;
use crate::request::CowStr;
use crate::sse::{SseEnding, SseLimits, SseReader};
use crate::stream::{feed_events, parse};
use bytes::BytesMut;
use seawall_core::tokens::OutputMeter;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

/// Observes a stream of chunks. Only the fields that accounting needs are parsed.
///
/// The vendor reports usage in every chunk; the counts are cumulative. There is no end marker, and some models send a
/// finish reason in every chunk: [`StreamEvent::Finished`] is therefore never emitted, and whether the stream is
/// complete can be asked when its connection has ended.
///
/// ```
/// use seawall_wire::chat::StreamEvent;
/// use seawall_wire::gemini::GeminiStream;
/// use seawall_wire::sse::SseLimits;
///
/// let mut stream = GeminiStream::new(SseLimits::default());
/// let chunk = br#"data: {"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}]}"#;
/// let mut events = Vec::new();
/// stream.feed(&[&chunk[..], b"\n\n"].concat(), |event| events.push(event))?;
/// assert_eq!(events[1], StreamEvent::Content);
/// assert!(stream.is_complete());
/// # Ok::<(), seawall_wire::StreamError>(())
/// ```
#[derive(Debug)]
pub struct GeminiStream {
    sse: SseReader,
    failed: Option<StreamError>,
    account: Account,
}

#[derive(Debug, Default)]
struct Account {
    has_begun: bool,
    has_failed: bool,
    counts: GeminiUsageFields,
    searches: u64,
    report: UsageReport,
    /// The finish reason of the first candidate, or of another one as long as that has none.
    finish: Option<FinishReason>,
    has_calls: bool,
    meter: OutputMeter,
    /// Candidates that have begun, and those that have ended, one bit each.
    begun: u64,
    ended: u64,
    id: String,
    model: String,
}

impl GeminiStream {
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
        self.account.report.usage
    }

    /// The usage so far, and whether it includes the output count.
    #[must_use]
    pub const fn report(&self) -> UsageReport {
        self.account.report
    }

    /// What has arrived of the answer.
    #[must_use]
    pub const fn meter(&mut self) -> &mut OutputMeter {
        &mut self.account.meter
    }

    /// Appends the chunk that ends the stream here, in the form that the vendor uses at the output limit.
    pub fn write_end(&self, out: &mut BytesMut, usage: Usage) {
        let account = &self.account;
        let open = account.begun & !account.ended;
        // A stream without any candidate so far gets an end as well.
        let open = if account.begun == 0 { 1 } else { open };
        let open = (0..u64::BITS).filter(|candidate| open >> candidate & 1 == 1);
        write_end(out, &account.id, &account.model, open, usage);
    }

    /// The finish reason, once known. The vendor has none for function calls: an answer with one that ends normally is
    /// reported as a tool call.
    #[must_use]
    pub const fn finish_reason(&self) -> Option<FinishReason> {
        self.account.finish()
    }

    /// Whether every candidate has a finish reason, or the prompt was blocked, and the bytes so far end at an event
    /// boundary. More may follow as long as the connection is open. A stream that ends in any other state was
    /// truncated, even if its connection was closed cleanly.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let Account { finish, begun, ended, has_failed, .. } = &self.account;
        finish.is_some()
            && begun & !ended == 0
            && !has_failed
            && self.failed.is_none()
            && self.is_between_events()
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
    fn read(&mut self, data: &[u8], on_event: &mut impl FnMut(StreamEvent)) -> Result<(), StreamError> {
        let chunk: Chunk<'_> = parse("chunk", data)?;
        if let Some(error) = chunk.error {
            self.has_failed = true;
            // 200 is the status that the stream began with; the failure is classified by the error alone.
            let (failure, message) = failure_of(200, &error);
            on_event(StreamEvent::Failed { failure, message });
            return Ok(());
        }
        let is_blocked = chunk.prompt_feedback.as_ref().is_some_and(PromptFeedbackFields::is_blocked);
        let mut is_known = false;
        let mut emit = |event| {
            is_known = true;
            on_event(event);
        };
        let candidates = chunk.candidates.unwrap_or_default();
        if !self.has_begun && (!candidates.is_empty() || is_blocked || chunk.usage_metadata.get().is_some()) {
            self.has_begun = true;
            self.id = owned(chunk.response_id).unwrap_or_default();
            self.model = owned(chunk.model_version).unwrap_or_default();
            emit(StreamEvent::Started(Usage::default()));
        }
        let mut found = Found::default();
        let mut finish = is_blocked.then_some(FinishReason::Refusal);
        let mut searches = 0;
        for candidate in candidates {
            let bit = 1 << candidate.index.unwrap_or(0).min(u64::from(u64::BITS) - 1);
            self.begun |= bit;
            searches += searches_of(&candidate.grounding_metadata);
            for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
                part.count(&mut self.meter, &mut found);
            }
            if let Some(CowStr(name)) = candidate.finish_reason {
                self.ended |= bit;
                // The first candidate decides, whenever it ends.
                if bit == 1 || finish.or(self.finish).is_none() {
                    finish = Some(finish_of(&name, false));
                }
            }
        }
        self.has_calls |= found.has_calls;
        self.searches = self.searches.max(searches);
        if found.has_content || found.has_thought {
            self.meter.record_event();
            emit(if found.has_content { StreamEvent::Content } else { StreamEvent::Thinking });
        }
        self.finish = finish.or(self.finish);
        let counts = chunk.usage_metadata.get();
        if let Some(counts) = counts {
            self.counts = self.counts.updated(counts);
            self.report = self.counts.report(self.searches);
            if self.report.output_reported {
                self.meter.record_vendor_count(self.report.usage.output);
            }
        }
        if finish.is_some() || counts.is_some() {
            emit(StreamEvent::Progress { usage: self.report.usage, finish: self.finish() });
        }
        if !is_known {
            on_event(StreamEvent::Other);
        }
        Ok(())
    }

    const fn finish(&self) -> Option<FinishReason> {
        match self.finish {
            Some(FinishReason::EndTurn) if self.has_calls => Some(FinishReason::ToolUse),
            finish => finish,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Chunk<'a> {
    #[serde(borrow)]
    candidates: Option<Vec<Candidate<'a>>>,
    prompt_feedback: Option<PromptFeedbackFields>,
    usage_metadata: Lenient<GeminiUsageFields>,
    #[serde(borrow)]
    model_version: Option<CowStr<'a>>,
    #[serde(borrow)]
    response_id: Option<CowStr<'a>>,
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Candidate<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    content: Option<Content<'a>>,
    #[serde(borrow)]
    finish_reason: Option<CowStr<'a>>,
    grounding_metadata: Lenient<GroundingFields>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Content<'a> {
    #[serde(borrow)]
    parts: Option<Vec<Part<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    thought: Option<bool>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
    /// Code that the model wrote for the vendor to run.
    #[serde(borrow)]
    executable_code: Option<&'a RawValue>,
    /// Generated media, whose tokens its bytes do not reveal.
    inline_data: Option<IgnoredAny>,
    thought_signature: Option<IgnoredAny>,
}

/// The kinds of parts in a chunk.
#[derive(Default)]
struct Found {
    has_content: bool,
    has_thought: bool,
    has_calls: bool,
}

impl Part<'_> {
    /// Adds the output of this part to the meter.
    fn count(&self, meter: &mut OutputMeter, found: &mut Found) {
        let text = self.text.map(|raw| raw.get().as_bytes()).unwrap_or_default();
        let text = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or_default();
        meter.add_json(text);
        for raw in [self.function_call, self.executable_code].into_iter().flatten() {
            // The name, the arguments and their keys are all written by the model.
            meter.record_block();
            meter.add_json(raw.get().as_bytes());
        }
        if self.inline_data.is_some() || self.thought_signature.is_some() {
            meter.record_hidden();
        }
        let has_other =
            self.function_call.is_some() || self.executable_code.is_some() || self.inline_data.is_some();
        let is_thought = self.thought == Some(true);
        found.has_content |= has_other || (!is_thought && !text.is_empty());
        found.has_thought |= is_thought && !text.is_empty();
        found.has_calls |= self.function_call.is_some();
    }
}
