//! One attempt, up to a whole answer or a stream's first content.
//!
//! What a stream sends before its first content is held back, so that until then another target can take over without the
//! caller noticing; from then on there is only finishing or breaking off.

use crate::attempt::Attempt;
use crate::guardrail::Guardrail as _;
use crate::path::Path;
use crate::plan::PlannedRequest;
use crate::receive::request_name;
use crate::speech::{Ending, Occasion, SpokenStream, WholeAnswer};
use bytes::Bytes;
use seawall_core::deadline::Deadline;
use seawall_core::failure::{Failure, FailureKind, Retryability};
use seawall_core::handle::{Runtime, within};
use seawall_provider::{Answer, Call, CallError, Frames};
use seawall_wire::chat::{StreamEvent, UsageReport};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;

/// So much may come of a stream before its first content, in bytes. All of it is held back; what says so much without having
/// said anything will not.
const MOST_BEFORE_CONTENT: usize = 1 << 20;

/// A frame weighs at least so much, so that empty ones are not endless either.
const LEAST_WEIGHT: usize = 64;

/// What an attempt brought.
pub(crate) enum Content {
    /// All of it.
    Whole(WholeAnswer),
    /// Its beginning.
    Begun(Box<Begun>),
}

/// What was held back of a stream, and where the rest comes from.
pub(crate) struct Begun {
    pub(crate) held: VecDeque<Bytes>,
    pub(crate) frames: Box<dyn Frames>,
    pub(crate) stream: SpokenStream,
}

/// An attempt that was made. It still holds everything; who asked for it says how it ended.
pub(super) struct Tried<R: Runtime> {
    pub(super) attempt: Box<Attempt<R>>,
    pub(super) outcome: Result<Content, CallError>,
}

/// Until when an attempt must have begun.
#[derive(Clone, Copy)]
pub(super) struct StartLimits {
    /// A stream's first content, or a whole answer, must be there by then.
    pub(super) start_by: Deadline,
    /// Something must be there by then, because another target could be asked.
    pub(super) first_byte_by: Deadline,
    /// Whether a target that has sent nothing by then has failed, rather than being slow.
    pub(super) silence_is_failure: bool,
}

pub(super) async fn try_once<R: Runtime>(
    path: &Path<R>,
    planned: &PlannedRequest,
    mut attempt: Box<Attempt<R>>,
    call: Call,
    limits: StartLimits,
) -> Tried<R> {
    let outcome = make(path, planned, &mut attempt, call, limits).await;
    Tried { attempt, outcome }
}

async fn make<R: Runtime>(
    path: &Path<R>,
    planned: &PlannedRequest,
    attempt: &mut Attempt<R>,
    call: Call,
    limits: StartLimits,
) -> Result<Content, CallError> {
    let target = Arc::clone(&attempt.target);
    let answer = within(&path.runtime, limits.first_byte_by, target.upstream.call(call)).await;
    let answer = answer.unwrap_or_else(|| Err(limits.not_started(attempt).into()))?;
    let (request, now) = (&planned.request, path.runtime.monotonic());
    let name = request_name(request.id);
    let occasion = Occasion {
        id: &name,
        created: request.received.utc.as_nanos() / 1_000_000_000,
        took: now - request.received.monotonic,
    };
    let dialect = target.upstream.dialect();
    match answer {
        Answer::Whole { body, told } => {
            attempt.note_bytes(body.len());
            attempt.note_content_at(now);
            if body.is_empty() {
                return Err(Failure::of(FailureKind::Unrecognised).without_output().into());
            }
            let whole = WholeAnswer::read(&request.spoken, dialect, body.clone(), told, &occasion)?;
            attempt.succeed_whole(UsageReport { usage: whole.usage, has_output: whole.has_output }, &body);
            Ok(Content::Whole(whole))
        }
        Answer::Stream(frames) => {
            let mut stream = SpokenStream::new(&request.spoken, dialect, &occasion);
            if let (Some(_), Some(rules)) = (&request.chat, &request.rules.chat) {
                stream = stream.with_watch(rules.guardrails.watch());
            }
            let begun = Begun { held: VecDeque::new(), frames, stream };
            Box::pin(begin(path, begun, limits, attempt)).await
        }
    }
}

impl StartLimits {
    /// What it is that an attempt has not begun in time. One that has sent nothing at all has failed, where its time was its
    /// own; one that was cut earlier, or has sent something, is only slow.
    fn not_started<R: Runtime>(&self, attempt: &Attempt<R>) -> Failure {
        if attempt.has_bytes() || !self.silence_is_failure {
            return Failure::of(FailureKind::NotStarted);
        }
        // Asked again, it would take as long again.
        Failure { retryability: Retryability::Elsewhere, ..Failure::of(FailureKind::TimedOut) }
    }
}

/// Holds frames back until one has content in it.
async fn begin<R: Runtime>(
    path: &Path<R>,
    mut begun: Begun,
    limits: StartLimits,
    attempt: &mut Attempt<R>,
) -> Result<Content, CallError> {
    let mut weight = 0_usize;
    loop {
        let frames = &mut begun.frames;
        let next =
            within(&path.runtime, limits.start_by, poll_fn(|context| frames.poll_frame(context))).await;
        let Some(next) = next else { return Err(limits.not_started(attempt).into()) };
        let length = next.as_ref().and_then(|next| next.as_ref().ok()).map_or(0, Bytes::len);
        weight = weight.saturating_add(length.max(LEAST_WEIGHT));
        read_frame(&mut begun.stream, next, attempt, &mut begun.held)?;
        if attempt.has_content() || begun.stream.is_finished() {
            return Ok(Content::Begun(Box::new(begun)));
        }
        if weight > MOST_BEFORE_CONTENT {
            return Err(Failure::of(FailureKind::Unrecognised).into());
        }
        // Frames that are always ready leave no moment for an alarm to ring.
        if limits.start_by.has_passed(path.runtime.monotonic()) {
            return Err(limits.not_started(attempt).into());
        }
    }
}

/// Understands what came next of a stream: puts what the caller is to be sent into `out`, and notes what it says.
pub(crate) fn read_frame<R: Runtime>(
    stream: &mut SpokenStream,
    next: Option<Result<Bytes, Failure>>,
    attempt: &mut Attempt<R>,
    out: &mut VecDeque<Bytes>,
) -> Result<(), Failure> {
    let frame = next.transpose()?;
    if let Some(frame) = &frame {
        attempt.note_bytes(frame.len());
    }
    let mut into = |bytes| out.push_back(bytes);
    let mut events = |event: StreamEvent| match event {
        StreamEvent::Started(usage) | StreamEvent::Progress { usage, .. } => attempt.usage = usage,
        StreamEvent::Content => attempt.note_content(),
        StreamEvent::Finished | StreamEvent::Failed { .. } | StreamEvent::Other => {}
    };
    match frame {
        Some(frame) => {
            let fed = stream.feed(&frame, &mut into, &mut events);
            // What cannot be read, or is not whole yet, may all be text.
            let unread = if fed.is_err() { frame.len() } else { stream.unfinished() };
            let is_passed = attempt.note_output(stream.meter(), unread);
            fed?;
            // What has said why it stops is about to end by itself.
            if is_passed && !stream.is_finished() && stream.finish().is_none() {
                stream.stop_at_limit(&frame, attempt.tokens_passed(), &mut into);
                if stream.is_stopped() {
                    attempt.stop();
                    return Ok(());
                }
            }
        }
        None if stream.end(&mut into, &mut events) == Ending::Cut => {
            let failure = Failure::of(FailureKind::BrokeMidStream);
            // An answer without a byte was none.
            return Err(if attempt.has_received() { failure } else { failure.without_output() });
        }
        None => {}
    }
    if stream.is_finished() {
        attempt.succeed(stream.report());
    }
    Ok(())
}
