//! Turns an HTTP response into an answer or a failure.
//!
//! Only status 200 is an answer. Statuses from 400 on are parsed as the vendor's errors. Everything else is a protocol
//! violation of the provider: a redirect is never followed, because it could send the credential to another host. A
//! compressed response was not requested and is not read, because a small body could expand to any size in memory.
//!
//! The vendor's message is kept for the caller only if the request is at fault. Other messages concern the vendor and
//! the gateway and are dropped.

use crate::redact::redacted;
use crate::target::{Answer, CallError, Frames, ResponseReport, TargetDialect};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind, FaultOrigin};
use seawall_wire::{Dialect, anthropic, bedrock, openai};
use std::future::poll_fn;
use std::task::{Context, Poll};

/// Maximum length of an error message that is passed on, in characters.
const LONGEST_WORDS: usize = 500;

/// Access to response headers, independent of the HTTP version.
pub(crate) trait ReadHeader {
    /// The first header with this name, which must be in lower case.
    fn header(&self, name: &str) -> Option<&[u8]>;
}

/// A response whose head has arrived.
pub(crate) struct Heard<Headers, Rest> {
    pub(crate) status: u16,
    pub(crate) headers: Headers,
    pub(crate) rest: Rest,
}

/// The result of a call.
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
        // An HTML page comes from an intermediary, not from the vendor.
        200 if is_page(&headers) => Err(Failure::of(FailureKind::Unrecognised).without_output().into()),
        200 if !may_hold(&headers, stream, dialect) => unrecognised(),
        200 if stream => Ok(Answer::Stream(match report(&headers, dialect) {
            Some(report) => Box::new(Reported { frames: rest, report }),
            None => Box::new(rest),
        })),
        200 => Ok(Answer::Whole { body: collect(rest).await?, told: report(&headers, dialect) }),
        400.. => {
            // If the body cannot be read, the status alone determines the failure.
            let body = collect(rest).await.unwrap_or_default();
            Err(refusal(status, &headers, &body, dialect))
        }
        // A server that redirects has not executed the request.
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

/// The complete body. Most arrive in one read and are not copied.
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
    // The message about an invalid request may still contain the gateway's key or account.
    let is_callers = failure.origin == FaultOrigin::Caller;
    let words = is_callers.then(|| read_words(body));
    let words = words.map(|words| redacted(&words).unwrap_or(words));
    CallError { failure, words: words.as_deref().and_then(shown) }
}

/// Makes a message safe to display: without control characters, and truncated.
fn shown(words: &str) -> Option<Box<str>> {
    let plain = |character: char| match character {
        '\n' | '\r' | '\t' => Some(' '),
        character => (!character.is_control()).then_some(character),
    };
    let words: String = words.trim().chars().filter_map(plain).take(LONGEST_WORDS).collect();
    (!words.is_empty()).then(|| words.into_boxed_str())
}

/// The headers of InvokeModel: usage, for models that do not report it in the body, and the service level.
fn report(headers: &impl ReadHeader, dialect: TargetDialect) -> Option<ResponseReport> {
    if dialect != TargetDialect::BedrockInvoke {
        return None;
    }
    let header = |name: &str| text(headers, name);
    let passed = bedrock::PASSED_RESPONSE_HEADERS.into_iter();
    let report = ResponseReport {
        usage: bedrock::read_usage_headers(header),
        service: bedrock::read_service_headers(header),
        headers: passed.filter_map(|name| Some((name, header(name)?.to_owned()))).collect(),
    };
    (report != ResponseReport::default()).then_some(report)
}

/// A stream with the report from its response headers.
struct Reported<Pieces> {
    frames: Pieces,
    report: ResponseReport,
}

impl<Pieces: Frames> Frames for Reported<Pieces> {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        self.frames.poll_frame(context)
    }

    fn report(&self) -> Option<&ResponseReport> {
        Some(&self.report)
    }
}

fn text<'h>(headers: &'h impl ReadHeader, name: &str) -> Option<&'h str> {
    headers.header(name).and_then(|value| std::str::from_utf8(value).ok())
}

fn is_compressed(headers: &impl ReadHeader) -> bool {
    headers.header("content-encoding").is_some_and(|coding| !coding.eq_ignore_ascii_case(b"identity"))
}

/// Whether a body of this content type can be the requested answer. Without a content type, the parser decides.
fn may_hold(headers: &impl ReadHeader, stream: bool, dialect: TargetDialect) -> bool {
    const EVENTS: &[u8] = b"text/event-stream";
    const FRAMES: &[u8] = b"application/vnd.amazon.eventstream";
    let Some(content) = headers.header("content-type") else { return true };
    let content = content.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let is = |name: &[u8]| content.eq_ignore_ascii_case(name);
    match (stream, dialect.vendor()) {
        (true, Dialect::Bedrock) => is(FRAMES),
        (true, Dialect::Anthropic | Dialect::OpenAi) => is(EVENTS),
        // Some servers label JSON as plain text, but never as HTML or as a stream.
        (false, _) => !is(b"text/html") && !is(EVENTS) && !is(FRAMES),
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Heard, ReadHeader, conclude, shown};
    use crate::target::{Answer, CallError, Frames, TargetDialect};
    use seawall_core::failure::{Failure, FailureKind};
    use seawall_core::money::{PriceDimension, ServiceLevel, Surcharge};
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
            let told = told.and_then(|told| told.usage);
            assert_eq!(told, (dialect == TargetDialect::BedrockInvoke).then_some(usage), "{dialect:?}");
        }
        let answer = concluded(200, &HEADERS[..1], &["{}"], TargetDialect::BedrockInvoke);
        assert!(matches!(answer, Ok(Answer::Whole { told: None, .. })));
    }

    #[test]
    fn how_an_invocation_was_served_is_read_from_its_headers_and_kept_for_its_caller() {
        const HEADERS: &[(&str, &str)] = &[
            ("x-amzn-bedrock-service-tier", "priority"),
            ("x-amzn-bedrock-performanceconfig-latency", "standard"),
            ("x-amzn-bedrock-something-else", "x"),
        ];
        let answer = concluded(200, HEADERS, &["{}"], TargetDialect::BedrockInvoke);
        let Ok(Answer::Whole { told: Some(told), .. }) = answer else { panic!("it tells something") };
        let tier = ServiceLevel::default().with(PriceDimension::Tier, Some(Surcharge::Priority));
        assert_eq!(told.service, tier.with(PriceDimension::Latency, None));
        let pair = |(name, value): &(&'static str, &str)| (*name, (*value).to_owned());
        let mut headers: Vec<_> = HEADERS[..2].iter().map(pair).collect();
        headers.sort();
        let mut passed = told.headers;
        passed.sort();
        assert_eq!((passed, told.usage), (headers, None));
        let answer = concluded(200, HEADERS, &["{}"], TargetDialect::BedrockConverse);
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
    fn a_vendors_words_name_no_credential() {
        let words = "model: arn:aws:bedrock:us-east-1:123456789012:x is not open to sk-ant-api03-abcdef";
        let body = format!(
            r#"{{"error":{{"type":"invalid_request_error","message":"{words}"}},"message":"{words}"}}"#
        );
        for dialect in TargetDialect::ALL {
            let (_, shown) = error(400, &body, dialect);
            assert_eq!(shown.as_deref(), Some("model: [redacted] is not open to [redacted]"), "{dialect:?}");
        }
        // Also where truncation would cut through it.
        let long = format!("{} sk-ant-api03-abcdefghijklmnopqrstuvwxyz", "x".repeat(480));
        let body = format!(r#"{{"error":{{"type":"invalid_request_error","message":"{long}"}}}}"#);
        let (_, shown) = error(400, &body, TargetDialect::AnthropicMessages);
        assert!(shown.is_some_and(|shown| shown.ends_with(" [redacted]")));
    }

    #[test]
    fn words_are_short_and_plain() {
        assert_eq!(shown(" a\r\nb\tc\u{7}\u{1b}[31m\u{85}d "), Some("a  b c[31md".into()));
        assert_eq!(shown(&"é".repeat(500)).unwrap().chars().count(), 500);
        assert_eq!(shown(&"é".repeat(501)), shown(&"é".repeat(500)));
        assert_eq!((shown(""), shown("\n"), shown("\u{7}")), (None, None, None));
    }
}
