//! Writes the named events of a stream, numbered in sequence.

use super::output::{ErrorOut, ItemContent, ItemOut, ItemStatus, OutputItem, PartOut, ResponseOut};
use crate::json_out::put_json;
use bytes::{BufMut as _, BytesMut};
use serde::Serialize;

/// Numbers the events of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventSequence {
    /// The number of the next event.
    pub(super) next: u64,
}

/// The fields of any event. Those that an event does not have are omitted.
#[derive(Default, Serialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    sequence_number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<&'a ResponseOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    item_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary_index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<ItemOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<PartOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<[(); 0]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ErrorOut<'a>>,
}

/// An output item and its place in the stream.
#[derive(Clone, Copy)]
pub(super) struct PlacedItem<'a> {
    pub(super) item: &'a OutputItem,
    pub(super) output_index: u64,
    /// The index of the item's last part: of its content, or of its summary.
    pub(super) part_index: u64,
}

impl<'a> PlacedItem<'a> {
    /// The fields of an event about the text of this item.
    fn event(&self) -> Event<'a> {
        let part_index = Some(self.part_index);
        let (content_index, summary_index) = match self.item.content {
            ItemContent::Message { .. } => (part_index, None),
            ItemContent::Reasoning { .. } => (None, part_index),
            ItemContent::Call { .. } | ItemContent::CustomCall { .. } => (None, None),
        };
        Event {
            item_id: Some(&self.item.id),
            output_index: Some(self.output_index),
            content_index,
            summary_index,
            ..Event::default()
        }
    }
}

impl EventSequence {
    fn put(&mut self, out: &mut BytesMut, kind: &str, event: Event<'_>) {
        out.put_slice(b"event: ");
        out.put_slice(kind.as_bytes());
        out.put_slice(b"\ndata: ");
        put_json(out, &Event { kind, sequence_number: self.next, ..event });
        out.put_slice(b"\n\n");
        self.next = self.next.saturating_add(1);
    }

    /// An event that carries the whole response.
    pub(super) fn put_response(&mut self, out: &mut BytesMut, kind: &str, response: &ResponseOut<'_>) {
        self.put(out, kind, Event { response: Some(response), ..Event::default() });
    }

    /// The event that ends a failed stream; see [`write_error_event`](super::write_error_event) for why it has the
    /// error twice.
    pub(super) fn put_failed(
        &mut self,
        out: &mut BytesMut,
        response: &ResponseOut<'_>,
        error: &ErrorOut<'_>,
    ) {
        let event = Event { response: Some(response), error: Some(error), ..Event::default() };
        self.put(out, "response.failed", event);
    }

    /// The events that begin an item.
    pub(super) fn put_added(&mut self, out: &mut BytesMut, placed: PlacedItem<'_>) {
        let (item, output_index) = (Some(placed.item.added()), Some(placed.output_index));
        self.put(out, "response.output_item.added", Event { item, output_index, ..Event::default() });
        match placed.item.content {
            ItemContent::Message { .. } => {
                let part = Some(PartOut::text(""));
                self.put(out, "response.content_part.added", Event { part, ..placed.event() });
            }
            ItemContent::Reasoning { .. } => {
                let part = Some(PartOut::SummaryText { text: "" });
                self.put(out, "response.reasoning_summary_part.added", Event { part, ..placed.event() });
            }
            ItemContent::Call { .. } | ItemContent::CustomCall { .. } => {}
        }
    }

    /// A delta of an item's text.
    pub(super) fn put_delta(&mut self, out: &mut BytesMut, placed: PlacedItem<'_>, delta: &str) {
        let event = Event { delta: Some(delta), ..placed.event() };
        match placed.item.content {
            ItemContent::Message { .. } => {
                self.put(out, "response.output_text.delta", Event { logprobs: Some([]), ..event });
            }
            ItemContent::Reasoning { .. } => self.put(out, "response.reasoning_summary_text.delta", event),
            ItemContent::Call { .. } => self.put(out, "response.function_call_arguments.delta", event),
            ItemContent::CustomCall { .. } => {
                self.put(out, "response.custom_tool_call_input.delta", event);
            }
        }
    }

    /// The events that end an item.
    pub(super) fn put_done(&mut self, out: &mut BytesMut, placed: PlacedItem<'_>, status: ItemStatus) {
        match &placed.item.content {
            ItemContent::Message { text } => {
                let event = Event { text: Some(text), logprobs: Some([]), ..placed.event() };
                self.put(out, "response.output_text.done", event);
                let part = Some(PartOut::text(text));
                self.put(out, "response.content_part.done", Event { part, ..placed.event() });
            }
            ItemContent::Reasoning { summary } => {
                let event = Event { text: Some(summary), ..placed.event() };
                self.put(out, "response.reasoning_summary_text.done", event);
                let part = Some(PartOut::SummaryText { text: summary });
                self.put(out, "response.reasoning_summary_part.done", Event { part, ..placed.event() });
            }
            ItemContent::Call { arguments, .. } => {
                let event = Event { arguments: Some(arguments), ..placed.event() };
                self.put(out, "response.function_call_arguments.done", event);
            }
            ItemContent::CustomCall { input, .. } => {
                let event = Event { input: Some(input), ..placed.event() };
                self.put(out, "response.custom_tool_call_input.done", event);
            }
        }
        let (item, output_index) = (Some(placed.item.out(status)), Some(placed.output_index));
        self.put(out, "response.output_item.done", Event { item, output_index, ..Event::default() });
    }
}
