//! Text buffer of a stream: sent frames kept for replay, followed by text that is not framed yet.

use super::settings::MARK_BYTES;
use std::collections::VecDeque;

/// Capacity of the first allocation.
const LEAST_CAPACITY: usize = 256;

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
pub(super) struct Tape {
    text: String,
    /// Maximum size of the buffer in bytes.
    most: usize,
    kept_from: usize,
    /// Where each kept frame ends.
    ends: VecDeque<usize>,
    /// Index of the first kept frame.
    first: u64,
}

impl Tape {
    pub(super) fn new(most: usize) -> Self {
        Self { text: String::new(), most, kept_from: 0, ends: VecDeque::new(), first: 0 }
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
        if needed > self.most {
            needed -= self.kept_from;
            self.text.drain(..self.kept_from);
            for end in &mut self.ends {
                *end -= self.kept_from;
            }
            self.kept_from = 0;
        }
        if needed > self.text.capacity() {
            // Doubles the capacity, up to the maximum.
            let doubled = self.text.capacity().saturating_mul(2).max(LEAST_CAPACITY);
            let capacity = doubled.min(self.most).max(needed);
            self.text.reserve_exact(capacity - self.text.len());
        }
    }

    fn cut_to(&self) -> usize {
        self.ends.back().copied().unwrap_or(self.kept_from)
    }

    /// The text that is not framed yet.
    pub(super) fn uncut(&self) -> &str {
        self.text.get(self.cut_to()..).unwrap_or_default()
    }

    pub(super) fn uncut_len(&self) -> usize {
        self.text.len() - self.cut_to()
    }

    /// Makes a frame of the first `length` unframed bytes.
    pub(super) fn cut(&mut self, length: usize) {
        self.ends.push_back(self.cut_to() + length);
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
        let place = usize::try_from(index.checked_sub(self.first)?).ok()?;
        let end = *self.ends.get(place)?;
        let start = place.checked_sub(1).map_or(self.kept_from, |before| self.ends[before]);
        self.text.get(start..end)
    }

    /// Drops the oldest frames until the rest costs at most `most` bytes.
    pub(super) fn keep(&mut self, most: usize) {
        while let Some(oldest) = self.ends.front().copied() {
            if self.cut_to() - self.kept_from + self.ends.len() * MARK_BYTES <= most {
                return;
            }
            self.ends.pop_front();
            self.kept_from = oldest;
            self.first += 1;
        }
    }

    /// Drops the unframed text.
    pub(super) fn drop_uncut(&mut self) {
        self.text.truncate(self.cut_to());
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
