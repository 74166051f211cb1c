//! One attempt, up to a complete answer or a stream's first content.
//!
//! Frames before the first content are buffered, so that another target can take over without the caller noticing.
//! After the first content, a failure can only end the stream with an error.

use crate::attempt::Attempt;
use crate::dialect::{AnswerDefaults, DialectStream, DialectStreamEnd, UnstreamedAnswer};
use crate::pipeline::Pipeline;
use crate::plan::PlannedRequest;
use crate::receive::format_request_id;
use bytes::Bytes;
use seawall_core::deadline::Deadline;
use seawall_core::failure::{Failure, FailureKind, Retryability};
use seawall_core::runtime::{Runtime, timeout_at};
use seawall_provider::{Call, CallError, ChunkStream, UpstreamResponse};
use seawall_wire::chat::{StreamEvent, UsageReport};
use seawall_wire::reply::ReplyEvent;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;

/// Maximum bytes buffered before a stream's first content. A stream that exceeds it counts as failed.
const MAX_BEFORE_CONTENT: usize = 1 << 20;

/// Minimum size that a chunk counts as, so that an endless series of empty chunks is bounded too.
const MIN_FRAME_WEIGHT: usize = 64;

/// What an attempt returned.
pub(crate) enum AttemptContent {
    /// A complete answer.
    Unstreamed(UnstreamedAnswer),
    /// The start of a streamed answer.
    Started(Box<StartedStream>),
}

/// The buffered start of a stream, and the source of the rest.
pub(crate) struct StartedStream {
    pub(crate) buffered: VecDeque<ReplyEvent>,
    pub(crate) chunks: Box<dyn ChunkStream>,
    pub(crate) stream: DialectStream,
}

/// An executed attempt. It still holds its resources; the caller of `try_once` reports how it ended.
pub(super) struct AttemptResult<R: Runtime> {
    pub(super) attempt: Box<Attempt<R>>,
    pub(super) outcome: Result<AttemptContent, CallError>,
}

/// Timeouts for the start of an attempt.
#[derive(Clone, Copy)]
pub(super) struct StartDeadlines {
    /// Deadline for a stream's first content, or for a complete answer that is not streamed.
    pub(super) start_by: Deadline,
    /// Deadline for the first byte, which is earlier if another target is available.
    pub(super) first_byte_by: Deadline,
    /// Whether a target that has sent nothing by then counts as failed, not just as slow.
    pub(super) silence_is_failure: bool,
}

pub(super) async fn try_once<R: Runtime>(
    pipeline: &Pipeline<R>,
    planned: &PlannedRequest,
    mut attempt: Box<Attempt<R>>,
    call: Call,
    deadlines: StartDeadlines,
) -> AttemptResult<R> {
    let outcome = execute(pipeline, planned, &mut attempt, call, deadlines).await;
    AttemptResult { attempt, outcome }
}

async fn execute<R: Runtime>(
    pipeline: &Pipeline<R>,
    planned: &PlannedRequest,
    attempt: &mut Attempt<R>,
    call: Call,
    deadlines: StartDeadlines,
) -> Result<AttemptContent, CallError> {
    let target = Arc::clone(&attempt.target);
    let answer =
        timeout_at(&pipeline.runtime, deadlines.first_byte_by, target.upstream_with(attempt.key).call(call))
            .await;
    let answer = answer.unwrap_or_else(|| Err(deadlines.timeout_failure(attempt).into()))?;
    let (request, now) = (&planned.request, pipeline.runtime.monotonic());
    let id = format_request_id(request.id);
    let defaults = AnswerDefaults {
        id: &id,
        created: request.received.utc.as_nanos() / 1_000_000_000,
        elapsed: now - request.received.monotonic,
    };
    let dialect = request.parsed.dialect_at(&*target.upstream);
    match answer {
        UpstreamResponse::Unstreamed { body, report } => {
            if let Some(report) = &report {
                attempt.record_service_level(report.service);
            }
            attempt.record_bytes(body.len());
            attempt.record_content_at(now);
            if body.is_empty() {
                return Err(Failure::of(FailureKind::Unrecognised).without_output().into());
            }
            let unstreamed =
                UnstreamedAnswer::read(&request.parsed, dialect, body.clone(), report, &defaults)?;
            attempt.succeed_unstreamed(
                UsageReport { usage: unstreamed.usage, output_reported: unstreamed.output_reported },
                &body,
            );
            Ok(AttemptContent::Unstreamed(unstreamed))
        }
        UpstreamResponse::Stream(chunks) => {
            if let Some(report) = chunks.report() {
                attempt.record_service_level(report.service);
            }
            let stream = DialectStream::new(&request.parsed, dialect, &defaults);
            let started = StartedStream { buffered: VecDeque::new(), chunks, stream };
            Box::pin(read_until_content(pipeline, started, deadlines, attempt)).await
        }
    }
}

impl StartDeadlines {
    /// The failure of an attempt that did not start in time. One that sent nothing although it had its full time has
    /// failed; one that was cut earlier, or has sent something, is only slow.
    fn timeout_failure<R: Runtime>(&self, attempt: &Attempt<R>) -> Failure {
        if attempt.has_received_bytes() || !self.silence_is_failure {
            return Failure::of(FailureKind::StartTimeout);
        }
        // A retry on the same target would take as long again.
        Failure { retryability: Retryability::OtherTarget, ..Failure::of(FailureKind::TimedOut) }
    }
}

/// Buffers chunks until one has content.
async fn read_until_content<R: Runtime>(
    pipeline: &Pipeline<R>,
    mut started: StartedStream,
    deadlines: StartDeadlines,
    attempt: &mut Attempt<R>,
) -> Result<AttemptContent, CallError> {
    let mut weight = 0_usize;
    loop {
        let chunks = &mut started.chunks;
        let next =
            timeout_at(&pipeline.runtime, deadlines.start_by, poll_fn(|context| chunks.poll_chunk(context)))
                .await;
        let Some(next) = next else { return Err(deadlines.timeout_failure(attempt).into()) };
        let length = next.as_ref().and_then(|next| next.as_ref().ok()).map_or(0, Bytes::len);
        weight = weight.saturating_add(length.max(MIN_FRAME_WEIGHT));
        read_chunk(&mut started.stream, next, attempt, &mut started.buffered)?;
        if attempt.has_content() || started.stream.is_finished() {
            return Ok(AttemptContent::Started(Box::new(started)));
        }
        if weight > MAX_BEFORE_CONTENT {
            return Err(Failure::of(FailureKind::Unrecognised).into());
        }
        // Checked explicitly: while chunks are always ready, the timer is never polled.
        if deadlines.start_by.has_passed(pipeline.runtime.monotonic()) {
            return Err(deadlines.timeout_failure(attempt).into());
        }
    }
}

/// Parses the next chunk of a stream: appends the events for the caller to `out`, and updates the attempt.
pub(crate) fn read_chunk<R: Runtime>(
    stream: &mut DialectStream,
    next: Option<Result<Bytes, Failure>>,
    attempt: &mut Attempt<R>,
    out: &mut VecDeque<ReplyEvent>,
) -> Result<(), Failure> {
    let chunk = next.transpose()?;
    if let Some(chunk) = &chunk {
        attempt.record_bytes(chunk.len());
    }
    let mut into = |event| out.push_back(event);
    // API callers receive the model's thinking, so it counts as content; users of an assistant do not see it.
    let shows_thinking = !stream.is_typed();
    let mut events = |event: StreamEvent| match event {
        StreamEvent::Started(usage) | StreamEvent::Progress { usage, .. } => attempt.usage = usage,
        StreamEvent::Content => attempt.record_content(),
        StreamEvent::Thinking if shows_thinking => attempt.record_content(),
        StreamEvent::Thinking => {}
        StreamEvent::Finished | StreamEvent::Failed { .. } | StreamEvent::Other => {}
    };
    match chunk {
        Some(chunk) => {
            let fed = stream.feed(&chunk, &mut into, &mut events);
            // Bytes that are unparsable or incomplete may all be text.
            let unread = if fed.is_err() { chunk.len() } else { stream.unfinished() };
            let is_exceeded = attempt.record_output(stream.meter(), unread);
            fed?;
            // A stream that has sent its finish reason is about to end by itself.
            if is_exceeded && !stream.is_finished() && stream.finish().is_none() {
                stream.cut_at_limit(&chunk, attempt.exceeded_tokens(), &mut into);
                if stream.is_cut_at_limit() {
                    attempt.cut_at_limit();
                    return Ok(());
                }
            }
        }
        None if stream.end(&mut into, &mut events) == DialectStreamEnd::Interrupted => {
            let failure = Failure::of(FailureKind::StreamInterrupted);
            // A response without a byte contains no output.
            return Err(if attempt.has_received_bytes() { failure } else { failure.without_output() });
        }
        None => {}
    }
    if stream.is_finished() {
        attempt.succeed(stream.report());
    }
    Ok(())
}
