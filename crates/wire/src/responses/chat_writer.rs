//! Writes a stream from dialect-neutral events.

use super::error_event::put_error;
use super::events::{EventSequence, PlacedItem};
use super::output::{
    AnyItem, ItemContent, ItemStatus, OutputItem, ResponseIdentity, ResponseOut, ResponseStatus,
};
use crate::api_error_kind::ApiErrorKind;
use crate::chat::{ChatEvent, FinishReason, Usage, custom_tool};
use crate::dialect::DialectId;
use crate::openai::OpenAiErrorBody;
use bytes::BytesMut;

/// Writes a stream in this dialect, event by event.
///
/// - Texts, tool calls and thinking become items of their own, in order; thinking becomes a reasoning item with a
///   summary. Item ids are derived from the response's id.
/// - The text of the answer is kept until its end, because the last events repeat it.
/// - Usage is written once, in the last event.
/// - Empty deltas and tool input outside a tool call write nothing. A tool call that ends without input gets `{}`,
///   because clients parse the arguments as JSON.
/// - A call of a tool with free text is written in one delta at its end.
/// - The settings of the request are not repeated in the response: they have the vendor's defaults.
/// - The output limit, an exceeded context window and a refusal end with `response.incomplete`, everything else with
///   `response.completed`.
/// - A failure is written as the API error that the caller receives for it, so that an error of the gateway does not look
///   like an error of the caller; see [`write_error_event`](super::write_error_event).
///
/// ```
/// use bytes::BytesMut;
/// use seawall_wire::chat::ChatEvent;
/// use seawall_wire::responses::ResponsesChatWriter;
///
/// let mut out = BytesMut::new();
/// ResponsesChatWriter::new(1_700_000_000).write(&mut out, &ChatEvent::Text("hi".to_owned()));
/// assert!(out.starts_with(b"event: response.created\ndata: {") && out.ends_with(b"\n\n"));
/// ```
#[derive(Debug)]
pub struct ResponsesChatWriter {
    identity: ResponseIdentity,
    sequence: EventSequence,
    usage: Usage,
    has_begun: bool,
    /// The items so far; the last one is open if `is_open`.
    items: Vec<OutputItem>,
    is_open: bool,
    /// The input of the open call of a tool with free text, as it came from the target.
    wrapped_input: String,
}

impl ResponsesChatWriter {
    /// Creates a writer at the start of a stream; `created` is in seconds since 1970.
    #[must_use]
    pub fn new(created: u64) -> Self {
        Self {
            identity: ResponseIdentity { created_at: created, ..ResponseIdentity::default() },
            sequence: EventSequence::default(),
            usage: Usage::NONE,
            has_begun: false,
            items: Vec::new(),
            is_open: false,
            wrapped_input: String::new(),
        }
    }

    /// Appends the server-sent events for this event.
    pub fn write(&mut self, out: &mut BytesMut, event: &ChatEvent) {
        match event {
            ChatEvent::Started { id, model, usage } => {
                self.identity.id.clone_from(id);
                self.identity.model.clone_from(model);
                self.usage = *usage;
                self.begin(out);
            }
            ChatEvent::Thinking(text) | ChatEvent::Text(text) | ChatEvent::ToolInput(text)
                if text.is_empty() => {}
            ChatEvent::Thinking(text) => {
                if !matches!(self.open_content(), Some(ItemContent::Reasoning { .. })) {
                    self.open(out, ItemContent::Reasoning { summary: String::new() });
                }
                self.put_delta(out, text);
            }
            ChatEvent::Text(text) => {
                if !matches!(self.open_content(), Some(ItemContent::Message { .. })) {
                    self.open(out, ItemContent::Message { text: String::new() });
                }
                self.put_delta(out, text);
            }
            ChatEvent::ToolCallStarted { id, name } => {
                self.open(out, ItemContent::call(id, name, ""));
            }
            ChatEvent::ToolInput(piece) => match self.open_content() {
                Some(ItemContent::Call { .. }) => self.put_delta(out, piece),
                // The text is inside JSON, which is only parsed when it is complete.
                Some(ItemContent::CustomCall { .. }) => self.wrapped_input.push_str(piece),
                _ => {}
            },
            ChatEvent::Usage(usage) => self.usage = *usage,
            ChatEvent::Finished(finish) => self.finish(out, *finish),
            ChatEvent::Failed { failure, message } => {
                let error_kind = ApiErrorKind::of_failure(failure.kind);
                let message = DialectId::OPENAI_CHAT.client_message(error_kind, message);
                self.write_error_event(out, &OpenAiErrorBody::new(error_kind, &message));
            }
        }
    }

    /// Appends the event that ends a stream that cannot be completed, with the id of this response, its output so far
    /// and the next sequence number; see [`write_error_event`](super::write_error_event).
    pub fn write_error_event(&mut self, out: &mut BytesMut, reply: &OpenAiErrorBody<'_>) {
        self.begin(out);
        put_error(out, self.sequence, &self.identity, self.output(ResponseStatus::Failed), reply);
    }

    /// Clients require that the first event announces the response.
    fn begin(&mut self, out: &mut BytesMut) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        for kind in ["response.created", "response.in_progress"] {
            let response = ResponseOut::new(&self.identity, ResponseStatus::InProgress, Vec::new());
            self.sequence.put_response(out, kind, &response);
        }
    }

    fn open(&mut self, out: &mut BytesMut, content: ItemContent) {
        self.begin(out);
        self.close(out, ItemStatus::Completed);
        self.items.push(OutputItem::numbered(&self.identity.id, self.items.len(), content));
        self.is_open = true;
        let Self { sequence, items, .. } = self;
        sequence_last(items, |placed| sequence.put_added(out, placed));
    }

    fn put_delta(&mut self, out: &mut BytesMut, delta: &str) {
        let Self { sequence, items, .. } = self;
        sequence_last(items, |placed| sequence.put_delta(out, placed, delta));
        if let Some(item) = items.last_mut() {
            item.content.text_mut().push_str(delta);
        }
    }

    fn close(&mut self, out: &mut BytesMut, status: ItemStatus) {
        if matches!(self.open_content(), Some(ItemContent::Call { arguments, .. }) if arguments.is_empty()) {
            self.put_delta(out, "{}");
        }
        if matches!(self.open_content(), Some(ItemContent::CustomCall { .. })) {
            let wrapped = std::mem::take(&mut self.wrapped_input);
            self.put_delta(out, &custom_tool::unwrap(&wrapped));
        }
        if std::mem::take(&mut self.is_open) {
            let Self { sequence, items, .. } = self;
            sequence_last(items, |placed| sequence.put_done(out, placed, status));
        }
    }

    fn finish(&mut self, out: &mut BytesMut, finish: FinishReason) {
        self.begin(out);
        let status = ResponseStatus::of(finish);
        // Only an open item can have been cut.
        self.close(out, status.last_item());
        let kind = match status {
            ResponseStatus::Incomplete(_) => "response.incomplete",
            _ => "response.completed",
        };
        let mut sequence = self.sequence;
        let response = ResponseOut::new(&self.identity, status, self.output(status)).with_usage(self.usage);
        sequence.put_response(out, kind, &response);
        self.sequence = sequence;
    }

    fn output(&self, status: ResponseStatus) -> Vec<AnyItem<'_>> {
        output_of(&self.items, status)
    }

    fn open_content(&self) -> Option<&ItemContent> {
        self.items.last().filter(|_| self.is_open).map(|item| &item.content)
    }
}

/// The output of a response with these items.
pub(super) fn output_of(items: &[OutputItem], status: ResponseStatus) -> Vec<AnyItem<'_>> {
    let last = items.len().saturating_sub(1);
    let status_at = |at| if at == last { status.last_item() } else { ItemStatus::Completed };
    items.iter().enumerate().map(|(at, item)| AnyItem::Written(item.out(status_at(at)))).collect()
}

/// Calls `put` with the last item, which is the only one that can be open.
fn sequence_last(items: &[OutputItem], put: impl FnOnce(PlacedItem<'_>)) {
    if let [before @ .., item] = items {
        put(PlacedItem { item, output_index: before.len() as u64, part_index: 0 });
    }
}
