//! Parses a stream for conversion to another dialect.

use super::answer::{OutputSeen, ResponseEnd};
use super::incoming::{DeltaKind, EventKind, IncomingEvent};
use super::output::ResponseIdentity;
use super::output_read::ReadItem;
use crate::answer_error::StreamError;
use crate::chat::{ChatEvent, Usage};
use crate::request::CowStr;
use crate::sse::{SseEvent, SseLimits, SseReader};
use crate::stream::{feed_events, parse, unreadable};
use serde_json::value::RawValue;
use std::collections::BTreeSet;

/// Parses a stream into dialect-neutral events.
///
/// - The first event of the response starts the answer. No usage is known at that point.
/// - A refusal is read as text and turns a normal end of turn into a refusal. Reasoning, summarised or not, is read as
///   thinking; the parts of a summary are separated by an empty line. Empty deltas are dropped.
/// - An item that was sent without deltas is read when it is complete.
/// - A function call that continues after other content has begun cannot be expressed in order, and is an error. So is a
///   call of another tool that the caller runs: no such tool can have been offered to the model.
/// - Calls of tools that the vendor runs, annotations and other events are dropped.
/// - `Finished` is emitted after `response.completed` or `response.incomplete`. Anything after that, or after a failure,
///   is ignored.
#[derive(Debug)]
pub struct ResponsesChatReader {
    sse: SseReader,
    failed: Option<StreamError>,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    has_begun: bool,
    is_over: bool,
    seen: OutputSeen,
    /// The index of the function call to which deltas may now belong.
    call: Option<u64>,
    /// The indices of the function calls that have begun.
    calls: BTreeSet<u64>,
    /// The indices of the items of which deltas have arrived.
    with_deltas: BTreeSet<u64>,
}

impl ResponsesChatReader {
    /// Creates a reader at the start of a stream.
    #[must_use]
    pub fn new(limits: SseLimits) -> Self {
        Self { sse: SseReader::new(limits), failed: None, state: State::default() }
    }

    /// Parses the next chunk and calls `on_event` for each event that it completes. After an error, every further call
    /// returns the same error.
    pub fn feed(&mut self, bytes: &[u8], mut on_event: impl FnMut(ChatEvent)) -> Result<(), StreamError> {
        let state = &mut self.state;
        feed_events(&mut self.sse, &mut self.failed, bytes, |event| state.read(event, &mut on_event))
    }

    /// Whether the model has begun a refusal.
    #[must_use]
    pub const fn has_refused(&self) -> bool {
        self.state.seen.has_refused
    }

    /// Whether the answer is complete or has failed. A stream that ends in any other state was truncated.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.state.is_over
    }
}

impl State {
    fn read(&mut self, raw: SseEvent<'_>, on_event: &mut impl FnMut(ChatEvent)) -> Result<(), StreamError> {
        if self.is_over {
            return Ok(());
        }
        let Some((kind, event)) = IncomingEvent::read(raw)? else { return Ok(()) };
        match kind {
            EventKind::Other => return Ok(()),
            EventKind::Failed => {
                self.is_over = true;
                let (failure, message) = event.failure(raw.data);
                on_event(ChatEvent::Failed { failure, message });
                return Ok(());
            }
            _ => {}
        }
        // Parsed first, so that an event that cannot be parsed emits nothing.
        let item = match (kind, event.item) {
            (EventKind::ItemAdded | EventKind::ItemDone, Some(item)) => {
                Some(ReadItem::read(item).map_err(|problem| unreadable("response", &problem))?)
            }
            _ => None,
        };
        let delta = match kind {
            // Input of a tool that the vendor runs.
            EventKind::Delta(DeltaKind::Other) => None,
            EventKind::Delta(_) => event.delta().map(text_of).transpose()?,
            _ => None,
        };
        let end: Option<ResponseEnd<'_>> = match (kind, event.response) {
            (EventKind::Ended, Some(response)) => Some(parse("response", response.get().as_bytes())?),
            (EventKind::Ended, None) => {
                return Err(unreadable("response", "the last event has no response"));
            }
            _ => None,
        };
        if !self.has_begun {
            self.has_begun = true;
            let ResponseIdentity { id, model, .. } =
                event.response.map(ResponseIdentity::read).unwrap_or_default();
            on_event(ChatEvent::Started { id, model, usage: Usage::default() });
        }
        let index = event.output_index();
        match (kind, item, delta) {
            (EventKind::ItemAdded, Some(item), _) => self.begin_item(index, item, on_event)?,
            (EventKind::ItemDone, Some(item), _) if !self.with_deltas.contains(&index) => {
                self.read_whole_item(index, item, on_event)?;
            }
            (EventKind::Delta(kind), _, Some(delta)) => self.read_delta(index, kind, delta, on_event)?,
            (EventKind::SummaryPartAdded, ..) if event.part_index() > 0 => {
                self.call = None;
                on_event(ChatEvent::Thinking("\n\n".to_owned()));
            }
            _ => {}
        }
        if let Some(end) = end {
            self.is_over = true;
            if let Some(usage) = end.usage() {
                on_event(ChatEvent::Usage(usage));
            }
            on_event(ChatEvent::Finished(end.finish(self.seen)));
        }
        Ok(())
    }

    fn begin_item(
        &mut self,
        index: u64,
        item: ReadItem,
        on_event: &mut impl FnMut(ChatEvent),
    ) -> Result<(), StreamError> {
        match item {
            ReadItem::Call { call_id, name, .. } => self.begin_call(index, call_id, name, on_event),
            ReadItem::OtherCall => Err(unreadable("response", "a call of a tool that is not a function")),
            ReadItem::Message(_) | ReadItem::Reasoning(_) | ReadItem::Other => Ok(()),
        }
    }

    fn begin_call(
        &mut self,
        index: u64,
        id: String,
        name: String,
        on_event: &mut impl FnMut(ChatEvent),
    ) -> Result<(), StreamError> {
        if !self.calls.insert(index) {
            return Err(unreadable("response", "two function calls have the same output index"));
        }
        self.seen.has_call = true;
        self.call = Some(index);
        on_event(ChatEvent::ToolCallStarted { id, name });
        Ok(())
    }

    /// Reads an item of which no delta has arrived.
    fn read_whole_item(
        &mut self,
        index: u64,
        item: ReadItem,
        on_event: &mut impl FnMut(ChatEvent),
    ) -> Result<(), StreamError> {
        match item {
            ReadItem::Message(parts) => {
                for part in parts {
                    let kind = if part.is_refusal { DeltaKind::Refusal } else { DeltaKind::Text };
                    self.read_delta(index, kind, part.text, on_event)?;
                }
            }
            ReadItem::Reasoning(texts) => {
                let text = texts.join("\n\n");
                if !text.is_empty() {
                    self.read_delta(index, DeltaKind::Thinking, text, on_event)?;
                }
            }
            ReadItem::Call { call_id, name, arguments } => {
                if !self.calls.contains(&index) {
                    self.begin_call(index, call_id, name, on_event)?;
                }
                if !arguments.is_empty() {
                    self.read_delta(index, DeltaKind::Arguments, arguments, on_event)?;
                }
            }
            ReadItem::OtherCall => {
                return Err(unreadable("response", "a call of a tool that is not a function"));
            }
            ReadItem::Other => {}
        }
        Ok(())
    }

    fn read_delta(
        &mut self,
        index: u64,
        kind: DeltaKind,
        delta: String,
        on_event: &mut impl FnMut(ChatEvent),
    ) -> Result<(), StreamError> {
        self.with_deltas.insert(index);
        match kind {
            DeltaKind::Arguments if self.call == Some(index) => on_event(ChatEvent::ToolInput(delta)),
            DeltaKind::Arguments => {
                return Err(unreadable(
                    "response",
                    "a function call continues after other content has started",
                ));
            }
            DeltaKind::Text | DeltaKind::Refusal => {
                self.call = None;
                self.seen.has_refused |= kind == DeltaKind::Refusal;
                on_event(ChatEvent::Text(delta));
            }
            DeltaKind::Thinking => {
                self.call = None;
                on_event(ChatEvent::Thinking(delta));
            }
            DeltaKind::Other => {}
        }
        Ok(())
    }
}

fn text_of(delta: &RawValue) -> Result<String, StreamError> {
    parse("response", delta.get().as_bytes()).map(|CowStr(text)| text.into_owned())
}
