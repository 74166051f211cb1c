//! Sixth stage: forwards the answer to the caller event by event as it arrives.
//!
//! If caller and target speak the same dialect, the bytes of events pass through unchanged. A stream that breaks off ends
//! with an interruption, so that it cannot be mistaken for a complete answer. Dropping the stream closes the upstream
//! connection and settles what was delivered.

use crate::answer::{StartedStream, read_chunk};
use crate::attempt::Attempt;
use crate::dialect::DialectStream;
use crate::record::{RequestInterruption, RequestOutcome};
use crate::settle::RequestCompletion;
use bytes::Bytes;
use seawall_core::deadline::Deadline;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::money::Money;
use seawall_core::runtime::Runtime;
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Rung;
use seawall_provider::ChunkStream;
use seawall_wire::chat::{FinishReason, Usage};
use seawall_wire::reply::{ReplyEncoder, ReplyEvent};
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
    /// Events that are ready to be sent.
    ready: VecDeque<ReplyEvent>,
    /// The upstream response; `None` once it has ended.
    chunks: Option<Box<dyn ChunkStream>>,
    stream: DialectStream,
    /// Vendor headers that report the service tier.
    headers: Vec<(&'static str, String)>,
    attempt: Box<Attempt<R>>,
    timeouts: StreamTimeouts,
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
            waits_until: None,
            idle_timer: None,
            ready_chunks: 0,
            completion,
        };
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

    /// The encoder for the caller's dialect; `None` if the caller reads the events itself.
    #[must_use]
    pub fn encoder(&self) -> Option<ReplyEncoder> {
        self.stream.encoder()
    }

    /// The next event; `None` once the answer has ended, properly or with an interruption.
    pub async fn event(&mut self) -> Option<ReplyEvent> {
        poll_fn(|context| self.poll_event(context)).await
    }

    /// An event that is ready, without waiting for more.
    pub fn take_ready(&mut self) -> Option<ReplyEvent> {
        self.ready.pop_front()
    }

    /// Like [`event`](Self::event), for a polled body.
    pub fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<ReplyEvent>> {
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
    /// the stream releases what it holds; a caller that reads on gets the events that are ready, and then an
    /// interruption.
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

    /// Interrupts the stream because of shutdown; events that are ready are sent first. Does nothing if the answer has
    /// already ended.
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
        if self.stream.is_cut_at_limit() {
            // The answer exceeded its limit; stop reading a target that continues to send.
            self.chunks = None;
        }
        self.completion.record.set_answered();
        self.completion.ended = Some(self.runtime.monotonic());
    }

    /// Whether the target has completed its answer. Events of it may still be ready.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.stream.is_finished()
    }

    /// The time since the request was received.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.runtime.monotonic() - self.timeouts.received
    }

    /// Why the model stopped, once known, and whether the gateway stopped it because it exceeded its reservation.
    #[must_use]
    pub fn finish_reason(&self) -> (Option<FinishReason>, bool) {
        (self.stream.finish(), self.stream.is_cut_at_limit())
    }

    /// The usage of the answer, as far as known.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.attempt.usage
    }

    /// The cost of the request so far.
    #[must_use]
    pub fn cost(&self) -> Money {
        self.completion.progress.cost()
    }

    /// Ends the answer because the owner of the stream does not deliver the rest. The target is not at fault and is
    /// owed for what it sent. `replaced_by` is the rung that answers instead; without one the answer was interrupted.
    pub fn end_filtered(&mut self, replaced_by: Option<Rung>) {
        // Close the upstream response first: after that the attempt releases its slot.
        self.chunks = None;
        self.ready.clear();
        if !self.stream.is_finished() {
            self.attempt.block();
            // The owner reports the end itself.
            let _ = self.stream.interrupt(FailureKind::Filtered, INTERRUPTED);
        }
        let record = &mut self.completion.record;
        match replaced_by {
            Some(rung) => {
                (record.rung, record.target, record.model) = (Some(rung), None, None);
                record.set_answered();
            }
            None => {
                let reason = RequestInterruption::Failed(FailureKind::Filtered);
                record.outcome = RequestOutcome::Interrupted(reason);
            }
        }
        self.completion.ended = Some(self.runtime.monotonic());
    }

    /// Interrupts a broken stream, unless the vendor has already reported its failure to the caller.
    fn interrupt(&mut self, failure: Failure, message: &'static str) {
        // Close the upstream response first: after that the attempt releases its slot.
        self.chunks = None;
        self.attempt.fail(&failure);
        self.end_with_error(RequestInterruption::Failed(failure.kind), failure.kind, message);
    }

    /// Like `interrupt`, but without blaming the target. `kind` is what the caller is told.
    fn give_up(&mut self, reason: RequestInterruption, kind: FailureKind, message: &'static str) {
        self.chunks = None;
        self.attempt.abandon();
        self.end_with_error(reason, kind, message);
    }

    fn end_with_error(&mut self, reason: RequestInterruption, kind: FailureKind, message: &'static str) {
        self.completion.record.outcome = RequestOutcome::Interrupted(reason);
        self.stream.set_elapsed(self.runtime.monotonic() - self.timeouts.received);
        self.ready.extend(self.stream.interrupt(kind, message));
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
