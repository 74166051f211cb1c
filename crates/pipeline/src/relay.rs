//! The sixth stage: hands the answer on, frame by frame, as it arrives.
//!
//! Where caller and target speak alike, frames pass through as the vendor wrote them. A stream that breaks off ends with
//! an error event of the caller's dialect, so that nobody takes it for complete. Dropped, it closes the way upstream, and
//! what was delivered is settled.

use crate::answer::{Begun, Telling, read_frame};
use crate::attempt::Attempt;
use crate::chat::ChatText;
use crate::settle::{Closing, Verdict};
use crate::speech::SpokenStream;
use bytes::Bytes;
use seawall_core::deadline::Deadline;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::handle::Runtime;
use seawall_core::time::Timestamp;
use seawall_provider::Frames;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

const INTERRUPTED: &str = "the model's answer broke off; what came before is not complete";
const UNREAD: &str = "nobody read the answer for too long; what came before is not complete";
const STOPPING: &str = "the gateway is being restarted; what came before is not complete";

/// How long to wait for the end behind a whole answer. Vendors send it right behind; a new connection would cost more
/// than this wait, and a caller has its answer already.
const END_LIMIT: Duration = Duration::from_millis(100);

/// So many frames that were ready pass before somebody looks at the clock, or lets others on the same thread have a turn.
const MOST_AT_ONCE: u32 = 16;

/// A streamed answer on its way to the caller.
pub struct ReplyStream<R: Runtime> {
    runtime: R,
    /// What is ready to be sent.
    ready: VecDeque<Bytes>,
    /// Nothing more comes once this is gone.
    frames: Option<Box<dyn Frames>>,
    stream: SpokenStream,
    attempt: Box<Attempt<R>>,
    patience: Patience,
    /// What our own face says at the end.
    telling: Option<Box<Telling<R>>>,
    /// Until when to wait for the next frame; set when waiting begins.
    waits_until: Option<Timestamp>,
    gap_timer: Option<GapTimer>,
    /// Frames that were ready since the clock was looked at.
    at_once: u32,
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
    pub(crate) received: Timestamp,
    pub(crate) deadline: Deadline,
    pub(crate) gap: Duration,
}

impl<R: Runtime> ReplyStream<R> {
    pub(crate) fn new(
        runtime: &R,
        begun: Begun,
        attempt: Box<Attempt<R>>,
        patience: Patience,
        telling: Option<Box<Telling<R>>>,
        closing: Closing<R>,
    ) -> Self {
        let Begun { held, frames, stream } = begun;
        let mut stream = Self {
            runtime: runtime.clone(),
            ready: held,
            frames: Some(frames),
            stream,
            attempt,
            patience,
            telling,
            waits_until: None,
            gap_timer: None,
            at_once: 0,
            closing,
        };
        stream.hear();
        if stream.stream.is_finished() {
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
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Poll::Ready(Some(ready));
            }
            let Some(frames) = self.frames.as_mut() else { return Poll::Ready(None) };
            match frames.poll_frame(context) {
                Poll::Ready(next) => {
                    self.take(next);
                    self.at_once += 1;
                    if self.at_once >= MOST_AT_ONCE {
                        self.look();
                        if self.ready.is_empty() && self.frames.is_some() {
                            context.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                    }
                }
                Poll::Pending => ready!(self.poll_gap(context)),
            }
        }
    }

    /// A stream that always has more, or whose reader is slower than it, never waits, and one that is not read is not even
    /// asked: whoever keeps one looks now and then, so that it ends when its time is over. What it held is given back then.
    /// Whoever reads on gets what is ready, and is told that no more will come.
    pub fn look(&mut self) {
        self.at_once = 0;
        if self.frames.is_none() || !self.patience.deadline.has_passed(self.runtime.monotonic()) {
            return;
        }
        if self.stream.is_finished() {
            self.frames = None;
        } else {
            // There was more to read: the target is not to blame, or who does not read could have it left alone.
            self.give_up(FailureKind::TimedOut, INTERRUPTED);
        }
    }

    /// Gives up a stream that nobody has read for too long, and gives back what it held.
    pub fn abandon(&mut self) {
        if self.frames.is_some() && !self.stream.is_finished() {
            self.give_up(FailureKind::TimedOut, UNREAD);
        }
        self.frames = None;
    }

    /// Says that no more will come, and why. What is ready goes out before it. Nothing changes where the answer has ended.
    pub fn stop(&mut self) {
        if self.frames.is_some() && !self.stream.is_finished() {
            self.give_up(FailureKind::BrokeMidStream, STOPPING);
        }
    }

    fn take(&mut self, next: Option<Result<Bytes, Failure>>) {
        if self.stream.is_finished() {
            // The end, as it should be. Anything else behind a whole answer is nobody's business any more.
            self.frames = None;
            return;
        }
        self.waits_until = None;
        // Two dialects tell at their end how long it took. Looking at the clock for each frame is not worth it, and the last
        // frame is not known before it was read.
        let read = read_frame(&mut self.stream, next, &mut self.attempt, &mut self.ready);
        self.hear();
        match read {
            Ok(()) if self.stream.is_finished() => self.finish(),
            Ok(()) => {}
            Err(failure) => self.interrupt(failure, INTERRUPTED),
        }
    }

    /// Nothing has come: waits no longer than the gap allows. A timer is set up only when there is something to wait
    /// for; one that rings for an earlier gap is set anew.
    fn poll_gap(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (runtime, deadline, finished) =
            (&self.runtime, self.patience.deadline, self.stream.is_finished());
        let gap = if finished { END_LIMIT } else { self.patience.gap };
        let until =
            *self.waits_until.get_or_insert_with(|| deadline.within(runtime.monotonic(), gap).moment());
        loop {
            match &mut self.gap_timer {
                Some(timer) if timer.at <= until => {
                    ready!(timer.sleep.as_mut().poll(context));
                    let is_due = timer.at == until;
                    self.gap_timer = None;
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
                    self.gap_timer = Some(GapTimer { at: until, sleep });
                }
            }
        }
    }

    /// The answer is whole, and over: its end is waited for only because then the connection can be used again.
    fn finish(&mut self) {
        if let Some(telling) = &mut self.telling {
            let end = (self.stream.finish(), self.stream.is_stopped());
            let cost = self.closing.tally.cost();
            let reply = telling.finish(&self.runtime, end, self.attempt.usage, cost);
            self.ready.push_back(self.stream.complete(reply));
        }
        if self.stream.is_stopped() {
            // Whoever talks on is not listened to.
            self.frames = None;
        }
        self.closing.record.verdict = Verdict::Answered;
        self.closing.ended = Some(self.runtime.monotonic());
    }

    /// Notes what our own face has said.
    fn hear(&mut self) {
        if let Some(telling) = &mut self.telling {
            telling.add(&self.stream.take_text());
        }
    }

    /// Ends a stream that broke off with words that say so, unless the vendor's own have.
    fn interrupt(&mut self, failure: Failure, words: &'static str) {
        let is_blocked = self.stream.blocked_by().is_some();
        // Upstream first: the attempt gives its place back.
        self.frames = None;
        // A guardrail of ours is no fault of the target's.
        if is_blocked {
            self.attempt.block();
        } else {
            self.attempt.fail(&failure);
        }
        self.break_off(failure.kind, words);
    }

    /// The same, for no fault of the target's.
    fn give_up(&mut self, kind: FailureKind, words: &'static str) {
        self.frames = None;
        self.attempt.abandon();
        self.break_off(kind, words);
    }

    fn break_off(&mut self, kind: FailureKind, words: &'static str) {
        let is_blocked = self.stream.blocked_by().is_some();
        let words = match &mut self.telling {
            Some(telling) => {
                telling.fail();
                let text = if is_blocked { ChatText::Redirect } else { ChatText::BrokeOff };
                text.words(telling.ask_language)
            }
            None => words,
        };
        self.closing.record.verdict = Verdict::Interrupted(kind);
        self.stream.set_took(self.runtime.monotonic() - self.patience.received);
        let event = self.stream.interrupt(kind, words);
        if !event.is_empty() {
            self.ready.push_back(event);
        }
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
