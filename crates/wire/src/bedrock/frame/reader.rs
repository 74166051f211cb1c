//! Incremental parser for event-stream frames.

use super::Frame;
use super::headers::{Named, broken};

/// The total length, the length of the headers, and a checksum of the two.
const PRELUDE: usize = 12;
/// Size of a frame without headers and payload.
const SMALLEST: usize = 16;
/// The checksum over the whole frame, at its end.
const CHECKSUM: usize = 4;

/// Limits on what the reader buffers for one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// Maximum frame size in bytes, including lengths and checksums.
    pub frame: usize,
}

impl Default for FrameLimits {
    /// 4 MiB. The vendor guarantees that a chunk of an answer has at most a million bytes, which base64 makes a third
    /// longer.
    fn default() -> Self {
        Self { frame: 4 << 20 }
    }
}

/// Why a stream cannot be read any further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame exceeds the limit.
    #[error("a frame of the stream has {size} bytes, and at most {limit} are taken")]
    TooLarge {
        /// The size that the frame declares.
        size: usize,
        /// The configured limit.
        limit: usize,
    },
    /// The bytes are not a frame, or were corrupted in transit.
    #[error("a frame of the stream is broken: {problem}")]
    Broken {
        /// What failed to parse or verify.
        problem: String,
    },
    /// The frame is intact but has no valid message type.
    #[error("a frame of the stream does not say what it is: {problem}")]
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
    held: Vec<u8>,
    failed: Option<FrameError>,
}

impl FrameReader {
    /// Creates a reader at the start of a stream.
    #[must_use]
    pub const fn new(limits: FrameLimits) -> Self {
        Self { limits, held: Vec::new(), failed: None }
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
            self.held = Vec::new();
        }
        outcome
    }

    /// Reports whether the stream is between frames or inside one, assuming it ends here.
    #[must_use]
    pub fn finish(&self) -> FrameEnding {
        if self.held.is_empty() && self.failed.is_none() {
            FrameEnding::Clean
        } else {
            FrameEnding::Unfinished
        }
    }

    /// Size in bytes of the incomplete frame received so far.
    #[must_use]
    pub const fn unfinished(&self) -> usize {
        self.held.len()
    }

    fn read(&mut self, mut bytes: &[u8], on_frame: &mut impl FnMut(Frame<'_>)) -> Result<(), FrameError> {
        while !bytes.is_empty() {
            if self.held.is_empty() {
                // Complete frames are parsed in place, without a copy.
                match self.size(bytes)?.and_then(|size| bytes.split_at_checked(size)) {
                    Some((frame, rest)) => {
                        report(frame, on_frame)?;
                        bytes = rest;
                    }
                    None => {
                        self.held.extend_from_slice(bytes);
                        return Ok(());
                    }
                }
                continue;
            }
            let wanted = self.size(&self.held)?.unwrap_or(PRELUDE);
            let missing = wanted.saturating_sub(self.held.len()).min(bytes.len());
            let (piece, rest) = bytes.split_at(missing);
            self.held.extend_from_slice(piece);
            bytes = rest;
            if self.size(&self.held)?.is_some_and(|size| size == self.held.len()) {
                report(&self.held, on_frame)?;
                self.held.clear();
            }
        }
        Ok(())
    }

    /// The size of the frame that begins here; `None` until its prelude has arrived.
    fn size(&self, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some(prelude) = bytes.first_chunk::<PRELUDE>() else { return Ok(None) };
        let [a, b, c, d, lengths @ ..] = *prelude;
        let [_, _, _, _, e, f, g, h] = lengths;
        if crc32fast::hash(&prelude[..8]) != u32::from_be_bytes([e, f, g, h]) {
            return Err(broken("the checksum of its length does not match"));
        }
        let size = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if size < SMALLEST {
            return Err(broken("it is shorter than the shortest frame"));
        }
        let limit = self.limits.frame;
        if size > limit {
            return Err(FrameError::TooLarge { size, limit });
        }
        Ok(Some(size))
    }
}

/// Parses a complete frame in place; its length has been checked.
fn report(frame: &[u8], on_frame: &mut impl FnMut(Frame<'_>)) -> Result<(), FrameError> {
    let short = || broken("it is shorter than it says");
    let (content, checksum) = frame.split_last_chunk::<CHECKSUM>().ok_or_else(short)?;
    if crc32fast::hash(content) != u32::from_be_bytes(*checksum) {
        return Err(broken("its checksum does not match"));
    }
    let (prelude, rest) = content.split_first_chunk::<PRELUDE>().ok_or_else(short)?;
    let [_, _, _, _, a, b, c, d, ..] = *prelude;
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    let (headers, payload) =
        rest.split_at_checked(length).ok_or_else(|| broken("its headers are longer than itself"))?;
    let named = Named::read(headers)?;
    on_frame(Frame { kind: named.kind()?, content_type: named.content_type.text(), payload });
    Ok(())
}
