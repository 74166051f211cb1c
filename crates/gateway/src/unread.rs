//! Stalled answers: abandons those whose callers have stopped reading.
//!
//! **When it acts.** The server polls a body only when the client has taken what was sent before. A client that opens a
//! stream and reads nothing would hold a concurrency slot at a target, its reservation and the lead of its single
//! flight for as long as the connection lasts. A client that does not read a large answer holds its memory. A separate
//! task therefore checks every open stream and every large answer once a second. It releases what an answer holds when
//! its deadline has passed, or when nothing was taken for `server.send_timeout`.
//!
//! **What it does not do.** It does not close connections, and does not abandon an answer that is read slowly:
//! [`ReadPace`] counts the consecutive checks between which nothing was taken.

use crate::stopping::{hold, present};
use std::sync::{Mutex, Weak};

/// A response body that is checked periodically.
pub(crate) trait Watched: Send + Sync {
    /// Releases what it holds if its deadline has passed, or if nothing was taken for `max_unread` checks.
    fn look(&self, max_unread: u32);

    /// Ends it: no more data will follow.
    fn stop(&self);
}

/// Measures how long nothing was taken, in checks. The read path therefore needs no clock.
#[derive(Debug)]
pub(crate) struct ReadPace {
    was_asked: bool,
    waits_for_reader: bool,
    unread: u32,
}

impl Default for ReadPace {
    /// Starts as waiting for the reader, because the response head must be read, too.
    fn default() -> Self {
        Self { was_asked: false, waits_for_reader: true, unread: 0 }
    }
}

impl ReadPace {
    /// Records a poll by the server. `had_some` says whether it received data, which the client must now read.
    pub(crate) fn asked(&mut self, had_some: bool) {
        (self.was_asked, self.waits_for_reader) = (true, had_some);
    }

    /// Whether nothing was taken for this many consecutive checks.
    pub(crate) fn look(&mut self, max_unread: u32) -> bool {
        let is_read = std::mem::take(&mut self.was_asked) || !self.waits_for_reader;
        self.unread = if is_read { 0 } else { self.unread.saturating_add(1) };
        self.unread >= max_unread
    }
}

/// The open streams of one core.
#[derive(Default)]
pub(crate) struct OpenStreams(Mutex<Vec<Weak<dyn Watched>>>);

impl OpenStreams {
    /// Checks this stream until it is dropped.
    pub(crate) fn add(&self, stream: Weak<dyn Watched>) {
        hold(&self.0).push(stream);
    }

    /// Checks all streams, and removes those that have been dropped.
    pub(crate) fn look(&self, max_unread: u32) {
        present(&self.0).iter().for_each(|stream| stream.look(max_unread));
    }

    /// Ends all streams. One that always has data to send would not notice the shutdown otherwise.
    pub(crate) fn stop(&self) {
        present(&self.0).iter().for_each(|stream| stream.stop());
    }
}

#[cfg(test)]
mod tests {
    use super::{OpenStreams, ReadPace, Watched};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Weak};

    #[derive(Default)]
    struct Looked(AtomicUsize);

    impl Watched for Looked {
        fn look(&self, _: u32) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn stop(&self) {
            self.0.fetch_add(100, Ordering::Relaxed);
        }
    }

    #[test]
    fn every_open_stream_is_looked_at_and_no_other_is_remembered() {
        let (open, first, second) =
            (OpenStreams::default(), Arc::<Looked>::default(), Arc::<Looked>::default());
        let weak = |stream: &Arc<Looked>| -> Weak<dyn Watched> { Arc::<Looked>::downgrade(stream) };
        open.add(weak(&first));
        open.add(weak(&second));
        open.look(9);
        drop(second);
        open.look(9);
        assert_eq!(first.0.load(Ordering::Relaxed), 2);
        open.stop();
        assert_eq!(first.0.load(Ordering::Relaxed), 102);
        assert_eq!(open.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn only_what_waits_for_its_reader_is_unread() {
        let mut pace = ReadPace::default();
        assert!(!pace.look(2) && pace.look(2), "a head that nobody reads");
        pace.asked(true);
        assert!(!pace.look(2) && !pace.look(2) && pace.look(2));
        pace.asked(true);
        assert!(!pace.look(1), "it was read on");
        pace.asked(false);
        assert!((0..99).all(|_| !pace.look(1)), "the model is slow, not the reader");
    }
}
