//! Translates a target's stream into events of the chat face.

use super::Occasion;
use super::reader::Reader;
use super::watch::Unreadable;
use crate::chat::{ChatReply, InterruptReason, interrupted_event, text_event};
use crate::guardrail::{AnswerWatch, GuardedText, Guardrail as _, Guardrails};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::FailureKind;
use seawall_provider::TargetDialect;
use seawall_wire::chat::ChatEvent;
use std::time::Duration;

/// Extracts the text of a stream and forwards what the guardrail releases. Usage, end and failures are detected by
/// `Watch`.
#[derive(Debug)]
pub(super) struct ChatVoice {
    reader: Reader,
    text: GuardedText,
    /// Released text that was not sent yet.
    ready: String,
    /// Sent text, until the pipeline takes it.
    pub(super) told: String,
    /// Number of characters sent.
    delivered: u64,
    /// Whether the final event was sent.
    is_complete: bool,
}

impl ChatVoice {
    pub(super) fn new(target: TargetDialect, model: &str, occasion: &Occasion<'_>) -> Self {
        Self {
            reader: Reader::new(target, occasion.id, model),
            text: GuardedText::new(Guardrails::default().watch()),
            ready: String::new(),
            told: String::new(),
            delivered: 0,
            is_complete: false,
        }
    }

    pub(super) fn watch_with(&mut self, watch: Box<dyn AnswerWatch>) {
        self.text = GuardedText::new(watch);
    }

    pub(super) fn blocked_by(&self) -> Option<&str> {
        self.text.blocked_by()
    }

    /// Parses a frame and passes its text to the guardrail.
    pub(super) fn hear(&mut self, frame: &[u8]) -> Result<(), Unreadable> {
        // The reader emits nothing after the end of a stream.
        let mut heard = String::new();
        self.reader.feed(frame, |event| {
            if let ChatEvent::Text(text) = event {
                heard.push_str(&text);
            }
        })?;
        // The model's reason for declining is not forwarded: the caller gets a prepared text.
        if !heard.is_empty() && !self.reader.has_refused() {
            self.ready += &self.text.take(&heard);
        }
        Ok(())
    }

    /// Ends the text, which releases or blocks the rest.
    pub(super) fn judge_end(&mut self) {
        self.ready += &self.text.end();
    }

    /// Sends the released text.
    pub(super) fn tell(&mut self, into: &mut impl FnMut(Bytes)) {
        if self.ready.is_empty() {
            return;
        }
        let mut out = BytesMut::new();
        text_event(&mut out, &self.ready);
        into(out.freeze());
        self.delivered = self.delivered.saturating_add(self.ready.chars().count() as u64);
        self.told.push_str(&self.ready);
        self.ready.clear();
    }

    /// The final event of an incomplete answer. Text that was held back is dropped, because it was not released.
    pub(super) fn interruption(
        &self,
        kind: FailureKind,
        words: &str,
        retry_after: Option<Duration>,
    ) -> Bytes {
        interrupted_event(InterruptReason::of_failure(kind), words, self.delivered, retry_after)
    }

    /// Whether any text was sent to the caller.
    pub(super) const fn has_told(&self) -> bool {
        self.delivered > 0
    }

    /// The final event of an answer that its vendor blocked after part of it was sent; empty the second time.
    pub(super) fn declined(&mut self, words: &str) -> Bytes {
        if std::mem::replace(&mut self.is_complete, true) {
            return Bytes::new();
        }
        self.interruption(FailureKind::Filtered, words, None)
    }

    /// All events of a prepared answer, in place of one of which nothing was sent; empty the second time.
    pub(super) fn replaced(&mut self, reply: &ChatReply) -> Bytes {
        if std::mem::replace(&mut self.is_complete, true) { Bytes::new() } else { reply.events() }
    }

    /// The final event of a complete answer; empty the second time.
    pub(super) fn complete(&mut self, reply: &ChatReply) -> Bytes {
        if std::mem::replace(&mut self.is_complete, true) { Bytes::new() } else { reply.done_event() }
    }
}
