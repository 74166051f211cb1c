//! AWS event-stream frames: lengths, text headers, a payload, and two checksums that are verified.

/// Size of the lengths and their checksum.
const PRELUDE: usize = 12;
/// Size of a frame without headers and payload.
const MIN_FRAME: usize = 16;
/// Longer than any frame of ours.
const MAX_FRAME: usize = 1 << 24;
/// The type of a text header.
const STRING_HEADER: u8 = 7;

/// Bytes of an incomplete frame.
#[derive(Debug, Default)]
pub(super) struct FrameDecoder {
    buffer: Vec<u8>,
    is_invalid: bool,
}

/// The result of parsing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextFrame {
    /// More bytes are needed.
    Incomplete,
    /// Not a frame: nothing after it can be parsed.
    Invalid,
    /// A frame: an event or an exception, and its payload.
    Frame {
        /// The name of the event or exception.
        name: String,
        /// The JSON payload.
        payload: Vec<u8>,
    },
}

impl FrameDecoder {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    pub(super) fn next(&mut self) -> NextFrame {
        if self.is_invalid {
            return NextFrame::Invalid;
        }
        let Some(prelude) = self.buffer.get(..PRELUDE) else { return NextFrame::Incomplete };
        let (length, headers) = (number(prelude, 0), number(prelude, 4));
        if length > MAX_FRAME
            || headers > length
            || length - headers < MIN_FRAME
            || !has_valid_checksum(prelude)
        {
            self.is_invalid = true;
            return NextFrame::Invalid;
        }
        if self.buffer.len() < length {
            return NextFrame::Incomplete;
        }
        let frame: Vec<u8> = self.buffer.drain(..length).collect();
        let name = if has_valid_checksum(&frame) { name(&frame[PRELUDE..PRELUDE + headers]) } else { None };
        let Some(name) = name else {
            self.is_invalid = true;
            return NextFrame::Invalid;
        };
        NextFrame::Frame { name, payload: frame[PRELUDE + headers..length - 4].to_vec() }
    }
}

/// The big-endian number at this offset; zero if out of range.
fn number(bytes: &[u8], at: usize) -> usize {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map_or(0, u32::from_be_bytes) as usize
}

/// Whether these bytes end with their own checksum.
fn has_valid_checksum(bytes: &[u8]) -> bool {
    let end = bytes.len().saturating_sub(4);
    crc32fast::hash(&bytes[..end]) as usize == number(bytes, end)
}

/// The name of the event or the exception among these headers.
fn name(mut headers: &[u8]) -> Option<String> {
    let mut name = None;
    while let Some((length, remaining)) = headers.split_first() {
        let (key, remaining) = remaining.split_at_checked(usize::from(*length))?;
        let (kind, remaining) = remaining.split_first()?;
        let (length, remaining) = remaining.split_first_chunk::<2>()?;
        let (value, remaining) = remaining.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        if *kind != STRING_HEADER {
            return None;
        }
        if matches!(key, b":event-type" | b":exception-type") {
            name = Some(String::from_utf8(value.to_vec()).ok()?);
        }
        headers = remaining;
    }
    name
}
