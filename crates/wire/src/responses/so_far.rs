//! The output of a stream that passes through, kept so that the stream can be ended here.
//!
//! The events that end an item and a response repeat their whole content. A stream that is stopped at the output limit
//! can only be ended in the vendor's form if that content is known.

use super::events::{EventSequence, PlacedItem};
use super::incoming::IncomingEvent;
use super::output::{AnyItem, ItemContent, ItemStatus, OutputItem};
use super::output_read::{ItemKind, ReadItem};
use crate::request::CowStr;
use bytes::BytesMut;
use serde_json::value::RawValue;

/// Bytes of output that are kept. The end of a longer answer is written without its content.
const MAX_KEPT: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct OutputSoFar {
    /// Completed items as the vendor wrote them, with their index.
    done: Vec<(u64, Box<RawValue>)>,
    open: Vec<OpenItem>,
    size: usize,
}

#[derive(Debug)]
struct OpenItem {
    output_index: u64,
    /// The index of the item's current part. An item of several parts is ended as one that has only the last.
    part_index: u64,
    has_delta: bool,
    item: OutputItem,
}

impl OutputSoFar {
    /// An item begins. Items other than messages, function calls and reasoning are not kept until they are done.
    pub(super) fn add(&mut self, output_index: u64, raw: &RawValue) {
        let content = match ReadItem::read(raw) {
            Ok(ReadItem::Message(_)) => ItemContent::Message { text: String::new() },
            Ok(ReadItem::Reasoning(_)) => ItemContent::Reasoning { summary: String::new() },
            Ok(ReadItem::Call { call_id, name, .. }) => {
                ItemContent::Call { call_id, name, arguments: String::new() }
            }
            _ => return,
        };
        let id = serde_json::from_str(raw.get()).map(|kind: ItemKind<'_>| kind.id().to_owned());
        let item = OutputItem { id: id.unwrap_or_default(), content };
        self.grow(raw.get().len());
        self.open.push(OpenItem { output_index, part_index: 0, has_delta: false, item });
    }

    /// A part of an item begins.
    pub(super) fn add_part(&mut self, event: &IncomingEvent<'_>) {
        let output_index = event.output_index();
        if let Some(open) = self.open.iter_mut().find(|open| open.output_index == output_index)
            && open.part_index != event.part_index()
        {
            open.part_index = event.part_index();
            open.item.content.text_mut().clear();
        }
    }

    pub(super) fn add_delta(&mut self, event: &IncomingEvent<'_>, delta: &RawValue) {
        let output_index = event.output_index();
        let Some(open) = self.open.iter_mut().find(|open| open.output_index == output_index) else { return };
        open.has_delta = true;
        if self.size <= MAX_KEPT
            && let Ok(CowStr(text)) = serde_json::from_str(delta.get())
        {
            open.item.content.text_mut().push_str(&text);
            self.grow(text.len());
        }
    }

    /// An item is complete. Returns whether its content has arrived in deltas before.
    pub(super) fn complete(&mut self, output_index: u64, raw: &RawValue) -> bool {
        let at = self.open.iter().position(|open| open.output_index == output_index);
        let had_delta = at.is_some_and(|at| self.open.remove(at).has_delta);
        self.grow(raw.get().len());
        if self.size <= MAX_KEPT {
            // Outside of strings, a line break is only white space; in an event it would end the line.
            let line = raw.get().replace(['\r', '\n'], " ");
            self.done.extend(RawValue::from_string(line).ok().map(|item| (output_index, item)));
        }
        had_delta
    }

    fn grow(&mut self, bytes: usize) {
        self.size = self.size.saturating_add(bytes);
        if self.size > MAX_KEPT {
            self.done = Vec::new();
            self.open.iter_mut().for_each(|open| *open.item.content.text_mut() = String::new());
        }
    }

    /// Appends the events that end the open items.
    pub(super) fn write_done(&self, out: &mut BytesMut, sequence: &mut EventSequence) {
        for OpenItem { output_index, part_index, item, .. } in &self.open {
            let placed = PlacedItem { item, output_index: *output_index, part_index: *part_index };
            sequence.put_done(out, placed, ItemStatus::Incomplete);
        }
    }

    /// The output of the response, if it ends here.
    pub(super) fn output(&self) -> Vec<AnyItem<'_>> {
        let done = self.done.iter().map(|(index, raw)| (*index, AnyItem::Copied(raw)));
        let open = self
            .open
            .iter()
            .map(|open| (open.output_index, AnyItem::Written(open.item.out(ItemStatus::Incomplete))));
        let mut output: Vec<_> = done.chain(open).collect();
        output.sort_by_key(|(index, _)| *index);
        output.into_iter().map(|(_, item)| item).collect()
    }
}
