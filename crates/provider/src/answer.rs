//! From a response to an answer, or to what went wrong.
//!
//! Only status 200 is an answer. Statuses from 400 on are read as the vendor's errors. Everything else is a provider that
//! does not do as it should: a redirect is never followed, because it could lead a key elsewhere. An answer that was
//! compressed was not asked for and is not read: what is small on the wire could be anything in memory.
//!
//! What the vendor says of a request that is wrong is kept for who sent it. What it says of anything else is not: that
//! is between the vendor and us.

use crate::target::{Answer, CallError, Frames, TargetDialect};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind, FaultOrigin};
use seawall_wire::chat::Usage;
use seawall_wire::{Dialect, anthropic, bedrock, openai};
use std::future::poll_fn;

/// Nobody reads more about a mistake.
const LONGEST_WORDS: usize = 500;

/// The headers of a response, however it came.
pub(crate) trait ReadHeader {
    /// The first header of this name, which is written in lower case.
    fn header(&self, name: &str) -> Option<&[u8]>;
}

/// A response whose head has arrived.
pub(crate) struct Heard<Headers, Rest> {
    pub(crate) status: u16,
    pub(crate) headers: Headers,
    pub(crate) rest: Rest,
}

/// What came of a call.
pub(crate) async fn conclude(
    heard: Heard<impl ReadHeader, impl Frames + 'static>,
    stream: bool,
    dialect: TargetDialect,
) -> Result<Answer, CallError> {
    let Heard { status, headers, rest } = heard;
    let unrecognised = || Err(Failure::of(FailureKind::Unrecognised).into());
    if is_compressed(&headers) {
        return unrecognised();
    }
    match status {
        // A page in place of an answer comes from somebody in between.
        200 if is_page(&headers) => Err(Failure::of(FailureKind::Unrecognised).without_output().into()),
        200 if !may_hold(&headers, stream, dialect) => unrecognised(),
        200 if stream => Ok(Answer::Stream(Box::new(rest))),
        200 => Ok(Answer::Whole { body: collect(rest).await?, told: told(&headers, dialect) }),
        400.. => {
            // A body that cannot be read leaves what the status says.
            let body = collect(rest).await.unwrap_or_default();
            Err(refusal(status, &headers, &body, dialect))
        }
        // Who sends us elsewhere has not done anything.
        300..400 => {
            let failure = Failure::of(FailureKind::Unrecognised);
            Err(Failure { not_executed: true, ..failure }.into())
        }
        _ => unrecognised(),
    }
}

fn is_page(headers: &impl ReadHeader) -> bool {
    const PAGE: &[u8] = b"text/html";
    let content = headers.header("content-type").and_then(|content| content.get(..PAGE.len()));
    content.is_some_and(|content| content.eq_ignore_ascii_case(PAGE))
}

/// All of it in one piece. Most arrive in one read and are not copied.
async fn collect(mut frames: impl Frames) -> Result<Bytes, Failure> {
    let Some(first) = poll_fn(|context| frames.poll_frame(context)).await else { return Ok(Bytes::new()) };
    let first = first?;
    let Some(second) = poll_fn(|context| frames.poll_frame(context)).await else { return Ok(first) };
    let mut whole = BytesMut::from(first.as_ref());
    whole.extend_from_slice(&second?);
    while let Some(frame) = poll_fn(|context| frames.poll_frame(context)).await {
        whole.extend_from_slice(&frame?);
    }
    Ok(whole.freeze())
}

fn refusal(status: u16, headers: &impl ReadHeader, body: &[u8], dialect: TargetDialect) -> CallError {
    let header = |name: &str| text(headers, name);
    let (failure, read_words): (_, fn(&[u8]) -> String) = match dialect.vendor() {
        Dialect::Anthropic => (anthropic::read_error(status, header, body), anthropic::read_error_message),
        Dialect::OpenAi => (openai::read_error(status, header, body), openai::read_error_message),
        Dialect::Bedrock => (bedrock::read_error(status, header, body), bedrock::read_error_message),
    };
    let is_callers = failure.origin == FaultOrigin::Caller;
    CallError { failure, words: is_callers.then(|| shown(&read_words(body))).flatten() }
}

/// Words that can be shown to anybody: without control characters, and not too many.
fn shown(words: &str) -> Option<Box<str>> {
    let plain = |character: char| match character {
        '\n' | '\r' | '\t' => Some(' '),
        character => (!character.is_control()).then_some(character),
    };
    let words: String = words.trim().chars().filter_map(plain).take(LONGEST_WORDS).collect();
    (!words.is_empty()).then(|| words.into_boxed_str())
}

/// What InvokeModel tells in headers alone, for models whose answers do not.
fn told(headers: &impl ReadHeader, dialect: TargetDialect) -> Option<Usage> {
    match dialect {
        TargetDialect::BedrockInvoke => bedrock::read_usage_headers(|name| text(headers, name)),
        TargetDialect::AnthropicMessages | TargetDialect::OpenAiChat | TargetDialect::BedrockConverse => None,
    }
}

fn text<'h>(headers: &'h impl ReadHeader, name: &str) -> Option<&'h str> {
    headers.header(name).and_then(|value| std::str::from_utf8(value).ok())
}

fn is_compressed(headers: &impl ReadHeader) -> bool {
    headers.header("content-encoding").is_some_and(|coding| !coding.eq_ignore_ascii_case(b"identity"))
}

/// Whether a body of this type can be what was asked for. Where the server does not tell, whoever reads it finds out.
fn may_hold(headers: &impl ReadHeader, stream: bool, dialect: TargetDialect) -> bool {
    const EVENTS: &[u8] = b"text/event-stream";
    const FRAMES: &[u8] = b"application/vnd.amazon.eventstream";
    let Some(content) = headers.header("content-type") else { return true };
    let content = content.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let is = |name: &[u8]| content.eq_ignore_ascii_case(name);
    match (stream, dialect.vendor()) {
        (true, Dialect::Bedrock) => is(FRAMES),
        (true, Dialect::Anthropic | Dialect::OpenAi) => is(EVENTS),
        // Some servers call JSON plain text; a page or a stream is none.
        (false, _) => !is(b"text/html") && !is(EVENTS) && !is(FRAMES),
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Heard, ReadHeader, conclude, shown};
    use crate::target::{Answer, CallError, Frames, TargetDialect};
    use seawall_core::failure::{Failure, FailureKind};
    use seawall_wire::chat::Usage;
    use std::collections::VecDeque;
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    struct Pieces(VecDeque<Bytes>);

    impl Frames for Pieces {
        fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
            Poll::Ready(self.0.pop_front().map(Ok))
        }
    }

    struct Pairs(&'static [(&'static str, &'static str)]);

    impl ReadHeader for Pairs {
        fn header(&self, name: &str) -> Option<&[u8]> {
            self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_bytes())
        }
    }

    fn concluded(
        status: u16,
        headers: &'static [(&'static str, &'static str)],
        pieces: &[&str],
        dialect: TargetDialect,
    ) -> Result<Answer, CallError> {
        let rest = Pieces(pieces.iter().map(|piece| Bytes::copy_from_slice(piece.as_bytes())).collect());
        let mut concluding = pin!(conclude(Heard { status, headers: Pairs(headers), rest }, false, dialect));
        match concluding.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => panic!("nothing here waits"),
        }
    }

    fn error(status: u16, body: &str, dialect: TargetDialect) -> (FailureKind, Option<String>) {
        let error = concluded(status, &[], &[body], dialect).err().unwrap();
        (error.failure.kind, error.words.map(String::from))
    }

    #[test]
    fn a_body_in_pieces_is_put_together() {
        for pieces in [&[][..], &["one"], &["one", "two"], &["one", "two", "three", "four"]] {
            let answer = concluded(200, &[], pieces, TargetDialect::AnthropicMessages);
            let Ok(Answer::Whole { body, told: None }) = answer else { panic!("it is whole") };
            assert_eq!(body, pieces.concat());
        }
    }

    #[test]
    fn usage_in_headers_is_told_by_the_one_who_tells_it_there() {
        const HEADERS: &[(&str, &str)] = &[
            ("x-amzn-bedrock-input-token-count", "12"),
            ("x-amzn-bedrock-output-token-count", "34"),
            ("x-amzn-bedrock-cache-read-input-token-count", "5"),
        ];
        for dialect in TargetDialect::ALL {
            let Ok(Answer::Whole { told, .. }) = concluded(200, HEADERS, &["{}"], dialect) else {
                panic!("it is whole")
            };
            let usage = Usage { input: 12, output: 34, cache_read: 5, cache_write: 0, ..Usage::default() };
            assert_eq!(told, (dialect == TargetDialect::BedrockInvoke).then_some(usage), "{dialect:?}");
        }
        let answer = concluded(200, &HEADERS[..1], &["{}"], TargetDialect::BedrockInvoke);
        assert!(matches!(answer, Ok(Answer::Whole { told: None, .. })));
    }

    #[test]
    fn a_callers_mistake_comes_with_the_vendors_words_and_nothing_else_does() {
        let inside = r#"{"error":{"type":"invalid_request_error","message":"max_tokens: too many"}}"#;
        let beside = r#"{"message":"max_tokens: too many"}"#;
        for dialect in TargetDialect::ALL {
            let body = match dialect {
                TargetDialect::AnthropicMessages | TargetDialect::OpenAiChat => inside,
                TargetDialect::BedrockInvoke | TargetDialect::BedrockConverse => beside,
            };
            let words = Some("max_tokens: too many".to_owned());
            assert_eq!(error(400, body, dialect), (FailureKind::BadRequest, words), "{dialect:?}");
            assert_eq!(error(400, "<html>", dialect), (FailureKind::BadRequest, None), "{dialect:?}");
            for (status, kind) in [
                (401, FailureKind::Unauthorized),
                (404, FailureKind::NotFound),
                (429, FailureKind::Throttled),
                (500, FailureKind::ServerFault),
            ] {
                let body = r#"{"error":{"message":"our account 123"},"message":"our account 123"}"#;
                assert_eq!(error(status, body, dialect), (kind, None), "{dialect:?}");
            }
        }
    }

    #[test]
    fn words_are_short_and_plain() {
        assert_eq!(shown(" a\r\nb\tc\u{7}\u{1b}[31m\u{85}d "), Some("a  b c[31md".into()));
        assert_eq!(shown(&"é".repeat(500)).unwrap().chars().count(), 500);
        assert_eq!(shown(&"é".repeat(501)), shown(&"é".repeat(500)));
        assert_eq!((shown(""), shown("\n"), shown("\u{7}")), (None, None, None));
    }
}
