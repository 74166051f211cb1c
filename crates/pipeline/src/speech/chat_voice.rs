//! How a target's stream becomes events of our own.

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

/// Hears the words of a stream, and tells those that a guardrail releases. What else there is to an answer is told by whoever
/// watches the stream.
#[derive(Debug)]
pub(super) struct ChatVoice {
    reader: Reader,
    text: GuardedText,
    /// What was released and is not told.
    ready: String,
    /// What was told, until somebody takes it.
    pub(super) told: String,
    /// How many characters were told.
    delivered: u64,
    /// Whether the caller knows that the answer is complete.
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

    /// Takes a frame, and asks the guardrail about the words in it.
    pub(super) fn hear(&mut self, frame: &[u8]) -> Result<(), Unreadable> {
        // No reader says anything behind an end.
        let mut heard = String::new();
        self.reader.feed(frame, |event| {
            if let ChatEvent::Text(text) = event {
                heard.push_str(&text);
            }
        })?;
        if !heard.is_empty() {
            self.ready += &self.text.take(&heard);
        }
        Ok(())
    }

    /// The answer is complete.
    pub(super) fn judge_end(&mut self) {
        self.ready += &self.text.end();
    }

    /// Hands on what was released.
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

    /// The event that ends an answer which will not be completed. What was kept back is lost: nobody has released it.
    pub(super) fn interruption(
        &self,
        kind: FailureKind,
        words: &str,
        retry_after: Option<Duration>,
    ) -> Bytes {
        interrupted_event(InterruptReason::of_failure(kind), words, self.delivered, retry_after)
    }

    /// The event that ends a complete answer; nothing the second time.
    pub(super) fn complete(&mut self, reply: &ChatReply) -> Bytes {
        if std::mem::replace(&mut self.is_complete, true) { Bytes::new() } else { reply.done_event() }
    }
}
