//! Reading a response's head.
//!
//! Strict on purpose. Whoever disagrees with the peer about where a response ends takes the rest of it for the
//! answer to the next request. So a head that could be read in two ways is a failure, and its connection is closed.

use bytes::Bytes;
use memchr::memchr_iter;
use std::mem::MaybeUninit;

/// The longest head that is read.
pub const HEAD_LIMIT: usize = 64 * 1024;
/// The most headers that a head may have.
pub const HEADER_LIMIT: usize = 64;

/// Why a response head cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadFault {
    /// It does not begin like a response of HTTP/1.
    #[error("not HTTP/1")]
    NotHttp,
    /// A line, a name or a value is malformed; a header folded over two lines is.
    #[error("malformed")]
    Malformed,
    /// A line ends in LF without CR.
    #[error("a line ends without CR")]
    BareLineFeed,
    /// More than [`HEADER_LIMIT`] headers.
    #[error("too many headers")]
    TooManyHeaders,
    /// A length that is no number, or two that differ.
    #[error("bad content-length")]
    BadLength,
    /// A transfer coding other than chunked, or several.
    #[error("unknown transfer-encoding")]
    UnknownCoding,
    /// Both a length and chunks.
    #[error("content-length beside transfer-encoding")]
    LengthAndChunks,
    /// The peer changes the protocol, which nobody asked for.
    #[error("unasked change of protocol")]
    SwitchedProtocol,
    /// One interim response after the other.
    #[error("too many interim responses")]
    TooManyInterim,
    /// The peer breaks the rules of HTTP/2.
    #[error("not HTTP/2")]
    NotHttp2,
}

/// The headers of a response, in their order.
#[derive(Clone, Debug)]
pub struct Headers {
    head: Bytes,
    /// Elsewhere, because headers go through many hands.
    spans: Vec<Span>,
}

/// Where in the head a header stands. 16 bits suffice: the limit of a head is 64 KiB, and its last bytes are no header's.
#[derive(Clone, Copy, Debug)]
struct Span {
    name_start: u16,
    name_end: u16,
    value_start: u16,
    value_end: u16,
}

impl Headers {
    /// The first header of this name, whatever its case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// Names and values. Names are as the peer wrote them; values may hold any byte but control characters.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.spans.iter().map(|span| (self.name(span), self.value(span)))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let is_named = move |span: &&Span| self.name_bytes(span).eq_ignore_ascii_case(name.as_bytes());
        self.spans.iter().filter(is_named).map(|span| self.value(span))
    }

    fn name(&self, span: &Span) -> &str {
        // The parser lets only ASCII pass as a name.
        std::str::from_utf8(self.name_bytes(span)).unwrap_or_default()
    }

    fn name_bytes(&self, span: &Span) -> &[u8] {
        &self.head[usize::from(span.name_start)..usize::from(span.name_end)]
    }

    fn value(&self, span: &Span) -> &[u8] {
        &self.head[usize::from(span.value_start)..usize::from(span.value_end)]
    }
}

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// A head that was read whole.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: Headers,
    pub(super) framing: Framing,
    /// Whether the peer will take another request on this connection.
    pub(super) keeps_open: bool,
}

/// Looks for the end of a head that arrives piece by piece, reading each byte once.
#[derive(Debug, Default)]
pub(super) struct HeadSearch {
    searched: usize,
}

impl HeadSearch {
    /// The length of the head at the front of `received`, once it is whole.
    pub(super) fn end(&mut self, received: &[u8]) -> Result<Option<usize>, HeadFault> {
        const START: &[u8] = b"HTTP/1.";
        let seen = received.len().min(START.len());
        if received[..seen] != START[..seen] {
            return Err(HeadFault::NotHttp);
        }
        for found in memchr_iter(b'\n', &received[self.searched..]) {
            let line = &received[..self.searched + found];
            if !line.ends_with(b"\r") {
                return Err(HeadFault::BareLineFeed);
            }
            if line.ends_with(b"\r\n\r") {
                return Ok(Some(line.len() + 1));
            }
        }
        self.searched = received.len();
        Ok(None)
    }
}

/// Reads a whole head. `answers_head` tells that the request was a `HEAD`, whose response has no body.
pub(super) fn parse(head: Bytes, answers_head: bool) -> Result<Head, HeadFault> {
    let mut storage = [const { MaybeUninit::uninit() }; HEADER_LIMIT];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        &head,
        &mut storage,
    );
    match parsed {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err(HeadFault::TooManyHeaders),
        Ok(_) | Err(_) => return Err(HeadFault::Malformed),
    }
    let (Some(status), Some(version)) = (response.code, response.version) else {
        return Err(HeadFault::Malformed);
    };
    let mut spans = Vec::with_capacity(response.headers.len());
    for header in response.headers.iter() {
        spans.push(span(&head, header)?);
    }
    let headers = Headers { head, spans };
    let framing = framing(&headers, status, answers_head)?;
    let keeps_open = version == 1 && framing != Framing::UntilClose && !says_close(&headers);
    Ok(Head { status, headers, framing, keeps_open })
}

fn span(head: &[u8], header: &httparse::Header<'_>) -> Result<Span, HeadFault> {
    let place = |part: &[u8]| {
        let start = part.as_ptr().addr().wrapping_sub(head.as_ptr().addr());
        // An empty value's place is of no matter, and might be anywhere.
        let start = if part.is_empty() { 0 } else { start };
        Ok::<_, std::num::TryFromIntError>((u16::try_from(start)?, u16::try_from(start + part.len())?))
    };
    let (name_start, name_end) = place(header.name.as_bytes()).map_err(|_| HeadFault::Malformed)?;
    let (value_start, value_end) = place(header.value).map_err(|_| HeadFault::Malformed)?;
    Ok(Span { name_start, name_end, value_start, value_end })
}

fn framing(headers: &Headers, status: u16, answers_head: bool) -> Result<Framing, HeadFault> {
    let length = length(headers)?;
    let mut codings = headers.all("transfer-encoding");
    let framing = match (codings.next(), codings.next(), length) {
        (Some(_), _, Some(_)) => return Err(HeadFault::LengthAndChunks),
        (Some(coding), None, None) if coding.eq_ignore_ascii_case(b"chunked") => Framing::Chunked,
        (Some(_), _, None) => return Err(HeadFault::UnknownCoding),
        (None, _, Some(length)) => Framing::Length(length),
        (None, _, None) => Framing::UntilClose,
    };
    let has_no_body = answers_head || status < 200 || matches!(status, 204 | 304);
    Ok(if has_no_body { Framing::Length(0) } else { framing })
}

/// The length that all `content-length` headers agree on.
fn length(headers: &Headers) -> Result<Option<u64>, HeadFault> {
    let mut agreed = None;
    for value in headers.all("content-length").flat_map(|value| value.split(|byte| *byte == b',')) {
        let length = digits(value.trim_ascii()).ok_or(HeadFault::BadLength)?;
        if agreed.replace(length).is_some_and(|before| before != length) {
            return Err(HeadFault::BadLength);
        }
    }
    Ok(agreed)
}

/// A number written in digits alone: the usual parser would let a plus sign pass.
fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

fn says_close(headers: &Headers) -> bool {
    let mut options = headers.all("connection").flat_map(|value| value.split(|byte| *byte == b','));
    options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}
