//! Incremental parser for server-sent events.

use std::mem;
use std::ops::Range;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
const DATA_FIELD: &[u8] = b"data:";

/// Limits on what the reader buffers for one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseLimits {
    /// Maximum line length in bytes, without its line ending.
    pub max_line_bytes: usize,
    /// Maximum event size in bytes: its name and its joined data.
    pub max_event_bytes: usize,
}

impl Default for SseLimits {
    /// 4 MiB per line, which holds a base64 image of 3 MiB, and as much per event.
    fn default() -> Self {
        Self { max_line_bytes: 4 << 20, max_event_bytes: 4 << 20 }
    }
}

/// A limit that the stream exceeded; reading stops for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// A line exceeds the limit.
    #[error("a line of the stream is longer than {limit} bytes")]
    LineTooLong {
        /// The configured limit.
        limit: usize,
    },
    /// An event exceeds the limit.
    #[error("an event of the stream is larger than {limit} bytes")]
    EventTooLarge {
        /// The configured limit.
        limit: usize,
    },
}

/// One event. Both parts are raw bytes; neither is checked to be UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The event type; empty if the event has none.
    pub name: &'a [u8],
    /// The data; empty if the reader skips the data of events of this name.
    pub data: &'a [u8],
}

/// Where the stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SseEnding {
    /// Between two events.
    Clean,
    /// Inside an event, which is discarded.
    Unfinished,
}

/// Reads events from a byte stream.
///
/// ```
/// use seawall_wire::sse::{SseLimits, SseReader};
///
/// let mut names = Vec::new();
/// let mut reader = SseReader::new(SseLimits::default());
/// for piece in [&b"event: gr"[..], b"eeting\r\ndata: he", b"llo\r\n\r", b"\n"] {
///     reader.feed(piece, |event| names.push((event.name.to_vec(), event.data.to_vec())))?;
/// }
/// assert_eq!(names, [(b"greeting".to_vec(), b"hello".to_vec())]);
/// # Ok::<(), seawall_wire::sse::SseError>(())
/// ```
#[derive(Debug)]
pub struct SseReader {
    limits: SseLimits,
    wants_data: fn(&[u8]) -> bool,
    start: Start,
    /// The last line ended with a carriage return; a line feed that follows belongs to the same line ending.
    after_return: bool,
    /// The buffered part of an incomplete line from earlier chunks, as far as it is needed.
    line: Vec<u8>,
    /// The full length of that incomplete line, including bytes that were not buffered.
    line_length: usize,
    name: Vec<u8>,
    data: Vec<u8>,
    /// The joined length of the event's data so far, whether copied or not; `None` before its first data line.
    data_length: Option<usize>,
    has_data: bool,
    failed: Option<SseError>,
}

/// How much of a byte order mark has been seen at the start of the stream.
#[derive(Clone, Copy, Debug)]
enum Start {
    Matched(usize),
    Over,
}

impl SseReader {
    /// Creates a reader at the start of a stream.
    #[must_use]
    pub const fn new(limits: SseLimits) -> Self {
        Self {
            limits,
            wants_data: |_| true,
            start: Start::Matched(0),
            after_return: false,
            line: Vec::new(),
            line_length: 0,
            name: Vec::new(),
            data: Vec::new(),
            data_length: None,
            has_data: false,
            failed: None,
        }
    }

    /// Skips the data of events for whose name `wants_data` returns false. Such events are still reported, without
    /// data. If an event sets its name twice, data that arrived under an unwanted name stays lost.
    #[must_use]
    pub const fn with_data_filter(mut self, wants_data: fn(&[u8]) -> bool) -> Self {
        self.wants_data = wants_data;
        self
    }

    /// Parses the next chunk and calls `on_event` for each event that it completes.
    ///
    /// After an error, every further call returns the same error.
    pub fn feed(&mut self, bytes: &[u8], mut on_event: impl FnMut(SseEvent<'_>)) -> Result<(), SseError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let outcome = self.read(bytes, &mut on_event);
        self.failed = outcome.err();
        outcome
    }

    /// Approximate size in bytes of the incomplete event received so far; line endings are not counted.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.line_length.saturating_add(self.data_length.unwrap_or(0))
    }

    /// Reports whether the stream is between events or inside one, assuming it ends here.
    #[must_use]
    pub fn finish(&self) -> SseEnding {
        let in_mark = matches!(self.start, Start::Matched(1..));
        let in_line = self.line_length > 0 && !self.line.starts_with(b":");
        if in_mark || in_line || self.has_data || !self.name.is_empty() {
            SseEnding::Unfinished
        } else {
            SseEnding::Clean
        }
    }

    fn read(&mut self, bytes: &[u8], on_event: &mut impl FnMut(SseEvent<'_>)) -> Result<(), SseError> {
        let mut at = self.skip_byte_order_mark(bytes);
        // Data of the current event that lies in `bytes` as one slice and has not been copied.
        let mut borrowed: Option<Range<usize>> = None;
        while at < bytes.len() {
            if mem::take(&mut self.after_return) && bytes[at] == b'\n' {
                at += 1;
                continue;
            }
            let Some(length) = memchr::memchr2(b'\n', b'\r', &bytes[at..]) else {
                self.carry(&bytes[at..])?;
                break;
            };
            let line = at..at + length;
            at = line.end + 1;
            self.after_return = bytes[line.end] == b'\r';
            self.check_line(self.line_length + length)?;
            if self.line_length > 0 {
                self.end_carried_line(&bytes[line])?;
            } else if line.is_empty() {
                self.end_event(borrowed.take().map(|range| &bytes[range]), on_event);
            } else {
                self.end_whole_line(bytes, line, &mut borrowed)?;
            }
        }
        if let Some(range) = borrowed {
            self.data.extend_from_slice(&bytes[range]);
        }
        Ok(())
    }

    fn skip_byte_order_mark(&mut self, bytes: &[u8]) -> usize {
        let Start::Matched(before) = self.start else { return 0 };
        let expected = &BYTE_ORDER_MARK[before..];
        let matched = expected.iter().zip(bytes).take_while(|(mark, byte)| mark == byte).count();
        if before + matched == BYTE_ORDER_MARK.len() {
            self.start = Start::Over;
        } else if matched == bytes.len() {
            self.start = Start::Matched(before + matched);
        } else {
            // It was not a byte order mark: the bytes belong to the first line.
            self.start = Start::Over;
            self.line.extend_from_slice(&BYTE_ORDER_MARK[..before]);
            self.line_length = before;
            return 0;
        }
        matched
    }

    /// Buffers the beginning of a line whose end has not arrived. Bytes that will not be read are only counted.
    fn carry(&mut self, piece: &[u8]) -> Result<(), SseError> {
        self.check_line(self.line_length + piece.len())?;
        let start = if self.line.is_empty() { piece } else { &self.line };
        let needed = if start.starts_with(b":") {
            1
        } else if start.starts_with(DATA_FIELD) && self.skips_data() {
            DATA_FIELD.len()
        } else {
            usize::MAX
        };
        let missing = needed.saturating_sub(self.line.len()).min(piece.len());
        self.line.extend_from_slice(&piece[..missing]);
        self.line_length += piece.len();
        Ok(())
    }

    fn end_carried_line(&mut self, rest: &[u8]) -> Result<(), SseError> {
        self.carry(rest)?;
        let line = mem::take(&mut self.line);
        self.line_length = 0;
        let outcome = self.end_carried_field(&Field::of(&line));
        // Kept to reuse the allocation.
        self.line = line;
        self.line.clear();
        outcome
    }

    fn end_carried_field(&mut self, field: &Field<'_>) -> Result<(), SseError> {
        let Field::Data(value) = field else { return self.take_name(field) };
        match self.take_data(value.len())? {
            DataLine::Skipped => {}
            DataLine::First => self.data.extend_from_slice(value),
            DataLine::Continued => self.join(value),
        }
        Ok(())
    }

    fn end_whole_line(
        &mut self,
        bytes: &[u8],
        line: Range<usize>,
        borrowed: &mut Option<Range<usize>>,
    ) -> Result<(), SseError> {
        let field = Field::of(&bytes[line.clone()]);
        let Field::Data(value) = field else { return self.take_name(&field) };
        match self.take_data(value.len())? {
            DataLine::Skipped => {}
            DataLine::First => *borrowed = Some(line.end - value.len()..line.end),
            DataLine::Continued => {
                if let Some(range) = borrowed.take() {
                    self.data.extend_from_slice(&bytes[range]);
                }
                self.join(value);
            }
        }
        Ok(())
    }

    fn join(&mut self, value: &[u8]) {
        self.data.push(b'\n');
        self.data.extend_from_slice(value);
    }

    /// Adds a data line of this length to the event's size and returns how to store it.
    fn take_data(&mut self, length: usize) -> Result<DataLine, SseError> {
        self.has_data = true;
        if self.skips_data() {
            return Ok(DataLine::Skipped);
        }
        let (line, joined) = match self.data_length {
            None => (DataLine::First, length),
            Some(before) => (DataLine::Continued, before + 1 + length),
        };
        self.check_event(self.name.len() + joined)?;
        self.data_length = Some(joined);
        Ok(line)
    }

    fn take_name(&mut self, field: &Field<'_>) -> Result<(), SseError> {
        if let Field::Name(name) = field {
            self.check_event(name.len() + self.data_length.unwrap_or(0))?;
            self.name.clear();
            self.name.extend_from_slice(name);
        }
        Ok(())
    }

    fn end_event(&mut self, borrowed: Option<&[u8]>, on_event: &mut impl FnMut(SseEvent<'_>)) {
        if mem::take(&mut self.has_data) {
            let data = borrowed.unwrap_or(&self.data);
            let data = if (self.wants_data)(&self.name) { data } else { &[] };
            on_event(SseEvent { name: &self.name, data });
        }
        self.name.clear();
        self.data.clear();
        self.data_length = None;
    }

    /// Whether the data of the current event is known to be unwanted. An event without a name may still get one.
    fn skips_data(&self) -> bool {
        !self.name.is_empty() && !(self.wants_data)(&self.name)
    }

    fn check_line(&self, length: usize) -> Result<(), SseError> {
        let limit = self.limits.max_line_bytes;
        if length > limit { Err(SseError::LineTooLong { limit }) } else { Ok(()) }
    }

    fn check_event(&self, size: usize) -> Result<(), SseError> {
        let limit = self.limits.max_event_bytes;
        if size > limit { Err(SseError::EventTooLarge { limit }) } else { Ok(()) }
    }
}

/// How to store a data line.
enum DataLine {
    /// Discarded: the data is not wanted.
    Skipped,
    /// The first data line of the event.
    First,
    /// Appended to earlier data lines after a line feed.
    Continued,
}

/// A parsed line.
enum Field<'a> {
    Name(&'a [u8]),
    Data(&'a [u8]),
    /// A comment, or a field that this reader ignores.
    Other,
}

impl<'a> Field<'a> {
    fn of(line: &'a [u8]) -> Self {
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => Self::Data(value),
            b"event" => Self::Name(value),
            _ => Self::Other,
        }
    }
}
