//! The fifth stage: asks the targets until one answers.
//!
//! For each try a place, money and a breaker permit are taken in this order and given back by the attempt itself. What
//! a stream sends before its first content is held back, so that until then another target can take over without the
//! caller noticing; from then on there is only finishing or breaking off.

use crate::attempt::{Attempt, Holdings};
use crate::path::Path;
use crate::plan::PlannedRequest;
use crate::reply::Rejection;
use crate::settle::Tally;
use crate::target::{GuardedTarget, most_input};
use bytes::Bytes;
use seawall_core::breaker::BreakerPhase;
use seawall_core::budget::Ask;
use seawall_core::credit::Credit;
use seawall_core::deadline::Deadline;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::handle::{Runtime, within};
use seawall_core::retry::{Retries, RetryDecision, RetrySituation};
use seawall_core::time::Timestamp;
use seawall_provider::{Answer, Call, Frames};
use seawall_store::{CallId, ReserveError};
use seawall_wire::anthropic::{AnthropicStream, read_answer};
use seawall_wire::chat::StreamEvent;
use seawall_wire::sse::SseLimits;
use std::future::poll_fn;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Money that is still held so long after a request's deadline is charged at its worst.
const LATEST_END: Duration = Duration::from_secs(30);

/// An answer that has begun.
pub(crate) struct Answered<R: Runtime> {
    pub(crate) planned: PlannedRequest,
    pub(crate) attempt: Attempt<R>,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    /// All of it.
    Whole(Bytes),
    /// Its beginning.
    Begun(Box<Begun>),
}

/// What was held back of a stream, and where the rest comes from.
pub(crate) struct Begun {
    pub(crate) held: Vec<Bytes>,
    pub(crate) frames: Box<dyn Frames>,
    /// Whether the answer is whole already, so that only its end is to come.
    pub(crate) finished: bool,
    pub(crate) reader: AnthropicStream,
}

/// Why a target was not even tried.
enum Skipped {
    Busy,
    Broke,
    /// What it may cost could not be written down.
    NoJournal,
    Open(Option<Duration>),
}

pub(crate) async fn answer<R: Runtime>(
    path: &Path<R>,
    planned: PlannedRequest,
    tally: &Arc<Tally>,
) -> Result<Answered<R>, Rejection> {
    let retry_budget = Arc::clone(&planned.request.rules.retry_budget);
    retry_budget.deposit(path.runtime.monotonic());
    let mut retries = Retries::new(planned.request.rules.retry);
    let mut target_index = 0;
    let (mut credit, mut last_failure) = (None, None);
    let (mut first_failed, mut skipped): (Option<Timestamp>, Option<Skipped>) = (None, None);
    while let Some(target) = planned.route.targets.get(target_index) {
        let has_other_target = target_index + 1 < planned.route.targets.len();
        let holdings = match take_holdings(path, &planned, target, tally.attempts(), credit.take()) {
            Ok(holdings) => holdings,
            Err(reason) => {
                skipped = Some(reason);
                target_index += 1;
                continue;
            }
        };
        let input_bytes = planned.request.body.len() as u64;
        let mut attempt = Attempt::start(&path.runtime, target, input_bytes, holdings, tally);
        let failure = match try_once(path, &planned, &mut attempt).await {
            Ok(content) => {
                let now = path.runtime.monotonic();
                path.counters.request_succeeded(first_failed.map(|failed| now - failed));
                if first_failed.is_none() {
                    retry_budget.first_attempt_succeeded();
                }
                return Ok(Answered { planned, attempt, content });
            }
            Err(failure) => failure,
        };
        attempt.fail(&failure);
        drop(attempt);
        last_failure = Some(failure);
        let now = path.runtime.monotonic();
        first_failed.get_or_insert(now);
        let situation = situation(&planned, target, now, has_other_target);
        let (decision, event) =
            retries.decide(&failure, &situation, Some(&retry_budget), path.runtime.draw());
        path.counters.attempt_failed(&event);
        match decision {
            RetryDecision::RetrySame { after, credit: paid } => {
                credit = paid;
                path.runtime.sleep_until(now + after).await;
            }
            RetryDecision::FailOver(_) => target_index += 1,
            RetryDecision::GiveUp(_) => break,
        }
    }
    Err(match (last_failure, skipped) {
        (Some(failure), _) => Rejection::Exhausted { failure, attempts: tally.attempts() },
        (None, Some(Skipped::Broke)) => Rejection::BudgetSpent,
        (None, Some(Skipped::Open(retry_after))) => Rejection::Unavailable { retry_after },
        (None, Some(Skipped::Busy | Skipped::NoJournal) | None) => {
            Rejection::Unavailable { retry_after: None }
        }
    })
}

/// A place, money and a permit, or nothing of all that.
fn take_holdings<R: Runtime>(
    path: &Path<R>,
    planned: &PlannedRequest,
    target: &Arc<GuardedTarget>,
    attempt: u32,
    credit: Option<Credit>,
) -> Result<Holdings, Skipped> {
    let now = path.runtime.now();
    let place = target.in_flight.try_acquire().ok_or(Skipped::Busy)?;
    let hold = path.books.reserve(&ask(path, planned, target), named(planned, target, attempt), now);
    let hold = hold.map_err(|error| match error {
        ReserveError::Refused(_) => Skipped::Broke,
        ReserveError::Journal(_) => Skipped::NoJournal,
    })?;
    match target.breaker.acquire(now.monotonic, planned.request.deadline) {
        Ok(permit) => Ok(Holdings { hold, permit, credit, place }),
        Err((_, retry_after)) => {
            // Nothing was asked, so nothing is owed.
            hold.void();
            Err(Skipped::Open(retry_after))
        }
    }
}

/// The most that a call can take.
fn ask<R>(path: &Path<R>, planned: &PlannedRequest, target: &GuardedTarget) -> Ask {
    let (input_bytes, output) = (planned.request.body.len() as u64, planned.request.head.max_output.into());
    Ask {
        caller: planned.caller.id,
        tier: planned.caller.tier,
        session: None,
        limits: path.token_limits,
        input: most_input(input_bytes),
        output,
        worst: target.worst(input_bytes, output),
        expires: planned.request.deadline.moment() + LATEST_END,
    }
}

fn named(planned: &PlannedRequest, target: &GuardedTarget, attempt: u32) -> seawall_store::Attempt {
    seawall_store::Attempt {
        id: CallId { request: planned.request.id.into(), attempt },
        model: Arc::clone(&target.model),
    }
}

fn situation(
    planned: &PlannedRequest,
    target: &GuardedTarget,
    now: Timestamp,
    has_other_target: bool,
) -> RetrySituation {
    let phase = target.breaker.with(|breaker| breaker.peek(now).phase);
    let pressure = target.pressure.lock().unwrap_or_else(PoisonError::into_inner).read(phase, now);
    RetrySituation {
        pressure: Some(pressure),
        breaker_passes: phase == BreakerPhase::Closed,
        has_other_target,
        ..RetrySituation::new(now, planned.request.deadline)
    }
}

/// One attempt, up to the whole answer or a stream's first content.
async fn try_once<R: Runtime>(
    path: &Path<R>,
    planned: &PlannedRequest,
    attempt: &mut Attempt<R>,
) -> Result<Content, Failure> {
    let stream = planned.request.head.stream;
    let now = path.runtime.monotonic();
    let limit = if stream { planned.route.start_limit } else { planned.request.rules.time.attempt };
    let start_by = planned.request.deadline.within(now, limit);
    let target = Arc::clone(&attempt.target);
    let call = Call { body: planned.body_for(&target), stream };
    let answer = within(&path.runtime, start_by, target.upstream.call(call)).await;
    match answer.unwrap_or(Err(Failure::of(FailureKind::NotStarted)))? {
        Answer::Whole(body) => {
            attempt.note_bytes(body.len());
            attempt.note_content();
            let (usage, _) = read_answer(&body).map_err(|_| Failure::of(FailureKind::Unrecognised))?;
            attempt.succeed(usage);
            Ok(Content::Whole(body))
        }
        Answer::Stream(frames) => begin_stream(path, frames, start_by, attempt).await,
    }
}

/// Holds frames back until one has content in it.
async fn begin_stream<R: Runtime>(
    path: &Path<R>,
    mut frames: Box<dyn Frames>,
    start_by: Deadline,
    attempt: &mut Attempt<R>,
) -> Result<Content, Failure> {
    let mut reader = AnthropicStream::new(SseLimits::default());
    let mut held = Vec::new();
    loop {
        let next = within(&path.runtime, start_by, poll_fn(|context| frames.poll_frame(context))).await;
        let frame = match next {
            None => return Err(Failure::of(FailureKind::NotStarted)),
            Some(None) => return Err(Failure::of(FailureKind::BrokeMidStream)),
            Some(Some(frame)) => frame?,
        };
        let finished = read_frame(&mut reader, &frame, attempt)?;
        held.push(frame);
        if attempt.has_content() || finished {
            return Ok(Content::Begun(Box::new(Begun { held, frames, finished, reader })));
        }
    }
}

/// A frame that ends an answer before its end.
pub(crate) struct LastFrame {
    pub(crate) failure: Failure,
    /// Whether the vendor says so in the frame itself; otherwise nobody can read it.
    pub(crate) is_told: bool,
}

impl From<LastFrame> for Failure {
    fn from(last: LastFrame) -> Self {
        last.failure
    }
}

/// Understands one frame of a stream: notes what it says, and whether the answer has ended with it.
pub(crate) fn read_frame<R: Runtime>(
    reader: &mut AnthropicStream,
    frame: &Bytes,
    attempt: &mut Attempt<R>,
) -> Result<bool, LastFrame> {
    attempt.note_bytes(frame.len());
    let (mut failure, mut finished) = (None, false);
    let read = reader.feed(frame, |event| match event {
        StreamEvent::Started(usage) | StreamEvent::Progress { usage, .. } => attempt.usage = usage,
        StreamEvent::Content => attempt.note_content(),
        StreamEvent::Finished => finished = true,
        StreamEvent::Failed { failure: failed, .. } => failure = Some(failed),
        StreamEvent::Other => {}
    });
    if read.is_err() {
        return Err(LastFrame { failure: Failure::of(FailureKind::Unrecognised), is_told: false });
    }
    match failure {
        Some(failure) => Err(LastFrame { failure, is_told: true }),
        None => {
            if finished {
                let usage = attempt.usage;
                attempt.succeed(usage);
            }
            Ok(finished)
        }
    }
}
