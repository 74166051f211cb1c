//! Streams that a target broke, so that their repetition without a stream is not counted as a new request.
//!
//! Claude Code answers a broken stream with the same request without a stream, at once. Such a repetition does not take another
//! unit of the caller's rate limits: it is admitted even if the broken stream took the last one. Nothing in a request says
//! that it repeats another, so it is recognised by what must be equal: the caller, the route and, but for the field
//! `stream`, the length of the body, within 30 s. Each broken stream excuses one request. A caller can therefore send at most
//! twice what its limits allow, and only while targets break its streams; it can cause neither by itself, because streams
//! that a caller leaves or stalls do not count. Budgets, and limits of tokens, always apply.
//!
//! Each node knows only its own broken streams. Without any, this costs a request one atomic read.

use seawall_core::time::Timestamp;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a broken stream is remembered.
const REPETITION_WINDOW: Duration = Duration::from_secs(30);
/// Maximum number of broken streams that are remembered; the oldest is forgotten first.
const MAX_BROKEN_STREAMS: usize = 1_024;
/// The longest difference that the field `stream` makes: `, "stream": true` or nothing.
const STREAM_FIELD_LENGTH: u64 = 16;

/// The streams that targets broke in the last 30 s.
#[derive(Debug, Default)]
pub(crate) struct BrokenStreams {
    /// The number of entries, to be read without the lock.
    number: AtomicUsize,
    /// The oldest first.
    entries: Mutex<VecDeque<BrokenStream>>,
}

#[derive(Debug)]
struct BrokenStream {
    at: Timestamp,
    caller: u64,
    route: Arc<str>,
    body_length: u64,
}

impl BrokenStreams {
    /// Remembers that a target broke this stream.
    pub(crate) fn record(&self, caller: u64, route: Arc<str>, body_length: u64, at: Timestamp) {
        let mut entries = self.recent(at);
        if entries.len() >= MAX_BROKEN_STREAMS {
            entries.pop_front();
        }
        entries.push_back(BrokenStream { at, caller, route, body_length });
        self.number.store(entries.len(), Ordering::Release);
    }

    /// Whether a request without a stream repeats a broken stream, which is then forgotten.
    pub(crate) fn take(&self, caller: u64, route: &str, body_length: u64, at: Timestamp) -> bool {
        if self.number.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut entries = self.recent(at);
        let is_repeated = |entry: &BrokenStream| {
            entry.caller == caller
                && &*entry.route == route
                && entry.body_length.abs_diff(body_length) <= STREAM_FIELD_LENGTH
        };
        let found = entries.iter().position(is_repeated);
        found.map(|index| entries.remove(index));
        self.number.store(entries.len(), Ordering::Release);
        found.is_some()
    }

    /// The entries of the last 30 s.
    fn recent(&self, at: Timestamp) -> MutexGuard<'_, VecDeque<BrokenStream>> {
        // No code panics while it holds the lock; if it did, an entry would be missing.
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        while entries.front().is_some_and(|oldest| at - oldest.at > REPETITION_WINDOW) {
            entries.pop_front();
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::{BrokenStreams, MAX_BROKEN_STREAMS, REPETITION_WINDOW};
    use seawall_core::time::Timestamp;
    use std::time::Duration;

    const LENGTH: u64 = 1_000;

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(millis)
    }

    fn broken() -> BrokenStreams {
        let streams = BrokenStreams::default();
        streams.record(1, "route".into(), LENGTH, at(0));
        streams
    }

    #[test]
    fn a_broken_stream_excuses_one_repetition() {
        for length in [LENGTH, LENGTH + 1, LENGTH - 14] {
            let streams = broken();
            assert!(streams.take(1, "route", length, at(10)), "{length}");
            assert!(!streams.take(1, "route", length, at(10)), "{length}");
        }
    }

    #[test]
    fn another_caller_route_or_body_is_a_request_of_its_own() {
        let streams = broken();
        assert!(!streams.take(2, "route", LENGTH, at(10)));
        assert!(!streams.take(1, "other", LENGTH, at(10)));
        assert!(!streams.take(1, "route", LENGTH + 17, at(10)));
        assert!(streams.take(1, "route", LENGTH, at(10)));
    }

    #[test]
    fn a_stream_is_forgotten_after_a_while_and_when_there_are_too_many() {
        let late = at(0) + REPETITION_WINDOW + Duration::from_millis(1);
        assert!(!broken().take(1, "route", LENGTH, late));
        assert!(broken().take(1, "route", LENGTH, at(0) + REPETITION_WINDOW));
        let streams = broken();
        for _ in 0..MAX_BROKEN_STREAMS {
            streams.record(2, "route".into(), LENGTH, at(1));
        }
        assert!(!streams.take(1, "route", LENGTH, at(2)));
        assert!(streams.take(2, "route", LENGTH, at(2)));
    }
}
