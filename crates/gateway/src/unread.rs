//! Answers whose callers may have stopped reading.
//!
//! **When it acts.** A server asks a body for more only when its caller has taken what came before. Who opens a stream and
//! reads nothing would hold its place at a target, its money and the lead of its flight for as long as the connection lasts;
//! who does not read a large answer holds its memory. So once a second somebody else looks at every open stream and every
//! large answer. One whose time is over, or of which nothing was taken for `server.send_timeout`, gives everything back.
//!
//! **What it will not do.** It ends no connection, and gives up nothing that is read slowly: [`ReadPace`] counts the looks
//! between which nothing was taken.

use crate::stopping::{hold, present};
use std::sync::{Mutex, Weak};

/// Something that has to be looked at now and then.
pub(crate) trait Watched: Send + Sync {
    /// Gives back what it holds, if its time is over or nothing was taken of it for so many looks.
    fn look(&self, max_unread: u32);

    /// Says that no more will come.
    fn stop(&self);
}

/// How long nothing was taken, counted in looks, so that whoever reads pays for no clock.
#[derive(Debug)]
pub(crate) struct ReadPace {
    was_asked: bool,
    waits_for_reader: bool,
    unread: u32,
}

impl Default for ReadPace {
    /// The head of an answer waits for its reader, too.
    fn default() -> Self {
        Self { was_asked: false, waits_for_reader: true, unread: 0 }
    }
}

impl ReadPace {
    /// The server has asked for more; `had_some` says whether it was given any, and now has to send that.
    pub(crate) fn asked(&mut self, had_some: bool) {
        (self.was_asked, self.waits_for_reader) = (true, had_some);
    }

    /// Whether nothing was taken for this many looks.
    pub(crate) fn look(&mut self, max_unread: u32) -> bool {
        let is_read = std::mem::take(&mut self.was_asked) || !self.waits_for_reader;
        self.unread = if is_read { 0 } else { self.unread.saturating_add(1) };
        self.unread >= max_unread
    }
}

/// The streams that are open on one core.
#[derive(Default)]
pub(crate) struct OpenStreams(Mutex<Vec<Weak<dyn Watched>>>);

impl OpenStreams {
    /// Looks after this one until it is dropped.
    pub(crate) fn add(&self, stream: Weak<dyn Watched>) {
        hold(&self.0).push(stream);
    }

    /// Looks at all of them, and forgets those that are gone.
    pub(crate) fn look(&self, max_unread: u32) {
        present(&self.0).iter().for_each(|stream| stream.look(max_unread));
    }

    /// Ends all of them. One that always has something to send does not notice otherwise that it should.
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
