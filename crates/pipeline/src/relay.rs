//! Sixth stage: forwards the answer to the caller chunk by chunk as it arrives.
//!
//! If caller and target speak the same dialect, chunks pass through unchanged. A stream that breaks off ends with an
//! error event in the caller's dialect, so that it cannot be mistaken for a complete answer. Dropping the stream closes
//! the upstream connection and settles what was delivered.

use crate::answer::{ChatFinalizer, StartedStream, read_chunk};
use crate::attempt::Attempt;
use crate::chat::ChatText;
use crate::dialect::DialectStream;
use crate::record::{RequestInterruption, RequestOutcome};
use crate::settle::RequestCompletion;
use bytes::Bytes;
use seawall_core::deadline::Deadline;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::runtime::Runtime;
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Rung;
use seawall_provider::ChunkStream;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

const INTERRUPTED: &str = "the model's response ended early; the answer is incomplete";
const STALLED: &str = "the client stopped reading the stream (server.send_timeout); the answer is incomplete";
const SHUTTING_DOWN: &str = "the gateway is shutting down; the answer is incomplete";

/// How long to wait for the end of the response after a complete answer. Vendors send it right away; the wait costs
/// less than a new connection, and the caller already has its answer.
const END_TIMEOUT: Duration = Duration::from_millis(100);

/// Number of immediately ready chunks to forward before checking the clock and yielding to other tasks of the thread.
const MAX_READY_CHUNKS: u32 = 16;

/// A streamed answer on its way to the caller.
pub struct ReplyStream<R: Runtime> {
    runtime: R,
    /// Bytes that are ready to be sent.
    ready: VecDeque<Bytes>,
    /// The upstream response; `None` once it has ended.
    chunks: Option<Box<dyn ChunkStream>>,
    stream: DialectStream,
    /// Vendor headers that report the service tier.
    headers: Vec<(&'static str, String)>,
    attempt: Box<Attempt<R>>,
    timeouts: StreamTimeouts,
    /// The chat face's final event, and the bookkeeping for it.
    finalizer: Option<Box<ChatFinalizer<R>>>,
    /// When to stop waiting for the next chunk; set when the wait begins.
    waits_until: Option<Timestamp>,
    idle_timer: Option<IdleTimer>,
    /// Ready chunks forwarded since the clock was last checked.
    ready_chunks: u32,
    /// Declared last, so that it is dropped last: by then the attempt has added its cost.
    completion: RequestCompletion<R>,
}

/// A timer that is reused: a stream sets about one timer per idle timeout, not one per event.
struct IdleTimer {
    at: Timestamp,
    sleep: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// The deadline of a stream and the maximum pause between its chunks.
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
        let StartedStream { buffered, chunks, stream } = started;
        let headers = chunks.report().map(|report| report.headers.clone()).unwrap_or_default();
        let mut stream = Self {
            runtime: runtime.clone(),
            ready: buffered,
            chunks: Some(chunks),
            stream,
            headers,
            attempt,
            timeouts,
            finalizer,
            waits_until: None,
            idle_timer: None,
            ready_chunks: 0,
            completion,
        };
        stream.collect_text();
        if stream.stream.is_finished() {
            stream.finish();
        }
        stream
    }

    /// Vendor headers that report the service tier. They belong to InvokeModel and are sent to its callers only.
    #[must_use]
    pub fn headers(&self) -> &[(&'static str, String)] {
        &self.headers
    }

    /// The next chunk; `None` once the answer has ended, properly or with an error event.
    pub async fn chunk(&mut self) -> Option<Bytes> {
        poll_fn(|context| self.poll_chunk(context)).await
    }

    /// Like [`chunk`](Self::chunk), for a polled body.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Poll::Ready(Some(ready));
            }
            let Some(chunks) = self.chunks.as_mut() else { return Poll::Ready(None) };
            match chunks.poll_chunk(context) {
                Poll::Ready(next) => {
                    self.handle_chunk(next);
                    self.ready_chunks += 1;
                    if self.ready_chunks >= MAX_READY_CHUNKS {
                        self.check_deadline();
                        if self.ready.is_empty() && self.chunks.is_some() {
                            context.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                    }
                }
                Poll::Pending => ready!(self.poll_idle(context)),
            }
        }
    }

    /// Checks the deadline of the stream. A stream whose chunks are always ready never waits on the timer, and one that
    /// is not read is not polled at all. The owner of the stream therefore calls this periodically. After the deadline
    /// the stream releases what it holds; a caller that reads on gets the bytes that are ready, and then an error
    /// event.
    pub fn check_deadline(&mut self) {
        self.ready_chunks = 0;
        if self.chunks.is_none() || !self.timeouts.deadline.has_passed(self.runtime.monotonic()) {
            return;
        }
        if self.stream.is_finished() {
            self.chunks = None;
        } else {
            // More data was available, so the target is not at fault. Otherwise a slow reader could open its breaker.
            self.give_up(RequestInterruption::Deadline, FailureKind::TimedOut, INTERRUPTED);
        }
    }

    /// Ends a stream that the client has stopped reading, and releases what it holds.
    pub fn end_for_stalled_client(&mut self) {
        if self.chunks.is_some() && !self.stream.is_finished() {
            self.give_up(RequestInterruption::ClientStalled, FailureKind::TimedOut, STALLED);
        }
        self.chunks = None;
    }

    /// Ends the stream with an error event because of shutdown; bytes that are ready are sent first. Does nothing if
    /// the answer has already ended.
    pub fn end_for_shutdown(&mut self) {
        if self.chunks.is_some() && !self.stream.is_finished() {
            self.give_up(RequestInterruption::ShuttingDown, FailureKind::StreamInterrupted, SHUTTING_DOWN);
        }
    }

    fn handle_chunk(&mut self, next: Option<Result<Bytes, Failure>>) {
        if self.stream.is_finished() {
            // The expected end of the response. Anything else that follows a complete answer is ignored.
            self.chunks = None;
            return;
        }
        self.waits_until = None;
        // Two dialects report the duration in their last event. Reading the clock for each chunk would be too
        // expensive, and the last chunk is not known before it is parsed.
        let read = read_chunk(&mut self.stream, next, &mut self.attempt, &mut self.ready);
        self.collect_text();
        match read {
            Ok(()) if self.stream.is_finished() => self.finish(),
            Ok(()) => {}
            Err(failure) => self.interrupt(failure, INTERRUPTED),
        }
    }

    /// Waits for the next chunk, at most for the idle timeout. A timer is created only when there is something to wait
    /// for; one that fires for an earlier wait is set again.
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
                        self.chunks = None;
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
            let cost = self.completion.progress.cost();
            let reply = finalizer.finish(&self.runtime, end, self.attempt.usage, cost);
            if self.stream.is_declined() {
                return self.decline();
            }
            self.ready.push_back(self.stream.complete(reply));
        }
        if self.stream.is_cut_at_limit() {
            // The answer exceeded its limit; stop reading a target that continues to send.
            self.chunks = None;
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
            record.outcome = RequestOutcome::Interrupted(RequestInterruption::Failed(FailureKind::Filtered));
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
        self.chunks = None;
        // The target is not at fault for a guardrail of the gateway.
        if is_blocked {
            self.attempt.block();
        } else {
            self.attempt.fail(&failure);
        }
        self.end_with_error(RequestInterruption::Failed(failure.kind), failure.kind, message);
    }

    /// Like `interrupt`, but without blaming the target. `kind` is what the caller's error event reports.
    fn give_up(&mut self, reason: RequestInterruption, kind: FailureKind, message: &'static str) {
        self.chunks = None;
        self.attempt.abandon();
        self.end_with_error(reason, kind, message);
    }

    fn end_with_error(&mut self, reason: RequestInterruption, kind: FailureKind, message: &'static str) {
        let is_blocked = self.stream.blocked_by().is_some();
        let message = match &mut self.finalizer {
            Some(finalizer) => {
                finalizer.fail();
                let text = if is_blocked { ChatText::Redirect } else { ChatText::Interrupted };
                text.in_language(finalizer.language)
            }
            None => message,
        };
        self.completion.record.outcome = RequestOutcome::Interrupted(reason);
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
        self.chunks = None;
        self.completion.record.usage = self.attempt.usage;
    }
}
