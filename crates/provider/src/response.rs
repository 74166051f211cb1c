//! Turns an HTTP response into an answer or a failure.
//!
//! Only status 200 is an answer. Statuses from 400 on are parsed as the vendor's errors. Everything else is a protocol
//! violation of the provider: a redirect is never followed, because it could send the credential to another host. A
//! compressed response was not requested and is not read, because a small body could expand to any size in memory.
//!
//! The vendor's message is kept for the caller only if the request is at fault. Other messages concern the vendor and
//! the gateway and are shown to operators only.

use crate::redact::redact;
use crate::target::{CallError, ChunkStream, UpstreamResponse};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind, FaultOrigin};
use seawall_wire::dialect::{DialectId, ResponseReport};
use std::future::poll_fn;
use std::task::{Context, Poll};

/// Maximum length of an error message that is passed on, in characters.
const MAX_MESSAGE_CHARS: usize = 500;

/// Access to response headers, independent of the HTTP version.
pub(crate) trait ReadHeader {
    /// The first header with this name, which must be in lower case.
    fn header(&self, name: &str) -> Option<&[u8]>;
}

/// A response whose head has arrived.
pub(crate) struct RawResponse<Headers, RemainingBody> {
    pub(crate) status: u16,
    pub(crate) headers: Headers,
    pub(crate) body: RemainingBody,
}

/// The result of a call.
pub(crate) async fn read_response(
    response: RawResponse<impl ReadHeader, impl ChunkStream + 'static>,
    stream: bool,
    dialect: DialectId,
) -> Result<UpstreamResponse, CallError> {
    let RawResponse { status, headers, body } = response;
    let unrecognised = || Err(Failure::of(FailureKind::Unrecognised).into());
    if is_compressed(&headers) {
        return unrecognised();
    }
    match status {
        // An HTML page comes from an intermediary, not from the vendor.
        200 if is_html(&headers) => Err(Failure::of(FailureKind::Unrecognised).without_output().into()),
        200 if !has_expected_content_type(&headers, stream, dialect) => unrecognised(),
        200 if stream => Ok(UpstreamResponse::Stream(match read_report(&headers, dialect) {
            Some(report) => Box::new(WithReport { chunks: body, report }),
            None => Box::new(body),
        })),
        200 => Ok(UpstreamResponse::Unstreamed {
            body: collect(body).await?,
            report: read_report(&headers, dialect),
        }),
        400.. => {
            // If the body cannot be read, the status alone determines the failure.
            let body = collect(body).await.unwrap_or_default();
            Err(read_error_response(status, &headers, &body, dialect))
        }
        // A server that redirects has not executed the request.
        300..400 => {
            let failure = Failure::of(FailureKind::Unrecognised);
            Err(Failure { not_executed: true, ..failure }.into())
        }
        _ => unrecognised(),
    }
}

fn is_html(headers: &impl ReadHeader) -> bool {
    const PAGE: &[u8] = b"text/html";
    let content = headers.header("content-type").and_then(|content| content.get(..PAGE.len()));
    content.is_some_and(|content| content.eq_ignore_ascii_case(PAGE))
}

/// The complete body. Most arrive in one read and are not copied.
async fn collect(mut chunks: impl ChunkStream) -> Result<Bytes, Failure> {
    let Some(first) = poll_fn(|context| chunks.poll_chunk(context)).await else { return Ok(Bytes::new()) };
    let first = first?;
    let Some(second) = poll_fn(|context| chunks.poll_chunk(context)).await else { return Ok(first) };
    let mut body = BytesMut::from(first.as_ref());
    body.extend_from_slice(&second?);
    while let Some(chunk) = poll_fn(|context| chunks.poll_chunk(context)).await {
        body.extend_from_slice(&chunk?);
    }
    Ok(body.freeze())
}

fn read_error_response(status: u16, headers: &impl ReadHeader, body: &[u8], dialect: DialectId) -> CallError {
    let header = |name: &str| header_text(headers, name);
    let failure = dialect.read_error(status, &header, body);
    // The message about an invalid request may still contain the gateway's key or account.
    let message = dialect.read_error_message(body);
    let message = sanitize(&redact(&message).unwrap_or(message));
    match failure.origin {
        FaultOrigin::Caller => CallError { failure, message, detail: None, status: Some(status) },
        FaultOrigin::Gateway | FaultOrigin::Provider => {
            CallError { failure, message: None, detail: message, status: Some(status) }
        }
    }
}

/// Makes a message safe to display: without control characters, and truncated.
fn sanitize(message: &str) -> Option<Box<str>> {
    let plain = |character: char| match character {
        '\n' | '\r' | '\t' => Some(' '),
        character => (!character.is_control()).then_some(character),
    };
    let message: String = message.trim().chars().filter_map(plain).take(MAX_MESSAGE_CHARS).collect();
    (!message.is_empty()).then(|| message.into_boxed_str())
}

fn read_report(headers: &impl ReadHeader, dialect: DialectId) -> Option<ResponseReport> {
    dialect.read_response_headers(&|name: &str| header_text(headers, name))
}

/// A stream with the report from its response headers.
struct WithReport<Chunks> {
    chunks: Chunks,
    report: ResponseReport,
}

impl<Chunks: ChunkStream> ChunkStream for WithReport<Chunks> {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        self.chunks.poll_chunk(context)
    }

    fn report(&self) -> Option<&ResponseReport> {
        Some(&self.report)
    }
}

fn header_text<'h>(headers: &'h impl ReadHeader, name: &str) -> Option<&'h str> {
    headers.header(name).and_then(|value| std::str::from_utf8(value).ok())
}

fn is_compressed(headers: &impl ReadHeader) -> bool {
    headers.header("content-encoding").is_some_and(|coding| !coding.eq_ignore_ascii_case(b"identity"))
}

/// Whether a body of this content type can be the requested answer. Without a content type, the parser decides.
fn has_expected_content_type(headers: &impl ReadHeader, stream: bool, dialect: DialectId) -> bool {
    let Some(content) = headers.header("content-type") else { return true };
    let content = content.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let is = |name: &str| content.eq_ignore_ascii_case(name.as_bytes());
    if stream {
        return is(dialect.content_type(true));
    }
    // Some servers label JSON as plain text, but never as HTML or as a stream.
    !is("text/html") && !DialectId::ALL.iter().any(|dialect| is(dialect.content_type(true)))
}

#[cfg(test)]
mod tests {
    use super::{Bytes, RawResponse, ReadHeader, read_response, sanitize};
    use crate::target::{CallError, ChunkStream, UpstreamResponse};
    use seawall_core::failure::{Failure, FailureKind};
    use seawall_core::money::{PriceDimension, ServiceTier, Surcharge};
    use seawall_wire::chat::Usage;
    use seawall_wire::dialect::DialectId;
    use std::collections::VecDeque;
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    struct Pieces(VecDeque<Bytes>);

    impl ChunkStream for Pieces {
        fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
            Poll::Ready(self.0.pop_front().map(Ok))
        }
    }

    struct Pairs(&'static [(&'static str, &'static str)]);

    impl ReadHeader for Pairs {
        fn header(&self, name: &str) -> Option<&[u8]> {
            self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_bytes())
        }
    }

    fn respond(
        status: u16,
        headers: &'static [(&'static str, &'static str)],
        pieces: &[&str],
        dialect: DialectId,
    ) -> Result<UpstreamResponse, CallError> {
        let body = Pieces(pieces.iter().map(|piece| Bytes::copy_from_slice(piece.as_bytes())).collect());
        let mut reading =
            pin!(read_response(RawResponse { status, headers: Pairs(headers), body }, false, dialect));
        match reading.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => panic!("nothing here waits"),
        }
    }

    fn error(status: u16, body: &str, dialect: DialectId) -> (FailureKind, Option<String>) {
        let error = respond(status, &[], &[body], dialect).err().unwrap();
        (error.failure.kind, error.message.map(String::from))
    }

    #[test]
    fn a_body_in_pieces_is_put_together() {
        for pieces in [&[][..], &["one"], &["one", "two"], &["one", "two", "three", "four"]] {
            let answer = respond(200, &[], pieces, DialectId::ANTHROPIC_MESSAGES);
            let Ok(UpstreamResponse::Unstreamed { body, report: None }) = answer else {
                panic!("it is whole")
            };
            assert_eq!(body, pieces.concat());
        }
    }

    #[test]
    fn usage_headers_are_read_only_for_invoke_model() {
        const HEADERS: &[(&str, &str)] = &[
            ("x-amzn-bedrock-input-token-count", "12"),
            ("x-amzn-bedrock-output-token-count", "34"),
            ("x-amzn-bedrock-cache-read-input-token-count", "5"),
        ];
        for dialect in DialectId::ALL {
            let Ok(UpstreamResponse::Unstreamed { report, .. }) = respond(200, HEADERS, &["{}"], dialect)
            else {
                panic!("it is whole")
            };
            let usage = Usage { input: 12, output: 34, cache_read: 5, cache_write: 0, ..Usage::default() };
            let report = report.and_then(|report| report.usage);
            assert_eq!(report, (dialect == DialectId::BEDROCK_INVOKE).then_some(usage), "{dialect:?}");
        }
        let answer = respond(200, &HEADERS[..1], &["{}"], DialectId::BEDROCK_INVOKE);
        assert!(matches!(answer, Ok(UpstreamResponse::Unstreamed { report: None, .. })));
    }

    #[test]
    fn how_an_invocation_was_served_is_read_from_its_headers_and_kept_for_its_caller() {
        const HEADERS: &[(&str, &str)] = &[
            ("x-amzn-bedrock-service-tier", "priority"),
            ("x-amzn-bedrock-performanceconfig-latency", "standard"),
            ("x-amzn-bedrock-something-else", "x"),
        ];
        let answer = respond(200, HEADERS, &["{}"], DialectId::BEDROCK_INVOKE);
        let Ok(UpstreamResponse::Unstreamed { report: Some(report), .. }) = answer else {
            panic!("it tells something")
        };
        let tier = ServiceTier::default().with(PriceDimension::Tier, Some(Surcharge::Priority));
        assert_eq!(report.service, tier.with(PriceDimension::Latency, None));
        let pair = |(name, value): &(&'static str, &str)| (*name, (*value).to_owned());
        let mut headers: Vec<_> = HEADERS[..2].iter().map(pair).collect();
        headers.sort();
        let mut passed = report.headers;
        passed.sort();
        assert_eq!((passed, report.usage), (headers, None));
        let answer = respond(200, HEADERS, &["{}"], DialectId::BEDROCK_CONVERSE);
        assert!(matches!(answer, Ok(UpstreamResponse::Unstreamed { report: None, .. })));
    }

    #[test]
    fn only_a_callers_error_carries_the_vendors_message() {
        let inside = r#"{"error":{"type":"invalid_request_error","message":"max_tokens: too many"}}"#;
        let beside = r#"{"message":"max_tokens: too many"}"#;
        for dialect in DialectId::ALL {
            let body = match dialect.name() {
                "anthropic" | "openai" | "openai_responses" | "gemini" => inside,
                "bedrock_invoke" | "bedrock_converse" => beside,
                other => panic!("{other:?}"),
            };
            let message = Some("max_tokens: too many".to_owned());
            assert_eq!(error(400, body, dialect), (FailureKind::BadRequest, message), "{dialect:?}");
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
    fn a_vendors_message_contains_no_credential() {
        let message = "model: arn:aws:bedrock:us-east-1:123456789012:x is not open to sk-ant-api03-abcdef";
        let body = format!(
            r#"{{"error":{{"type":"invalid_request_error","message":"{message}"}},"message":"{message}"}}"#
        );
        for dialect in DialectId::ALL {
            let (_, shown) = error(400, &body, dialect);
            assert_eq!(shown.as_deref(), Some("model: [redacted] is not open to [redacted]"), "{dialect:?}");
        }
        // Also where truncation would cut through it.
        let long = format!("{} sk-ant-api03-abcdefghijklmnopqrstuvwxyz", "x".repeat(480));
        let body = format!(r#"{{"error":{{"type":"invalid_request_error","message":"{long}"}}}}"#);
        let (_, shown) = error(400, &body, DialectId::ANTHROPIC_MESSAGES);
        assert!(shown.is_some_and(|shown| shown.ends_with(" [redacted]")));
    }

    #[test]
    fn messages_are_truncated_and_sanitized() {
        assert_eq!(sanitize(" a\r\nb\tc\u{7}\u{1b}[31m\u{85}d "), Some("a  b c[31md".into()));
        assert_eq!(sanitize(&"é".repeat(500)).unwrap().chars().count(), 500);
        assert_eq!(sanitize(&"é".repeat(501)), sanitize(&"é".repeat(500)));
        assert_eq!((sanitize(""), sanitize("\n"), sanitize("\u{7}")), (None, None, None));
    }
}
