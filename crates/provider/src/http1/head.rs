//! Parses response heads.
//!
//! Strict on purpose: a client that disagrees with the peer about where a response ends takes the rest of it for the
//! answer to the next request (response desynchronization). A head that can be interpreted in two ways is therefore a
//! failure, and its connection is closed.

use bytes::Bytes;
use memchr::memchr_iter;
use std::mem::MaybeUninit;

/// Maximum size of a head.
pub const HEAD_LIMIT: usize = 64 * 1024;
/// Maximum number of headers.
pub const HEADER_LIMIT: usize = 64;

/// Why a response head is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// It does not begin like an HTTP/1 response.
    #[error("not HTTP/1")]
    NotHttp,
    /// A line, a name or a value is malformed, for example a folded header.
    #[error("malformed")]
    Malformed,
    /// A line ends in LF without CR.
    #[error("a line ends in LF without CR")]
    BareLineFeed,
    /// More than [`HEADER_LIMIT`] headers.
    #[error("too many headers")]
    TooManyHeaders,
    /// A `content-length` that is not a number, or two that differ.
    #[error("invalid content-length")]
    BadLength,
    /// A transfer coding other than chunked, or several.
    #[error("unsupported transfer-encoding")]
    UnknownCoding,
    /// Both a `content-length` and chunked coding.
    #[error("both content-length and transfer-encoding")]
    LengthAndChunks,
    /// The peer switches protocols without being asked.
    #[error("unrequested protocol switch")]
    SwitchedProtocol,
    /// Too many interim responses.
    #[error("too many interim responses")]
    TooManyInterim,
    /// The peer violates HTTP/2.
    #[error("not HTTP/2")]
    NotHttp2,
}

/// The headers of a response, in order.
#[derive(Clone, Debug)]
pub struct Http1Headers {
    head: Bytes,
    /// On the heap, because headers are moved often.
    spans: Vec<Span>,
}

/// The position of a header in the head. 16 bits suffice: a head has at most 64 KiB, and its last bytes belong to no
/// header.
#[derive(Clone, Copy, Debug)]
struct Span {
    name_start: u16,
    name_end: u16,
    value_start: u16,
    value_end: u16,
}

impl Http1Headers {
    /// The first header with this name, case-insensitive.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// Names and values. Names are as the peer wrote them; values may contain any byte except control characters.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.spans.iter().map(|span| (self.name(span), self.value(span)))
    }

    /// The number of headers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are no headers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let is_named = move |span: &&Span| self.name_bytes(span).eq_ignore_ascii_case(name.as_bytes());
        self.spans.iter().filter(is_named).map(|span| self.value(span))
    }

    fn name(&self, span: &Span) -> &str {
        // The parser accepts only ASCII names.
        std::str::from_utf8(self.name_bytes(span)).unwrap_or_default()
    }

    fn name_bytes(&self, span: &Span) -> &[u8] {
        &self.head[usize::from(span.name_start)..usize::from(span.name_end)]
    }

    fn value(&self, span: &Span) -> &[u8] {
        &self.head[usize::from(span.value_start)..usize::from(span.value_end)]
    }
}

/// How the end of a body is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseFraming {
    Length(u64),
    Chunked,
    UntilClose,
}

/// A parsed head.
#[derive(Debug)]
pub(super) struct ResponseHead {
    pub(super) status: u16,
    pub(super) headers: Http1Headers,
    pub(super) framing: ResponseFraming,
    /// Whether the peer accepts another request on this connection.
    pub(super) keep_alive: bool,
}

/// Incremental search for the end of a head; examines each byte once.
#[derive(Debug, Default)]
pub(super) struct HeadSearch {
    searched: usize,
}

impl HeadSearch {
    /// The length of the head at the start of `received`, once it is complete.
    pub(super) fn end(&mut self, received: &[u8]) -> Result<Option<usize>, HeadError> {
        const START: &[u8] = b"HTTP/1.";
        let seen = received.len().min(START.len());
        if received[..seen] != START[..seen] {
            return Err(HeadError::NotHttp);
        }
        for found in memchr_iter(b'\n', &received[self.searched..]) {
            let line = &received[..self.searched + found];
            if !line.ends_with(b"\r") {
                return Err(HeadError::BareLineFeed);
            }
            if line.ends_with(b"\r\n\r") {
                return Ok(Some(line.len() + 1));
            }
        }
        self.searched = received.len();
        Ok(None)
    }
}

/// Parses a complete head. `answers_head` means that the request was a `HEAD`, whose response has no body.
pub(super) fn parse(head: Bytes, answers_head: bool) -> Result<ResponseHead, HeadError> {
    let mut storage = [const { MaybeUninit::uninit() }; HEADER_LIMIT];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        &head,
        &mut storage,
    );
    match parsed {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooManyHeaders),
        Ok(_) | Err(_) => return Err(HeadError::Malformed),
    }
    let (Some(status), Some(version)) = (response.code, response.version) else {
        return Err(HeadError::Malformed);
    };
    let mut spans = Vec::with_capacity(response.headers.len());
    for header in response.headers.iter() {
        spans.push(span(&head, header)?);
    }
    let headers = Http1Headers { head, spans };
    let framing = framing(&headers, status, answers_head)?;
    let keep_alive =
        version == 1 && framing != ResponseFraming::UntilClose && !has_connection_close(&headers);
    Ok(ResponseHead { status, headers, framing, keep_alive })
}

fn span(head: &[u8], header: &httparse::Header<'_>) -> Result<Span, HeadError> {
    let span_of = |part: &[u8]| {
        let start = part.as_ptr().addr().wrapping_sub(head.as_ptr().addr());
        // The pointer of an empty value may point anywhere, so it is ignored.
        let start = if part.is_empty() { 0 } else { start };
        Ok::<_, std::num::TryFromIntError>((u16::try_from(start)?, u16::try_from(start + part.len())?))
    };
    let (name_start, name_end) = span_of(header.name.as_bytes()).map_err(|_| HeadError::Malformed)?;
    let (value_start, value_end) = span_of(header.value).map_err(|_| HeadError::Malformed)?;
    Ok(Span { name_start, name_end, value_start, value_end })
}

fn framing(headers: &Http1Headers, status: u16, answers_head: bool) -> Result<ResponseFraming, HeadError> {
    let length = length(headers)?;
    let mut codings = headers.all("transfer-encoding");
    let framing = match (codings.next(), codings.next(), length) {
        (Some(_), _, Some(_)) => return Err(HeadError::LengthAndChunks),
        (Some(coding), None, None) if coding.eq_ignore_ascii_case(b"chunked") => ResponseFraming::Chunked,
        (Some(_), _, None) => return Err(HeadError::UnknownCoding),
        (None, _, Some(length)) => ResponseFraming::Length(length),
        (None, _, None) => ResponseFraming::UntilClose,
    };
    let has_no_body = answers_head || status < 200 || matches!(status, 204 | 304);
    Ok(if has_no_body { ResponseFraming::Length(0) } else { framing })
}

/// The length that all `content-length` headers agree on.
fn length(headers: &Http1Headers) -> Result<Option<u64>, HeadError> {
    let mut agreed = None;
    for value in headers.all("content-length").flat_map(|value| value.split(|byte| *byte == b',')) {
        let length = digits(value.trim_ascii()).ok_or(HeadError::BadLength)?;
        if agreed.replace(length).is_some_and(|before| before != length) {
            return Err(HeadError::BadLength);
        }
    }
    Ok(agreed)
}

/// Parses digits only: the standard parser would accept a plus sign.
fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

fn has_connection_close(headers: &Http1Headers) -> bool {
    let mut options = headers.all("connection").flat_map(|value| value.split(|byte| *byte == b','));
    options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}
