//! Incremental parser for event-stream frames.

use super::Frame;
use super::headers::{FrameHeaders, broken};

/// The total length, the length of the headers, and a checksum of the two.
const PRELUDE_LENGTH: usize = 12;
/// Size of a frame without headers and payload.
const MIN_FRAME_LENGTH: usize = 16;
/// The checksum over the whole frame, at its end.
const CHECKSUM_LENGTH: usize = 4;

/// Limits on what the reader buffers for one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// Maximum frame size in bytes, including lengths and checksums.
    pub max_frame_bytes: usize,
}

impl Default for FrameLimits {
    /// 4 MiB. The vendor guarantees that a chunk of an answer has at most a million bytes, which base64 makes a third
    /// longer.
    fn default() -> Self {
        Self { max_frame_bytes: 4 << 20 }
    }
}

/// Why a stream cannot be read any further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame exceeds the limit.
    #[error("event-stream frame too large: {size} bytes, the limit is {limit} bytes")]
    TooLarge {
        /// The size that the frame declares.
        size: usize,
        /// The configured limit.
        limit: usize,
    },
    /// The bytes are not a frame, or were corrupted in transit.
    #[error("invalid event-stream frame: {problem}")]
    Broken {
        /// What failed to parse or verify.
        problem: String,
    },
    /// The frame is intact but has no valid message type.
    #[error("event-stream frame without a valid message type: {problem}")]
    Untyped {
        /// The missing header.
        problem: String,
    },
}

/// Where the stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameEnding {
    /// Between two frames.
    Clean,
    /// Inside a frame, which is discarded: the stream was truncated.
    Unfinished,
}

/// Reads frames from a byte stream.
#[derive(Debug)]
pub struct FrameReader {
    limits: FrameLimits,
    /// The buffered part of an incomplete frame from earlier chunks.
    buffered: Vec<u8>,
    failed: Option<FrameError>,
}

impl FrameReader {
    /// Creates a reader at the start of a stream.
    #[must_use]
    pub const fn new(limits: FrameLimits) -> Self {
        Self { limits, buffered: Vec::new(), failed: None }
    }

    /// Parses the next chunk and calls `on_frame` for each frame that it completes.
    ///
    /// After an error, every further call returns the same error.
    pub fn feed(&mut self, bytes: &[u8], mut on_frame: impl FnMut(Frame<'_>)) -> Result<(), FrameError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let outcome = self.read(bytes, &mut on_frame);
        if let Err(error) = &outcome {
            self.failed = Some(error.clone());
            self.buffered = Vec::new();
        }
        outcome
    }

    /// Reports whether the stream is between frames or inside one, assuming it ends here.
    #[must_use]
    pub fn finish(&self) -> FrameEnding {
        if self.buffered.is_empty() && self.failed.is_none() {
            FrameEnding::Clean
        } else {
            FrameEnding::Unfinished
        }
    }

    /// Size in bytes of the incomplete frame received so far.
    #[must_use]
    pub const fn unfinished(&self) -> usize {
        self.buffered.len()
    }

    fn read(&mut self, mut bytes: &[u8], on_frame: &mut impl FnMut(Frame<'_>)) -> Result<(), FrameError> {
        while !bytes.is_empty() {
            if self.buffered.is_empty() {
                // Complete frames are parsed in place, without a copy.
                match self.size(bytes)?.and_then(|size| bytes.split_at_checked(size)) {
                    Some((frame, rest)) => {
                        report(frame, on_frame)?;
                        bytes = rest;
                    }
                    None => {
                        self.buffered.extend_from_slice(bytes);
                        return Ok(());
                    }
                }
                continue;
            }
            let needed = self.size(&self.buffered)?.unwrap_or(PRELUDE_LENGTH);
            let missing = needed.saturating_sub(self.buffered.len()).min(bytes.len());
            let (piece, rest) = bytes.split_at(missing);
            self.buffered.extend_from_slice(piece);
            bytes = rest;
            if self.size(&self.buffered)?.is_some_and(|size| size == self.buffered.len()) {
                report(&self.buffered, on_frame)?;
                self.buffered.clear();
            }
        }
        Ok(())
    }

    /// The size of the frame that begins here; `None` until its prelude has arrived.
    fn size(&self, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some(prelude) = bytes.first_chunk::<PRELUDE_LENGTH>() else { return Ok(None) };
        let [a, b, c, d, lengths @ ..] = *prelude;
        let [_, _, _, _, e, f, g, h] = lengths;
        if crc32fast::hash(&prelude[..8]) != u32::from_be_bytes([e, f, g, h]) {
            return Err(broken("prelude checksum mismatch"));
        }
        let size = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if size < MIN_FRAME_LENGTH {
            return Err(broken("shorter than the minimum frame length"));
        }
        let limit = self.limits.max_frame_bytes;
        if size > limit {
            return Err(FrameError::TooLarge { size, limit });
        }
        Ok(Some(size))
    }
}

/// Parses a complete frame in place; its length has been checked.
fn report(frame: &[u8], on_frame: &mut impl FnMut(Frame<'_>)) -> Result<(), FrameError> {
    let short = || broken("shorter than its declared length");
    let (content, checksum) = frame.split_last_chunk::<CHECKSUM_LENGTH>().ok_or_else(short)?;
    if crc32fast::hash(content) != u32::from_be_bytes(*checksum) {
        return Err(broken("message checksum mismatch"));
    }
    let (prelude, rest) = content.split_first_chunk::<PRELUDE_LENGTH>().ok_or_else(short)?;
    let [_, _, _, _, a, b, c, d, ..] = *prelude;
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    let (headers, payload) =
        rest.split_at_checked(length).ok_or_else(|| broken("the header length exceeds the frame"))?;
    let named = FrameHeaders::read(headers)?;
    on_frame(Frame { kind: named.kind()?, content_type: named.content_type.text(), payload });
    Ok(())
}
