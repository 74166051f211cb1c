//! The sixth stage: hands the answer on, frame by frame, as it arrives.
//!
//! Events pass through as the vendor wrote them, each when its end is there: what breaks off inside of one would swallow
//! the word on it. A stream that breaks off ends with an error event of the caller's dialect, so that nobody takes it for
//! complete. Dropped, it closes the way upstream, and what was delivered is
//! settled.

use crate::answer::{Begun, LastFrame, read_frame};
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
use seawall_wire::sse::whole_length;
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
    events: WholeEvents,
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

/// Holds the beginning of an event back until its end is there.
#[derive(Default)]
struct WholeEvents(BytesMut);

impl WholeEvents {
    /// What may be handed on now. Nearly always it is the frame: vendors send whole events.
    fn pass(&mut self, mut frame: Bytes) -> Option<Bytes> {
        let whole = whole_length(&self.0, &frame);
        if whole > 0 && whole == frame.len() {
            return Some(self.with(frame));
        }
        let begun = frame.split_off(whole);
        let passed = (whole > 0).then(|| self.with(frame));
        self.0.extend_from_slice(&begun);
        passed
    }

    /// What was held back, and this behind it.
    fn with(&mut self, frame: Bytes) -> Bytes {
        if self.0.is_empty() {
            return frame;
        }
        self.0.extend_from_slice(&frame);
        self.0.split().freeze()
    }
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
        let mut events = WholeEvents::default();
        let mut held: VecDeque<Bytes> = held.into_iter().filter_map(|frame| events.pass(frame)).collect();
        if finished {
            held.extend(Some(events.with(Bytes::new())).filter(|rest| !rest.is_empty()));
        }
        let mut stream = Self {
            runtime: runtime.clone(),
            held,
            events,
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
        loop {
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
            if let Some(passed) = self.take(frame) {
                return Poll::Ready(Some(passed));
            }
        }
    }

    /// Reads a frame, and hands on what has come to its end with it.
    fn take(&mut self, frame: Bytes) -> Option<Bytes> {
        match read_frame(&mut self.reader, &frame, &mut self.attempt) {
            Ok(false) => return self.events.pass(frame),
            Ok(true) => self.finish(),
            // What nobody can read says nothing to a caller, either.
            Err(LastFrame { failure, is_told: false }) => return Some(self.interrupt(failure)),
            // The vendor's own error event is in the frame: it is handed on as it is.
            Err(LastFrame { failure, is_told: true }) => {
                self.attempt.fail(&failure);
                self.frames = None;
                self.close(Verdict::Interrupted(failure.kind));
            }
        }
        Some(self.events.with(frame))
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

#[cfg(test)]
mod tests {
    use super::WholeEvents;
    use bytes::Bytes;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    #[test]
    fn a_frame_of_whole_events_passes_as_it_is() {
        let mut events = WholeEvents::default();
        let frame = Bytes::from_static(b"data: a\n\ndata: b\n\n");
        let passed = events.pass(frame.clone()).unwrap();
        assert_eq!((passed.as_ptr(), passed.len()), (frame.as_ptr(), frame.len()), "not even copied");
    }

    #[test]
    fn the_beginning_of_an_event_waits_for_its_end() {
        let mut events = WholeEvents::default();
        let mut pass = |text: &'static str| events.pass(Bytes::from_static(text.as_bytes()));
        assert_eq!(pass("data: a\n\ndata: b").unwrap(), "data: a\n\n");
        assert_eq!(pass(""), None);
        assert_eq!(pass("c\n"), None);
        assert_eq!(pass("\ndata: d").unwrap(), "data: bc\n\n");
        assert_eq!(events.with(Bytes::from_static(b"!")), "data: d!");
        assert_eq!(events.with(Bytes::from_static(b"?")), "?");
    }

    proptest! {
        #[test]
        fn however_a_stream_is_split_what_passes_is_its_whole_events(
            events in proptest::collection::vec("(data: [a-c]{0,4}\n){1,3}", 0..6),
            rest in "(data: [a-c]{0,3})?",
            sizes in proptest::collection::vec(1_usize..9, 1..9),
        ) {
            let whole: String = events.iter().map(|event| format!("{event}\n")).collect();
            let all = Bytes::from(format!("{whole}{rest}"));
            let (mut held, mut passed, mut from) = (WholeEvents::default(), Vec::new(), 0);
            for size in sizes.iter().cycle() {
                if from == all.len() {
                    break;
                }
                let to = (from + size).min(all.len());
                passed.extend(held.pass(all.slice(from..to)));
                from = to;
                prop_assert!(passed.iter().all(|frame| frame.ends_with(b"\n\n")));
            }
            prop_assert_eq!(passed.concat(), whole.as_bytes());
            prop_assert_eq!(held.with(Bytes::new()), rest.as_bytes());
        }
    }
}
