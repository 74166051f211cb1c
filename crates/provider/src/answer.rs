//! From a response to an answer, or to what went wrong.
//!
//! Only status 200 is an answer. Statuses from 400 on are read as the vendor's errors. Everything else is a provider that
//! does not do as it should: a redirect is never followed, because it could lead a key elsewhere. An answer that was
//! compressed was not asked for and is not read: what is small on the wire could be anything in memory.

use crate::client::{Response, ResponseBody, ResponseHeaders};
use crate::http1::BodyFailure;
use crate::target::{Answer, Frames, TargetDialect};
use bytes::Bytes;
use seawall_core::failure::{Failure, FailureKind};
use seawall_wire::{Dialect, anthropic, bedrock, openai};
use std::task::{Context, Poll};

/// What came of a call.
pub(crate) async fn conclude(
    response: Response,
    stream: bool,
    dialect: TargetDialect,
) -> Result<Answer, Failure> {
    let Response { status, headers, body, .. } = response;
    if is_compressed(&headers) {
        return Err(Failure::of(FailureKind::Unrecognised));
    }
    match status {
        200 if !may_hold(&headers, stream, dialect) => Err(Failure::of(FailureKind::Unrecognised)),
        200 if stream => Ok(Answer::Stream(Box::new(ResponseFrames(body)))),
        200 => {
            let body = body.collect().await.map_err(BodyFailure::failure)?;
            Ok(Answer::Whole { body, told: None })
        }
        400.. => {
            // A body that cannot be read leaves what the status says.
            let body = body.collect().await.unwrap_or_default();
            Err(read_error(dialect, status, &headers, &body))
        }
        _ => Err(Failure::of(FailureKind::Unrecognised)),
    }
}

fn read_error(dialect: TargetDialect, status: u16, headers: &ResponseHeaders, body: &[u8]) -> Failure {
    let header = |name: &str| text(headers, name);
    match dialect.vendor() {
        Dialect::Anthropic => anthropic::read_error(status, header, body),
        Dialect::OpenAi => openai::read_error(status, header, body),
        Dialect::Bedrock => bedrock::read_error(status, header, body),
    }
}

fn text<'h>(headers: &'h ResponseHeaders, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| std::str::from_utf8(value).ok())
}

fn is_compressed(headers: &ResponseHeaders) -> bool {
    headers.get("content-encoding").is_some_and(|coding| !coding.eq_ignore_ascii_case(b"identity"))
}

/// Whether a body of this type can be what was asked for. Where the server does not tell, whoever reads it finds out.
fn may_hold(headers: &ResponseHeaders, stream: bool, dialect: TargetDialect) -> bool {
    const EVENTS: &[u8] = b"text/event-stream";
    const FRAMES: &[u8] = b"application/vnd.amazon.eventstream";
    let Some(content) = headers.get("content-type") else { return true };
    let content = content.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let is = |name: &[u8]| content.eq_ignore_ascii_case(name);
    match (stream, dialect.vendor()) {
        (true, Dialect::Bedrock) => is(FRAMES),
        (true, Dialect::Anthropic | Dialect::OpenAi) => is(EVENTS),
        // Some servers call JSON plain text; a page or a stream is none.
        (false, _) => !is(b"text/html") && !is(EVENTS) && !is(FRAMES),
    }
}

struct ResponseFrames(ResponseBody);

impl Frames for ResponseFrames {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        self.0.poll_frame(context).map(|frame| frame.map(|frame| frame.map_err(BodyFailure::failure)))
    }
}
