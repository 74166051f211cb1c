//! The sixth stage: hands the answer on, frame by frame, as it arrives.
//!
//! Frames pass through as the vendor wrote them. A stream that breaks off ends with an error event of the caller's
//! dialect, so that nobody takes it for complete. Dropped, it closes the way upstream, and what was delivered is
//! settled.

use crate::answer::{Begun, read_frame};
use crate::attempt::Attempt;
use crate::settle::{Closing, Verdict};
use bytes::{Bytes, BytesMut};
use seawall_core::deadline::Deadline;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::handle::Runtime;
use seawall_core::time::Timestamp;
use seawall_provider::Frames;
use seawall_wire::Refusal;
use seawall_wire::anthropic::{AnthropicStream, ErrorReply, write_error_event};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

const INTERRUPTED: &str = "the model's answer broke off; what came before is not complete";

/// How long to wait for the end behind a whole answer. Vendors send it right behind; a new connection would cost more
/// than this wait, and a caller has its answer already.
const END_LIMIT: Duration = Duration::from_millis(100);

/// A streamed answer on its way to the caller.
pub struct ReplyStream<R: Runtime> {
    runtime: R,
    held: VecDeque<Bytes>,
    /// Nothing more comes once this is gone.
    frames: Option<Box<dyn Frames>>,
    /// Whether the answer is whole, so that only its end is to come.
    finished: bool,
    reader: AnthropicStream,
    attempt: Attempt<R>,
    patience: Patience,
    /// Until when to wait for the next frame; set when waiting begins.
    waits_until: Option<Timestamp>,
    gap_timer: Option<GapTimer>,
    /// Declared last and so dropped last: by then the attempt has added its cost.
    closing: Closing<R>,
}

/// A timer that outlives the gap it was set for: a stream of events sets about one per gap's length, not one per event.
struct GapTimer {
    at: Timestamp,
    sleep: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// How long a stream may take and how long it may be silent.
pub(crate) struct Patience {
    pub(crate) deadline: Deadline,
    pub(crate) gap: Duration,
}

impl<R: Runtime> ReplyStream<R> {
    pub(crate) fn new(
        runtime: &R,
        begun: Begun,
        attempt: Attempt<R>,
        patience: Patience,
        closing: Closing<R>,
    ) -> Self {
        let Begun { held, frames, finished, reader } = begun;
        let mut stream = Self {
            runtime: runtime.clone(),
            held: held.into(),
            frames: Some(frames),
            finished: false,
            reader,
            attempt,
            patience,
            waits_until: None,
            gap_timer: None,
            closing,
        };
        if finished {
            stream.finish();
        }
        stream
    }

    /// The next frame; nothing once the answer has ended, as it should or with an error event.
    pub async fn frame(&mut self) -> Option<Bytes> {
        poll_fn(|context| self.poll_frame(context)).await
    }

    /// The same, for a body that is polled.
    pub fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(held) = self.held.pop_front() {
            return Poll::Ready(Some(held));
        }
        let Some(frames) = self.frames.as_mut() else { return Poll::Ready(None) };
        let next = match frames.poll_frame(context) {
            Poll::Ready(next) => next,
            Poll::Pending => return self.poll_gap(context),
        };
        if self.finished {
            // The end, as it should be. Anything else behind a whole answer is nobody's business any more.
            self.frames = None;
            return Poll::Ready(None);
        }
        self.waits_until = None;
        let frame = match next {
            None => return Poll::Ready(Some(self.interrupt(Failure::of(FailureKind::BrokeMidStream)))),
            Some(Err(failure)) => return Poll::Ready(Some(self.interrupt(failure))),
            Some(Ok(frame)) => frame,
        };
        match read_frame(&mut self.reader, &frame, &mut self.attempt) {
            Ok(false) => {}
            Ok(true) => self.finish(),
            // The vendor's own error event is in the frame: it is handed on as it is.
            Err(failure) => {
                self.attempt.fail(&failure);
                self.frames = None;
                self.close(Verdict::Interrupted(failure.kind));
            }
        }
        Poll::Ready(Some(frame))
    }

    /// Nothing has come: waits no longer than the gap allows. A timer is set up only when there is something to wait
    /// for; one that rings for an earlier gap is set anew.
    fn poll_gap(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let (runtime, deadline) = (&self.runtime, self.patience.deadline);
        let gap = if self.finished { END_LIMIT } else { self.patience.gap };
        let until =
            *self.waits_until.get_or_insert_with(|| deadline.within(runtime.monotonic(), gap).moment());
        loop {
            match &mut self.gap_timer {
                Some(timer) if timer.at <= until => {
                    ready!(timer.sleep.as_mut().poll(context));
                    let is_due = timer.at == until;
                    self.gap_timer = None;
                    if is_due && self.finished {
                        self.frames = None;
                        return Poll::Ready(None);
                    }
                    if is_due {
                        return Poll::Ready(Some(self.interrupt(Failure::of(FailureKind::TimedOut))));
                    }
                }
                _ => {
                    let sleep = Box::pin(self.runtime.sleep_until(until));
                    self.gap_timer = Some(GapTimer { at: until, sleep });
                }
            }
        }
    }

    /// The answer is whole, and over: its end is waited for only because then the connection can be used again.
    fn finish(&mut self) {
        self.finished = true;
        self.close(Verdict::Answered);
        self.closing.ended = Some(self.runtime.monotonic());
    }

    /// Ends a stream that broke off with words that say so.
    fn interrupt(&mut self, failure: Failure) -> Bytes {
        self.attempt.fail(&failure);
        self.frames = None;
        self.close(Verdict::Interrupted(failure.kind));
        let refusal =
            if failure.kind == FailureKind::TimedOut { Refusal::TimedOut } else { Refusal::Overloaded };
        let mut event = BytesMut::new();
        write_error_event(&mut event, &ErrorReply::new(refusal, INTERRUPTED, None));
        event.freeze()
    }

    fn close(&mut self, verdict: Verdict) {
        self.closing.record.verdict = verdict;
    }
}

impl<R: Runtime> Drop for ReplyStream<R> {
    fn drop(&mut self) {
        // Upstream first: what is cut here and now is not produced any more. Then, by their order, the attempt settles and
        // the end is told.
        self.frames = None;
        self.closing.record.usage = self.attempt.usage;
    }
}
