//! Incremental UTF-8 decoding for deltas that may end in the middle of a character.

use std::str::from_utf8;

/// Decodes chunks of UTF-8. However the bytes are split, the text equals [`String::from_utf8_lossy`] of the whole.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Utf8Decoder {
    /// The beginning of an incomplete character: zero to three bytes.
    start: [u8; 4],
    held: usize,
}

impl Utf8Decoder {
    /// Replaces an incomplete or invalid character.
    pub(super) const REPLACEMENT: &'static str = "\u{FFFD}";
    /// Upper bound of the text that the held bytes can become.
    pub(super) const MAX_HELD: usize = 4;

    pub(super) const fn is_holding(self) -> bool {
        self.held > 0
    }

    /// Drops an incomplete character, and returns whether there was one.
    pub(super) fn discard(&mut self) -> bool {
        std::mem::take(&mut self.held) > 0
    }

    /// Passes the text of `bytes` to `out` as far as `room` allows, and returns how many of `bytes` were consumed. Up
    /// to [`MAX_HELD`](Self::MAX_HELD) bytes for the held character come on top of `room`.
    pub(super) fn decode(&mut self, bytes: &[u8], room: usize, mut out: impl FnMut(&str)) -> usize {
        let mut used = self.complete(bytes, &mut out);
        let mut left = room;
        while used < bytes.len() {
            let rest = &bytes[used..];
            let window = &rest[..rest.len().min(left)];
            let (valid, broken) = match from_utf8(window) {
                Ok(text) => (text, None),
                Err(error) => {
                    let (valid, after) = window.split_at(error.valid_up_to());
                    (from_utf8(valid).unwrap_or_default(), Some((error.error_len(), after)))
                }
            };
            if !valid.is_empty() {
                out(valid);
                used += valid.len();
                left -= valid.len();
            }
            match broken {
                None => break,
                Some((Some(length), _)) if left >= Self::REPLACEMENT.len() => {
                    out(Self::REPLACEMENT);
                    used += length;
                    left -= Self::REPLACEMENT.len();
                }
                Some((None, after)) if window.len() == rest.len() => {
                    self.start[..after.len()].copy_from_slice(after);
                    self.held = after.len();
                    return bytes.len();
                }
                Some(_) => break,
            }
        }
        used
    }

    /// Tries to complete the held character, and returns how many of `bytes` that consumed.
    fn complete(&mut self, bytes: &[u8], out: &mut impl FnMut(&str)) -> usize {
        let mut used = 0;
        while self.held > 0 && used < bytes.len() {
            self.start[self.held] = bytes[used];
            match from_utf8(&self.start[..=self.held]) {
                Ok(character) => {
                    out(character);
                    self.held = 0;
                    used += 1;
                }
                Err(error) if error.error_len().is_none() => {
                    self.held += 1;
                    used += 1;
                }
                // The new byte is not a continuation, and begins a character of its own.
                Err(_) => {
                    out(Self::REPLACEMENT);
                    self.held = 0;
                }
            }
        }
        used
    }
}
