//! Translates a stream from one dialect to another, event by event.

use super::AnswerDefaults;
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use seawall_wire::chat::{ChatEvent, FinishReason, Usage};
use seawall_wire::dialect::DialectId;
use seawall_wire::dialect::{ChatStreamReader, ChatStreamWriter, UnreadableStream};
use std::time::Duration;

/// Parses a stream completely and writes it again.
#[derive(Debug)]
pub(super) struct Translation {
    reader: Box<dyn ChatStreamReader>,
    writer: Box<dyn ChatStreamWriter>,
    ids: AnswerIds,
    has_started: bool,
    /// The failure of the target that was forwarded to the caller.
    forwarded_failure: Option<Failure>,
}

/// The IDs of the answer and its model.
#[derive(Debug)]
struct AnswerIds {
    id: String,
    model: String,
}

impl Translation {
    pub(super) fn new(
        face: DialectId,
        target: DialectId,
        model: &str,
        wants_usage: bool,
        defaults: &AnswerDefaults<'_>,
    ) -> Self {
        let reader = target.read_stream(defaults.id, model);
        let writer = face.write_stream(defaults.created, wants_usage);
        let ids = AnswerIds { id: defaults.id.to_owned(), model: model.to_owned() };
        Self { reader, writer, ids, has_started: false, forwarded_failure: None }
    }

    /// The failure of the target that was forwarded to the caller.
    pub(super) const fn forwarded_failure(&self) -> Option<Failure> {
        self.forwarded_failure
    }

    /// Appends the translation of a piece.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        elapsed: Duration,
        out: &mut BytesMut,
    ) -> Result<(), UnreadableStream> {
        let Self { reader, writer, ids, has_started, forwarded_failure } = self;
        reader.feed(bytes, &mut |event| {
            *has_started |= matches!(event, ChatEvent::Started { .. });
            if let ChatEvent::Failed { failure, .. } = event {
                *forwarded_failure = Some(failure);
            }
            writer.write(out, &ids.apply(event), elapsed);
        })
    }

    /// Appends what was held back until the end of the stream.
    pub(super) fn end(&mut self, elapsed: Duration, out: &mut BytesMut) {
        let Self { reader, writer, ids, .. } = self;
        reader.end(&mut |event| writer.write(out, &ids.apply(event), elapsed));
    }

    /// The event that ends an incomplete stream, if it refers to the earlier ones.
    pub(super) fn write_interruption(&mut self, kind: FailureKind, message: &str) -> Option<Bytes> {
        let mut out = BytesMut::new();
        if !self.has_started {
            let (id, model) = (self.ids.id.clone(), self.ids.model.clone());
            self.writer.write(
                &mut out,
                &ChatEvent::Started { id, model, usage: Usage::NONE },
                Duration::ZERO,
            );
        }
        let interruption = self.writer.write_interruption(kind, message)?;
        out.extend_from_slice(&interruption);
        Some(out.freeze())
    }

    /// Appends an end at the output limit.
    pub(super) fn end_at_limit(&mut self, usage: Usage, elapsed: Duration, out: &mut BytesMut) {
        self.writer.write(out, &ChatEvent::Usage(usage), elapsed);
        self.writer.write(out, &ChatEvent::Finished(FinishReason::MaxTokens), elapsed);
    }
}

impl AnswerIds {
    /// Uses the caller's model name, and adds an ID if the answer has none.
    fn apply(&self, event: ChatEvent) -> ChatEvent {
        match event {
            ChatEvent::Started { id, usage, .. } => {
                let id = if id.is_empty() { self.id.clone() } else { id };
                ChatEvent::Started { id, model: self.model.clone(), usage }
            }
            other => other,
        }
    }
}
