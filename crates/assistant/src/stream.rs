//! A streamed reply on its way to the caller.
//!
//! The pipeline's stream yields the model's events as they arrive. Text passes through the guardrail, which may hold it
//! back; everything else becomes one final event. Text that was sent is never taken back, and nothing follows the end.

use crate::finalizer::ChatFinalizer;
use crate::texts::ChatText;
use seawall_core::failure::FailureKind;
use seawall_core::runtime::Runtime;
use seawall_core::vocabulary::Rung;
use seawall_pipeline::ReplyStream;
use seawall_pipeline::guardrail::{AnswerInspector, GuardedText};
use seawall_wire::chat::{ChatEvent, FinishReason};
use seawall_wire::chat_face::{ChatInterruption, ChatReplyEvent, InterruptReason};
use seawall_wire::reply::ReplyEvent;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

/// A streamed reply.
pub struct ChatStream<R: Runtime> {
    runtime: R,
    stream: Box<ReplyStream<R>>,
    text: ReleasedText,
    finalizer: Box<ChatFinalizer<R>>,
    /// The final event, once it is known.
    end: Option<ChatReplyEvent>,
    /// Events of a prepared answer that replaces one of which nothing was sent.
    replacement: VecDeque<ChatReplyEvent>,
    /// Whether the end of the reply was decided.
    is_ended: bool,
}

/// The text of an answer that the guardrail has released.
pub(crate) struct ReleasedText {
    guarded: GuardedText,
    /// Released and not sent yet.
    ready: String,
    /// Number of characters sent.
    delivered: u64,
}

impl ReleasedText {
    pub(crate) fn new(inspector: Box<dyn AnswerInspector>) -> Self {
        Self { guarded: GuardedText::new(inspector), ready: String::new(), delivered: 0 }
    }

    /// Takes a piece of the model's text, and returns what it releases.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let released = self.guarded.take(piece);
        self.ready += &released;
        released
    }

    /// Ends the text, which releases or blocks the rest.
    pub(crate) fn end(&mut self) -> String {
        let released = self.guarded.end();
        self.ready += &released;
        released
    }

    /// The rule that blocks the rest.
    pub(crate) fn blocked_by(&self) -> Option<&str> {
        self.guarded.blocked_by()
    }

    /// The released text that was not sent yet. It counts as sent.
    pub(crate) fn take(&mut self) -> Option<String> {
        if self.ready.is_empty() {
            return None;
        }
        self.delivered = self.delivered.saturating_add(self.ready.chars().count() as u64);
        Some(std::mem::take(&mut self.ready))
    }

    /// Whether any text was sent or is about to be.
    pub(crate) fn has_any(&self) -> bool {
        self.delivered > 0 || !self.ready.is_empty()
    }

    /// Number of characters sent.
    pub(crate) const fn delivered(&self) -> u64 {
        self.delivered
    }
}

impl<R: Runtime> ChatStream<R> {
    pub(crate) fn new(
        runtime: &R,
        stream: Box<ReplyStream<R>>,
        inspector: Box<dyn AnswerInspector>,
        finalizer: Box<ChatFinalizer<R>>,
    ) -> Self {
        Self {
            runtime: runtime.clone(),
            stream,
            text: ReleasedText::new(inspector),
            finalizer,
            end: None,
            replacement: VecDeque::new(),
            is_ended: false,
        }
    }

    /// The next event; `None` after the end.
    pub async fn event(&mut self) -> Option<ChatReplyEvent> {
        poll_fn(|context| self.poll_event(context)).await
    }

    /// Like [`event`](Self::event), for a polled body.
    pub fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<ChatReplyEvent>> {
        loop {
            self.take_ready_events();
            if let Some(event) = self.next_ready() {
                return Poll::Ready(Some(event));
            }
            // After the end, the target's connection is still read to its end, so that it can be reused.
            match ready!(self.stream.poll_event(context)) {
                Some(event) => self.handle(event),
                None => return Poll::Ready(self.next_ready()),
            }
        }
    }

    /// See [`ReplyStream::check_deadline`].
    pub fn check_deadline(&mut self) {
        self.stream.check_deadline();
        self.take_ready_events();
    }

    /// See [`ReplyStream::end_for_stalled_client`].
    pub fn end_for_stalled_client(&mut self) {
        self.stream.end_for_stalled_client();
        self.take_ready_events();
    }

    /// See [`ReplyStream::end_for_shutdown`].
    pub fn end_for_shutdown(&mut self) {
        self.stream.end_for_shutdown();
        self.take_ready_events();
    }

    /// An event that can be sent: text first, then the end.
    fn next_ready(&mut self) -> Option<ChatReplyEvent> {
        if let Some(text) = self.text.take() {
            return Some(ChatReplyEvent::Text(text));
        }
        let event = self.replacement.pop_front().or_else(|| self.end.take())?;
        Some(match event {
            // Its text has been sent by now.
            ChatReplyEvent::Interrupted(interruption) => {
                let delivered = self.text.delivered();
                ChatReplyEvent::Interrupted(ChatInterruption { delivered, ..interruption })
            }
            event => event,
        })
    }

    /// Handles what the pipeline has ready, and the end of the answer.
    fn take_ready_events(&mut self) {
        while !self.is_ended {
            match self.stream.take_ready() {
                Some(event) => self.handle(event),
                None if self.stream.is_finished() => self.finish(),
                None => return,
            }
        }
    }

    fn handle(&mut self, event: ReplyEvent) {
        if self.is_ended {
            return;
        }
        match event {
            ReplyEvent::Chat(ChatEvent::Text(piece)) => {
                self.finalizer.push_text(&self.text.push(&piece));
                if self.text.blocked_by().is_some() {
                    self.filter();
                }
            }
            ReplyEvent::Interrupted(interruption) => {
                self.interrupt(interruption.kind, ChatText::Interrupted);
            }
            // Thinking is not shown, and this assistant offers no tools. Usage and end are the stream's.
            ReplyEvent::Chat(_) | ReplyEvent::Opaque(_) => {}
        }
    }

    /// Ends a complete answer.
    fn finish(&mut self) {
        self.finalizer.push_text(&self.text.end());
        if self.text.blocked_by().is_some() {
            return self.filter();
        }
        let (finish, usage, cost) = (self.stream.finish_reason(), self.stream.usage(), self.stream.cost());
        self.finalizer.finish(&self.runtime, finish, usage, cost);
        if finish.0 == Some(FinishReason::Refusal) {
            return self.decline();
        }
        self.is_ended = true;
        self.end = Some(ChatReplyEvent::Done(Box::new(self.finalizer.reply.clone())));
    }

    /// Ends an answer that its vendor ended with a refusal. The target is healthy and has reported its usage. If part of
    /// the answer was sent, the client must discard it.
    fn decline(&mut self) {
        if self.text.has_any() {
            return self.filter();
        }
        self.stream.end_filtered(Some(Rung::Apology));
        self.is_ended = true;
        self.replacement.extend(self.finalizer.declined_reply().into_events());
    }

    /// Ends an answer whose rest must not be sent.
    fn filter(&mut self) {
        self.stream.end_filtered(None);
        self.interrupt(FailureKind::Filtered, ChatText::Redirect);
    }

    fn interrupt(&mut self, kind: FailureKind, text: ChatText) {
        self.is_ended = true;
        self.finalizer.fail();
        let message = text.in_language(self.finalizer.language);
        let reason = InterruptReason::of_failure(kind);
        let interruption = ChatInterruption { reason, message, delivered: 0, retry_after: None };
        self.end = Some(ChatReplyEvent::Interrupted(interruption));
    }
}
