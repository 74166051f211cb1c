//! Stalled answers: ends those whose clients have stopped reading.
//!
//! **When it acts.** The server polls a body only when the client has taken what was sent before. A client that opens a
//! stream and reads nothing would hold a concurrency slot at a target, its reservation and the lead of its single
//! flight for as long as the connection lasts. A client that does not read a large answer holds its memory. A separate
//! task therefore checks every open stream and every large answer once a second. It releases what an answer holds when
//! its deadline has passed, or when nothing was taken for `server.send_timeout`.
//!
//! The same check counts the silence of models, after which a [keep-alive](crate::keep_alive) is sent.
//!
//! **What it does not do.** It does not close connections, and does not end an answer that is read slowly:
//! [`ReadPace`] counts the consecutive checks between which nothing was taken.

use crate::core_registry::{ConnectionTimeouts, lock, upgrade_all};
use std::sync::{Mutex, Weak};

/// A response body that is checked periodically.
pub(crate) trait StallChecked: Send + Sync {
    /// Releases what it holds if its deadline has passed, or if nothing was taken for `max_stalled_checks` checks.
    fn check(&self, timeouts: &ConnectionTimeouts);

    /// Ends it because of shutdown: no more data will follow.
    fn end_for_shutdown(&self);
}

/// Measures how long nothing was taken, in checks. The read path therefore needs no clock.
#[derive(Debug)]
pub(crate) struct ReadPace {
    was_polled: bool,
    waits_for_reader: bool,
    stalled_checks: u32,
}

impl Default for ReadPace {
    /// Starts as waiting for the reader, because the response head must be read, too.
    fn default() -> Self {
        Self { was_polled: false, waits_for_reader: true, stalled_checks: 0 }
    }
}

impl ReadPace {
    /// Records a poll by the server. `had_data` is whether it received data, which the client must now read.
    pub(crate) fn record_poll(&mut self, had_data: bool) {
        (self.was_polled, self.waits_for_reader) = (true, had_data);
    }

    /// Whether nothing was taken for this many consecutive checks.
    pub(crate) fn check(&mut self, max_stalled_checks: u32) -> bool {
        let is_read = std::mem::take(&mut self.was_polled) || !self.waits_for_reader;
        self.stalled_checks = if is_read { 0 } else { self.stalled_checks.saturating_add(1) };
        self.stalled_checks >= max_stalled_checks
    }
}

/// The open streams of one core.
#[derive(Default)]
pub(crate) struct OpenStreams(Mutex<Vec<Weak<dyn StallChecked>>>);

impl OpenStreams {
    /// Checks this stream until it is dropped.
    pub(crate) fn add(&self, stream: Weak<dyn StallChecked>) {
        lock(&self.0).push(stream);
    }

    /// Checks all streams, and removes those that have been dropped.
    pub(crate) fn check(&self, timeouts: &ConnectionTimeouts) {
        upgrade_all(&self.0).iter().for_each(|stream| stream.check(timeouts));
    }

    /// Ends all streams because of shutdown. One that always has data to send would not notice the shutdown otherwise.
    pub(crate) fn end_for_shutdown(&self) {
        upgrade_all(&self.0).iter().for_each(|stream| stream.end_for_shutdown());
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectionTimeouts, OpenStreams, ReadPace, StallChecked};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Weak};
    use std::time::Duration;

    const TIMEOUTS: ConnectionTimeouts = ConnectionTimeouts {
        first_request: Duration::ZERO,
        max_idle_checks: 9,
        max_stalled_checks: 9,
        max_silent_checks: None,
    };

    #[derive(Default)]
    struct Looked(AtomicUsize);

    impl StallChecked for Looked {
        fn check(&self, _: &ConnectionTimeouts) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn end_for_shutdown(&self) {
            self.0.fetch_add(100, Ordering::Relaxed);
        }
    }

    #[test]
    fn every_open_stream_is_checked_and_dropped_ones_are_removed() {
        let (open, first, second) =
            (OpenStreams::default(), Arc::<Looked>::default(), Arc::<Looked>::default());
        let weak = |stream: &Arc<Looked>| -> Weak<dyn StallChecked> { Arc::<Looked>::downgrade(stream) };
        open.add(weak(&first));
        open.add(weak(&second));
        open.check(&TIMEOUTS);
        drop(second);
        open.check(&TIMEOUTS);
        assert_eq!(first.0.load(Ordering::Relaxed), 2);
        open.end_for_shutdown();
        assert_eq!(first.0.load(Ordering::Relaxed), 102);
        assert_eq!(open.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn only_answers_that_wait_for_their_reader_are_stalled() {
        let mut pace = ReadPace::default();
        assert!(!pace.check(2) && pace.check(2), "a head that nobody reads");
        pace.record_poll(true);
        assert!(!pace.check(2) && !pace.check(2) && pace.check(2));
        pace.record_poll(true);
        assert!(!pace.check(1), "it was read on");
        pace.record_poll(false);
        assert!((0..99).all(|_| !pace.check(1)), "the model is slow, not the reader");
    }
}
