//! Converts a streamed answer to the caller's dialect as it arrives.

use super::converter::StreamConverter;
use super::{AnswerDefaults, DialectRequest};
use crate::chat::ChatReply;
use crate::guardrail::AnswerInspector;
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::tokens::OutputMeter;
use seawall_provider::redact;
use seawall_wire::chat::{FinishReason, StreamEvent, Usage, UsageReport};
use seawall_wire::dialect::DialectId;
use seawall_wire::dialect::{StreamEndMarker, StreamMonitor};
use std::time::Duration;

/// How a target's stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialectStreamEnd {
    /// The target marked the answer as complete, and the caller received that.
    Complete,
    /// The answer is incomplete. [`DialectStream::interrupt`] reports it to the caller.
    Interrupted,
}

/// A stream between a target and a caller.
///
/// Feed it the target's bytes until [`is_finished`](Self::is_finished); if the target closes the stream before, call
/// [`end`](Self::end). If either fails, or the pipeline gives up, send the event that [`interrupt`](Self::interrupt)
/// returns and nothing after it. A complete answer of the chat face ends with [`complete`](Self::complete).
#[derive(Debug)]
pub struct DialectStream {
    /// The caller's dialect; `None` for the chat face.
    caller_dialect: Option<DialectId>,
    monitor: Box<dyn StreamMonitor>,
    converter: StreamConverter,
    /// Whether the caller wants the usage.
    wants_usage: bool,
    elapsed: Duration,
    received: u64,
    /// Whether the gateway ended it because it exceeded its output limit.
    is_cut_at_limit: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Running,
    /// The answer is complete.
    Finished,
    /// The answer will never be complete.
    Failed {
        failure: Failure,
        /// Whether the caller was informed.
        is_reported: bool,
    },
}

impl DialectStream {
    /// Starts a stream.
    #[must_use]
    pub fn new(request: &DialectRequest, target: DialectId, defaults: &AnswerDefaults<'_>) -> Self {
        Self {
            caller_dialect: request.face().dialect(),
            monitor: target.monitor_stream(request.opaque_answers().is_some()),
            converter: StreamConverter::new(request, target, defaults),
            wants_usage: request.wants_usage(),
            elapsed: defaults.elapsed,
            received: 0,
            is_cut_at_limit: false,
            state: State::Running,
        }
    }

    /// Adds a guardrail, which decides what text the caller gets. Only the chat face supports this: at any other face,
    /// which forwards bytes without inspecting them, the stream fails at once. Must be called before the first `feed`.
    #[must_use]
    pub fn with_inspector(mut self, inspector: Box<dyn AnswerInspector>) -> Self {
        match self.converter.chat_mut() {
            Some(chat) => chat.set_inspector(inspector),
            None => self.state = blocked(),
        }
        self
    }

    /// Sets the elapsed time, which two dialects report at the end.
    pub const fn set_elapsed(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
    }

    /// Takes a piece of the target's stream. `into` receives the bytes for the caller, always complete events; `events`
    /// receives their meaning. An error ends the stream: the target reported a failure, or cannot be parsed. Anything
    /// after a complete answer is ignored.
    pub fn feed(
        &mut self,
        chunk: &Bytes,
        into: &mut impl FnMut(Bytes),
        events: &mut impl FnMut(StreamEvent),
    ) -> Result<(), Failure> {
        match self.state {
            State::Running => {}
            State::Finished => return Ok(()),
            State::Failed { failure, .. } => return Err(failure),
        }
        self.received = self.received.saturating_add(chunk.len() as u64);
        let mut out = BytesMut::new();
        let is_translated = self.converter.translate(chunk, self.elapsed, &mut out).is_ok();
        let (mut state, mut names_credential) = (State::Running, false);
        let is_monitored = self.monitor.feed(chunk, &mut |event| {
            match &event {
                _ if state != State::Running => return,
                // If the caller did not receive everything, the answer is not complete.
                StreamEvent::Finished if !is_translated || self.converter.blocks_at_end() => return,
                StreamEvent::Finished => state = State::Finished,
                StreamEvent::Failed { failure, message } => {
                    names_credential = redact(message).is_some();
                    let is_reported =
                        is_translated && !names_credential && self.converter.forwarded_failure();
                    state = State::Failed { failure: *failure, is_reported };
                }
                StreamEvent::Started(_)
                | StreamEvent::Content
                | StreamEvent::Thinking
                | StreamEvent::Progress { .. }
                | StreamEvent::Other => {}
            }
            events(event);
        });
        let is_broken = state == State::Running && !(is_translated && is_monitored.is_ok());
        if names_credential {
            // The vendor's message contains a credential; the caller gets the gateway's own message.
        } else if is_broken || self.converter.forward(chunk, &*self.monitor, into).is_err() {
            // Nothing of the chunk is forwarded: an end marker after unreadable data does not count.
            state = unreadable();
        } else if !out.is_empty() {
            into(out.freeze());
        }
        if state == State::Running
            && let Some(failure) = self.converter.parsed_failure()
        {
            state = State::Failed { failure, is_reported: self.converter.forwarded_failure() };
        }
        if state == State::Running && self.blocked_by().is_some() {
            state = blocked();
        }
        self.state = state;
        match state {
            State::Failed { failure, .. } => Err(failure),
            State::Running | State::Finished => Ok(()),
        }
    }

    /// Handles the end of the target's stream.
    pub fn end(
        &mut self,
        into: &mut impl FnMut(Bytes),
        events: &mut impl FnMut(StreamEvent),
    ) -> DialectStreamEnd {
        if self.state == State::Running && self.monitor.is_complete() {
            // One dialect reports usage last, and may be cut before it.
            let mut out = BytesMut::new();
            self.converter.end(self.elapsed, &mut out);
            let is_blocked = self.converter.blocks_at_end();
            if let Some(chat) = self.converter.chat_mut() {
                chat.flush(into);
            }
            if is_blocked {
                self.state = blocked();
                return DialectStreamEnd::Interrupted;
            }
            if !out.is_empty() {
                into(out.freeze());
            }
            self.state = State::Finished;
            events(StreamEvent::Finished);
        }
        if self.state == State::Finished { DialectStreamEnd::Complete } else { DialectStreamEnd::Interrupted }
    }

    /// Ends a stream that exceeded its output limit as its vendor should have: the caller receives a regular end with
    /// that reason. `last` is the last chunk fed, and `tokens` the number of output tokens, as far as known.
    pub fn cut_at_limit(&mut self, last: &[u8], tokens: u64, into: &mut impl FnMut(Bytes)) {
        if self.state != State::Running {
            return;
        }
        let is_blocked = self.converter.blocks_at_end();
        if let Some(chat) = self.converter.chat_mut() {
            chat.flush(into);
        }
        if is_blocked {
            self.state = blocked();
            return;
        }
        let mut out = BytesMut::new();
        let usage = Usage { output: tokens, ..self.usage() };
        let end = StreamEndMarker { last, usage, wants_usage: self.wants_usage, elapsed: self.elapsed };
        self.converter.end_at_limit(&*self.monitor, &end, &mut out);
        if !out.is_empty() {
            into(out.freeze());
        }
        (self.state, self.is_cut_at_limit) = (State::Finished, true);
    }

    /// Whether the caller uses the chat protocol, which does not carry thinking.
    #[must_use]
    pub const fn is_chat(&self) -> bool {
        self.caller_dialect.is_none()
    }

    /// Whether the gateway ended it because it exceeded its output limit.
    #[must_use]
    pub const fn is_cut_at_limit(&self) -> bool {
        self.is_cut_at_limit
    }

    /// Bytes received of an incomplete event.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.monitor.unfinished()
    }

    /// The metered output so far.
    #[must_use]
    pub fn meter(&mut self) -> &mut OutputMeter {
        self.monitor.meter()
    }

    /// The event that ends an incomplete stream, in the caller's dialect. Empty if the answer is complete or the caller
    /// was already informed.
    pub fn interrupt(&mut self, kind: FailureKind, message: &str) -> Bytes {
        self.interrupt_until(kind, message, None)
    }

    /// The same with a Retry-After, which only the chat face can carry inside a stream.
    pub fn interrupt_until(
        &mut self,
        kind: FailureKind,
        message: &str,
        retry_after: Option<Duration>,
    ) -> Bytes {
        let failure = match self.state {
            State::Finished | State::Failed { is_reported: true, .. } => return Bytes::new(),
            State::Failed { failure, .. } => failure,
            State::Running => Failure::of(kind),
        };
        self.state = State::Failed { failure, is_reported: true };
        if let Some(chat) = self.converter.chat() {
            return chat.interruption(kind, message, retry_after);
        }
        let own = self.converter.write_interruption(&*self.monitor, kind, message);
        own.or_else(|| Some(self.caller_dialect?.write_interruption(kind, message))).unwrap_or_default()
    }

    /// The final event of a complete answer at the chat face. Empty if the answer is not complete, if the event was
    /// already sent, and for other faces, whose streams contain their own end.
    pub fn complete(&mut self, reply: &ChatReply) -> Bytes {
        match self.converter.chat_mut() {
            Some(chat) if self.state == State::Finished => chat.complete(reply),
            _ => Bytes::new(),
        }
    }

    /// Whether the target, or a guardrail of its vendor, declined to answer.
    #[must_use]
    pub fn is_declined(&self) -> bool {
        matches!(self.finish(), Some(FinishReason::Refusal))
    }

    /// Ends a declined answer at the chat face. If part of it was sent, it is interrupted with this text, as by a
    /// guardrail of the gateway; otherwise this reply replaces it. Empty for other faces, which forward the target's
    /// response.
    pub fn decline(&mut self, message: &str, reply: &ChatReply) -> Bytes {
        match self.converter.chat_mut() {
            Some(chat) if self.state == State::Finished && chat.has_sent_text() => {
                chat.declined_event(message)
            }
            Some(chat) if self.state == State::Finished => chat.replacement_events(reply),
            _ => Bytes::new(),
        }
    }

    /// Whether any text was sent to a caller of the chat face.
    #[must_use]
    pub fn has_sent_text(&self) -> bool {
        self.converter.chat().is_some_and(|chat| chat.has_sent_text())
    }

    /// The text sent since the last call; always empty for other faces than chat.
    pub fn take_text(&mut self) -> String {
        self.converter.chat_mut().map(|chat| std::mem::take(&mut chat.sent_text)).unwrap_or_default()
    }

    /// The rule that blocked the answer. The target is not at fault.
    #[must_use]
    pub fn blocked_by(&self) -> Option<&str> {
        self.converter.chat().and_then(|chat| chat.blocked_by())
    }

    /// Whether the answer is complete.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.state == State::Finished
    }

    /// The usage that the target has reported so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.monitor.report().usage
    }

    /// The usage that the attempt can be settled with. `None` before the answer is complete, and if the target reported
    /// no usage: every request has input.
    #[must_use]
    pub fn final_usage(&self) -> Option<Usage> {
        Some(self.usage()).filter(|usage| self.is_finished() && usage.total_input() > 0)
    }

    /// The usage that the target has reported so far, and whether it includes the output.
    #[must_use]
    pub fn report(&self) -> UsageReport {
        self.monitor.report()
    }

    /// The finish reason, once known.
    #[must_use]
    pub fn finish(&self) -> Option<FinishReason> {
        if self.is_cut_at_limit {
            return Some(FinishReason::MaxTokens);
        }
        self.monitor.finish_reason()
    }

    /// Bytes received. An answer has at most as many tokens.
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }
}

const fn blocked() -> State {
    State::Failed { failure: Failure::of(FailureKind::Filtered), is_reported: false }
}

const fn unreadable() -> State {
    State::Failed { failure: Failure::of(FailureKind::Unrecognised), is_reported: false }
}
