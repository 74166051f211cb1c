//! Converts a streamed answer to the caller's dialect as it arrives.

use super::refusal::interruption;
use super::voice::Voice;
use super::watch::Watch;
use super::{Occasion, SpokenRequest};
use crate::chat::ChatReply;
use crate::guardrail::AnswerWatch;
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::tokens::OutputMeter;
use seawall_provider::{TargetDialect, redacted};
use seawall_wire::chat::{FinishReason, StreamEvent, Usage, UsageReport};
use std::time::Duration;

/// How a target's stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The target marked the answer as complete, and the caller received that.
    Complete,
    /// The answer is incomplete. [`SpokenStream::interrupt`] reports it to the caller.
    Cut,
}

/// A stream between a target and a caller.
///
/// Feed it the target's bytes until [`is_finished`](Self::is_finished); if the target closes the stream before, call
/// [`end`](Self::end). If either fails, or the pipeline gives up, send the event that [`interrupt`](Self::interrupt)
/// returns and nothing after it. A complete answer of the chat face ends with [`complete`](Self::complete).
#[derive(Debug)]
pub struct SpokenStream {
    /// The caller's dialect; `None` for the chat face.
    face: Option<TargetDialect>,
    watch: Watch,
    voice: Voice,
    took: Duration,
    received: u64,
    /// Whether the gateway ended it because it exceeded its output limit.
    is_stopped: bool,
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
        is_told: bool,
    },
}

impl SpokenStream {
    /// Starts a stream.
    #[must_use]
    pub fn new(request: &SpokenRequest, target: TargetDialect, occasion: &Occasion<'_>) -> Self {
        Self {
            face: request.face().dialect(),
            watch: Watch::new(target, request.opaque_answers().is_some()),
            voice: Voice::new(request, target, occasion),
            took: occasion.took,
            received: 0,
            is_stopped: false,
            state: State::Running,
        }
    }

    /// Adds a guardrail, which decides what text the caller gets. Only the chat face supports this: at any other face,
    /// which forwards bytes without inspecting them, the stream fails at once. Must be called before the first `feed`.
    #[must_use]
    pub fn with_watch(mut self, watch: Box<dyn AnswerWatch>) -> Self {
        match self.voice.chat_mut() {
            Some(chat) => chat.watch_with(watch),
            None => self.state = blocked(),
        }
        self
    }

    /// Sets the elapsed time, which two dialects report at the end.
    pub const fn set_took(&mut self, took: Duration) {
        self.took = took;
    }

    /// Takes a piece of the target's stream. `into` receives the bytes for the caller, always complete events; `events`
    /// receives their meaning. An error ends the stream: the target reported a failure, or cannot be parsed. Anything
    /// after a complete answer is ignored.
    pub fn feed(
        &mut self,
        frame: &Bytes,
        into: &mut impl FnMut(Bytes),
        events: &mut impl FnMut(StreamEvent),
    ) -> Result<(), Failure> {
        match self.state {
            State::Running => {}
            State::Finished => return Ok(()),
            State::Failed { failure, .. } => return Err(failure),
        }
        self.received = self.received.saturating_add(frame.len() as u64);
        let mut out = BytesMut::new();
        let is_translated = self.voice.translate(frame, self.took, &mut out).is_ok();
        let (mut state, mut names_credential) = (State::Running, false);
        let is_watched = self.watch.feed(frame, |event| {
            match &event {
                _ if state != State::Running => return,
                // If the caller did not receive everything, the answer is not complete.
                StreamEvent::Finished if !is_translated || self.voice.blocks_end() => return,
                StreamEvent::Finished => state = State::Finished,
                StreamEvent::Failed { failure, message } => {
                    names_credential = redacted(message).is_some();
                    let is_told = is_translated && !names_credential && self.voice.told_failure();
                    state = State::Failed { failure: *failure, is_told };
                }
                StreamEvent::Started(_)
                | StreamEvent::Content
                | StreamEvent::Thinking
                | StreamEvent::Progress { .. }
                | StreamEvent::Other => {}
            }
            events(event);
        });
        let is_broken = state == State::Running && !(is_translated && is_watched.is_ok());
        if names_credential {
            // The vendor's message contains a credential; the caller gets the gateway's own message.
        } else if is_broken || self.voice.pass_on(frame, &self.watch, into).is_err() {
            // Nothing of the frame is forwarded: an end marker after unreadable data does not count.
            state = unreadable();
        } else if !out.is_empty() {
            into(out.freeze());
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
    pub fn end(&mut self, into: &mut impl FnMut(Bytes), events: &mut impl FnMut(StreamEvent)) -> Ending {
        if self.state == State::Running && self.watch.is_complete() {
            // One dialect reports usage last, and may be cut before it.
            let mut out = BytesMut::new();
            self.voice.end(self.took, &mut out);
            let is_blocked = self.voice.blocks_end();
            if let Some(chat) = self.voice.chat_mut() {
                chat.tell(into);
            }
            if is_blocked {
                self.state = blocked();
                return Ending::Cut;
            }
            if !out.is_empty() {
                into(out.freeze());
            }
            self.state = State::Finished;
            events(StreamEvent::Finished);
        }
        if self.state == State::Finished { Ending::Complete } else { Ending::Cut }
    }

    /// Ends a stream that exceeded its output limit as its vendor should have: the caller receives a regular end with
    /// that reason. `last` is the last frame fed, and `tokens` the number of output tokens, as far as known.
    pub fn stop_at_limit(&mut self, last: &[u8], tokens: u64, into: &mut impl FnMut(Bytes)) {
        if self.state != State::Running {
            return;
        }
        let is_blocked = self.voice.blocks_end();
        if let Some(chat) = self.voice.chat_mut() {
            chat.tell(into);
        }
        if is_blocked {
            self.state = blocked();
            return;
        }
        let mut out = BytesMut::new();
        let usage = Usage { output: tokens, ..self.usage() };
        self.voice.end_at_limit(&self.watch, last, usage, self.took, &mut out);
        if !out.is_empty() {
            into(out.freeze());
        }
        (self.state, self.is_stopped) = (State::Finished, true);
    }

    /// Whether the caller uses the chat protocol, which does not carry thinking.
    #[must_use]
    pub const fn is_chat(&self) -> bool {
        self.face.is_none()
    }

    /// Whether the gateway ended it because it exceeded its output limit.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Bytes received of an incomplete event.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.watch.unfinished()
    }

    /// The metered output so far.
    #[must_use]
    pub const fn meter(&mut self) -> &mut OutputMeter {
        self.watch.meter()
    }

    /// The event that ends an incomplete stream, in the caller's dialect. Empty if the answer is complete or the caller
    /// was already informed.
    pub fn interrupt(&mut self, kind: FailureKind, words: &str) -> Bytes {
        self.interrupt_until(kind, words, None)
    }

    /// The same with a retry hint, which only the chat face can carry inside a stream.
    pub fn interrupt_until(
        &mut self,
        kind: FailureKind,
        words: &str,
        retry_after: Option<Duration>,
    ) -> Bytes {
        let failure = match self.state {
            State::Finished | State::Failed { is_told: true, .. } => return Bytes::new(),
            State::Failed { failure, .. } => failure,
            State::Running => Failure::of(kind),
        };
        self.state = State::Failed { failure, is_told: true };
        match self.voice.chat() {
            Some(chat) => chat.interruption(kind, words, retry_after),
            None => self.face.map_or_else(Bytes::new, |face| interruption(face, kind, words)),
        }
    }

    /// The final event of a complete answer at the chat face. Empty if the answer is not complete, if the event was
    /// already sent, and for other faces, whose streams contain their own end.
    pub fn complete(&mut self, reply: &ChatReply) -> Bytes {
        match self.voice.chat_mut() {
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
    pub fn decline(&mut self, words: &str, reply: &ChatReply) -> Bytes {
        match self.voice.chat_mut() {
            Some(chat) if self.state == State::Finished && chat.has_told() => chat.declined(words),
            Some(chat) if self.state == State::Finished => chat.replaced(reply),
            _ => Bytes::new(),
        }
    }

    /// Whether any text was sent to a caller of the chat face.
    #[must_use]
    pub fn has_told(&self) -> bool {
        self.voice.chat().is_some_and(|chat| chat.has_told())
    }

    /// The text sent since the last call; always empty for other faces than chat.
    pub fn take_text(&mut self) -> String {
        self.voice.chat_mut().map(|chat| std::mem::take(&mut chat.told)).unwrap_or_default()
    }

    /// The rule that blocked the answer. The target is not at fault.
    #[must_use]
    pub fn blocked_by(&self) -> Option<&str> {
        self.voice.chat().and_then(|chat| chat.blocked_by())
    }

    /// Whether the answer is complete.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.state == State::Finished
    }

    /// The usage that the target has reported so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.watch.usage()
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
        self.watch.report()
    }

    /// The finish reason, once known.
    #[must_use]
    pub const fn finish(&self) -> Option<FinishReason> {
        if self.is_stopped {
            return Some(FinishReason::MaxTokens);
        }
        self.watch.finish()
    }

    /// Bytes received. An answer has at most as many tokens.
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }
}

const fn blocked() -> State {
    State::Failed { failure: Failure::of(FailureKind::Filtered), is_told: false }
}

const fn unreadable() -> State {
    State::Failed { failure: Failure::of(FailureKind::Unrecognised), is_told: false }
}
