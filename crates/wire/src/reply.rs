//! The reply to a caller, as events that every face can write.
//!
//! The request path produces [`ReplyEvent`]s. Where caller and target speak the same dialect, the events of a stream
//! are not parsed: they pass through as [`ReplyEvent::Opaque`] bytes, which cost nothing to write. Everything else is
//! typed, and a [`ReplyEncoder`] writes it in the caller's dialect when the response is sent. What is between the path and
//! the encoder (framing, heartbeats) sees events and no bytes.

use crate::chat::{ChatAnswer, ChatEvent, Usage};
use crate::dialect::{AnswerDefaults, ChatStreamWriter, DialectId};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::FailureKind;
use std::time::Duration;

/// One event of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplyEvent {
    /// Whole events in the caller's own dialect, forwarded as the target sent them.
    Opaque(Bytes),
    /// The start of the answer, a delta, its usage, its end, or a failure that the target reported.
    Chat(ChatEvent),
    /// The answer ends here and is incomplete. Nothing follows.
    Interrupted(ReplyInterruption),
}

/// Why a reply ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyInterruption {
    /// The kind of failure that the caller is told.
    pub kind: FailureKind,
    /// The message for callers of a vendor's dialect.
    pub message: &'static str,
}

/// Properties of an answer that is written from events, for dialects whose targets do not report them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyIdentity {
    /// The answer's ID, if the target assigns none.
    pub id: String,
    /// The model's name, as the caller knows it.
    pub model: String,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// The elapsed time, as far as known; two dialects report it.
    pub elapsed: Duration,
}

impl ReplyIdentity {
    /// Uses the caller's model name, and adds an ID if the answer has none.
    #[must_use]
    pub fn apply(&self, event: ChatEvent) -> ChatEvent {
        match event {
            ChatEvent::Started { id, usage, .. } => {
                let id = if id.is_empty() { self.id.clone() } else { id };
                ChatEvent::Started { id, model: self.model.clone(), usage }
            }
            other => other,
        }
    }
}

/// Writes the events of a streamed reply in the caller's dialect.
#[derive(Debug)]
pub struct ReplyEncoder {
    dialect: DialectId,
    /// What typed events are written with; `None` for a stream that passes through.
    typed: Option<TypedStream>,
}

#[derive(Debug)]
struct TypedStream {
    writer: Box<dyn ChatStreamWriter>,
    identity: ReplyIdentity,
    has_started: bool,
}

impl ReplyEncoder {
    /// An encoder for a stream that passes through.
    #[must_use]
    pub const fn pass_through(dialect: DialectId) -> Self {
        Self { dialect, typed: None }
    }

    /// An encoder for typed events.
    #[must_use]
    pub fn typed(dialect: DialectId, identity: ReplyIdentity, wants_usage: bool) -> Self {
        let writer = dialect.write_stream(identity.created, wants_usage);
        Self { dialect, typed: Some(TypedStream { writer, identity, has_started: false }) }
    }

    /// The caller's dialect.
    #[must_use]
    pub const fn dialect(&self) -> DialectId {
        self.dialect
    }

    /// Sets the elapsed time, which two dialects report at the end.
    pub fn set_elapsed(&mut self, elapsed: Duration) {
        if let Some(typed) = &mut self.typed {
            typed.identity.elapsed = elapsed;
        }
    }

    /// The bytes of an event and of those that are ready behind it; opaque bytes are not copied. Empty if the dialect
    /// has nothing to write for these events.
    pub fn encode(&mut self, first: ReplyEvent, mut ready: impl FnMut() -> Option<ReplyEvent>) -> Bytes {
        if let ReplyEvent::Opaque(bytes) = first {
            return bytes;
        }
        let mut out = BytesMut::new();
        let mut next = Some(first);
        while let Some(event) = next {
            self.append(&mut out, &event);
            next = ready();
        }
        out.freeze()
    }

    /// Appends the bytes of one event.
    pub fn append(&mut self, out: &mut BytesMut, event: &ReplyEvent) {
        match event {
            ReplyEvent::Opaque(bytes) => out.extend_from_slice(bytes),
            ReplyEvent::Chat(event) => {
                if let Some(typed) = &mut self.typed {
                    typed.has_started |= matches!(event, ChatEvent::Started { .. });
                    typed.writer.write(out, event, typed.identity.elapsed);
                }
            }
            ReplyEvent::Interrupted(ReplyInterruption { kind, message }) => {
                out.extend_from_slice(&self.interruption(*kind, message));
            }
        }
    }

    /// The bytes that end an incomplete stream with an error.
    pub fn interruption(&mut self, kind: FailureKind, message: &str) -> Bytes {
        let referring = self.typed.as_mut().and_then(|typed| typed.interruption(kind, message));
        referring.unwrap_or_else(|| self.dialect.write_interruption(kind, message))
    }
}

impl TypedStream {
    /// The event that ends an incomplete stream, for dialects in which it refers to the earlier ones.
    fn interruption(&mut self, kind: FailureKind, message: &str) -> Option<Bytes> {
        let mut out = BytesMut::new();
        if !self.has_started {
            let ReplyIdentity { id, model, .. } = self.identity.clone();
            let started = ChatEvent::Started { id, model, usage: Usage::NONE };
            self.writer.write(&mut out, &started, Duration::ZERO);
        }
        let interruption = self.writer.write_interruption(kind, message)?;
        out.extend_from_slice(&interruption);
        Some(out.freeze())
    }
}

/// The content of an answer that is not streamed.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerContent {
    /// A body in the caller's own dialect, as the target sent it.
    Opaque(Bytes),
    /// A parsed answer.
    Parsed(Box<ParsedAnswer>),
}

/// A parsed answer, with what its dialect may not report.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedAnswer {
    /// The answer.
    pub answer: ChatAnswer,
    /// Its identity.
    pub identity: ReplyIdentity,
}

impl AnswerContent {
    /// The body in the caller's dialect.
    #[must_use]
    pub fn encode(self, dialect: DialectId) -> Bytes {
        match self {
            Self::Opaque(body) => body,
            Self::Parsed(parsed) => {
                let ParsedAnswer { answer, identity } = *parsed;
                let ReplyIdentity { id, created, elapsed, .. } = &identity;
                let defaults = AnswerDefaults { id, created: *created, elapsed: *elapsed };
                dialect.write_chat_answer(&answer, &defaults)
            }
        }
    }
}
