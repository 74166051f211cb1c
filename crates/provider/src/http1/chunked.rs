//! Decoder for chunked transfer coding.
//!
//! Works on the bytes of any read, wherever it was split. The chunks of one read are compacted in place, so that a
//! burst of fifty small events becomes one frame: few bytes are moved, and they are already in the cache, while fifty
//! frames would cost fifty passes through the gateway and, at worst, fifty writes. A read with part of a single chunk
//! moves nothing.
//!
//! Extensions and trailers are skipped. Lines must end in CR LF: a line end that parsers interpret differently enables
//! response splitting.

use memchr::memchr2;
use std::ops::Range;

/// Maximum total size of the extensions and trailers of a body.
const DROPPED_LIMIT: usize = 16 * 1024;
/// As many as fit into 64 bits, so that a size cannot overflow.
const MOST_DIGITS: u8 = 16;

/// The chunked coding is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadChunk;

/// The result of [`Chunked::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decoded {
    /// The position of the payload in the input.
    pub(super) payload: Range<usize>,
    /// How much of the input was consumed. Less than all of it only when the body has ended.
    pub(super) consumed: usize,
}

/// The state of the decoder.
#[derive(Clone, Debug)]
pub(super) struct Chunked {
    place: Place,
    /// The size being parsed, or the number of bytes of the chunk that are still to come.
    remaining: u64,
    digits: u8,
    dropped: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Size,
    /// Blanks between a size and what follows it.
    Padding,
    Extension,
    SizeLineFeed,
    Payload,
    PayloadReturn,
    PayloadLineFeed,
    /// At the start of a line after the last chunk.
    Trailer,
    InTrailer,
    TrailerLineFeed,
    LastLineFeed,
    End,
}

impl Chunked {
    pub(super) const fn new() -> Self {
        Self { place: Place::Size, remaining: 0, digits: 0, dropped: 0 }
    }

    pub(super) fn is_done(&self) -> bool {
        self.place == Place::End
    }

    /// Decodes the input and compacts the payload in it.
    pub(super) fn decode(&mut self, input: &mut [u8]) -> Result<Decoded, BadChunk> {
        let mut payload = 0..0;
        let mut at = 0;
        while at < input.len() && !self.is_done() {
            at += match self.place {
                Place::Payload => self.take_payload(input, at, &mut payload),
                Place::Extension | Place::InTrailer => self.drop_until_line_end(&input[at..])?,
                _ => {
                    self.place = self.step(input[at])?;
                    1
                }
            };
        }
        Ok(Decoded { payload, consumed: at })
    }

    fn take_payload(&mut self, input: &mut [u8], at: usize, payload: &mut Range<usize>) -> usize {
        let there = input.len() - at;
        let taken = usize::try_from(self.remaining).map_or(there, |remaining| remaining.min(there));
        if payload.start == payload.end {
            *payload = at..at + taken;
        } else {
            input.copy_within(at..at + taken, payload.end);
            payload.end += taken;
        }
        self.remaining -= taken as u64;
        if self.remaining == 0 {
            self.place = Place::PayloadReturn;
        }
        taken
    }

    fn drop_until_line_end(&mut self, input: &[u8]) -> Result<usize, BadChunk> {
        let end = memchr2(b'\r', b'\n', input);
        let dropped = end.unwrap_or(input.len());
        self.dropped += dropped;
        if self.dropped > DROPPED_LIMIT {
            return Err(BadChunk);
        }
        let Some(end) = end else { return Ok(dropped) };
        self.place = match (input[end], self.place) {
            (b'\r', Place::Extension) => Place::SizeLineFeed,
            (b'\r', _) => Place::TrailerLineFeed,
            _ => return Err(BadChunk),
        };
        Ok(dropped + 1)
    }

    fn step(&mut self, byte: u8) -> Result<Place, BadChunk> {
        Ok(match (self.place, byte) {
            (Place::Size, b'0'..=b'9') => self.add_digit(byte - b'0')?,
            (Place::Size, b'a'..=b'f') => self.add_digit(byte - b'a' + 10)?,
            (Place::Size, b'A'..=b'F') => self.add_digit(byte - b'A' + 10)?,
            (Place::Size, _) if self.digits == 0 => return Err(BadChunk),
            (Place::Size | Place::Padding, b'\r') => Place::SizeLineFeed,
            (Place::Size | Place::Padding, b';') => Place::Extension,
            (Place::Size | Place::Padding, b' ' | b'\t') => self.pad()?,
            (Place::SizeLineFeed, b'\n') => {
                self.digits = 0;
                if self.remaining == 0 { Place::Trailer } else { Place::Payload }
            }
            (Place::PayloadReturn, b'\r') => Place::PayloadLineFeed,
            (Place::PayloadLineFeed, b'\n') => Place::Size,
            (Place::Trailer, b'\r') => Place::LastLineFeed,
            (Place::Trailer, b'\n') => return Err(BadChunk),
            (Place::Trailer, _) => Place::InTrailer,
            (Place::TrailerLineFeed, b'\n') => Place::Trailer,
            (Place::LastLineFeed, b'\n') => Place::End,
            _ => return Err(BadChunk),
        })
    }

    fn add_digit(&mut self, digit: u8) -> Result<Place, BadChunk> {
        if self.digits == MOST_DIGITS {
            return Err(BadChunk);
        }
        self.digits += 1;
        self.remaining = (self.remaining << 4) + u64::from(digit);
        Ok(Place::Size)
    }

    fn pad(&mut self) -> Result<Place, BadChunk> {
        self.dropped += 1;
        if self.dropped > DROPPED_LIMIT { Err(BadChunk) } else { Ok(Place::Padding) }
    }
}
