//! Converts a streamed answer to events for the caller as it arrives.

use super::converter::StreamConverter;
use super::{AnswerDefaults, DialectRequest};
use bytes::Bytes;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::tokens::OutputMeter;
use seawall_provider::redact;
use seawall_wire::chat::{FinishReason, StreamEvent, Usage, UsageReport};
use seawall_wire::dialect::{DialectId, StreamEndMarker, StreamMonitor};
use seawall_wire::reply::{ReplyEncoder, ReplyEvent, ReplyInterruption};
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
/// returns and nothing after it. The events are written by the stream's [`encoder`](Self::encoder).
#[derive(Debug)]
pub struct DialectStream {
    /// Whether the caller reads the events itself, without a dialect.
    is_typed: bool,
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
            is_typed: request.face().dialect().is_none(),
            monitor: target.monitor_stream(request.opaque_answers().is_some()),
            converter: StreamConverter::new(request, target, defaults),
            wants_usage: request.wants_usage(),
            elapsed: defaults.elapsed,
            received: 0,
            is_cut_at_limit: false,
            state: State::Running,
        }
    }

    /// The encoder for the caller's dialect; `None` if the caller reads the events itself.
    #[must_use]
    pub fn encoder(&self) -> Option<ReplyEncoder> {
        self.converter.encoder()
    }

    /// Sets the elapsed time, which two dialects report at the end.
    pub const fn set_elapsed(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
    }

    /// Takes a piece of the target's stream. `into` receives the events for the caller, which are complete even where
    /// they are bytes; `events` receives what decisions need to know of them. An error ends the stream: the target reported a failure, or cannot be parsed. Anything
    /// after a complete answer is ignored.
    pub fn feed(
        &mut self,
        chunk: &Bytes,
        into: &mut impl FnMut(ReplyEvent),
        events: &mut impl FnMut(StreamEvent),
    ) -> Result<(), Failure> {
        match self.state {
            State::Running => {}
            State::Finished => return Ok(()),
            State::Failed { failure, .. } => return Err(failure),
        }
        self.received = self.received.saturating_add(chunk.len() as u64);
        let is_converted = self.converter.convert(chunk, self.elapsed).is_ok();
        let (mut state, mut names_credential) = (State::Running, false);
        let is_monitored = self.monitor.feed(chunk, &mut |event| {
            match &event {
                _ if state != State::Running => return,
                // If the caller did not receive everything, the answer is not complete.
                StreamEvent::Finished if !is_converted => return,
                StreamEvent::Finished => state = State::Finished,
                StreamEvent::Failed { failure, message } => {
                    names_credential = redact(message).is_some();
                    let is_reported = is_converted && !names_credential && self.converter.forwarded_failure();
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
        let is_broken = state == State::Running && !(is_converted && is_monitored.is_ok());
        if names_credential {
            // The vendor's message contains a credential; the caller gets the gateway's own message.
        } else if is_broken || self.converter.forward(chunk, &*self.monitor, into).is_err() {
            // Nothing of the chunk is forwarded: an end marker after unreadable data does not count.
            state = unreadable();
        }
        if state == State::Running
            && let Some(failure) = self.converter.parsed_failure()
        {
            state = State::Failed { failure, is_reported: self.converter.forwarded_failure() };
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
        into: &mut impl FnMut(ReplyEvent),
        events: &mut impl FnMut(StreamEvent),
    ) -> DialectStreamEnd {
        if self.state == State::Running && self.monitor.is_complete() {
            // One dialect reports usage last, and may be cut before it.
            self.converter.end(into);
            self.state = State::Finished;
            events(StreamEvent::Finished);
        }
        if self.state == State::Finished { DialectStreamEnd::Complete } else { DialectStreamEnd::Interrupted }
    }

    /// Ends a stream that exceeded its output limit as its vendor should have: the caller receives a regular end with
    /// that reason. `last` is the last chunk fed, and `tokens` the number of output tokens, as far as known.
    pub fn cut_at_limit(&mut self, last: &[u8], tokens: u64, into: &mut impl FnMut(ReplyEvent)) {
        if self.state != State::Running {
            return;
        }
        let usage = Usage { output: tokens, ..self.usage() };
        let end = StreamEndMarker { last, usage, wants_usage: self.wants_usage, elapsed: self.elapsed };
        self.converter.end_at_limit(&*self.monitor, &end, into);
        (self.state, self.is_cut_at_limit) = (State::Finished, true);
    }

    /// Whether the caller reads the events itself. It does not show the model's thinking.
    #[must_use]
    pub const fn is_typed(&self) -> bool {
        self.is_typed
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

    /// The event that ends an incomplete stream. `None` if the answer is complete or the caller was already informed.
    pub fn interrupt(&mut self, kind: FailureKind, message: &'static str) -> Option<ReplyEvent> {
        let failure = match self.state {
            State::Finished | State::Failed { is_reported: true, .. } => return None,
            State::Failed { failure, .. } => failure,
            State::Running => Failure::of(kind),
        };
        self.state = State::Failed { failure, is_reported: true };
        // Of a stream that passes through, only the monitor knows what the last event may have to refer to.
        let referring =
            self.converter.is_pass_through().then(|| self.monitor.write_interruption(kind, message));
        Some(match referring.flatten() {
            Some(bytes) => ReplyEvent::Opaque(bytes),
            None => ReplyEvent::Interrupted(ReplyInterruption { kind, message }),
        })
    }

    /// Whether the target, or a guardrail of its vendor, declined to answer.
    #[must_use]
    pub fn is_declined(&self) -> bool {
        matches!(self.finish(), Some(FinishReason::Refusal))
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

const fn unreadable() -> State {
    State::Failed { failure: Failure::of(FailureKind::Unrecognised), is_reported: false }
}
