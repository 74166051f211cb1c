//! AWS event-stream frames: lengths, text headers, a payload, and two checksums that are verified.

/// Size of the lengths and their checksum.
const PRELUDE: usize = 12;
/// Size of a frame without headers and payload.
const AROUND: usize = 16;
/// Longer than any frame of ours.
const LONGEST: usize = 1 << 24;
/// The type of a text header.
const TEXT: u8 = 7;

/// Bytes of an incomplete frame.
#[derive(Debug, Default)]
pub(super) struct Frames {
    rest: Vec<u8>,
    is_wrong: bool,
}

/// The result of parsing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// More bytes are needed.
    More,
    /// Not a frame: nothing after it can be parsed.
    Wrong,
    /// A frame: an event or an exception, and its payload.
    Frame {
        /// The name of the event or exception.
        name: String,
        /// The JSON payload.
        payload: Vec<u8>,
    },
}

impl Frames {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    pub(super) fn next(&mut self) -> Next {
        if self.is_wrong {
            return Next::Wrong;
        }
        let Some(prelude) = self.rest.get(..PRELUDE) else { return Next::More };
        let (length, headers) = (number(prelude, 0), number(prelude, 4));
        if length > LONGEST || headers > length || length - headers < AROUND || !is_summed(prelude) {
            self.is_wrong = true;
            return Next::Wrong;
        }
        if self.rest.len() < length {
            return Next::More;
        }
        let frame: Vec<u8> = self.rest.drain(..length).collect();
        let name = if is_summed(&frame) { name(&frame[PRELUDE..PRELUDE + headers]) } else { None };
        let Some(name) = name else {
            self.is_wrong = true;
            return Next::Wrong;
        };
        Next::Frame { name, payload: frame[PRELUDE + headers..length - 4].to_vec() }
    }
}

/// The big-endian number at this offset; zero if out of range.
fn number(bytes: &[u8], at: usize) -> usize {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map_or(0, u32::from_be_bytes) as usize
}

/// Whether these bytes end with their own checksum.
fn is_summed(bytes: &[u8]) -> bool {
    let end = bytes.len().saturating_sub(4);
    crc32fast::hash(&bytes[..end]) as usize == number(bytes, end)
}

/// The name of the event or the exception among these headers.
fn name(mut headers: &[u8]) -> Option<String> {
    let mut name = None;
    while let Some((length, rest)) = headers.split_first() {
        let (key, rest) = rest.split_at_checked(usize::from(*length))?;
        let (kind, rest) = rest.split_first()?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        if *kind != TEXT {
            return None;
        }
        if matches!(key, b":event-type" | b":exception-type") {
            name = Some(String::from_utf8(value.to_vec()).ok()?);
        }
        headers = rest;
    }
    name
}
