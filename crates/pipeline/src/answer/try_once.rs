//! One attempt, up to a complete answer or a stream's first content.
//!
//! Frames before the first content are buffered, so that another target can take over without the caller noticing.
//! After the first content, a failure can only end the stream with an error.

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

/// Maximum bytes buffered before a stream's first content. A stream that exceeds it counts as failed.
const MOST_BEFORE_CONTENT: usize = 1 << 20;

/// Minimum size that a frame counts as, so that an endless series of empty frames is bounded too.
const LEAST_WEIGHT: usize = 64;

/// What an attempt returned.
pub(crate) enum Content {
    /// A complete answer.
    Whole(WholeAnswer),
    /// The start of a streamed answer.
    Begun(Box<Begun>),
}

/// The buffered start of a stream, and the source of the rest.
pub(crate) struct Begun {
    pub(crate) held: VecDeque<Bytes>,
    pub(crate) frames: Box<dyn Frames>,
    pub(crate) stream: SpokenStream,
}

/// An executed attempt. It still holds its resources; the caller of `try_once` reports how it ended.
pub(super) struct Tried<R: Runtime> {
    pub(super) attempt: Box<Attempt<R>>,
    pub(super) outcome: Result<Content, CallError>,
}

/// Timeouts for the start of an attempt.
#[derive(Clone, Copy)]
pub(super) struct StartLimits {
    /// Deadline for a stream's first content, or for a complete answer that is not streamed.
    pub(super) start_by: Deadline,
    /// Deadline for the first byte, which is earlier if another target is available.
    pub(super) first_byte_by: Deadline,
    /// Whether a target that has sent nothing by then counts as failed, not just as slow.
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
    let dialect = request.spoken.dialect_at(&*target.upstream);
    match answer {
        Answer::Whole { body, told } => {
            if let Some(told) = &told {
                attempt.note_served(told.service);
            }
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
            if let Some(told) = frames.report() {
                attempt.note_served(told.service);
            }
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
    /// The failure of an attempt that did not start in time. One that sent nothing although it had its full time has
    /// failed; one that was cut earlier, or has sent something, is only slow.
    fn not_started<R: Runtime>(&self, attempt: &Attempt<R>) -> Failure {
        if attempt.has_bytes() || !self.silence_is_failure {
            return Failure::of(FailureKind::NotStarted);
        }
        // A retry on the same target would take as long again.
        Failure { retryability: Retryability::Elsewhere, ..Failure::of(FailureKind::TimedOut) }
    }
}

/// Buffers frames until one has content.
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
        // Checked explicitly: while frames are always ready, the timer is never polled.
        if limits.start_by.has_passed(path.runtime.monotonic()) {
            return Err(limits.not_started(attempt).into());
        }
    }
}

/// Parses the next frame of a stream: appends the bytes for the caller to `out`, and updates the attempt.
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
    // API callers receive the model's thinking, so it counts as content; chat users do not see it.
    let shows_thinking = !stream.is_chat();
    let mut events = |event: StreamEvent| match event {
        StreamEvent::Started(usage) | StreamEvent::Progress { usage, .. } => attempt.usage = usage,
        StreamEvent::Content => attempt.note_content(),
        StreamEvent::Thinking if shows_thinking => attempt.note_content(),
        StreamEvent::Thinking => {}
        StreamEvent::Finished | StreamEvent::Failed { .. } | StreamEvent::Other => {}
    };
    match frame {
        Some(frame) => {
            let fed = stream.feed(&frame, &mut into, &mut events);
            // Bytes that are unparsable or incomplete may all be text.
            let unread = if fed.is_err() { frame.len() } else { stream.unfinished() };
            let is_passed = attempt.note_output(stream.meter(), unread);
            fed?;
            // A stream that has sent its finish reason is about to end by itself.
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
            // A response without a byte contains no output.
            return Err(if attempt.has_received() { failure } else { failure.without_output() });
        }
        None => {}
    }
    if stream.is_finished() {
        attempt.succeed(stream.report());
    }
    Ok(())
}
