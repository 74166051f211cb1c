//! Keep-alives of streamed answers: bytes that clients ignore, sent while a model is silent.
//!
//! **Why?** A reasoning model may think for minutes before its first token. Proxies and client libraries close a
//! connection on which nothing arrives, many of them after 60 s, and the work is lost.
//!
//! **When it acts.** A stream is silent while no byte of it was sent for `server.keep_alive_interval`. Silence is counted
//! by the check that runs once a second for every open stream (see [`stalled_streams`](crate::stalled_streams)), so a
//! stream needs neither a timer nor a clock for it. This begins when the request is admitted: the first keep-alive sends
//! status 200 and the headers of a stream, while the pipeline still tries targets. A failure after that is an error event
//! in the stream.
//!
//! **What it does not do.** It sends nothing in dialects whose clients would not ignore it ([`Dialect::keep_alive`]), and
//! nothing for the chat, whose protocol has heartbeats of its own.
//!
//! [`Dialect::keep_alive`]: seawall_wire::dialect::Dialect::keep_alive

use seawall_wire::dialect::DialectId;
use std::task::{Context, Waker};

/// Counts the silence of one stream.
#[derive(Debug, Default)]
pub(crate) struct KeepAlive {
    /// `None` if the stream has no keep-alives.
    dialect: Option<DialectId>,
    /// Whether any of the answer was sent.
    has_started: bool,
    silent_checks: u32,
    is_due: bool,
    /// Wakes the task that sends the stream, which waits for the model.
    waker: Option<Waker>,
}

impl KeepAlive {
    /// For a stream of this dialect; `None` for one without keep-alives.
    pub(crate) fn new(dialect: Option<DialectId>) -> Self {
        let dialect = dialect.filter(|dialect| dialect.keep_alive(false).is_some());
        Self { dialect, ..Self::default() }
    }

    /// Records that bytes of the answer are sent.
    pub(crate) const fn record_bytes(&mut self) {
        (self.has_started, self.silent_checks, self.is_due) = (true, 0, false);
    }

    /// Counts one check. After more than `max_silent_checks` of them a keep-alive is due. One more than that, because the
    /// first check may follow the last byte at once.
    pub(crate) fn check(&mut self, max_silent_checks: Option<u32>) {
        let Some(max) = max_silent_checks.filter(|_| self.dialect.is_some()) else { return };
        self.silent_checks = self.silent_checks.saturating_add(1);
        if self.silent_checks > max {
            // The next one is due after exactly as many checks.
            (self.silent_checks, self.is_due) = (1, true);
            if let Some(waker) = &self.waker {
                waker.wake_by_ref();
            }
        }
    }

    /// Whether a keep-alive is due.
    pub(crate) const fn is_due(&self) -> bool {
        self.is_due
    }

    /// The bytes to send, if a keep-alive is due.
    pub(crate) fn take_due(&mut self) -> Option<&'static [u8]> {
        std::mem::take(&mut self.is_due)
            .then_some(self.dialect)?
            .and_then(|dialect| dialect.keep_alive(self.has_started))
    }

    /// Remembers the task that waits for the model.
    pub(crate) fn register(&mut self, context: &Context<'_>) {
        if self.dialect.is_some()
            && !self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker()))
        {
            self.waker = Some(context.waker().clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::KeepAlive;
    use seawall_wire::dialect::DialectId;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake, Waker};

    #[derive(Default)]
    struct WakeCount(AtomicUsize);

    impl Wake for WakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn check_times(keep_alive: &mut KeepAlive, checks: u32, max: Option<u32>) -> Vec<&'static [u8]> {
        let check = |_| {
            keep_alive.check(max);
            keep_alive.take_due()
        };
        (0..checks).filter_map(check).collect()
    }

    #[test]
    fn a_silent_stream_gets_a_keep_alive_per_interval_and_its_task_is_woken() {
        let mut keep_alive = KeepAlive::new(Some(DialectId::OPENAI_CHAT));
        let count = Arc::<WakeCount>::default();
        let waker = Waker::from(Arc::clone(&count));
        keep_alive.register(&Context::from_waker(&waker));
        assert!(check_times(&mut keep_alive, 15, Some(15)).is_empty(), "not before the interval has passed");
        assert_eq!(check_times(&mut keep_alive, 1, Some(15)), [b": keep-alive\n\n"]);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert_eq!(check_times(&mut keep_alive, 45, Some(15)).len(), 3);
        keep_alive.check(None);
        assert!(!keep_alive.is_due(), "switched off");
    }

    #[test]
    fn bytes_of_the_answer_begin_the_interval_anew() {
        let mut keep_alive = KeepAlive::new(Some(DialectId::ANTHROPIC_MESSAGES));
        assert_eq!(check_times(&mut keep_alive, 3, Some(2)), [b": keep-alive\n\n"]);
        for _ in 0..9 {
            assert!(check_times(&mut keep_alive, 2, Some(2)).len() <= 1);
            keep_alive.record_bytes();
            assert!(check_times(&mut keep_alive, 2, Some(2)).is_empty());
            keep_alive.record_bytes();
        }
        // Within a message the vendor sends pings.
        assert_eq!(
            check_times(&mut keep_alive, 3, Some(2)),
            [&b"event: ping\ndata: {\"type\": \"ping\"}\n\n"[..]]
        );
    }

    #[test]
    fn dialects_whose_clients_accept_nothing_between_events_get_nothing() {
        let silent = [DialectId::GEMINI, DialectId::BEDROCK_INVOKE, DialectId::BEDROCK_CONVERSE];
        for dialect in DialectId::ALL {
            let sent = check_times(&mut KeepAlive::new(Some(dialect)), 99, Some(1));
            assert_eq!(sent.is_empty(), silent.contains(&dialect), "{dialect:?}");
        }
        assert!(check_times(&mut KeepAlive::new(None), 99, Some(1)).is_empty());
    }
}
