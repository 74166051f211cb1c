//! Sixth stage: forwards the answer to the caller frame by frame as it arrives.
//!
//! If caller and target speak the same dialect, frames pass through unchanged. A stream that breaks off ends with an
//! error event in the caller's dialect, so that it cannot be mistaken for a complete answer. Dropping the stream closes
//! the upstream connection and settles what was delivered.

use crate::answer::{ChatFinalizer, StartedStream, read_frame};
use crate::attempt::Attempt;
use crate::chat::ChatText;
use crate::dialect::DialectStream;
use crate::settle::{RequestCompletion, RequestOutcome};
use bytes::Bytes;
use seawall_core::deadline::Deadline;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::runtime::Runtime;
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Rung;
use seawall_provider::FrameStream;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

const INTERRUPTED: &str = "the model's response ended early; the answer is incomplete";
const STALLED: &str = "the client did not read the stream for too long; the answer is incomplete";
const SHUTTING_DOWN: &str = "the gateway is shutting down; the answer is incomplete";

/// How long to wait for the end of the response after a complete answer. Vendors send it right away; the wait costs
/// less than a new connection, and the caller already has its answer.
const END_TIMEOUT: Duration = Duration::from_millis(100);

/// Number of immediately ready frames to forward before checking the clock and yielding to other tasks of the thread.
const MAX_READY_FRAMES: u32 = 16;

/// A streamed answer on its way to the caller.
pub struct ReplyStream<R: Runtime> {
    runtime: R,
    /// Bytes that are ready to be sent.
    ready: VecDeque<Bytes>,
    /// The upstream response; `None` once it has ended.
    frames: Option<Box<dyn FrameStream>>,
    stream: DialectStream,
    /// Vendor headers that report the service level.
    headers: Vec<(&'static str, String)>,
    attempt: Box<Attempt<R>>,
    timeouts: StreamTimeouts,
    /// The chat face's final event, and the bookkeeping for it.
    finalizer: Option<Box<ChatFinalizer<R>>>,
    /// When to stop waiting for the next frame; set when the wait begins.
    waits_until: Option<Timestamp>,
    idle_timer: Option<IdleTimer>,
    /// Ready frames forwarded since the clock was last checked.
    ready_frames: u32,
    /// Declared last, so that it is dropped last: by then the attempt has added its cost.
    completion: RequestCompletion<R>,
}

/// A timer that is reused across gaps: a stream sets about one timer per gap duration, not one per event.
struct IdleTimer {
    at: Timestamp,
    sleep: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// The deadline of a stream and the maximum pause between its frames.
pub(crate) struct StreamTimeouts {
    pub(crate) received: Timestamp,
    pub(crate) deadline: Deadline,
    pub(crate) idle_timeout: Duration,
}

impl<R: Runtime> ReplyStream<R> {
    pub(crate) fn new(
        runtime: &R,
        started: StartedStream,
        attempt: Box<Attempt<R>>,
        timeouts: StreamTimeouts,
        finalizer: Option<Box<ChatFinalizer<R>>>,
        completion: RequestCompletion<R>,
    ) -> Self {
        let StartedStream { buffered, frames, stream } = started;
        let headers = frames.report().map(|report| report.headers.clone()).unwrap_or_default();
        let mut stream = Self {
            runtime: runtime.clone(),
            ready: buffered,
            frames: Some(frames),
            stream,
            headers,
            attempt,
            timeouts,
            finalizer,
            waits_until: None,
            idle_timer: None,
            ready_frames: 0,
            completion,
        };
        stream.collect_text();
        if stream.stream.is_finished() {
            stream.finish();
        }
        stream
    }

    /// Vendor headers that report the service level. They belong to InvokeModel and are sent to its callers only.
    #[must_use]
    pub fn headers(&self) -> &[(&'static str, String)] {
        &self.headers
    }

    /// The next frame; `None` once the answer has ended, properly or with an error event.
    pub async fn frame(&mut self) -> Option<Bytes> {
        poll_fn(|context| self.poll_frame(context)).await
    }

    /// Like [`frame`](Self::frame), for a polled body.
    pub fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Poll::Ready(Some(ready));
            }
            let Some(frames) = self.frames.as_mut() else { return Poll::Ready(None) };
            match frames.poll_frame(context) {
                Poll::Ready(next) => {
                    self.handle_frame(next);
                    self.ready_frames += 1;
                    if self.ready_frames >= MAX_READY_FRAMES {
                        self.check_deadline();
                        if self.ready.is_empty() && self.frames.is_some() {
                            context.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                    }
                }
                Poll::Pending => ready!(self.poll_idle(context)),
            }
        }
    }

    /// Checks the deadline of the stream. A stream whose frames are always ready never waits on the timer, and one that
    /// is not read is not polled at all. The owner of the stream therefore calls this periodically. After the deadline
    /// the stream releases what it holds; a caller that reads on gets the bytes that are ready, and then an error
    /// event.
    pub fn check_deadline(&mut self) {
        self.ready_frames = 0;
        if self.frames.is_none() || !self.timeouts.deadline.has_passed(self.runtime.monotonic()) {
            return;
        }
        if self.stream.is_finished() {
            self.frames = None;
        } else {
            // More data was available, so the target is not at fault. Otherwise a slow reader could open its breaker.
            self.give_up(FailureKind::TimedOut, INTERRUPTED);
        }
    }

    /// Gives up a stream that the caller has not read for too long, and releases what it holds.
    pub fn abandon(&mut self) {
        if self.frames.is_some() && !self.stream.is_finished() {
            self.give_up(FailureKind::TimedOut, STALLED);
        }
        self.frames = None;
    }

    /// Ends the stream with an error event because of shutdown; bytes that are ready are sent first. Does nothing if
    /// the answer has already ended.
    pub fn end_for_shutdown(&mut self) {
        if self.frames.is_some() && !self.stream.is_finished() {
            self.give_up(FailureKind::StreamInterrupted, SHUTTING_DOWN);
        }
    }

    fn handle_frame(&mut self, next: Option<Result<Bytes, Failure>>) {
        if self.stream.is_finished() {
            // The expected end of the response. Anything else that follows a complete answer is ignored.
            self.frames = None;
            return;
        }
        self.waits_until = None;
        // Two dialects report the duration in their last event. Reading the clock for each frame would be too
        // expensive, and the last frame is not known before it is parsed.
        let read = read_frame(&mut self.stream, next, &mut self.attempt, &mut self.ready);
        self.collect_text();
        match read {
            Ok(()) if self.stream.is_finished() => self.finish(),
            Ok(()) => {}
            Err(failure) => self.interrupt(failure, INTERRUPTED),
        }
    }

    /// Waits for the next frame, at most for the gap. A timer is created only when there is something to wait for; one
    /// that fires for an earlier gap is set again.
    fn poll_idle(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (runtime, deadline, finished) =
            (&self.runtime, self.timeouts.deadline, self.stream.is_finished());
        let wait = if finished { END_TIMEOUT } else { self.timeouts.idle_timeout };
        let until =
            *self.waits_until.get_or_insert_with(|| deadline.within(runtime.monotonic(), wait).moment());
        loop {
            match &mut self.idle_timer {
                Some(timer) if timer.at <= until => {
                    ready!(timer.sleep.as_mut().poll(context));
                    let is_due = timer.at == until;
                    self.idle_timer = None;
                    if is_due && finished {
                        self.frames = None;
                        return Poll::Ready(());
                    }
                    if is_due {
                        self.interrupt(Failure::of(FailureKind::TimedOut), INTERRUPTED);
                        return Poll::Ready(());
                    }
                }
                _ => {
                    let sleep = Box::pin(self.runtime.sleep_until(until));
                    self.idle_timer = Some(IdleTimer { at: until, sleep });
                }
            }
        }
    }

    /// Ends a complete answer. The end of the upstream response is still awaited, so that the connection can be reused.
    fn finish(&mut self) {
        if let Some(finalizer) = &mut self.finalizer {
            let end = (self.stream.finish(), self.stream.is_cut_at_limit());
            let cost = self.completion.totals.cost();
            let reply = finalizer.finish(&self.runtime, end, self.attempt.usage, cost);
            if self.stream.is_declined() {
                return self.decline();
            }
            self.ready.push_back(self.stream.complete(reply));
        }
        if self.stream.is_cut_at_limit() {
            // The answer exceeded its limit; stop reading a target that continues to send.
            self.frames = None;
        }
        self.completion.record.outcome = RequestOutcome::Answered;
        self.completion.ended = Some(self.runtime.monotonic());
    }

    /// Ends a chat answer that its vendor ended with a refusal. The target is healthy and has reported its usage; the
    /// client must discard the text it has received so far.
    fn decline(&mut self) {
        let Some(finalizer) = &mut self.finalizer else { return };
        let was_sent = self.stream.has_sent_text();
        let (message, reply) = finalizer.decline();
        self.ready.push_back(self.stream.decline(message, reply));
        let record = &mut self.completion.record;
        if was_sent {
            record.outcome = RequestOutcome::Interrupted(FailureKind::Filtered);
        } else {
            (record.outcome, record.rung, record.target) =
                (RequestOutcome::Answered, Some(Rung::Apology), None);
        }
        self.completion.ended = Some(self.runtime.monotonic());
    }

    /// Collects the text that the chat face has sent.
    fn collect_text(&mut self) {
        if let Some(finalizer) = &mut self.finalizer {
            finalizer.push_text(&self.stream.take_text());
        }
    }

    /// Ends a broken stream with an error event, unless the vendor has already sent one.
    fn interrupt(&mut self, failure: Failure, message: &'static str) {
        let is_blocked = self.stream.blocked_by().is_some();
        // Close the upstream response first: after that the attempt releases its slot.
        self.frames = None;
        // The target is not at fault for a guardrail of the gateway.
        if is_blocked {
            self.attempt.block();
        } else {
            self.attempt.fail(&failure);
        }
        self.end_with_error(failure.kind, message);
    }

    /// Like `interrupt`, but without blaming the target.
    fn give_up(&mut self, kind: FailureKind, message: &'static str) {
        self.frames = None;
        self.attempt.abandon();
        self.end_with_error(kind, message);
    }

    fn end_with_error(&mut self, kind: FailureKind, message: &'static str) {
        let is_blocked = self.stream.blocked_by().is_some();
        let message = match &mut self.finalizer {
            Some(finalizer) => {
                finalizer.fail();
                let text = if is_blocked { ChatText::Redirect } else { ChatText::Interrupted };
                text.in_language(finalizer.language)
            }
            None => message,
        };
        self.completion.record.outcome = RequestOutcome::Interrupted(kind);
        self.stream.set_elapsed(self.runtime.monotonic() - self.timeouts.received);
        let event = self.stream.interrupt(kind, message);
        if !event.is_empty() {
            self.ready.push_back(event);
        }
    }
}

impl<R: Runtime> Drop for ReplyStream<R> {
    fn drop(&mut self) {
        // Close the upstream response first, so that generation stops. Then, in field order, the attempt settles and
        // the request is recorded.
        self.frames = None;
        self.completion.record.usage = self.attempt.usage;
    }
}
