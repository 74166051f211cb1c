//! The text of a stream that is still needed: frames that may be asked for again, then what is not a frame yet.

use super::settings::MARK_BYTES;
use std::collections::VecDeque;

/// What the first text allocates.
const LEAST_CAPACITY: usize = 256;

/// One buffer for all of it, in order:
///
/// ```text
/// | forgotten | frame | frame | … | not cut yet |
///             ^ kept_from          ^ cut
/// ```
///
/// A frame is a mark in the text, so cutting one copies nothing. What is forgotten at the front is overwritten only
/// when the buffer is full; there is always enough of it then to make the move worth its while.
#[derive(Debug)]
pub(super) struct Tape {
    text: String,
    /// The most bytes the buffer may hold.
    most: usize,
    kept_from: usize,
    /// Where each kept frame ends.
    ends: VecDeque<usize>,
    /// The index of the first kept frame.
    first: u64,
}

impl Tape {
    pub(super) fn new(most: usize) -> Self {
        Self { text: String::new(), most, kept_from: 0, ends: VecDeque::new(), first: 0 }
    }

    /// Adds text. The caller has made sure that it has a right to the room.
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
            // Doubling, but not past what may be held.
            let doubled = self.text.capacity().saturating_mul(2).max(LEAST_CAPACITY);
            let capacity = doubled.min(self.most).max(needed);
            self.text.reserve_exact(capacity - self.text.len());
        }
    }

    fn cut_to(&self) -> usize {
        self.ends.back().copied().unwrap_or(self.kept_from)
    }

    /// The text that is not in a frame yet.
    pub(super) fn uncut(&self) -> &str {
        self.text.get(self.cut_to()..).unwrap_or_default()
    }

    /// Its length.
    pub(super) fn uncut_len(&self) -> usize {
        self.text.len() - self.cut_to()
    }

    /// Makes a frame of the first `length` bytes that are in none.
    pub(super) fn cut(&mut self, length: usize) {
        self.ends.push_back(self.cut_to() + length);
    }

    /// The index that the next frame to be cut will have: how many there have been.
    pub(super) fn next_index(&self) -> u64 {
        self.first + self.ends.len() as u64
    }

    /// The index of the oldest frame that is kept, or of the next one if there is none.
    pub(super) const fn first_index(&self) -> u64 {
        self.first
    }

    /// The text of a frame that is kept.
    pub(super) fn frame(&self, index: u64) -> Option<&str> {
        let place = usize::try_from(index.checked_sub(self.first)?).ok()?;
        let end = *self.ends.get(place)?;
        let start = place.checked_sub(1).map_or(self.kept_from, |before| self.ends[before]);
        self.text.get(start..end)
    }

    /// Forgets the oldest frames until the rest costs at most `most` bytes.
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

    /// Forgets the text that is in no frame.
    pub(super) fn drop_uncut(&mut self) {
        self.text.truncate(self.cut_to());
    }

    /// Forgets everything and gives the memory back.
    pub(super) fn clear(&mut self) {
        self.first = self.next_index();
        self.ends = VecDeque::new();
        self.text = String::new();
        self.kept_from = 0;
    }

    /// The bytes allocated.
    pub(super) fn memory(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}
