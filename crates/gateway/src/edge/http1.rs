//! Line checks for HTTP/1.1 heads.
//!
//! Heads are scanned line by line; bodies are skipped by the length or chunking that their head declares. A line that
//! this scanner cannot parse is changed into one that hyper rejects: hyper answers 400 and reads nothing more
//! from that connection. The scanner and hyper's parser therefore never disagree on where a request ends.

/// Longer than every line that matters: `transfer-encoding:`, or `content-length:` and twenty digits, with some blanks.
const LINE_START: usize = 64;

/// Replaces the LF of a line that ends with LF alone. No head may contain it, so hyper answers 400 and closes.
const FORBIDDEN: u8 = 0;

/// The first line of every HTTP/2 connection preface, and the length of the rest of the preface.
const HTTP2_LINE: &[u8] = b"PRI * HTTP/2.0";
const HTTP2_REST: usize = b"SM\r\n\r\n".len();

/// The scanner of one connection.
#[derive(Debug, Default)]
pub(super) struct HeadScanner {
    state: ParserState,
    line: LineBuffer,
    /// The body framing that the current head declares.
    body: BodyFraming,
    /// Whether a line of the head has been seen: blank lines before a request are skipped.
    has_begun: bool,
    /// Whether the head begins like an HTTP/2 preface. That is possible only at the start of a connection.
    is_http2: bool,
    is_past_first_request: bool,
}

/// The part of the message that is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ParserState {
    #[default]
    Head,
    /// This many more bytes of a body, or of a chunk and the line end behind it.
    Bytes {
        left: u64,
        is_chunk: bool,
    },
    ChunkSize,
    Trailers,
    /// This many more bytes of the HTTP/2 preface, before the frames.
    Preface {
        left: usize,
    },
    /// Input that hyper rejects; it reads nothing after it.
    Refused,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BodyFraming {
    #[default]
    None,
    Length(u64),
    Chunked,
}

/// The current line: its beginning, its length without LF, and its last byte.
#[derive(Debug)]
struct LineBuffer {
    start: [u8; LINE_START],
    length: usize,
    last: u8,
}

impl Default for LineBuffer {
    fn default() -> Self {
        Self { start: [0; LINE_START], length: 0, last: 0 }
    }
}

impl LineBuffer {
    fn push(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        if let Some(room) = self.start.get_mut(self.length..) {
            room.iter_mut().zip(bytes).for_each(|(target, byte)| *target = *byte);
        }
        self.length += bytes.len();
        self.last = *last;
    }

    fn start(&self) -> &[u8] {
        self.start.get(..self.length).unwrap_or(&self.start)
    }

    /// The line without its CR, or `None` if it is longer than any that matters.
    fn text(&self) -> Option<&[u8]> {
        self.start.get(..self.length.saturating_sub(1))
    }
}

impl HeadScanner {
    /// Checks these bytes. Returns the offset at which HTTP/2 frames begin, if they do.
    pub(super) fn check(&mut self, bytes: &mut [u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(rest) = bytes.get_mut(at..).filter(|rest| !rest.is_empty()) {
            at += match &mut self.state {
                ParserState::Refused => return None,
                ParserState::Bytes { left, is_chunk } => {
                    let skipped = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= skipped as u64;
                    if *left == 0 {
                        self.state = if *is_chunk { ParserState::ChunkSize } else { ParserState::Head };
                    }
                    skipped
                }
                ParserState::Preface { left } => {
                    let skipped = rest.len().min(*left);
                    *left -= skipped;
                    if *left == 0 {
                        return Some(at + skipped);
                    }
                    skipped
                }
                ParserState::Head | ParserState::ChunkSize | ParserState::Trailers => self.read_line(rest),
            };
        }
        None
    }

    /// Reads to the end of the line or of the input. Returns the number of bytes read.
    fn read_line(&mut self, bytes: &mut [u8]) -> usize {
        let Some(end) = memchr::memchr(b'\n', bytes) else {
            self.line.push(bytes);
            return bytes.len();
        };
        let (text, rest) = bytes.split_at_mut(end);
        self.line.push(text);
        let next = match self.state {
            _ if self.line.last != b'\r' => None,
            ParserState::Head => self.head_line(),
            ParserState::ChunkSize => self.chunk_size(),
            ParserState::Trailers if self.line.length == 1 => Some(self.end_request(ParserState::Head)),
            state => Some(state),
        };
        if next.is_none() {
            rest.iter_mut().take(1).for_each(|end| *end = FORBIDDEN);
        }
        self.state = next.unwrap_or(ParserState::Refused);
        (self.line.length, self.line.last) = (0, 0);
        end + 1
    }

    /// The part that follows this line of a head, or `None` if the line is malformed.
    fn head_line(&mut self) -> Option<ParserState> {
        let is_empty = self.line.length == 1;
        if is_empty && self.has_begun {
            let next = match self.body {
                _ if self.is_http2 => ParserState::Preface { left: HTTP2_REST },
                BodyFraming::None | BodyFraming::Length(0) => ParserState::Head,
                BodyFraming::Length(left) => ParserState::Bytes { left, is_chunk: false },
                BodyFraming::Chunked => ParserState::ChunkSize,
            };
            return Some(self.end_request(next));
        }
        if !self.has_begun {
            self.has_begun = !is_empty;
            self.is_http2 = !self.is_past_first_request && self.line.text() == Some(HTTP2_LINE);
        } else if is_header(self.line.start(), b"transfer-encoding") {
            // With any other coding hyper rejects the request and closes the connection.
            self.body = BodyFraming::Chunked;
        } else if is_header(self.line.start(), b"content-length") && self.body != BodyFraming::Chunked {
            let value = self.line.text()?.get(b"content-length:".len()..)?;
            self.body = BodyFraming::Length(parse_number::<10>(value)?);
        }
        Some(ParserState::Head)
    }

    /// The part that follows a chunk-size line.
    fn chunk_size(&self) -> Option<ParserState> {
        let start = self.line.start();
        // A chunk extension may be long; the size is not.
        let size = match memchr::memchr(b';', start) {
            Some(end) => start.get(..end)?,
            None => self.line.text()?,
        };
        Some(match parse_number::<16>(size)? {
            0 => ParserState::Trailers,
            size => ParserState::Bytes { left: size.saturating_add(2), is_chunk: true },
        })
    }

    fn end_request(&mut self, next: ParserState) -> ParserState {
        self.body = BodyFraming::None;
        (self.has_begun, self.is_past_first_request) = (false, true);
        next
    }
}

fn is_header(line: &[u8], name: &[u8]) -> bool {
    line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
        && line.get(name.len()) == Some(&b':')
}

fn parse_number<const RADIX: u32>(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    if text.is_empty() || !text.bytes().all(|byte| char::from(byte).is_digit(RADIX)) {
        return None;
    }
    u64::from_str_radix(text, RADIX).ok()
}
