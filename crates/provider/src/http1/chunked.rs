//! Decoder for chunked transfer coding.
//!
//! Works on the bytes of any read, wherever it was split. The chunks of one read are compacted in place, so that a
//! burst of fifty small events becomes one piece: few bytes are moved, and they are already in the cache, while fifty
//! pieces would cost fifty passes through the gateway and, at worst, fifty writes. A read with part of a single chunk
//! moves nothing.
//!
//! Extensions and trailers are skipped. Lines must end in CR LF: a line end that parsers interpret differently enables
//! response splitting.

use memchr::memchr2;
use std::ops::Range;

/// Maximum total size of the extensions and trailers of a body.
const MAX_DISCARDED_BYTES: usize = 16 * 1024;
/// As many as fit into 64 bits, so that a size cannot overflow.
const MAX_SIZE_DIGITS: u8 = 16;

/// The chunked coding is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadChunk;

/// The result of [`ChunkedDecoder::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DecodedChunk {
    /// The position of the payload in the input.
    pub(super) payload: Range<usize>,
    /// How much of the input was consumed. Less than all of it only when the body has ended.
    pub(super) consumed: usize,
}

/// The state of the decoder.
#[derive(Clone, Debug)]
pub(super) struct ChunkedDecoder {
    state: ChunkState,
    /// The size being parsed, or the number of bytes of the chunk that are still to come.
    remaining: u64,
    digits: u8,
    discarded: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
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

impl ChunkedDecoder {
    pub(super) const fn new() -> Self {
        Self { state: ChunkState::Size, remaining: 0, digits: 0, discarded: 0 }
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == ChunkState::End
    }

    /// Decodes the input and compacts the payload in it.
    pub(super) fn decode(&mut self, input: &mut [u8]) -> Result<DecodedChunk, BadChunk> {
        let mut payload = 0..0;
        let mut at = 0;
        while at < input.len() && !self.is_done() {
            at += match self.state {
                ChunkState::Payload => self.take_payload(input, at, &mut payload),
                ChunkState::Extension | ChunkState::InTrailer => self.discard_until_line_end(&input[at..])?,
                _ => {
                    self.state = self.step(input[at])?;
                    1
                }
            };
        }
        Ok(DecodedChunk { payload, consumed: at })
    }

    fn take_payload(&mut self, input: &mut [u8], at: usize, payload: &mut Range<usize>) -> usize {
        let available = input.len() - at;
        let count = usize::try_from(self.remaining).map_or(available, |remaining| remaining.min(available));
        if payload.start == payload.end {
            *payload = at..at + count;
        } else {
            input.copy_within(at..at + count, payload.end);
            payload.end += count;
        }
        self.remaining -= count as u64;
        if self.remaining == 0 {
            self.state = ChunkState::PayloadReturn;
        }
        count
    }

    fn discard_until_line_end(&mut self, input: &[u8]) -> Result<usize, BadChunk> {
        let end = memchr2(b'\r', b'\n', input);
        let discarded = end.unwrap_or(input.len());
        self.discarded += discarded;
        if self.discarded > MAX_DISCARDED_BYTES {
            return Err(BadChunk);
        }
        let Some(end) = end else { return Ok(discarded) };
        self.state = match (input[end], self.state) {
            (b'\r', ChunkState::Extension) => ChunkState::SizeLineFeed,
            (b'\r', _) => ChunkState::TrailerLineFeed,
            _ => return Err(BadChunk),
        };
        Ok(discarded + 1)
    }

    fn step(&mut self, byte: u8) -> Result<ChunkState, BadChunk> {
        Ok(match (self.state, byte) {
            (ChunkState::Size, b'0'..=b'9') => self.add_digit(byte - b'0')?,
            (ChunkState::Size, b'a'..=b'f') => self.add_digit(byte - b'a' + 10)?,
            (ChunkState::Size, b'A'..=b'F') => self.add_digit(byte - b'A' + 10)?,
            (ChunkState::Size, _) if self.digits == 0 => return Err(BadChunk),
            (ChunkState::Size | ChunkState::Padding, b'\r') => ChunkState::SizeLineFeed,
            (ChunkState::Size | ChunkState::Padding, b';') => ChunkState::Extension,
            (ChunkState::Size | ChunkState::Padding, b' ' | b'\t') => self.pad()?,
            (ChunkState::SizeLineFeed, b'\n') => {
                self.digits = 0;
                if self.remaining == 0 { ChunkState::Trailer } else { ChunkState::Payload }
            }
            (ChunkState::PayloadReturn, b'\r') => ChunkState::PayloadLineFeed,
            (ChunkState::PayloadLineFeed, b'\n') => ChunkState::Size,
            (ChunkState::Trailer, b'\r') => ChunkState::LastLineFeed,
            (ChunkState::Trailer, b'\n') => return Err(BadChunk),
            (ChunkState::Trailer, _) => ChunkState::InTrailer,
            (ChunkState::TrailerLineFeed, b'\n') => ChunkState::Trailer,
            (ChunkState::LastLineFeed, b'\n') => ChunkState::End,
            _ => return Err(BadChunk),
        })
    }

    fn add_digit(&mut self, digit: u8) -> Result<ChunkState, BadChunk> {
        if self.digits == MAX_SIZE_DIGITS {
            return Err(BadChunk);
        }
        self.digits += 1;
        self.remaining = (self.remaining << 4) + u64::from(digit);
        Ok(ChunkState::Size)
    }

    fn pad(&mut self) -> Result<ChunkState, BadChunk> {
        self.discarded += 1;
        if self.discarded > MAX_DISCARDED_BYTES { Err(BadChunk) } else { Ok(ChunkState::Padding) }
    }
}
