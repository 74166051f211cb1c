//! Writes a stream from dialect-neutral events.

use super::MessagesDialect;
use super::error_response::AnthropicErrorBody;
use super::write::{
    AnswerStart, write_block_start, write_block_stop, write_error_event, write_input_delta,
    write_message_delta, write_message_start, write_message_stop, write_text_delta, write_thinking_delta,
    write_thinking_start, write_tool_start,
};
use crate::api_error_kind::ApiErrorKind;
use crate::chat::{ChatEvent, Usage};
use crate::dialect::Dialect as _;
use bytes::BytesMut;

/// Writes a stream in this dialect, event by event.
///
/// Usage is written at the start and at the end, as the vendor does; reports in between are kept for the end. Empty
/// deltas and tool input outside a tool call write nothing. A failure is written as the API error that the caller
/// receives for it, so that an error of the gateway does not look like an error of the caller.
#[derive(Debug, Default)]
pub struct AnthropicChatWriter {
    usage: Usage,
    /// The index of the next block.
    next: usize,
    open: Option<OpenBlock>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum OpenBlock {
    Thinking,
    Text,
    Call,
}

impl AnthropicChatWriter {
    /// Creates a writer at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the server-sent events for this event.
    pub fn write(&mut self, out: &mut BytesMut, event: &ChatEvent) {
        match event {
            ChatEvent::Started { id, model, usage } => {
                self.usage = *usage;
                write_message_start(out, &AnswerStart { id, model, usage: *usage });
            }
            ChatEvent::Thinking(text) | ChatEvent::Text(text) if text.is_empty() => {}
            ChatEvent::Thinking(text) => {
                if self.open != Some(OpenBlock::Thinking) {
                    self.close(out);
                    write_thinking_start(out, self.next);
                    self.open(OpenBlock::Thinking);
                }
                write_thinking_delta(out, self.index(), text);
            }
            ChatEvent::Text(text) => {
                if self.open != Some(OpenBlock::Text) {
                    self.close(out);
                    write_block_start(out, self.next);
                    self.open(OpenBlock::Text);
                }
                write_text_delta(out, self.index(), text);
            }
            ChatEvent::ToolCallStarted { id, name } => {
                self.close(out);
                write_tool_start(out, self.next, id, name);
                self.open(OpenBlock::Call);
            }
            ChatEvent::ToolInput(piece) => {
                if self.open == Some(OpenBlock::Call) && !piece.is_empty() {
                    write_input_delta(out, self.index(), piece);
                }
            }
            ChatEvent::Usage(usage) => self.usage = *usage,
            ChatEvent::Finished(finish) => {
                self.close(out);
                write_message_delta(out, *finish, self.usage);
                write_message_stop(out);
            }
            ChatEvent::Failed { failure, message } => {
                let error_kind = ApiErrorKind::of_failure(failure.kind);
                let message = MessagesDialect.client_message(error_kind, message);
                write_error_event(out, &AnthropicErrorBody::new(error_kind, &message, None));
            }
        }
    }

    const fn open(&mut self, kind: OpenBlock) {
        self.open = Some(kind);
        self.next += 1;
    }

    /// The index of the open block.
    const fn index(&self) -> usize {
        self.next.saturating_sub(1)
    }

    fn close(&mut self, out: &mut BytesMut) {
        if self.open.take().is_some() {
            write_block_stop(out, self.index());
        }
    }
}
