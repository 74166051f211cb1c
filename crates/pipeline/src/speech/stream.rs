//! A streamed answer, brought back in the caller's words as it arrives.

use super::refusal::interruption;
use super::voice::Voice;
use super::watch::Watch;
use super::{Occasion, SpokenRequest};
use crate::chat::ChatReply;
use crate::guardrail::AnswerWatch;
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::tokens::OutputMeter;
use seawall_provider::TargetDialect;
use seawall_wire::chat::{FinishReason, StreamEvent, Usage, UsageReport};
use std::time::Duration;

/// How a target's stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The target had said that the answer is complete, and so was the caller told.
    Complete,
    /// Something is missing. The caller is told by [`SpokenStream::interrupt`].
    Cut,
}

/// A stream between a target and a caller.
///
/// Feed it what the target sends until [`is_finished`](Self::is_finished); when the target ends before, ask for its
/// [`end`](Self::end). When either fails, and whenever the path itself gives up, what [`interrupt`](Self::interrupt) gives is
/// the last thing to send. A complete answer of our own face ends with [`complete`](Self::complete).
#[derive(Debug)]
pub struct SpokenStream {
    /// What the caller speaks, unless that is our own.
    face: Option<TargetDialect>,
    watch: Watch,
    voice: Voice,
    took: Duration,
    received: u64,
    /// Whether it was ended because it had passed its limit.
    is_stopped: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Running,
    /// The answer is complete.
    Finished,
    /// It will never be.
    Failed {
        failure: Failure,
        /// Whether the caller knows.
        is_told: bool,
    },
}

impl SpokenStream {
    /// A stream of which nothing has arrived.
    #[must_use]
    pub fn new(request: &SpokenRequest, target: TargetDialect, occasion: &Occasion<'_>) -> Self {
        Self {
            face: request.face().dialect(),
            watch: Watch::new(target),
            voice: Voice::new(request, target, occasion),
            took: occasion.took,
            received: 0,
            is_stopped: false,
            state: State::Running,
        }
    }

    /// The same stream, of whose text the caller gets what the watch releases. Only our own face can be watched: a stream of
    /// another, which hands on bytes that nobody has looked into, fails at once. To be called before anything is fed.
    #[must_use]
    pub fn with_watch(mut self, watch: Box<dyn AnswerWatch>) -> Self {
        match self.voice.chat_mut() {
            Some(chat) => chat.watch_with(watch),
            None => self.state = blocked(),
        }
        self
    }

    /// How long the answer takes by now. Two dialects tell that at their end.
    pub const fn set_took(&mut self, took: Duration) {
        self.took = took;
    }

    /// Takes a piece of the target's stream. `into` gets what the caller is to be sent, always whole events; `events` gets
    /// what it means. A failure ends the stream: the target told one, or cannot be understood. What comes behind a complete
    /// answer is not looked at.
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
        let mut state = State::Running;
        let is_watched = self.watch.feed(frame, |event| {
            match &event {
                _ if state != State::Running => return,
                // Whoever was not told everything was not told a complete answer.
                StreamEvent::Finished if !is_translated || self.voice.blocks_end() => return,
                StreamEvent::Finished => state = State::Finished,
                StreamEvent::Failed { failure, .. } => {
                    let is_told = is_translated && self.voice.told_failure();
                    state = State::Failed { failure: *failure, is_told };
                }
                StreamEvent::Started(_)
                | StreamEvent::Content
                | StreamEvent::Progress { .. }
                | StreamEvent::Other => {}
            }
            events(event);
        });
        let is_broken = state == State::Running && !(is_translated && is_watched.is_ok());
        if is_broken || self.voice.pass_on(frame, &self.watch, into).is_err() {
            // Nothing of the frame is told: an end that stands behind what cannot be read is none.
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

    /// The target has ended its stream.
    pub fn end(&mut self, into: &mut impl FnMut(Bytes), events: &mut impl FnMut(StreamEvent)) -> Ending {
        if self.state == State::Running && self.watch.is_complete() {
            // One dialect tells its usage last, and may not come to it.
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

    /// Ends a stream that has passed its limit of output, as its vendor should have: the caller gets a proper end that says
    /// so. `last` is the frame that was fed last, and `tokens` how many tokens of output there are, as far as is known.
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

    /// Whether it was ended because it had passed its limit.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// How many bytes have come of an event whose end has not.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.watch.unfinished()
    }

    /// What has arrived of the answer.
    #[must_use]
    pub const fn meter(&self) -> &OutputMeter {
        self.watch.meter()
    }

    /// Ends a stream that will not be completed, in the caller's words. Nothing where the answer is complete, or the caller
    /// knows already.
    pub fn interrupt(&mut self, kind: FailureKind, words: &str) -> Bytes {
        self.interrupt_until(kind, words, None)
    }

    /// The same, with when to come back. Only our own face has a word for that inside a stream.
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

    /// Ends a complete answer of our own face. Nothing where it is not complete, where its end was told, and for any other
    /// face: those have told it.
    pub fn complete(&mut self, reply: &ChatReply) -> Bytes {
        match self.voice.chat_mut() {
            Some(chat) if self.state == State::Finished => chat.complete(reply),
            _ => Bytes::new(),
        }
    }

    /// The text that the caller was sent since this was asked last; nothing but for our own face.
    pub fn take_text(&mut self) -> String {
        self.voice.chat_mut().map(|chat| std::mem::take(&mut chat.told)).unwrap_or_default()
    }

    /// The rule that has blocked the answer. The model did nothing wrong by that.
    #[must_use]
    pub fn blocked_by(&self) -> Option<&str> {
        self.voice.chat().and_then(|chat| chat.blocked_by())
    }

    /// Whether the answer is complete.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.state == State::Finished
    }

    /// The answer's usage as far as the target has told it.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.watch.usage()
    }

    /// The usage that an account can be closed with. Nothing before the answer is complete, and nothing where the target never
    /// told what it used: no request is without input.
    #[must_use]
    pub fn final_usage(&self) -> Option<Usage> {
        Some(self.usage()).filter(|usage| self.is_finished() && usage.total_input() > 0)
    }

    /// What the target has told of the answer's use so far, and whether it told how much output there was.
    #[must_use]
    pub fn report(&self) -> UsageReport {
        self.watch.report()
    }

    /// Why the model stopped, once it has.
    #[must_use]
    pub const fn finish(&self) -> Option<FinishReason> {
        if self.is_stopped {
            return Some(FinishReason::MaxTokens);
        }
        self.watch.finish()
    }

    /// How many bytes have arrived. An answer has at most as many tokens.
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
