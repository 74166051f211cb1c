//! Reads frames out of bytes that arrive in any pieces.

use super::Frame;
use super::headers::{Named, broken};

/// The length of the frame, the length of its headers, and a checksum of the two.
const PRELUDE: usize = 12;
/// A frame without headers and payload.
const SMALLEST: usize = 16;
/// What stands behind everything else.
const CHECKSUM: usize = 4;

/// How much a stream may make us hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// The largest frame, with its lengths and checksums.
    pub frame: usize,
}

impl Default for FrameLimits {
    /// 4 MiB. The vendor promises that a piece of an answer has at most a million bytes, which base64 makes a third
    /// longer.
    fn default() -> Self {
        Self { frame: 4 << 20 }
    }
}

/// A stream that will not be read any further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame is larger than allowed.
    #[error("a frame of the stream has {size} bytes, and at most {limit} are taken")]
    TooLarge {
        /// What the frame says of itself.
        size: usize,
        /// The limit that was set.
        limit: usize,
    },
    /// The bytes are no frame, or were changed on the way.
    #[error("a frame of the stream is broken: {problem}")]
    Broken {
        /// What is wrong.
        problem: String,
    },
    /// The frame is whole and does not say what it is.
    #[error("a frame of the stream does not say what it is: {problem}")]
    Untyped {
        /// What is missing.
        problem: String,
    },
}

/// How the bytes of a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameEnding {
    /// Between two frames.
    Clean,
    /// Inside a frame, which is lost: the stream was cut.
    Unfinished,
}

/// Reads frames out of a stream of bytes.
#[derive(Debug)]
pub struct FrameReader {
    limits: FrameLimits,
    /// The part of an unfinished frame that came with earlier pieces.
    held: Vec<u8>,
    failed: Option<FrameError>,
}

impl FrameReader {
    /// A reader at the start of a stream.
    #[must_use]
    pub const fn new(limits: FrameLimits) -> Self {
        Self { limits, held: Vec::new(), failed: None }
    }

    /// Reads on, and calls `on_frame` for each frame that the bytes complete.
    ///
    /// After an error every further call fails in the same way.
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

    /// How the stream ended, if it ended here.
    #[must_use]
    pub fn finish(&self) -> FrameEnding {
        if self.held.is_empty() && self.failed.is_none() {
            FrameEnding::Clean
        } else {
            FrameEnding::Unfinished
        }
    }

    /// How many bytes of an unfinished frame have come.
    #[must_use]
    pub const fn unfinished(&self) -> usize {
        self.held.len()
    }

    fn read(&mut self, mut bytes: &[u8], on_frame: &mut impl FnMut(Frame<'_>)) -> Result<(), FrameError> {
        while !bytes.is_empty() {
            if self.held.is_empty() {
                // Whole frames are read where they lie.
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

    /// How long the frame that begins here is, once that is known.
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

/// Looks at a whole frame, whose length was checked, where it lies.
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
