//! A stream, written from what all dialects have in common.

use super::refusal::ErrorReply;
use super::write::{
    AnswerStart, write_block_start, write_block_stop, write_error_event, write_input_delta,
    write_message_delta, write_message_start, write_message_stop, write_text_delta, write_tool_start,
};
use crate::chat::{ChatEvent, Usage};
use crate::refusal::Refusal;
use bytes::BytesMut;

/// Writes a stream in this dialect, event by event.
///
/// Usage is told at the start and at the end, as the vendor does; what is told in between is kept for the end. Pieces
/// without anything in them write nothing, and so does input without a call. A failure is told by how the request ends for
/// the caller, so that a fault of ours does not look like the caller's.
#[derive(Debug, Default)]
pub struct ChatWriter {
    usage: Usage,
    /// The number of the next block.
    next: usize,
    open: Option<Open>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Open {
    Text,
    Call,
}

impl ChatWriter {
    /// A stream of which nothing is written.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends what says so.
    pub fn write(&mut self, out: &mut BytesMut, event: &ChatEvent) {
        match event {
            ChatEvent::Started { id, model, usage } => {
                self.usage = *usage;
                write_message_start(out, &AnswerStart { id, model, usage: *usage });
            }
            ChatEvent::Text(text) if text.is_empty() => {}
            ChatEvent::Text(text) => {
                if self.open != Some(Open::Text) {
                    self.close(out);
                    write_block_start(out, self.next);
                    self.open(Open::Text);
                }
                write_text_delta(out, self.index(), text);
            }
            ChatEvent::ToolCallStarted { id, name } => {
                self.close(out);
                write_tool_start(out, self.next, id, name);
                self.open(Open::Call);
            }
            ChatEvent::ToolInput(piece) => {
                if self.open == Some(Open::Call) && !piece.is_empty() {
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
                write_error_event(out, &ErrorReply::new(Refusal::of_failure(failure.kind), message, None));
            }
        }
    }

    const fn open(&mut self, kind: Open) {
        self.open = Some(kind);
        self.next += 1;
    }

    /// The number of the block that is open.
    const fn index(&self) -> usize {
        self.next.saturating_sub(1)
    }

    fn close(&mut self, out: &mut BytesMut) {
        if self.open.take().is_some() {
            write_block_stop(out, self.index());
        }
    }
}
