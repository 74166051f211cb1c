//! Parses a target's stream into events that any face can write.

use super::{AnswerDefaults, DialectRequest};
use seawall_core::failure::Failure;
use seawall_wire::chat::{ChatEvent, FinishReason, Usage, custom_tool};
use seawall_wire::dialect::{ChatStreamReader, DialectId, UnreadableStream};
use seawall_wire::reply::{ReplyEncoder, ReplyEvent, ReplyIdentity};

/// Parses a stream completely. Usage, end and failures are detected by `StreamMonitor`.
#[derive(Debug)]
pub(super) struct StreamParser {
    reader: Box<dyn ChatStreamReader>,
    /// The caller's dialect; `None` if it reads the events itself.
    face: Option<DialectId>,
    identity: ReplyIdentity,
    wants_usage: bool,
    /// The tools whose calls have free text in the caller's dialect.
    custom_tools: Vec<String>,
    /// Events that were not forwarded yet.
    ready: Vec<ReplyEvent>,
    /// The failure that the target reported.
    failure: Option<Failure>,
}

impl StreamParser {
    pub(super) fn new(
        face: Option<DialectId>,
        target: DialectId,
        request: &DialectRequest,
        defaults: &AnswerDefaults<'_>,
    ) -> Self {
        let (model, wants_usage) = (request.model(), request.wants_usage());
        let custom_tools = request.custom_tools().to_vec();
        let reader = target.read_stream(defaults.id, model);
        let identity = super::identity(model, defaults);
        Self { reader, face, identity, wants_usage, custom_tools, ready: Vec::new(), failure: None }
    }

    /// The failure that the target reported.
    pub(super) const fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Whether the caller's dialect carries a failure that the target reported. A caller without a dialect learns of it
    /// by an interruption.
    pub(super) const fn forwards_failures(&self) -> bool {
        self.face.is_some()
    }

    /// Parses a chunk and keeps its events until they are forwarded.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(), UnreadableStream> {
        let Self { reader, face, identity, custom_tools, ready, failure, .. } = self;
        let kept = ready.len();
        reader.feed(bytes, &mut |event| {
            if let ChatEvent::Failed { failure: reported, .. } = event {
                *failure = Some(reported);
                if face.is_none() {
                    return;
                }
            }
            ready.push(ReplyEvent::Chat(custom_tool::marked(identity.apply(event), custom_tools)));
        })?;
        if face.is_none() && reader.has_refused() {
            // A model's reason for declining is no part of an answer; the finish reason says that it declined.
            let mut index = 0;
            ready.retain(|event| {
                index += 1;
                index <= kept || !matches!(event, ReplyEvent::Chat(ChatEvent::Text(_)))
            });
        }
        Ok(())
    }

    /// Parses what was held back until the end of the stream.
    pub(super) fn end(&mut self) {
        let Self { reader, identity, ready, .. } = self;
        reader.end(&mut |event| ready.push(ReplyEvent::Chat(identity.apply(event))));
    }

    /// Adds an end at the output limit.
    pub(super) fn end_at_limit(&mut self, usage: Usage) {
        let end = [ChatEvent::Usage(usage), ChatEvent::Finished(FinishReason::MaxTokens)];
        self.ready.extend(end.into_iter().map(ReplyEvent::Chat));
    }

    /// Forwards the events that are ready.
    pub(super) fn forward(&mut self, into: &mut impl FnMut(ReplyEvent)) {
        self.ready.drain(..).for_each(into);
    }

    /// The encoder for the caller's dialect, if it has one.
    pub(super) fn encoder(&self) -> Option<ReplyEncoder> {
        Some(ReplyEncoder::typed(self.face?, self.identity.clone(), self.wants_usage))
    }
}
