//! Translates a target's stream into events of the chat face.

use super::AnswerDefaults;
use crate::chat::{ChatReply, InterruptReason, interrupted_event, text_event};
use crate::guardrail::{AnswerInspector, GuardedText, Guardrail as _, Guardrails};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use seawall_wire::chat::ChatEvent;
use seawall_wire::dialect::DialectId;
use seawall_wire::dialect::{ChatStreamReader, UnreadableStream};
use std::time::Duration;

/// Extracts the text of a stream and forwards what the guardrail releases. Usage, end and failures are detected by
/// `StreamMonitor`.
#[derive(Debug)]
pub(super) struct ChatConverter {
    reader: Box<dyn ChatStreamReader>,
    text: GuardedText,
    /// Released text that was not sent yet.
    ready: String,
    /// Sent text, until the pipeline takes it.
    pub(super) sent_text: String,
    /// Number of characters sent.
    delivered: u64,
    /// Whether the final event was sent.
    is_complete: bool,
    /// The failure that the target reported.
    failure: Option<Failure>,
}

impl ChatConverter {
    pub(super) fn new(target: DialectId, model: &str, defaults: &AnswerDefaults<'_>) -> Self {
        Self {
            reader: target.read_stream(defaults.id, model),
            text: GuardedText::new(Guardrails::default().inspect_answer()),
            ready: String::new(),
            sent_text: String::new(),
            delivered: 0,
            is_complete: false,
            failure: None,
        }
    }

    pub(super) fn set_inspector(&mut self, inspector: Box<dyn AnswerInspector>) {
        self.text = GuardedText::new(inspector);
    }

    pub(super) fn blocked_by(&self) -> Option<&str> {
        self.text.blocked_by()
    }

    /// The failure that the target reported.
    pub(super) const fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Parses a chunk and passes its text to the guardrail.
    pub(super) fn feed(&mut self, chunk: &[u8]) -> Result<(), UnreadableStream> {
        // The reader emits nothing after the end of a stream.
        let mut text = String::new();
        let failure = &mut self.failure;
        self.reader.feed(chunk, &mut |event| match event {
            ChatEvent::Text(piece) => text.push_str(&piece),
            ChatEvent::Failed { failure: reported, .. } => *failure = Some(reported),
            _ => {}
        })?;
        // The model's reason for declining is not forwarded: the caller gets a prepared text.
        if !text.is_empty() && !self.reader.has_refused() {
            self.ready += &self.text.take(&text);
        }
        Ok(())
    }

    /// Ends the text, which releases or blocks the rest.
    pub(super) fn end_text(&mut self) {
        self.ready += &self.text.end();
    }

    /// Sends the released text.
    pub(super) fn flush(&mut self, into: &mut impl FnMut(Bytes)) {
        if self.ready.is_empty() {
            return;
        }
        let mut out = BytesMut::new();
        text_event(&mut out, &self.ready);
        into(out.freeze());
        self.delivered = self.delivered.saturating_add(self.ready.chars().count() as u64);
        self.sent_text.push_str(&self.ready);
        self.ready.clear();
    }

    /// The final event of an incomplete answer. Text that was held back is dropped, because it was not released.
    pub(super) fn interruption(
        &self,
        kind: FailureKind,
        message: &str,
        retry_after: Option<Duration>,
    ) -> Bytes {
        interrupted_event(InterruptReason::of_failure(kind), message, self.delivered, retry_after)
    }

    /// Whether any text was sent to the caller.
    pub(super) const fn has_sent_text(&self) -> bool {
        self.delivered > 0
    }

    /// The final event of an answer that its vendor blocked after part of it was sent; empty the second time.
    pub(super) fn declined_event(&mut self, message: &str) -> Bytes {
        if std::mem::replace(&mut self.is_complete, true) {
            return Bytes::new();
        }
        self.interruption(FailureKind::Filtered, message, None)
    }

    /// All events of a prepared answer, in place of one of which nothing was sent; empty the second time.
    pub(super) fn replacement_events(&mut self, reply: &ChatReply) -> Bytes {
        if std::mem::replace(&mut self.is_complete, true) { Bytes::new() } else { reply.events() }
    }

    /// The final event of a complete answer; empty the second time.
    pub(super) fn complete(&mut self, reply: &ChatReply) -> Bytes {
        if std::mem::replace(&mut self.is_complete, true) { Bytes::new() } else { reply.done_event() }
    }
}
