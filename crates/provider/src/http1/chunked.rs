//! Reading a body that comes in chunks.
//!
//! Works on whatever bytes a read brought, wherever the cut fell. The chunks that one read brought are pushed together
//! in place, so that a burst of fifty small events leaves as one frame: the bytes moved are few and already in the
//! cache, while fifty frames would cost fifty trips through the gateway and, at worst, fifty writes. A read that holds
//! part of one chunk only moves nothing.
//!
//! Extensions and trailers are read over and dropped. Lines must end in CR LF; what some would read as an end and
//! others not is how one response is made to look like two.

use memchr::memchr2;
use std::ops::Range;

/// All extensions and trailers of one body together may be this long.
const DROPPED_LIMIT: usize = 16 * 1024;
/// As many as fit 64 bits, so that a size cannot overflow.
const MOST_DIGITS: u8 = 16;

/// The chunks are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadChunk;

/// What [`Chunked::decode`] made of its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decoded {
    /// Where in the input the payload now stands.
    pub(super) payload: Range<usize>,
    /// How much of the input was used up. Less than all of it only when the body has ended.
    pub(super) consumed: usize,
}

/// Where in a body of chunks the reading has come to.
#[derive(Clone, Debug)]
pub(super) struct Chunked {
    place: Place,
    /// Of the size being read, or of the chunk not yet received.
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
    /// At the start of a line behind the last chunk.
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

    /// Whether the body has ended.
    pub(super) fn is_done(&self) -> bool {
        self.place == Place::End
    }

    /// Reads on, and pushes the payload in `input` together.
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
