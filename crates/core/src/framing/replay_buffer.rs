//! Text buffer of a stream: sent frames kept for replay, followed by text that is not framed yet.

use super::settings::MARK_BYTES;
use std::collections::VecDeque;

/// Capacity of the first allocation.
const MIN_CAPACITY: usize = 256;

/// One buffer for all of it, in order:
///
/// ```text
/// | forgotten | frame | frame | … | not cut yet |
///             ^ kept_from          ^ cut
/// ```
///
/// A frame is an offset into the text, so that cutting one copies nothing. Dropped text at the front is compacted only
/// when the buffer is full; by then there is always enough of it to amortise the copy.
#[derive(Debug)]
pub(super) struct ReplayBuffer {
    text: String,
    /// Maximum size of the buffer in bytes.
    max_size: usize,
    kept_from: usize,
    /// Where each kept frame ends.
    ends: VecDeque<usize>,
    /// Index of the first kept frame.
    first: u64,
}

impl ReplayBuffer {
    pub(super) fn new(max_size: usize) -> Self {
        Self { text: String::new(), max_size, kept_from: 0, ends: VecDeque::new(), first: 0 }
    }

    /// Appends text. The caller must have checked that there is room.
    pub(super) fn push(&mut self, text: &str) {
        let needed = self.text.len() + text.len();
        if needed > self.text.capacity() {
            self.make_room(needed);
        }
        self.text.push_str(text);
    }

    #[cold]
    fn make_room(&mut self, mut needed: usize) {
        if needed > self.max_size {
            needed -= self.kept_from;
            self.text.drain(..self.kept_from);
            for end in &mut self.ends {
                *end -= self.kept_from;
            }
            self.kept_from = 0;
        }
        if needed > self.text.capacity() {
            // Doubles the capacity, up to the maximum.
            let doubled = self.text.capacity().saturating_mul(2).max(MIN_CAPACITY);
            let capacity = doubled.min(self.max_size).max(needed);
            self.text.reserve_exact(capacity - self.text.len());
        }
    }

    fn framed_end(&self) -> usize {
        self.ends.back().copied().unwrap_or(self.kept_from)
    }

    /// The text that is not framed yet.
    pub(super) fn unframed(&self) -> &str {
        self.text.get(self.framed_end()..).unwrap_or_default()
    }

    pub(super) fn unframed_len(&self) -> usize {
        self.text.len() - self.framed_end()
    }

    /// Makes a frame of the first `length` unframed bytes.
    pub(super) fn frame_next(&mut self, length: usize) {
        self.ends.push_back(self.framed_end() + length);
    }

    /// Index of the next frame to be cut, which is the number of frames so far.
    pub(super) fn next_index(&self) -> u64 {
        self.first + self.ends.len() as u64
    }

    /// Index of the oldest kept frame, or of the next one if there is none.
    pub(super) const fn first_index(&self) -> u64 {
        self.first
    }

    /// The text of a kept frame.
    pub(super) fn frame(&self, index: u64) -> Option<&str> {
        let position = usize::try_from(index.checked_sub(self.first)?).ok()?;
        let end = *self.ends.get(position)?;
        let start = position.checked_sub(1).map_or(self.kept_from, |before| self.ends[before]);
        self.text.get(start..end)
    }

    /// Drops the oldest frames until the rest costs at most `max_size` bytes.
    pub(super) fn trim_to(&mut self, max_size: usize) {
        while let Some(oldest) = self.ends.front().copied() {
            if self.framed_end() - self.kept_from + self.ends.len() * MARK_BYTES <= max_size {
                return;
            }
            self.ends.pop_front();
            self.kept_from = oldest;
            self.first += 1;
        }
    }

    /// Drops the unframed text.
    pub(super) fn drop_unframed(&mut self) {
        self.text.truncate(self.framed_end());
    }

    /// Drops everything and frees the memory.
    pub(super) fn clear(&mut self) {
        self.first = self.next_index();
        self.ends = VecDeque::new();
        self.text = String::new();
        self.kept_from = 0;
    }

    pub(super) fn memory(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}
